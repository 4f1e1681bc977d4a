"""The eight task tools on behalf of one user, for the loop in this process and for MCP transports
(over_mcp.py).

The server binds the user as `ToolUser`; no tool takes one as an argument. Entry point:
`MCPToolServer`.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from treadle._internal.json_text import JsonText
from treadle.apps.assistant.acts import ActContext, act, refused
from treadle.apps.assistant.caller import ToolError, ToolResponse, ToolUser
from treadle.apps.assistant.schemas import TOOLS, ToolSchema
from treadle.apps.assistant.store import TaskStore
from treadle.errors import AgentError
from treadle.models.model import ToolDefinition
from treadle.service.database.database import Database
from treadle.service.database.scope import Scope
from treadle.tools.registry import unknown_tool
from treadle.tools.tool import (
    MAX_LINE_CHARS,
    NOTHING_TOUCHED,
    InvalidArguments,
    ProbeAnswer,
    Tool,
    ToolContext,
    ToolFailed,
    Touched,
)
from treadle.types import Effect, now

logger: Final = logging.getLogger("treadle")

TROUBLE: Final = "I'm having a bit of trouble right now. Please try again."
DESCRIPTION_SHOWN: Final = 800
"""Maximum length of a text in a long result. Fully escaped, it still fits on a line."""
MAX_OUTPUT_CHARS: Final = 60_000
"""Maximum length of a tool's output. Lists are cut to much less (acts.py)."""


class MCPToolServer:
    """Handler of all calls, without per-user state."""

    def __init__(
        self,
        session_factory: Callable[[], Session] | Database,
        *,
        clock: Callable[[], datetime] = now,
        changed: Callable[[Scope], None] | None = None,
    ) -> None:
        """Create a server. `session_factory`: opens sessions over a database that has our tables.

        `changed`: called in the event loop with the user whose tasks were changed.
        """
        self.database: Final = (
            session_factory if isinstance(session_factory, Database) else Database(session_factory)
        )
        self.tools: Final[tuple[Tool[ToolUser], ...]] = tuple(
            TaskTool(self, schema) for schema in TOOLS.values()
        )
        self.changed = changed
        self._clock = clock
        self._purged: dict[str, date] = {}

    async def call(
        self,
        caller: ToolUser,
        name: str,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        run_id: str | None = None,
        code: str | None = None,
    ) -> ToolResponse:
        """Execute a call and return its response. Raises nothing but cancellation, which waits for
        a call in progress.

        `key`: a repeated call with the same key returns the first result and changes nothing.
        `code`: confirmation from a plain MCP client, which overrides `confirm` in the arguments.
        """
        schema = TOOLS.get(name)
        if schema is None:
            return _invalid(unknown_tool(name, list(TOOLS)))
        try:
            fitting = schema.check(dict(arguments))
        except InvalidArguments as e:
            return _invalid(e.message)
        given = fitting.pop("confirm", None)
        try:
            return await self._acted(
                caller, name, fitting, key=key, run_id=run_id, code=code or given
            )
        except AgentError as e:
            return _invalid(e.message) if e.kind == "invalid" else _failed(name, e)
        except Exception as e:  # noqa: BLE001  boundary of a call: a failure becomes one sentence
            return _failed(name, e)

    async def _acted(
        self,
        caller: ToolUser,
        name: str,
        arguments: Mapping[str, Any],
        *,
        key: str | None,
        run_id: str | None,
        code: str | None,
    ) -> ToolResponse:
        def work(session: Session) -> tuple[ToolResponse, bool]:
            store = TaskStore(
                session,
                caller.scope,
                key=key,
                run_id=run_id,
                by_person=caller.by_person,
                clock=self._clock,
            )
            if not reads and (result := store.changes.result_of(key)) is not None:
                return msgspec.convert(result, ToolResponse), False
            response = act(
                ActContext(session, store, caller, run_id, code, self._clock), name, arguments
            )
            if store.written is not None:
                store.written.result = msgspec.to_builtins(response)
                session.add(store.written)
                if purges:
                    store.changes.purge()
            return response, store.written is not None

        reads = TOOLS[name].effect == "pure"
        purges = not reads and self._is_to_be_purged(caller.scope)
        transaction = self.database.read if reads else self.database.run
        try:
            response, has_changed = await transaction(caller.scope, work)
        except IntegrityError:  # a concurrent identical call was first
            response, has_changed = await transaction(caller.scope, work)
        if has_changed:
            self._note_change(caller.scope)
        return response

    def _is_to_be_purged(self, scope: Scope) -> bool:
        """Return True before the first change of a user each day."""
        return self._purged.get(scope.user_id) != self._clock().date()

    def _note_change(self, scope: Scope) -> None:
        if len(self._purged) >= _REMEMBERED_MOST:
            self._purged.clear()
        self._purged[scope.user_id] = self._clock().date()
        if self.changed is not None:
            self.changed(scope)


_REMEMBERED_MOST: Final = 10_000


class TaskTool:
    """A task tool that runs in the loop. Its deps are the `ToolUser`."""

    def __init__(self, server: MCPToolServer, schema: ToolSchema) -> None:
        self._server, self._schema = server, schema

    @property
    def definition(self) -> ToolDefinition:
        return self._schema.definition

    @property
    def name(self) -> str:
        return self._schema.name

    @property
    def effect(self) -> Effect:
        return self._schema.effect

    @property
    def parallel(self) -> bool:
        return False

    @property
    def timeout_s(self) -> float | None:
        return None

    @property
    def needs_approval(self) -> bool:
        """Always False, because the tool handles confirmations itself."""
        return False

    @property
    def max_output(self) -> int:
        return MAX_OUTPUT_CHARS

    def parse(self, arguments_json: JsonText) -> dict[str, Any]:
        """Parse arguments. Raises InvalidArguments with a message in the format of a response."""
        try:
            return self._schema.parse(arguments_json)
        except InvalidArguments as e:
            raise InvalidArguments(as_text(_invalid(e.message))) from e

    def touches(self, arguments: Any, cwd: Path) -> Touched | None:
        return NOTHING_TOUCHED

    async def execute(self, ctx: ToolContext[ToolUser], arguments: Any) -> str:
        """Return the response as JSON. Ignores a `confirm` from the model if the person confirms by
        their own message.
        """
        response = await self._server.call(
            ctx.deps, self.name, arguments, key=ctx.idempotency_key, run_id=ctx.run_id
        )
        if is_error(response):
            raise ToolFailed(as_text(response))
        return as_lines(response)

    async def probe(self, ctx: ToolContext[ToolUser], arguments: Any) -> ProbeAnswer:
        """Return None, because a repeated call is safe."""
        return None


def as_text(response: ToolResponse) -> str:
    return msgspec.json.encode(response).decode()


def as_lines(response: ToolResponse) -> str:
    """Encode the response for the loop, which truncates long lines: one member per line, with
    shortened descriptions.
    """
    text = as_text(response)
    return (
        text
        if len(text) < MAX_LINE_CHARS
        else msgspec.json.format(
            msgspec.json.encode(_shortened(msgspec.to_builtins(response))), indent=1
        ).decode()
    )


def _shortened(value: Any) -> Any:
    match value:
        case str():
            return (
                value if len(value) <= DESCRIPTION_SHOWN else value[: DESCRIPTION_SHOWN - 1] + "…"
            )
        case dict():
            return {key: _shortened(one) for key, one in cast("dict[str, Any]", value).items()}
        case list():
            return [_shortened(one) for one in cast("list[Any]", value)]
        case _:
            return value


def is_error(response: ToolResponse) -> bool:
    """Return True for `invalid` and `failed`. Every other code is an answer."""
    return response.error is not None and response.error.code in ("invalid", "failed")


def _invalid(message: str) -> ToolResponse:
    return refused(ToolError(code="invalid", message=message))


def log_failure(what: str, error: Exception) -> None:
    """Log the traceback without the error's message, which may contain the text of a person."""
    logger.error(
        "%s failed with %s:\n%s",
        what,
        type(error).__name__,
        "".join(traceback.format_tb(error.__traceback__)),
    )


def _failed(name: str, error: Exception) -> ToolResponse:
    log_failure(f"the task tool {name}", error)
    return refused(ToolError(code="failed", message=TROUBLE))

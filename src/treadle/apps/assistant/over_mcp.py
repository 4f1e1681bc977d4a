"""The eight task tools for any client of the Model Context Protocol, over any transport. The
transport verifies the user. Entry point: `tasks_over_mcp`.

Confirmation is requested from the client if it supports elicitation, in both eras of the protocol.
Otherwise a second call confirms with a single-use code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from mcp import MCPError
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
    ToolAnnotations,
)
from mcp.types import Tool as McpTool
from msgspec.structs import replace

from treadle.apps.assistant.acts import refused
from treadle.apps.assistant.caller import ToolError, ToolResponse, ToolUser
from treadle.apps.assistant.schemas import TOOLS, ToolSchema
from treadle.apps.assistant.server import MCPToolServer, as_text, is_error
from treadle.apps.mcp_server.questions import way_of
from treadle.apps.mcp_server.server import Context, McpToolServer, Reply
from treadle.service.database.scope import Identity, Scope

IdentityOf: TypeAlias = Callable[[Context], Identity]
"""Function that returns the verified user of a request. Raises AgentError if it is not
authenticated.
"""

INSTRUCTIONS: Final = (
    "A person's to-do list. Deleting tasks, and changing many of them, needs the person's "
    "confirmation: ask them, and never answer for them."
)
SAID_NO: Final = "The person declined. Nothing was changed."
ASKED_MOST: Final = 3
"""Maximum number of questions per call, if tasks keep changing while the person decides."""
_QUESTION: Final = "confirm"
_REPEATABLE: Final = frozenset({"complete_task", "update_task", "complete_all", "delete_completed"})
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"answer": {"type": "string", "title": "Do it?", "enum": ["yes", "no"]}},
    "required": ["answer"],
}
_NULLABLE_OBJECT: Final[dict[str, Any]] = {"type": ["object", "null"]}
_OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "success": {"type": "boolean"},
        "data": _NULLABLE_OBJECT,
        "error": _NULLABLE_OBJECT,
    },
    "required": ["success", "data", "error"],
}


def tasks_over_mcp(server: MCPToolServer, identity_of: IdentityOf) -> McpToolServer:
    """Return the server with the task tools, for any transport."""
    return McpToolServer(
        [ServedTask(server, schema, identity_of) for schema in TOOLS.values()],
        instructions=INSTRUCTIONS,
    )


class ServedTask:
    """Task tool of the server."""

    def __init__(self, server: MCPToolServer, schema: ToolSchema, identity_of: IdentityOf) -> None:
        self._server, self._schema, self._identity_of = server, schema, identity_of
        self.definition: Final = _definition(schema)

    async def call(self, context: Context, params: CallToolRequestParams) -> Reply:
        caller, arguments, way = (
            ToolUser(Scope(self._identity_of(context))),
            params.arguments or {},
            way_of(context),
        )
        code = params.request_state  # our sealed state from the question
        if code is not None and not _is_yes((params.input_responses or {}).get(_QUESTION)):
            return _result(_said_no())
        response = await self._server.call(caller, self._schema.name, arguments, code=code)
        if way == "again" and (question := _question_in(response)) is not None:
            form = ElicitRequestFormParams(message=question.message, requested_schema=_FORM)
            return InputRequiredResult(
                input_requests={_QUESTION: ElicitRequest(params=form)},
                request_state=question.confirm,
            )
        if way == "now":
            response = await self._with_their_word(context, caller, arguments, response)
        return _result(self._for_a_code(response))

    async def _with_their_word(
        self,
        context: Context,
        caller: ToolUser,
        arguments: Mapping[str, Any],
        response: ToolResponse,
    ) -> ToolResponse:
        """Return the final result of a call, after asking the person if needed.

        Asks again if a task has changed in the meantime.
        """
        asked = 0
        while (question := _question_in(response)) is not None and asked < ASKED_MOST:
            asked += 1
            if not await _asked(context, question.message):
                return _said_no()
            response = await self._server.call(
                caller, self._schema.name, arguments, code=question.confirm
            )
        return response

    def _for_a_code(self, response: ToolResponse) -> ToolResponse:
        """Return the response for a client without elicitation, which explains how to confirm with
        a second call.
        """
        question = _question_in(response)
        if question is None:
            return response
        if self._schema.takes_confirm:
            how = (
                f"Ask the person. If they say yes, call {self._schema.name} again, with confirm: "
                f'"{question.confirm}". It is valid once, for five minutes.'
            )
            return replace(response, error=replace(question, message=f"{question.message} {how}"))
        how = (
            "This many changes need confirmation, which this client cannot request: continue in "
            "ten minutes, or in the chat."
        )
        return replace(
            response, error=replace(question, message=f"{question.message} {how}", confirm=None)
        )


def _definition(schema: ToolSchema) -> McpTool:
    reads = schema.effect == "pure"
    annotations = ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=schema.destructive,
        idempotent_hint=reads or schema.name in _REPEATABLE,
        open_world_hint=False,
    )
    words = schema.definition
    return McpTool(
        name=words.name,
        description=words.description,
        input_schema=dict(words.parameters),
        output_schema=dict(_OUTPUT),
        annotations=annotations,
    )


def _question_in(response: ToolResponse) -> ToolError | None:
    """Return the question with the code that answers it, if any."""
    return (
        response.error
        if response.error is not None and response.error.confirm is not None
        else None
    )


async def _asked(context: Context, question: str) -> bool:
    """Ask the person at the client, and return True if they confirm. A failure to ask counts as a
    no.
    """
    try:
        answer: object = await context.session.elicit_form(
            question, _FORM, related_request_id=context.request_id
        )
    except (MCPError, ValueError):
        return False
    return _is_yes(answer)


def _is_yes(answer: object) -> bool:
    """Return True only for an explicit yes."""
    return (
        isinstance(answer, ElicitResult)
        and answer.action == "accept"
        and (answer.content or {}).get("answer") == "yes"
    )


def _said_no() -> ToolResponse:
    return refused(ToolError(code="confirm", message=SAID_NO))


def _result(response: ToolResponse) -> CallToolResult:
    """Return the response both as text and as data."""
    return CallToolResult(
        content=[TextContent(text=as_text(response))],
        structured_content=msgspec.to_builtins(response),
        is_error=is_error(response),
    )

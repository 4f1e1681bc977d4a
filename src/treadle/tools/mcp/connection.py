"""One connection to an MCP server, from start to end, in its own task. Calls come from the tasks of
runs.

The SDK's contexts belong to the task that enters them. Its requests may come from any task, and
carry the span and the cancellation of their caller. upkeep.py decides when to reconnect. Entry
points: `McpConnection`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import anyio
import mcp_types
import msgspec
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext

from treadle.tools.mcp.failures import OwnError, Unreachable, read_own
from treadle.tools.mcp.listing import PAGES_MOST, SEEN_MOST, Offered, ServerListing
from treadle.tools.mcp.questions import MOST, Ask, answer_of, question_of
from treadle.tools.mcp.server import McpServer
from treadle.tools.mcp.traffic import Traffic
from treadle.tools.mcp.words import one_line
from treadle.tools.tool import ToolContext, ToolFailed

Era: TypeAlias = Literal["auto", "legacy"]

# otherwise, an application without logging handlers would print tracebacks of the SDK
for _name in ("mcp", "client"):  # some modules of the SDK log under the second name
    logging.getLogger(_name).addHandler(logging.NullHandler())

CLOSE_S = 5.0
SILENCES = 2
"""Number of consecutive calls without any message from the server, after which it is restarted."""
_PROGRESS_S = 0.1
_ERROR = 4_000
_UNDONE = (mcp_types.INVALID_REQUEST, mcp_types.METHOD_NOT_FOUND, mcp_types.INVALID_PARAMS)


@dataclass(eq=False)
class _Call:
    """A call in progress."""

    tool: Offered
    ctx: ToolContext[Any]
    scope: anyio.CancelScope
    questions: int = 0
    told: float = -math.inf
    """Time of the last progress notification."""
    asking: int = 0
    left_s: float = 0

    def pause(self) -> None:
        self.questions += 1
        self.asking += 1
        if self.asking == 1:
            self.left_s, self.scope.deadline = self.scope.deadline - anyio.current_time(), math.inf

    def go_on(self) -> None:
        self.asking -= 1
        if not self.asking:
            self.scope.deadline = anyio.current_time() + self.left_s


_MADE_BY: ContextVar[_Call | None] = ContextVar("treadle_mcp_call", default=None)


class McpConnection:
    """Connection whose task is `run`. The task never raises; `reason` holds its failure."""

    def __init__(
        self, server: McpServer, environment: Mapping[str, str], ask: Ask | None, era: Era
    ) -> None:
        self.settled = anyio.Event()
        """Set once the connection is usable or has failed to open."""
        self.over = anyio.Event()
        """Set once the connection has closed and its processes have ended."""
        self.answered = False
        """True once the server has responded to a call."""
        self.reason = ""
        """Reason why the connection ended or could not be opened."""
        self.traffic = Traffic()
        self._server, self._environment, self._ask, self._era = server, environment, ask, era
        self._client: Client | None = None
        self._scope: anyio.CancelScope | None = None
        """Cancel scope while the connection is being opened."""
        self._calls: set[_Call] = set()
        self._silences = 0

    @property
    def is_usable(self) -> bool:
        return self._client is not None and not self.traffic.over.is_set()

    # ------------------------------------------------------------ the task

    async def run(self) -> None:
        try:
            with anyio.CancelScope(
                deadline=anyio.current_time() + self._server.start_timeout_s
            ) as scope:
                self._scope = scope
                async with self._made() as client:
                    self._client, self._scope, scope.deadline = client, None, math.inf
                    self.settled.set()
                    await self.traffic.over.wait()
                    scope.deadline = anyio.current_time() + CLOSE_S
            self.reason = (
                self.traffic.reason
                or f"it did not respond within {self._server.start_timeout_s:g} s"
            )
        except Exception as e:  # noqa: BLE001  the boundary of a task: the SDK's groups raise the exceptions of their tasks
            self.reason = self._why(e)
        finally:
            self._client = self._scope = None
            self.reason = self._server.redactor.text(self.reason)
            self.traffic.end(self.reason)
            self.settled.set()
            self.over.set()

    @asynccontextmanager
    async def _made(self) -> AsyncGenerator[Client]:
        if self._server.url is not None:
            from treadle.tools.mcp.http import http  # noqa: PLC0415  the other transport is not needed

            transport = http(self._server)
        else:
            from treadle.tools.mcp.stdio import stdio  # noqa: PLC0415  as above

            transport = stdio(self._server, self._environment, self.traffic)
        callback = None if self._ask is None else self._elicited
        info = mcp_types.Implementation(name="treadle", version=_version())
        async with Client(
            self.traffic.watched(transport),
            mode=self._era,
            cache=None,
            elicitation_callback=callback,
            client_info=info,
        ) as client:
            # a result that violates its own schema is still accepted; the SDK's check would run the
            # server's patterns, however slow, in the event loop
            client.session.validate_tool_result = _unchecked
            self.traffic.sieve.version = client.protocol_version
            yield client

    def _why(self, error: Exception) -> str:
        if self.traffic.reason is not None:
            return self.traffic.reason
        while isinstance(error, ExceptionGroup):
            error = cast("ExceptionGroup[Exception]", error).exceptions[0]
        return (
            _words(error)
            if isinstance(error, MCPError | Unreachable)
            else one_line(f"{type(error).__name__}: {error}", 300)
        )

    def end(self, reason: str) -> None:
        """Start ending the connection; `over` is set when it has ended."""
        self.traffic.end(reason)
        if self._scope is not None:
            self._scope.cancel()

    # ------------------------------------------------------------ requests

    async def tools(self) -> ServerListing:
        """Return the server's tools, up to a limit. Raises Unreachable."""
        client, found, cursor = self._usable(), list[mcp_types.Tool](), None
        self.traffic.tools_changed, self.traffic.sieve.unfit = False, {}
        try:
            with anyio.fail_after(self._server.start_timeout_s):
                for _ in range(PAGES_MOST):
                    page = await client.list_tools(cursor=cursor, cache_mode="bypass")
                    found += page.tools
                    cursor = page.next_cursor
                    if cursor is None or len(found) > SEEN_MOST:
                        break
        except TimeoutError:
            raise Unreachable(
                f"it did not list its tools within {self._server.start_timeout_s:g} s"
            ) from None
        except Exception as e:
            raise Unreachable(f"it could not list its tools: {self._told(e)}") from e
        return ServerListing(found[:SEEN_MOST], self.traffic.sieve.unfit)

    async def call(
        self,
        tool: Offered,
        ctx: ToolContext[Any],
        arguments: Mapping[str, Any],
        *,
        timeout_s: float,
    ) -> mcp_types.CallToolResult:
        """Call a tool. Raises ToolFailed if there is no response; its `happened` is None if the
        effect of the call is unknown.

        Cancellation: notifies the server to stop.
        """
        client, before = self._usable(), self.traffic.received
        call = _Call(tool, ctx, anyio.CancelScope(deadline=anyio.current_time() + timeout_s))
        self._calls.add(call)
        made_by = _MADE_BY.set(call)
        try:
            with call.scope:
                result = await client.call_tool(
                    tool.theirs, dict(arguments), progress_callback=_progress_of(call, self._server)
                )
                self.answered, self._silences = True, 0
                return result
        except MCPError as e:
            raise self._failed(e) from e
        except Exception as e:
            raise ToolFailed(
                self._of_us(f"its answer cannot be used: {self._told(e)}"), happened=None
            ) from e
        finally:
            _MADE_BY.reset(made_by)
            self._calls.discard(call)
        self._count_silence(before)
        raise ToolFailed(
            self._of_us(
                f"no answer within {timeout_s:g} s; it was asked to stop. It may or may not have "
                "had an effect"
            ),
            happened=None,
        )

    def _usable(self) -> Client:
        if self._client is None or self.traffic.over.is_set():
            raise Unreachable(self.traffic.reason or "it is not connected")
        return self._client

    def _count_silence(self, before: int) -> None:
        self._silences = self._silences + 1 if self.traffic.received == before else 0
        if self._silences >= SILENCES and not self._calls:
            self.end(f"{self._silences} calls in a row were left without any answer")

    # ------------------------------------------------------------ failures

    def _failed(self, error: MCPError) -> ToolFailed | Unreachable:
        if (own := read_own(error.code, error.message, error.data)) is not None:
            if own.retire:
                self.end(own.text)
            return Unreachable(own.text) if own.retire and own.happened is False else self._own(own)
        if error.code == mcp_types.CONNECTION_CLOSED:
            why = self.traffic.reason or one_line(error.message, _ERROR)
            return ToolFailed(
                self._of_us(
                    f"the connection ended in the call ({why}). It may or may not have had an "
                    "effect"
                ),
                happened=None,
            )
        self.answered, self._silences = True, 0
        happened = (
            False
            if error.code in _UNDONE
            else None
            if error.code == mcp_types.PARSE_ERROR
            else True
        )
        return ToolFailed(self._of_us(_words(error)), happened=happened)

    def _own(self, own: OwnError) -> ToolFailed:
        rest = (
            " Nothing was run."
            if own.happened is False
            else " It may or may not have had an effect."
        )
        return ToolFailed(self._of_us(f"{own.text}.{rest}"), happened=own.happened)

    def _told(self, error: Exception) -> str:
        if isinstance(error, MCPError):
            return self.traffic.reason or _words(error)
        first = str(error).partition("\n")[0]
        return one_line(f"{type(error).__name__}: {first}", 300)

    def _of_us(self, text: str) -> str:
        return self._server.redactor.text(f"The MCP server {self._server.name!r}: {text}")

    # ------------------------------------------------------------ questions

    async def _elicited(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult:
        """Ask the user the server's question. The timeout of the call is paused meanwhile.

        Never raises: any failure declines the question.
        """
        made_by = _MADE_BY.get()
        calls = [made_by] if made_by is not None and made_by in self._calls else list(self._calls)
        question = question_of(self._server.name, params)
        if (
            not calls
            or question is None
            or self._ask is None
            or any(call.questions >= MOST for call in calls)
        ):
            return answer_of(None)
        if len(calls) == 1:
            ctx = calls[0].ctx
            question = msgspec.structs.replace(
                question, tool=calls[0].tool.name, run_id=ctx.run_id, call_id=ctx.call_id
            )
        for call in calls:
            call.pause()
        try:
            return answer_of(await self._ask(question))
        except Exception:  # noqa: BLE001  a front's code
            return answer_of(None)
        finally:
            for call in calls:
                call.go_on()


def _progress_of(call: _Call, server: McpServer) -> Any:
    async def progress(done: float, total: float | None, message: str | None) -> None:
        now = anyio.current_time()
        if now - call.told >= _PROGRESS_S or done == total:
            call.told = now
            call.ctx.progress(
                server.redactor.exact(one_line(message or call.tool.theirs, 200)), done, total
            )

    return progress


async def _unchecked(name: str, result: mcp_types.CallToolResult) -> None:
    return None


def _words(error: MCPError | Unreachable) -> str:
    return (
        one_line(error.message if isinstance(error, MCPError) else str(error), _ERROR)
        or "no reason given"
    )


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415  only for a connection

    return version("treadle")

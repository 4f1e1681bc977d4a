"""Calls of a tool's own code: timeout, probe, failures, and cancellation that the tool causes.

Entry points: `timed`, `asked`, `told`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import anyio
from msgspec import UNSET

from treadle.errors import AgentError
from treadle.loop.cut_calls import NOT_KNOWN
from treadle.tools.failures import LateStatus, words_of
from treadle.tools.tool import ProbeAnswer, Tool, ToolContext, ToolDeferred, ToolFailed, ToolOutput

Hear: TypeAlias = Callable[[str, int, str, LateStatus], None]
"""Receiver of late results: id of the call, attempt, text and status."""


def unheard(call_id: str, attempt: int, text: str, status: LateStatus) -> None:
    """Discard a late result."""


def has_commands(tool: Tool[Any] | None) -> bool:
    """Return True if the tool declares that it runs programs, which a sandbox can confine."""
    return getattr(tool, "has_commands", False) is True


class ToolTimedOut(Exception):
    """Raised when a tool exceeds its `timeout_s`. A TimeoutError is the tool's own."""


async def timed(
    tool: Tool[Any], timeout_s: float, ctx: ToolContext[Any], arguments: Any
) -> ToolOutput:
    with anyio.move_on_after(timeout_s) as scope:
        try:
            return await tool.execute(ctx, arguments)
        except (ToolFailed, ToolDeferred):
            raise
        except Exception:
            # after the timeout, this is a failed cleanup: report the timeout instead
            if not scope.cancel_called:
                raise
    raise ToolTimedOut


async def asked(tool: Tool[Any], ctx: ToolContext[Any], arguments: Any) -> ProbeAnswer:
    """Call the tool's probe. Raises its errors; AgentError(tool) if it exits or cancels itself."""
    try:
        return await tool.probe(ctx, arguments)
    except (SystemExit, anyio.get_cancelled_exc_class()) as e:
        if not isinstance(e, SystemExit) and somebody_cancels():
            raise
        raise AgentError("tool", f"it was ended from inside: {words_of(e)}") from e


class ToldFailure(NamedTuple):
    """Failure of a call, as the model sees it."""

    text: str
    unknown: bool
    """True if the call may have taken effect and must not be repeated."""
    ends_run: bool = False


def told(
    error: BaseException, tool: Tool[Any], ctx: ToolContext[Any], *, outside: BaseException | None
) -> ToldFailure:
    """Describe an error of the tool's code. `outside`: the exception that was being handled when
    the call began.
    """
    once = tool.effect == "once"
    note = f"\n{NOT_KNOWN}" if once else ""
    match error:
        case ToolFailed():
            unknown = once and error.has_happened(outside=outside) is None
            more = note if unknown and error.stated is UNSET else ""
            return ToldFailure(f"{error.message}{more}", unknown, error.ends_run)
        case ToolTimedOut():
            text = f"Timed out after {tool.timeout_s} s. {NOT_KNOWN if once else ''}".strip()
            return ToldFailure(text, once)
        case Exception() | SystemExit():
            return ToldFailure(f"{words_of(error)}{_without_deps(error, ctx)}{note}", once)
        case _:
            return ToldFailure(f"It was cancelled from inside: {words_of(error)}{note}", once)


def _without_deps(error: BaseException, ctx: ToolContext[Any]) -> str:
    """Return a hint for an attribute error on None, if the failing code sees the context."""
    if (
        not isinstance(error, AttributeError)
        or error.obj is not None
        or ctx.deps is not None
        or (trace := error.__traceback__) is None
    ):
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    has_context = any(isinstance(value, ToolContext) for value in trace.tb_frame.f_locals.values())
    return " (ctx.deps is None: pass deps= to the run)" if has_context else ""


def somebody_cancels() -> bool:
    """Return False if a CancelledError is the tool's own, for example from a future it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

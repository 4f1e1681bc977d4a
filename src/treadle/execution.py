"""How one tool call becomes one result: looked up, validated, decided, run under its timeout, capped and cleaned.

In what order calls start, and what of it is journaled when, is the loop's business. Entry: `Toolbox`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from treadle.calls import NOBODY_KNOWS, Ready, Refused, refused
from treadle.clock import Clock
from treadle.journal import ToolFinished
from treadle.message import MediaPart, TextPart, ToolCall, ToolResult
from treadle.model import ToolDefinition
from treadle.output import cap_output
from treadle.policy import decide, headless_denial
from treadle.tool import InvalidArguments, Tool, ToolContext, ToolFailed, ToolOutput, ToolRegistry, failure, unknown_tool
from treadle.types import Mode, now


@dataclass(slots=True, kw_only=True)
class Toolbox:
    """The tools of one run and how they are called."""

    registry: ToolRegistry
    mode: Mode
    cwd: Path
    clock: Clock
    definitions: tuple[ToolDefinition, ...]
    """The same object for the whole run, so that a wire encodes it once."""
    clean: Callable[[str], str]
    """Takes known secrets out of a result."""
    context: Callable[[Ready, float | None, Callable[[], bool]], ToolContext[Any]]
    """Makes the context of a call from its deadline and a way to ask whether the run is being stopped."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """The run's."""

    def prepare(self, call: ToolCall) -> Ready | Refused:
        """Looked up, validated and decided; a call that cannot run comes back with its result. Nobody is here to ask: ask is a no."""
        tool = self.registry.get(call.name)
        if tool is None:
            return refused(call, unknown_tool(call.name, [t.name for t in self.registry]))
        try:
            arguments = tool.parse(call.arguments_json)
        except InvalidArguments as e:
            return refused(call, e.message)
        except Exception as e:  # noqa: BLE001  a tool's own parse may be anybody's code, and its failure is for the model
            return refused(call, f"The arguments could not be read: {type(e).__name__}: {e}")
        decision = decide(self.mode, tool, arguments, self.cwd)
        if decision.verdict == "deny":
            return refused(call, f"Not run: {decision.reason}.", status="denied")
        if decision.verdict == "ask":
            return refused(call, headless_denial(decision), status="denied", unapproved=True)
        return Ready(call=call, tool=tool, arguments=arguments)

    async def execute(self, ready: Ready) -> ToolFinished:
        """Runs it. Whatever it does, short of cancellation, is a result."""
        begun = self.clock.monotonic()
        result = await self._result(ready)
        status = "unknown" if result.unknown else "error" if result.is_error else "ok"
        return ToolFinished(at=now(), status=status, result=result, duration_ms=round((self.clock.monotonic() - begun) * 1000, 3))

    async def _result(self, ready: Ready) -> ToolResult:
        call, tool = ready.call, ready.tool
        ctx = self.context(ready, self._deadline(tool), self._is_stopping)
        try:
            output = await _run(tool, ctx, ready.arguments)
            return ToolResult(call_id=call.id, name=call.name, content=await self._capped(output, tool, ctx))
        except ToolFailed as e:
            text = await self._capped_text(e.message, tool, ctx)
            return failure(call.id, call.name, text, unknown=e.happened is None and tool.effect == "once")
        except _TimedOut:
            unknown = tool.effect == "once"
            return failure(call.id, call.name, f"Timed out after {tool.timeout_s} s. {NOBODY_KNOWS if unknown else ''}".strip(), unknown=unknown)
        except (Exception, SystemExit) as e:  # noqa: BLE001  the edge of a tool: its failure is told to the model
            return failure(call.id, call.name, await self._capped_text(f"{type(e).__name__}: {e}", tool, ctx))

    def _deadline(self, tool: Tool[Any]) -> float | None:
        own = math.inf if tool.timeout_s is None else anyio.current_time() + tool.timeout_s
        first = min(own, self.scope.deadline)
        return None if first == math.inf else first

    def _is_stopping(self) -> bool:
        return self.scope.cancel_called

    async def _capped(self, output: ToolOutput, tool: Tool[Any], ctx: ToolContext[Any]) -> str | tuple[TextPart | MediaPart, ...]:
        if isinstance(output, str):
            return await self._capped_text(output, tool, ctx)
        parts: list[TextPart | MediaPart] = []
        for part in output:
            parts.append(TextPart(text=await self._capped_text(part.text, tool, ctx)) if isinstance(part, TextPart) else part)
        return tuple(parts)

    async def _capped_text(self, text: str, tool: Tool[Any], ctx: ToolContext[Any]) -> str:
        text = self.clean(text)
        if len(text) <= tool.max_output and text.count("\n") < 200 and len(text) < 2_000:
            return text
        return await anyio.to_thread.run_sync(lambda: cap_output(text, max_chars=tool.max_output, spill=ctx.spill))


class _TimedOut(Exception):
    """The tool's own timeout, told apart from a TimeoutError that it raises."""


async def _run(tool: Tool[Any], ctx: ToolContext[Any], arguments: Any) -> ToolOutput:
    if tool.timeout_s is None:
        return await tool.execute(ctx, arguments)
    with anyio.move_on_after(tool.timeout_s):
        return await tool.execute(ctx, arguments)
    raise _TimedOut

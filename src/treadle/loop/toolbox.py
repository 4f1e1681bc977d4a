"""Execution of a tool call: lookup, validation, decision, timeout, and a truncated result with
secrets masked.

calls.py orders and journals the calls. Entry point: `Toolbox`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
from msgspec import structs

from treadle._internal.clock import Clock
from treadle._internal.crash import boundary
from treadle.events.hooks import NO_HOOKS, Hooks
from treadle.events.hooks.chain import BeforeToolSaid
from treadle.events.tracing import UNTRACED, Traced
from treadle.journal.entries import ToolFinished
from treadle.loop.call_values import Deferred, HeldCall, Prepared, Ready, refused
from treadle.loop.guarding import Check
from treadle.loop.handoffs import HandoffCalls
from treadle.loop.hooked_calls import HookedCalls, shown_end
from treadle.loop.processing import Processor
from treadle.loop.shown_results import shown_parts, shown_text, with_note
from treadle.loop.tool_code import Hear, has_commands, somebody_cancels, timed, told, unheard
from treadle.messages.message import JsonText, Message, ToolCall, ToolResult
from treadle.models.model import ToolDefinition
from treadle.policy.permissions import NO_PERMISSIONS, Permissions
from treadle.policy.policy import ALLOW, Decision, decide, headless_denial, without_sandbox
from treadle.tools.confinement import Sandbox, SandboxStatus
from treadle.tools.failures import words_of
from treadle.tools.function.returned import final
from treadle.tools.registry import ToolRegistry, unknown_tool
from treadle.tools.tool import (
    InvalidArguments,
    Tool,
    ToolContext,
    ToolDeferred,
    ToolDone,
    ToolFailed,
    failure,
)
from treadle.types import Mode, OnAsk, now


@dataclass(slots=True, kw_only=True, eq=False, weakref_slot=True)
class Toolbox(HookedCalls, HandoffCalls):
    """The tools of one run, and the settings of their calls."""

    registry: ToolRegistry
    mode: Mode
    cwd: Path
    clock: Clock
    definitions: tuple[ToolDefinition, ...]
    """The same object until `join` or `load` replaces it, so that a wire encodes it only once."""
    clean: Callable[[str], str]
    """Masks known secrets in a text."""
    context: Callable[[Ready, float | None, Toolbox], ToolContext[Any]]
    """Factory of a call's context, from the call, its deadline and this toolbox."""
    permissions: Permissions = NO_PERMISSIONS
    takes_images: bool = True
    """True if the run's model accepts images."""
    on_ask: OnAsk = "deny"
    late: Hear = unheard
    """Receiver of late results, in the event loop."""
    sandbox: Sandbox | None = None
    """Sandbox for the tools' commands; None if it is disabled, or if no tool runs commands."""
    standing: SandboxStatus | None = None
    """Status of the sandbox; known after `get_ready`."""
    learned: Callable[[SandboxStatus], None] = lambda standing: None
    """Callback that receives `standing` once, before the first command is decided."""
    mode_changed: Callable[[Mode], None] = lambda mode: None
    """Called when a user changes the mode during the run."""
    output_check: Check | None = None
    """Check of the output by the agent and the hooks."""
    processor: Processor | None = None
    """Processor of the messages that the model sees."""
    traced: Traced = UNTRACED
    """Tracer of the run."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Cancel scope of the run."""
    has_completion: bool = False
    """True if one of the tools completes the run."""
    has_handoffs: bool = False
    """True if one of the tools hands the run to another agent."""
    kept: Mapping[Callable[[], Any], Any] = field(default_factory=dict[Callable[[], Any], Any])
    """Objects that tools keep between calls, by factory."""
    hooks: Hooks = NO_HOOKS
    said: dict[str, BeforeToolSaid] = field(default_factory=dict[str, BeforeToolSaid])
    """Answers of `before_tool` hooks for the next `prepare`, by call id."""

    def join(self, tools: Sequence[Tool[Any]]) -> None:
        """Add tools, from the next request on."""
        for tool in tools:
            self.registry.register(tool)
        self.definitions = self.registry.definitions()

    def load(self, history: Sequence[Message]) -> bool:
        """Offer the deferred tools that the model has found. Returns True if there are new ones."""
        if is_changed := self.registry.load(history):
            self.definitions = self.registry.definitions()
        return is_changed

    @property
    def confines(self) -> bool:
        """True if the sandbox works. Some calls need no approval if they run inside it."""
        return self.standing is not None and self.standing.works

    def news(self) -> list[str]:
        """Return the notes of kept objects for the next request: the results of their `news`."""
        if not self.kept:
            return []
        tellers = [getattr(kept, "news", tuple) for kept in (*self.kept.values(),)]
        return [self.clean(text) for teller in tellers for text in teller()]

    async def get_ready(self, calls: Sequence[ToolCall], *, settled: Container[str] = ()) -> None:
        """Call before `prepare`: runs the hooks for `calls`, and determines the sandbox's status if
        a call runs commands.

        `settled`: ids of calls whose arguments hooks may not change, because the calls have
        started, or a user supplied or saw the arguments.
        """
        if "before_tool" in self.hooks.points:
            await self.ask_hooks(calls, settled)
        if (
            self.sandbox is None
            or self.standing is not None
            or not any(has_commands(self.registry.get(call.name)) for call in calls)
        ):
            return
        self.standing = await self.sandbox.standing()
        self.learned(self.standing)

    def judge(self, tool: Tool[Any], arguments: Any, permissions: Permissions) -> Decision:
        """Decide a call by the rules, and by whether the sandbox works."""
        decision = decide(self.mode, tool, arguments, self.cwd, permissions)
        if decision is ALLOW:
            return decision
        return decision if self.confines else without_sandbox(decision)

    def completes(self, call: ToolCall) -> bool:
        """Return True if the call completes the run."""
        return (
            self.has_completion
            and getattr(self.registry.get(call.name), "completes", False) is True
        )

    def prepare(self, call: ToolCall, *, allowed: bool = False) -> Prepared:
        """Look up, validate and decide a call. `allowed`: True if a user has approved it."""
        if self.said:
            return self.prepare_as_hooked(call, allowed=allowed)
        return self.decide_call(call, allowed=allowed)

    def decide_call(self, call: ToolCall, *, allowed: bool, asks: str | None = None) -> Prepared:
        """Decide a call. `asks`: reason of a hook why it needs approval, if it is not denied."""
        tool = self.registry.get(call.name)
        if tool is None:
            return refused(call, unknown_tool(call.name, [t.name for t in self.registry]))
        try:
            arguments = tool.parse(call.arguments_json)
        except InvalidArguments as e:
            return refused(call, e.message)
        except Exception as e:  # noqa: BLE001  user code; the model sees its failure
            return refused(call, f"The arguments could not be read: {words_of(e)}")
        decision = self.judge(tool, arguments, self.permissions)
        if asks is not None and decision.verdict == "allow":
            decision = replace(decision, verdict="ask", reason=asks)
        if decision.verdict == "deny":
            return refused(call, f"Not run: {decision.reason}.", status="denied")
        if decision.verdict == "ask" and not allowed:
            if self.on_ask == "wait":
                return HeldCall(call=call, reason=decision.reason, parallel=tool.parallel)
            return refused(call, headless_denial(decision), status="denied", unapproved=True)
        return Ready(
            call=call,
            tool=tool,
            arguments=arguments,
            places=decision.places,
            approved=allowed and decision.verdict == "ask",
            looks_only=decision.looks_only,
            stays_confined=decision.partly == "deny",
        )

    async def execute(self, ready: Ready) -> ToolFinished | Deferred:
        """Run a call. Raises only cancellation; failures become results."""
        begun = self.clock.monotonic()
        boundary()
        try:
            if self.traced.is_on:
                with self.traced.tool(ready.call, getattr(ready.tool, "trace", {})) as span:
                    result, ends = await self._result(ready)
                    span.finished(result)
            else:
                result, ends = await self._result(ready)
        except ToolDeferred as e:
            return Deferred(self.clean(e.reason))
        boundary()
        blocked = ""
        if "after_tool" in self.hooks.points:
            said = await self.after_tool(ready, result)
            if isinstance(ends, str):
                ends = shown_end(ends, result, said)
            result, blocked = said.result, said.blocked
        if ready.changed:
            result = with_note(result, ready)
        status = "unknown" if result.unknown else "error" if result.is_error else "ok"
        duration_ms = round((self.clock.monotonic() - begun) * 1000, 3)
        completes = status == "ok" and self.completes(ready.call)
        return ToolFinished(
            at=now(),
            status=status,
            result=result,
            duration_ms=duration_ms,
            ends_run=ends is True,
            done=ends if isinstance(ends, str) else None,
            blocked=blocked,
            completes=completes,
            hands_to=self.hands_to(ready.tool) if self.has_handoffs and status == "ok" else "",
        )

    async def _result(self, ready: Ready) -> tuple[ToolResult, bool | JsonText]:
        """Return the result; and True if it ends the run with an error, or the output with which it
        ends the run.
        """
        call, tool, codes, outside = ready.call, ready.tool, list[int](), sys.exception()
        ctx = structs.replace(self.context(ready, self.deadline(tool), self), on_exit=codes.append)
        try:
            self._check_again(ready)
            output = await (
                tool.execute(ctx, ready.arguments)
                if tool.timeout_s is None
                else timed(tool, tool.timeout_s, ctx, ready.arguments)
            )
            done: bool | JsonText = False
            if not isinstance(output, str) and isinstance(output, ToolDone):
                output, value = final(output)
                done = self.clean(value)
            content = (
                await shown_text(output, tool, ctx, self.clean)
                if isinstance(output, str)
                else await shown_parts(
                    output, tool, ctx, self.clean, takes_images=self.takes_images
                )
            )
            return ToolResult(
                call_id=call.id,
                name=call.name,
                content=content,
                exit_code=codes[-1] if codes else None,
            ), done
        except ToolDeferred:
            raise
        except (Exception, SystemExit, anyio.get_cancelled_exc_class()) as e:
            if isinstance(e, anyio.get_cancelled_exc_class()) and somebody_cancels():
                raise
            text, unknown, ends_run = told(e, tool, ctx, outside=outside)
        text = await shown_text(text, tool, ctx, self.clean)
        result = failure(call.id, call.name, text, unknown=unknown)
        return (structs.replace(result, exit_code=codes[-1]) if codes else result), ends_run

    def _check_again(self, ready: Ready) -> None:
        """Decide a command again when it starts, because other calls of the turn may have changed
        the files that the decision depends on. Raises ToolFailed.
        """
        if ready.approved or ready.attempt > 1 or not has_commands(ready.tool):
            return
        decision = self.judge(ready.tool, ready.arguments, self.permissions)
        if decision.verdict in ("ask", "deny"):
            raise ToolFailed(
                "Not run: files changed since the call was allowed, and now "
                f"{decision.reason or 'it is not'}. Call it again.",
                happened=False,
            )

    def deadline(self, tool: Tool[Any]) -> float | None:
        """Return the time at which a call that begins now must end; None if it has no limit."""
        own = math.inf if tool.timeout_s is None else anyio.current_time() + tool.timeout_s
        first = min(own, self.scope.deadline)
        return None if first == math.inf else first

"""Execution of a tool call: lookup, validation, decision, timeout, and a truncated result with
secrets masked.

calls.py orders and journals the calls. Entry point: `Toolbox`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from msgspec import structs

from treadle._internal.clock import Clock
from treadle._internal.crash import boundary
from treadle._internal.uninterrupted import cancel_again
from treadle.errors import AgentError
from treadle.events.hooks import NO_HOOKS, Answer, Ask, HookedRun, Hooks
from treadle.events.hooks.chain import UNSAID, BeforeToolSaid
from treadle.events.tracing import UNTRACED, Traced
from treadle.journal.entries import ToolFinished
from treadle.loop.call_values import HOOK, Deferred, HeldCall, Prepared, Ready, changed, refused
from treadle.loop.processing import Processor
from treadle.loop.shown_results import shown_end, shown_parts, shown_text, unseen, with_note
from treadle.loop.tool_code import Hear, asked, has_commands, somebody_cancels, timed, told, unheard
from treadle.messages.message import JsonText, ToolCall, ToolResult
from treadle.models.model import ToolDefinition
from treadle.policy.approvals import for_session
from treadle.policy.permissions import NO_PERMISSIONS, Permissions
from treadle.policy.policy import ALLOW, Decision, decide, headless_denial, without_sandbox
from treadle.tools.approval import Deny, Offer
from treadle.tools.confinement import Sandbox, SandboxStatus
from treadle.tools.failures import words_of
from treadle.tools.function.returned import final
from treadle.tools.registry import ToolRegistry, unknown_tool
from treadle.tools.tool import (
    DidNotHappen,
    Happened,
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
class Toolbox:
    """The tools of one run, and the settings of their calls."""

    registry: ToolRegistry
    mode: Mode
    cwd: Path
    clock: Clock
    definitions: tuple[ToolDefinition, ...]
    """The same object until `join` replaces it, so that a wire encodes it only once."""
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
    output_check: Callable[[Any], Awaitable[None]] | None = None
    """Check of the agent's output, with the run's dependencies. Raises ToolFailed."""
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
    hooked: HookedRun | None = None
    """The run as tool hooks see it."""
    _said: dict[str, BeforeToolSaid] = field(default_factory=dict[str, BeforeToolSaid])
    """Answers of `before_tool` hooks for the next `prepare`, by call id."""

    def join(self, tools: Sequence[Tool[Any]]) -> None:
        """Add tools, from the next request on."""
        for tool in tools:
            self.registry.register(tool)
        self.definitions = self.registry.definitions()

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
            await self._ask_hooks(calls, settled)
        if (
            self.sandbox is None
            or self.standing is not None
            or not any(has_commands(self.registry.get(call.name)) for call in calls)
        ):
            return
        self.standing = await self.sandbox.standing()
        self.learned(self.standing)

    def offers(self, name: str, arguments_json: JsonText) -> Offer:
        """Return the grants to offer with a request for approval. A rule is included only if it
        would allow the call.
        """
        tool = self.registry.get(name)
        try:
            arguments = None if tool is None else tool.parse(arguments_json)
        except Exception:  # noqa: BLE001  user code; an unreadable call gets no wider grant
            return Offer()
        if tool is None:
            return Offer()
        as_edit = partial(decide, "accept-edits", tool, arguments, self.cwd, self.permissions)
        is_edit = not has_commands(tool) and as_edit().verdict == "allow"
        pattern = self._judged(tool, arguments, self.permissions).pattern
        if pattern is not None:
            granted = for_session(self.permissions, pattern)
            if self._judged(tool, arguments, granted).verdict == "ask":
                pattern = None
        return Offer(pattern, is_edit)

    def _judged(self, tool: Tool[Any], arguments: Any, permissions: Permissions) -> Decision:
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

    def hands_to(self, tool: Tool[Any]) -> str:
        """Return the name of the agent to which a call of the tool hands the run; empty if none."""
        return getattr(tool, "hands_to", "")

    async def _ask_hooks(self, calls: Sequence[ToolCall], settled: Container[str]) -> None:
        assert self.hooked is not None, "a toolbox with hooks has a run"
        self._said.clear()
        for call in calls:
            said = await self.hooks.before_tool(self.hooked, call)
            self._said[call.id] = said._replace(arguments_json=None) if call.id in settled else said

    def prepare(self, call: ToolCall, *, allowed: bool = False) -> Prepared:
        """Look up, validate and decide a call. `allowed`: True if a user has approved it."""
        said = self._said.pop(call.id, UNSAID)
        match said.verdict:
            case Deny(reason=reason):
                return refused(call, self.clean(f"Not run: {reason}"), status="denied")
            case Answer(text=text):
                return refused(call, self.clean(text), status="ok")
            case _:
                pass
        if said.arguments_json is None:
            return self._decided(call, said, allowed=allowed)
        rewritten = structs.replace(call, arguments_json=said.arguments_json)
        return changed(self._decided(rewritten, said, allowed=allowed), HOOK)

    def _decided(self, call: ToolCall, said: BeforeToolSaid, *, allowed: bool) -> Prepared:
        tool = self.registry.get(call.name)
        if tool is None:
            return refused(call, unknown_tool(call.name, [t.name for t in self.registry]))
        try:
            arguments = tool.parse(call.arguments_json)
        except InvalidArguments as e:
            return refused(call, e.message)
        except Exception as e:  # noqa: BLE001  user code; the model sees its failure
            return refused(call, f"The arguments could not be read: {words_of(e)}")
        decision = self._judged(tool, arguments, self.permissions)
        if isinstance(said.verdict, Ask) and decision.verdict == "allow":
            decision = replace(decision, verdict="ask", reason=self.clean(said.verdict.reason))
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

    def repeat(self, call: ToolCall, attempt: int) -> Ready:
        """Return a call that a dead driver started, ready to run again.

        Raises AgentError(tool) if its tool no longer accepts the arguments.
        """
        tool = self.registry.get(call.name)
        assert tool is not None, "a run is resumed only with the tools of its open calls"
        try:
            arguments = tool.parse(call.arguments_json)
        except Exception as e:
            raise AgentError(
                "tool",
                f"{call.name} (call {call.id}) has started, but the tool no longer accepts its "
                f"arguments: {words_of(e)}",
            ) from e
        ready = Ready(call=call, tool=tool, arguments=arguments, attempt=attempt, started=True)
        if not has_commands(tool):
            return ready
        decision = self._judged(tool, arguments, self.permissions)
        return structs.replace(
            ready, looks_only=decision.looks_only, stays_confined=decision.partly == "deny"
        )

    async def probe(self, ready: Ready) -> Happened | DidNotHappen | None:
        """Call the tool's probe, for at most its timeout. Raises the errors of `asked`."""
        ctx = self.context(ready, self._deadline(ready.tool), self)
        with anyio.move_on_after(ready.tool.timeout_s):
            answer = await asked(ready.tool, ctx, ready.arguments)
            return (
                Happened(await self._found(answer.result, ready, ctx))
                if isinstance(answer, Happened)
                else answer
            )
        return None

    async def _found(self, text: str, ready: Ready, ctx: ToolContext[Any]) -> str:
        """Return the result that a probe reports, as the model sees it."""
        text = await shown_text(text, ready.tool, ctx, self.clean)
        if "after_tool" not in self.hooks.points:
            return text
        return (
            await self._after_hooks(
                ready.call, ToolResult(call_id=ready.call.id, name=ready.call.name, content=text)
            )
        ).text

    async def arrived(self, call: ToolCall, late: ToolFinished) -> ToolFinished:
        """Return the late result of a call, truncated and after the hooks."""
        tool = self.registry.get(call.name)
        assert tool is not None, "a run is resumed only with the tools of its open calls"
        ready = Ready(call=call, tool=tool, arguments=None, started=True)
        ctx = self.context(ready, None, self)
        text = await shown_text(late.result.text, tool, ctx, self.clean)
        result = structs.replace(late.result, content=text)
        if "after_tool" in self.hooks.points:
            result = await self._kept(ready, result)
        return structs.replace(late, result=result)

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
        if "after_tool" in self.hooks.points:
            hooked = await self._kept(ready, result)
            if isinstance(ends, str):
                ends = shown_end(ends, result, hooked)
            result = hooked
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
            completes=completes,
            hands_to=self.hands_to(ready.tool) if self.has_handoffs and status == "ok" else "",
        )

    async def _kept(self, ready: Ready, result: ToolResult) -> ToolResult:
        """Run the hooks after a call. If they are cancelled, a `once` call keeps its status, but
        its text is removed.
        """
        try:
            return await self._after_hooks(ready.call, result)
        except anyio.get_cancelled_exc_class():
            if ready.tool.effect != "once" or result.unknown:
                raise
            cancel_again()
            return unseen(result)

    async def _after_hooks(self, call: ToolCall, result: ToolResult) -> ToolResult:
        assert self.hooked is not None, "a toolbox with hooks has a run"
        said = await self.hooks.after_tool(self.hooked, call, result)
        return (
            structs.replace(said, content=self.clean(said.content))
            if said is not result and isinstance(said.content, str)
            else said
        )

    async def _result(self, ready: Ready) -> tuple[ToolResult, bool | JsonText]:
        """Return the result; and True if it ends the run with an error, or the output with which it
        ends the run.
        """
        call, tool, codes, outside = ready.call, ready.tool, list[int](), sys.exception()
        ctx = structs.replace(self.context(ready, self._deadline(tool), self), on_exit=codes.append)
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
        decision = self._judged(ready.tool, ready.arguments, self.permissions)
        if decision.verdict in ("ask", "deny"):
            raise ToolFailed(
                "Not run: files changed since the call was allowed, and now "
                f"{decision.reason or 'it is not'}. Call it again.",
                happened=False,
            )

    def _deadline(self, tool: Tool[Any]) -> float | None:
        own = math.inf if tool.timeout_s is None else anyio.current_time() + tool.timeout_s
        first = min(own, self.scope.deadline)
        return None if first == math.inf else first

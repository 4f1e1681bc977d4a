"""Execution of a tool call: look-up, validation, decision, timeout, and a result of bounded size
without secrets.

The loop decides the order of calls and when they are journaled. Entry point: `Toolbox`.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec import UNSET, structs

from treadle._internal.clock import Clock
from treadle._internal.crash import boundary
from treadle.errors import AgentError
from treadle.events.hooks import NO_HOOKS, Answer, Ask, HookedRun, Hooks
from treadle.events.hooks.chain import UNSAID, BeforeToolSaid
from treadle.events.tracing import UNTRACED, Traced
from treadle.journal.entries import ToolFinished
from treadle.loop.calls import (
    HOOK,
    NOT_KNOWN,
    Deferred,
    HeldCall,
    Ready,
    RefusedCall,
    changed,
    changed_by,
    refused,
)
from treadle.messages.images import fitted_parts
from treadle.messages.message import JsonText, MediaPart, Part, TextPart, ToolCall, ToolResult
from treadle.models.model import ToolDefinition
from treadle.policy.approvals import for_session
from treadle.policy.policy import (
    NO_PERMISSIONS,
    Decision,
    Permissions,
    decide,
    headless_denial,
    without_sandbox,
)
from treadle.tools.approval import Deny, Offer
from treadle.tools.confinement import Sandbox, SandboxStatus
from treadle.tools.failures import words_of
from treadle.tools.tool import (
    DidNotHappen,
    Happened,
    InvalidArguments,
    Tool,
    ToolContext,
    ToolDeferred,
    ToolFailed,
    ToolOutput,
    ToolRegistry,
    failure,
    unknown_tool,
)
from treadle.tools.truncate import cap_output
from treadle.types import Mode, OnAsk, now


def _nobody(call_id: str, text: str) -> None:
    """Hears what comes late where no run does."""


@dataclass(slots=True, kw_only=True, eq=False, weakref_slot=True)
class Toolbox:
    """The tools of one run and how they are called."""

    registry: ToolRegistry
    mode: Mode
    cwd: Path
    clock: Clock
    definitions: tuple[ToolDefinition, ...]
    """The same object until `join` changes it, so that a wire encodes it once."""
    clean: Callable[[str], str]
    """Takes known secrets out of a result."""
    context: Callable[[Ready, float | None, Toolbox], ToolContext[Any]]
    """Makes the context of a call from its deadline and this toolbox."""
    permissions: Permissions = NO_PERMISSIONS
    takes_images: bool = True
    """True if the run's model accepts images."""
    on_ask: OnAsk = "deny"
    late: Callable[[str, str], None] = _nobody
    """Receives, in the event loop, the result of a call that was already reported as `unknown`."""
    sandbox: Sandbox | None = None
    """Sandbox for the commands of tools. None if it is switched off, or no tool of this run has
    commands.
    """
    standing: SandboxStatus | None = None
    """Status of the sandbox; known after `get_ready`."""
    learned: Callable[[SandboxStatus], None] = lambda standing: None
    """Receives the status once, before the first command is decided."""
    mode_changed: Callable[[Mode], None] = lambda mode: None
    """Called when a person changes the mode while the run is under way."""
    traced: Traced = UNTRACED
    """The run, for those who follow it from outside."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """The run's."""
    has_completion: bool = False
    """True if one of the tools completes the run."""
    kept: Mapping[Callable[[], Any], Any] = field(default_factory=dict[Callable[[], Any], Any])
    """Objects that tools keep from call to call, by their factory."""
    hooks: Hooks = NO_HOOKS
    hooked: HookedRun | None = None
    """The run as tools' hooks see it."""
    _said: dict[str, BeforeToolSaid] = field(default_factory=dict[str, BeforeToolSaid])
    """Answers of hooks about calls that are to be prepared, by call id."""

    def join(self, tools: Sequence[Tool[Any]]) -> None:
        """Offer more tools from the next request on."""
        for tool in tools:
            self.registry.register(tool)
        self.definitions = self.registry.definitions()

    @property
    def confines(self) -> bool:
        """True if a sandbox is available to calls that run without approval only inside one."""
        return self.standing is not None and self.standing.works

    def news(self) -> list[str]:
        """Return notes for the model's next request, from kept objects that have `news`."""
        return (
            [
                self.clean(text)
                for kept in (*self.kept.values(),)
                for text in getattr(kept, "news", tuple)()
            ]
            if self.kept
            else []
        )

    async def get_ready(self, calls: Sequence[ToolCall], *, settled: Container[str] = ()) -> None:
        """Before `calls` are prepared: asks the hooks, and waits until it is known whether the
        sandbox works, where one of them needs it.

        `settled`: those whose arguments stand, because they had started, or a person gave them or
        was shown them.
        """
        if self.hooks.has("before_tool"):
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
        """Return the grants to offer for such a call; a rule only if it would make the question
        unnecessary.
        """
        tool = self.registry.get(name)
        try:
            arguments = None if tool is None else tool.parse(arguments_json)
        except Exception:  # noqa: BLE001  anybody's parse: what cannot be read is asked about once
            return Offer()
        if tool is None:
            return Offer()
        is_edit = (
            not has_commands(tool)
            and decide("accept-edits", tool, arguments, self.cwd, self.permissions).verdict
            == "allow"
        )
        pattern = self._judged(tool, arguments, self.permissions).pattern
        if (
            pattern is not None
            and self._judged(tool, arguments, for_session(self.permissions, pattern)).verdict
            == "ask"
        ):
            pattern = None
        return Offer(pattern, is_edit)

    def _judged(self, tool: Tool[Any], arguments: Any, permissions: Permissions) -> Decision:
        """Decide by the rules and by the sandbox, or the lack of one."""
        decision = decide(self.mode, tool, arguments, self.cwd, permissions)
        return decision if self.confines else without_sandbox(decision)

    def completes(self, call: ToolCall) -> bool:
        """Return True if the call completes the run."""
        return (
            self.has_completion
            and getattr(self.registry.get(call.name), "completes", False) is True
        )

    async def _ask_hooks(self, calls: Sequence[ToolCall], settled: Container[str]) -> None:
        assert self.hooked is not None, "whoever has hooks has a run to tell them of"
        self._said.clear()
        for call in calls:
            said = await self.hooks.before_tool(self.hooked, call)
            self._said[call.id] = said._replace(arguments_json=None) if call.id in settled else said

    def prepare(self, call: ToolCall, *, allowed: bool = False) -> Ready | RefusedCall | HeldCall:
        """Looked up, validated and decided; a call that cannot run comes back with its result.

        `allowed`: a person said yes to it.
        """
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
        return changed(
            self._decided(
                structs.replace(call, arguments_json=said.arguments_json), said, allowed=allowed
            ),
            HOOK,
        )

    def _decided(
        self, call: ToolCall, said: BeforeToolSaid, *, allowed: bool
    ) -> Ready | RefusedCall | HeldCall:
        tool = self.registry.get(call.name)
        if tool is None:
            return refused(call, unknown_tool(call.name, [t.name for t in self.registry]))
        try:
            arguments = tool.parse(call.arguments_json)
        except InvalidArguments as e:
            return refused(call, e.message)
        except Exception as e:  # noqa: BLE001  a tool's own parse may be anybody's code, and its failure is for the model
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
        approved = allowed and decision.verdict == "ask"
        return _ready(
            Ready(
                call=call, tool=tool, arguments=arguments, places=decision.places, approved=approved
            ),
            decision,
        )

    def repeat(self, call: ToolCall, attempt: int) -> Ready:
        """A call that a dead driver had started.

        Raises AgentError(tool) where its tool would not take the arguments any more.
        """
        tool = self.registry.get(call.name)
        assert tool is not None, (
            "whoever takes up a run without the tools of its open calls is refused"
        )
        try:
            arguments = tool.parse(call.arguments_json)
        except Exception as e:
            raise AgentError(
                "tool",
                (
                    f"{call.name} (call {call.id}) had started, and now does not take its "
                    f"arguments: {words_of(e)}"
                ),
            ) from e
        ready = Ready(call=call, tool=tool, arguments=arguments, attempt=attempt, started=True)
        return (
            _ready(ready, self._judged(tool, arguments, self.permissions))
            if has_commands(tool)
            else ready
        )

    async def probe(self, ready: Ready) -> Happened | DidNotHappen | None:
        """Ask the tool's own probe. Raises what the probe raises."""
        ctx = self.context(ready, self._deadline(ready.tool), self)
        with anyio.move_on_after(ready.tool.timeout_s):
            answer = await ready.tool.probe(ctx, ready.arguments)
            return (
                Happened(await self._found(answer.result, ready, ctx))
                if isinstance(answer, Happened)
                else answer
            )
        return None

    async def _found(self, text: str, ready: Ready, ctx: ToolContext[Any]) -> str:
        """Return the result of a call under another driver, as its probe reports it."""
        text = await self._capped_text(text, ready.tool, ctx)
        if not self.hooks.has("after_tool"):
            return text
        return (
            await self._after_hooks(
                ready.call, ToolResult(call_id=ready.call.id, name=ready.call.name, content=text)
            )
        ).text

    async def execute(self, ready: Ready) -> ToolFinished | Deferred:
        """Runs it. Whatever it does, short of cancellation, is a result, or comes later."""
        begun = self.clock.monotonic()
        boundary()
        try:
            if self.traced.is_on:
                with self.traced.tool(ready.call, getattr(ready.tool, "trace", {})) as span:
                    result, ends_run = await self._result(ready)
                    span.finished(result)
            else:
                result, ends_run = await self._result(ready)
        except ToolDeferred as e:
            return Deferred(self.clean(e.reason))
        boundary()
        if self.hooks.has("after_tool"):
            result = await self._after_hooks(ready.call, result)
        if ready.changed:
            result = _changed(result, ready)
        status = "unknown" if result.unknown else "error" if result.is_error else "ok"
        duration_ms = round((self.clock.monotonic() - begun) * 1000, 3)
        completes = status == "ok" and self.completes(ready.call)
        return ToolFinished(
            at=now(),
            status=status,
            result=result,
            duration_ms=duration_ms,
            ends_run=ends_run,
            completes=completes,
        )

    async def _after_hooks(self, call: ToolCall, result: ToolResult) -> ToolResult:
        assert self.hooked is not None, "whoever has hooks has a run to tell them of"
        said = await self.hooks.after_tool(self.hooked, call, result)
        return (
            structs.replace(said, content=self.clean(said.content))
            if said is not result and isinstance(said.content, str)
            else said
        )

    async def _result(self, ready: Ready) -> tuple[ToolResult, bool]:
        """Return the result, and whether it ends the run."""
        call, tool, ends_run, codes = ready.call, ready.tool, False, list[int]()
        once, outside = tool.effect == "once", sys.exception()
        ctx = structs.replace(self.context(ready, self._deadline(tool), self), on_exit=codes.append)
        try:
            self._check_again(ready)
            output = await (
                tool.execute(ctx, ready.arguments)
                if tool.timeout_s is None
                else _timed(tool, tool.timeout_s, ctx, ready.arguments)
            )
            content = await (
                self._capped_text(output, tool, ctx)
                if isinstance(output, str)
                else self._capped(output, tool, ctx)
            )
            return ToolResult(
                call_id=call.id,
                name=call.name,
                content=content,
                exit_code=codes[-1] if codes else None,
            ), False
        except ToolDeferred:
            raise
        except ToolFailed as e:
            text, unknown, ends_run = (
                str(e.message),
                once and e.has_happened(outside=outside) is None,
                e.ends_run,
            )
            if unknown and e.stated is UNSET:
                text = f"{text}\n{NOT_KNOWN}"
        except _TimedOut:
            text, unknown = (
                f"Timed out after {tool.timeout_s} s. {NOT_KNOWN if once else ''}".strip(),
                once,
            )
        except (Exception, SystemExit) as e:  # noqa: BLE001  the edge of a tool: its failure becomes a result for the model
            text, unknown = (
                words_of(e) + _without_deps(e, ctx) + (f"\n{NOT_KNOWN}" if once else ""),
                once,
            )
        except anyio.get_cancelled_exc_class() as e:
            if _somebody_cancels():
                raise
            text, unknown = (
                f"It was cancelled from inside: {words_of(e)}" + (f"\n{NOT_KNOWN}" if once else ""),
                once,
            )
        result = failure(
            call.id, call.name, await self._capped_text(text, tool, ctx), unknown=unknown
        )
        return (structs.replace(result, exit_code=codes[-1]) if codes else result), ends_run

    def _check_again(self, ready: Ready) -> None:
        """Judge a command once more as it starts: other calls of its turn may have changed the
        files that decided. Raises ToolFailed.
        """
        if ready.approved or ready.attempt > 1 or not has_commands(ready.tool):
            return
        decision = self._judged(ready.tool, ready.arguments, self.permissions)
        if decision.verdict in ("ask", "deny"):
            raise ToolFailed(
                (
                    "Not run: files changed since the call was allowed, and now "
                    f"{decision.reason or 'it is not'}. Call it again."
                ),
                happened=False,
            )

    def _deadline(self, tool: Tool[Any]) -> float | None:
        own = math.inf if tool.timeout_s is None else anyio.current_time() + tool.timeout_s
        first = min(own, self.scope.deadline)
        return None if first == math.inf else first

    async def _capped(
        self, output: Sequence[TextPart | MediaPart], tool: Tool[Any], ctx: ToolContext[Any]
    ) -> tuple[TextPart | MediaPart, ...]:
        is_sequence = isinstance(output, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]  a tool is anybody's code
        if not is_sequence or not all(isinstance(part, (TextPart, MediaPart)) for part in output):  # pyright: ignore[reportUnnecessaryIsInstance]
            text = (
                f"The tool ran, but it returned {output!r:.200}: a tool returns text, or a "
                "sequence of TextPart and MediaPart."
            )
            raise ToolFailed(text, happened=True)
        shown = await fitted_parts(output) if self.takes_images else without_images(output)
        return tuple(
            [
                TextPart(text=await self._capped_text(p.text, tool, ctx))
                if isinstance(p, TextPart)
                else p
                for p in shown
            ]
        )

    async def _capped_text(self, text: str, tool: Tool[Any], ctx: ToolContext[Any]) -> str:
        text = self.clean(text)
        if len(text) <= tool.max_output and text.count("\n") < 200 and len(text) < 2_000:
            return text
        cap = partial(cap_output, text, max_chars=tool.max_output, spill=ctx.spill)
        with anyio.CancelScope(shield=True):  # the result is known, and is kept
            try:
                return await anyio.to_thread.run_sync(cap)
            except RuntimeError:  # no thread can be started
                return cap()
        raise AssertionError("a shielded scope that is never cancelled returns or raises")


def _ready(ready: Ready, decision: Decision) -> Ready:
    """Attach the decision on where the call's command runs."""
    return structs.replace(
        ready, looks_only=decision.looks_only, stays_confined=decision.partly == "deny"
    )


P = TypeVar("P", bound=Part)


def without_images(parts: Sequence[P]) -> list[P | TextPart]:
    """Replace images with a line of text, for a model that accepts none."""
    return [_described(p) if isinstance(p, MediaPart) and p.is_image else p for p in parts]


def _described(image: MediaPart) -> TextPart:
    where = image.url or f"{len(image.data or '') * 3 // 4:,} bytes"
    return TextPart(
        text=(
            f"[{image.name or 'an image'}, {image.media_type}, {where}: not shown, because this "
            "model takes no images]"
        )
    )


def has_commands(tool: Tool[Any] | None) -> bool:
    """Return True if the tool runs programs that a sandbox can confine. Any tool may declare so."""
    return getattr(tool, "has_commands", False) is True


def _changed(result: ToolResult, ready: Ready) -> ToolResult:
    """Says so to the model."""
    content, whom, arguments = result.content, ready.changed, ready.call.arguments_json
    if isinstance(content, str):
        return structs.replace(result, content=changed_by(whom, arguments, content))
    return structs.replace(
        result, content=(TextPart(text=changed_by(whom, arguments, "").strip()), *content)
    )


class _TimedOut(Exception):
    """The tool's own timeout, as opposed to a TimeoutError that it raises."""


async def _timed(
    tool: Tool[Any], timeout_s: float, ctx: ToolContext[Any], arguments: Any
) -> ToolOutput:
    with anyio.move_on_after(timeout_s) as scope:
        try:
            return await tool.execute(ctx, arguments)
        except (ToolFailed, ToolDeferred):
            raise
        except Exception:
            # else its clean-up failed, which does not say whether it happened
            if not scope.cancel_called:
                raise
    raise _TimedOut


def _without_deps(error: BaseException, ctx: ToolContext[Any]) -> str:
    """The likeliest reason of an attribute that None does not have, where the code that asked for
    it had the context at hand.
    """
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
    return " (ctx.deps is None: this run was given no deps=)" if has_context else ""


def _somebody_cancels() -> bool:
    """False where a CancelledError came from inside, as of a future that the tool awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

"""The calls of one response: decides which may run, runs them in order and gives each exactly one
result.

toolbox.py runs a single call; the loop decides how the run continues. Entry points: `Admission`,
`OpenCalls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import structs

from treadle.journal.entries import (
    ApprovalAnswered,
    ApprovalAsked,
    Entry,
    ModelResponded,
    ToolFinished,
    ToolStarted,
)
from treadle.journal.journal import Append
from treadle.journal.run_state import RunState
from treadle.loop.call_values import (
    Deferred,
    HeldCall,
    Prepared,
    Ready,
    RefusedCall,
    Verify,
    refused,
)
from treadle.loop.cut_calls import cut_result
from treadle.loop.plan import Plan
from treadle.loop.toolbox import Toolbox
from treadle.messages.message import ToolCall
from treadle.types import OnUnknown, Outcome, StopReason, now

MAX_PARALLEL = 64
"""Maximum number of calls of one turn that run in parallel."""
CUT_CALL = "Not run: the response was cut by its limit on output tokens inside this call."
SHORTER = "Make it again, shorter or in several steps."
LONGER = "The limit is higher now: make it again."


class Admission:
    """Admission of one run's calls, by the response's stop reason and the remaining limits."""

    def __init__(self, plan: Plan, toolbox: Toolbox) -> None:
        self._plan, self._toolbox = plan, toolbox
        self._state, self._ledger = plan.state, plan.state.ledger

    def admit(
        self, calls: Sequence[ToolCall], stop: StopReason, last: Outcome | None
    ) -> Sequence[Prepared]:
        """Return each call as ready, held, or refused with the reason as its result.

        `last`: the limit that makes this turn the last one, or None.
        """
        if stop in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW):
            return [
                refused(call, f"Not run: the response ended with {stop.value}.") for call in calls
            ]
        if last is not None or self._ledger.is_last_turn:
            text, cut_by = "Not run: this was the last turn of the run.", last or Outcome.TURN_LIMIT
            completes = self._toolbox.completes
            return self.within_limits(
                [
                    self._toolbox.prepare(c) if completes(c) else refused(c, text, cut_by=cut_by)
                    for c in calls
                ]
            )
        prepared = [self._toolbox.prepare(call) for call in calls]
        if stop is StopReason.MAX_TOKENS and prepared:
            models, current = self._state.models, self._state.current
            more = self._plan.may_raise and not models.cuts and current.clamped is None
            prepared[-1] = refused(calls[-1], f"{CUT_CALL} {LONGER if more else SHORTER}")
        if self._toolbox.has_handoffs:
            prepared = self._toolbox.one_handoff(prepared)
        return self.within_limits(prepared)

    def within_limits(self, prepared: Sequence[Prepared]) -> Sequence[Prepared]:
        """Reserve each call that may start, in order, and refuse those beyond the limits."""
        if not self._ledger.counts_calls:
            return prepared
        limit = self._plan.limits.tool_calls
        text = (
            "Not run: the limit of tool calls is reached."
            if limit is None
            else f"Not run: the run's limit of {limit} tool calls is reached."
        )
        return [
            p if self._may_start(p) else refused(p.call, text, cut_by=Outcome.CALL_LIMIT)
            for p in prepared
        ]

    def _may_start(self, p: Prepared) -> bool:
        """Return False if no call is left. Refused calls, and calls that have started before, need
        no reservation.
        """
        return (
            isinstance(p, RefusedCall)
            or p.call.id in self._state.current.starts
            or self._ledger.admit_call(completes=self._toolbox.completes(p.call))
        )

    def is_kept_first(
        self, calls: Sequence[ToolCall], stop: StopReason, last: Outcome | None
    ) -> bool:
        """Return True if the response must be journaled before hooks see its calls: hooks may be
        slow, and a crash meanwhile would lose a paid response.

        Only responses whose calls a resuming process would admit in the same way qualify.
        """
        asks = bool(calls) and "before_tool" in self._plan.hooks.points
        return (
            asks and stop is StopReason.TOOL_USE and last is None and not self._ledger.is_last_turn
        )


class CallRunner(Protocol):
    """Runner of a single call (toolbox.py)."""

    async def execute(self, ready: Ready) -> ToolFinished | Deferred: ...


class OpenCalls:
    """The open calls of one response.

    After `execute`, all calls except held ones have a result; after `cut`, all calls have one.
    """

    def __init__(
        self,
        state: RunState,
        prepared: Sequence[Prepared] = (),
        *,
        on_unknown: OnUnknown = "tell",
    ) -> None:
        """Create the open calls. `on_unknown`: how to handle a call whose timeout leaves its
        outcome unknown.
        """
        self._state = state
        self._on_unknown = on_unknown
        self._prepared = list(prepared)
        self._stages = self._in_stages() if prepared else []
        self._open = {p.call.id for p in prepared if isinstance(p, Ready) and p.started}
        """Ids of calls with a journaled start and no result."""
        self._here: dict[str, bool] = {}
        """Calls started by this driver; True if the tool was called and may have taken effect."""
        self._in_order: anyio.Lock | None = None
        """Serializes appends of parallel calls, so that events are published in journal order."""
        self._came_to_wait = False
        """True if a started call waits for approval or for a result from outside."""
        self._failed: Exception | None = None
        self._message_id = state.current.message_id

    def opening(self, *response: ModelResponded) -> list[Entry]:
        """Return the entries to append first: refusals, requests for approval, and the starts of
        the first stage. `response`: the entry of the calls, if it is not appended yet.
        """
        for entry in response:
            self._message_id = entry.message.id
        entries: list[Entry] = []
        for p in self._prepared:
            if isinstance(p, RefusedCall):
                entries.extend(_refusal(p, self._message_id))
            elif isinstance(p, HeldCall) and not p.asked:
                entries.append(_question(p.call, p.reason))
        for ready in self._stages[0][:MAX_PARALLEL] if self._stages else ():
            if not ready.started:
                entries.append(self._start(ready))
        return entries

    def _in_stages(self) -> list[list[Ready]]:
        """Return groups of calls in order: adjacent parallel calls together, a sequential one
        alone.

        Stops at a call that must not run in parallel with an earlier held call.
        """
        stages: list[list[Ready]] = []
        held: HeldCall | None = None
        for p in self._prepared:
            if isinstance(p, RefusedCall):
                continue
            if isinstance(p, HeldCall):
                held = held or p
                if not p.parallel:
                    break
                continue
            if held is not None and not p.tool.parallel:
                break
            if stages and p.tool.parallel and stages[-1][-1].tool.parallel:
                stages[-1].append(p)
            else:
                stages.append([p])
        return stages

    def _start(self, ready: Ready) -> ToolStarted:
        call, started = ready.call, self._state.started
        assert started is not None, "a call belongs to a started run"
        self._open.add(call.id)
        self._here[call.id] = False
        return ToolStarted(
            at=now(),
            call_id=call.id,
            name=call.name,
            arguments_json=call.arguments_json,
            effect=ready.tool.effect,
            key=idempotency_key(started.run_id, call.id),
            attempt=ready.attempt,
            polls=getattr(ready.tool, "polls", False) is True,
            message_id=self._message_id,
        )

    async def execute(self, runner: CallRunner, append: Append, verify: Verify) -> None:
        """Run the ready calls. Appends each result immediately, except the last of each stage,
        which the next append writes.

        `verify` is awaited before a `once` call is repeated without a new start, or runs after a
        wait for a thread. Cancellation stops the calls; `cut` then closes those without a result.
        No further stage begins once a hook stops the run because of a result.
        """
        for stage in self._stages:
            if self._came_to_wait or self._state.current.blocked:
                return
            if len(stage) == 1:
                await self._run(stage[0], runner, append, verify)
                continue
            limiter = anyio.Semaphore(MAX_PARALLEL)
            async with anyio.create_task_group() as group:
                for ready in stage:
                    group.start_soon(
                        self._run_limited,
                        ready,
                        runner,
                        append,
                        verify,
                        limiter,
                        group.cancel_scope,
                    )
            if self._failed is not None:
                raise self._failed

    async def _run_limited(
        self,
        ready: Ready,
        runner: CallRunner,
        append: Append,
        verify: Verify,
        limiter: anyio.Semaphore,
        scope: anyio.CancelScope,
    ) -> None:
        async with limiter:
            try:
                await self._run(ready, runner, append, verify)
            except Exception as e:  # noqa: BLE001  a journal error, which `execute` raises without an ExceptionGroup
                self._failed = e
                scope.cancel()

    async def _run(self, ready: Ready, runner: CallRunner, append: Append, verify: Verify) -> None:
        call_id = ready.call.id
        if call_id not in self._open:
            await append(self._start(ready), hold=True)
            await self._flush(append)
        elif ready.started and "once" in (
            ready.tool.effect,
            self._state.current.starts[call_id].effect,
        ):
            await verify()  # the probe may have outlasted the lease
        await checkpoint_if_cancelled()  # from here on, the call may take effect
        self._here[call_id] = True
        if ready.tool.effect == "once":
            ready = structs.replace(ready, verify=verify)
        finished = await runner.execute(ready)
        self._open.remove(call_id)
        known: Entry
        if isinstance(finished, Deferred):
            known, self._came_to_wait = _question(ready.call, finished.reason, deferred=True), True
        elif finished.status == "unknown" and self._on_unknown == "wait":
            known, self._came_to_wait = _question(ready.call, finished.result.text), True
        else:
            known = structs.replace(finished, message_id=self._message_id)
        # held immediately, so that the end of the run appends it in any case
        await append(known, hold=True)
        if self._open:
            await self._flush(append)

    async def _flush(self, append: Append) -> None:
        self._in_order = self._in_order or anyio.Lock(fast_acquire=True)
        async with self._in_order:
            await append()

    def cut(self, why: str) -> list[ToolFinished]:
        """Return results for all open calls: `unknown` if a call may have taken effect."""
        return [
            cut_result(call, why, self._state, called=self._here.get(call.id, True))
            for call in self._state.current.open_calls
        ]


def _refusal(refusal: RefusedCall, message_id: str) -> list[Entry]:
    call = refusal.call
    finished = structs.replace(refusal.finished, message_id=message_id)
    if not refusal.unapproved:
        return [finished]
    asked = _question(call, finished.result.text)
    return [
        asked,
        ApprovalAnswered(at=finished.at, call_id=call.id, decision="deny", by="nobody"),
        finished,
    ]


def _question(call: ToolCall, reason: str, *, deferred: bool = False) -> ApprovalAsked:
    return ApprovalAsked(
        at=now(),
        call_id=call.id,
        name=call.name,
        arguments_json=call.arguments_json,
        reason=reason,
        deferred=deferred,
    )


def idempotency_key(run_id: str, call_id: str) -> str:
    """Return a key that is unique to the call and the same for all its attempts."""
    return f"{run_id}:{call_id}"

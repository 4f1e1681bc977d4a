"""The calls of one response: runs them in order and gives each exactly one result.

toolbox.py runs a single call; the loop decides how the run continues. Entry point: `OpenCalls`.
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
    ToolFinished,
    ToolStarted,
)
from treadle.journal.journal import Append
from treadle.journal.run_state import RunState
from treadle.loop.call_values import (
    HOOK,
    PERSON,
    Deferred,
    HeldCall,
    Prepared,
    Ready,
    RefusedCall,
    Verify,
    changed_by,
)
from treadle.messages.message import ToolCall, ToolResult
from treadle.tools.tool import failure
from treadle.types import OnUnknown, now

MAX_PARALLEL = 64
"""Maximum number of calls of one turn that run in parallel."""
NOT_KNOWN = "It is not known whether it took effect: check before you do it again."
STOPPED = f"The process stopped while this call was running. {NOT_KNOWN}"
ASK = "the process stopped while this call was running, and it is not known whether it took effect"

FAILED_OVER = (
    "the journal's database failed over to another server since this call was requested, and it is "
    "not known whether it took effect before"
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
        """`on_unknown`: how to handle a call whose timeout leaves its outcome unknown."""
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

    def opening(self) -> list[Entry]:
        """Return the entries to append first: refusals, requests for approval, and the starts of
        the first stage.
        """
        entries: list[Entry] = []
        for p in self._prepared:
            if isinstance(p, RefusedCall):
                entries.extend(_refusal(p))
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
        )

    async def execute(self, runner: CallRunner, append: Append, verify: Verify) -> None:
        """Run the ready calls. Appends each result at once, except the last of each stage, which
        the next append writes.

        `verify` is awaited before a `once` call is repeated without a new start, or runs after a
        wait for a thread. Cancellation stops the calls; `cut` then closes those without a result.
        """
        for stage in self._stages:
            if self._came_to_wait:
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
            known = finished
        # held at once, so that the end of the run appends it in any case
        await append(known, hold=True)
        if self._open:
            await self._flush(append)

    async def _flush(self, append: Append) -> None:
        self._in_order = self._in_order or anyio.Lock(fast_acquire=True)
        async with self._in_order:
            await append()

    def cut(self, why: str) -> list[ToolFinished]:
        """Return results for all open calls: `unknown` if a call may have taken effect."""
        return [self._stopped(call, why) for call in self._state.current.open_calls]

    def _stopped(self, call: ToolCall, why: str) -> ToolFinished:
        if (late := late_result(call, self._state)) is not None:
            return late
        started = self._state.current.starts.get(call.id)
        text, unknown = f"Not run: {why}.", False
        if started is not None and self._here.get(call.id, True):
            unknown = started.effect == "once"
            text = (
                f"{why} while this call was running. {NOT_KNOWN}"
                if unknown
                else f"{why} before this call was done; it may be repeated."
            )
            if call.id in self._state.approvals.asked:
                text = why_unknown(call, self._state)
        if self._state.current.may_have_happened(call.id):
            text, unknown = why_unknown(call, self._state), True
        result = failure(call.id, call.name, text, unknown=unknown)
        return ToolFinished(
            at=now(),
            status="unknown" if unknown else "cancelled",
            result=result,
            started=started is not None,
        )


def late_result(call: ToolCall, state: RunState) -> ToolFinished | None:
    """Return the entry for the late result of an open call; None if there is none."""
    if (late := state.current.late.get(call.id)) is None or late.status is None:
        return None
    text, started = late.text, state.current.starts.get(call.id)
    if started is not None and started.arguments_json != call.arguments_json:
        is_edited = state.approvals.edited.get(call.id) == started.arguments_json
        text = changed_by(PERSON if is_edited else HOOK, started.arguments_json, text)
    result = ToolResult(
        call_id=call.id, name=call.name, content=text, is_error=late.status == "error"
    )
    return ToolFinished(at=now(), status=late.status, result=result)


def why_unknown(call: ToolCall, state: RunState) -> str:
    """Explain a call's unknown outcome to the model, including the reason shown to the user."""
    asked = state.approvals.asked.get(call.id)
    if state.current.may_have_happened(call.id):
        why = f"{FAILED_OVER[0].upper()}{FAILED_OVER[1:]}: check before you do it again."
    elif asked is not None and asked.deferred:
        why = (
            f"Its result was to come later ({asked.reason}), but the run no longer waits for it. "
            f"{NOT_KNOWN}"
        )
    else:
        why = STOPPED if asked is None or asked.reason == ASK else asked.reason
    return (
        changed_by(PERSON, state.approvals.edited[call.id], why)
        if call.id in state.approvals.edited
        else why
    )


def _refusal(refusal: RefusedCall) -> list[Entry]:
    call, finished = refusal.call, refusal.finished
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

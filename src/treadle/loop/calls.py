"""The calls of one response, from the model's wishes to one result each, whatever happens in
between.

How a single call is run is toolbox.py's; what the results mean for the run is the loop's. Entry:
`OpenCalls`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import Struct, structs

from treadle.journal.entries import (
    ApprovalAnswered,
    ApprovalAsked,
    Entry,
    ToolFinished,
    ToolStarted,
)
from treadle.journal.journal import Append
from treadle.journal.run_state import RunState
from treadle.messages.message import JsonText, ToolCall, ToolResult
from treadle.tools.tool import Tool, failure
from treadle.types import OnUnknown, Outcome, now

MAX_PARALLEL = 64
"""Calls of one turn that run at once; the others start as these end."""
PERSON, HOOK = "a person", "a hook"
NOT_KNOWN = "It is not known whether it took effect: check before you do it again."
STOPPED = f"The process stopped while this call was running. {NOT_KNOWN}"
ASK = "the process stopped while this call was running, and it is not known whether it took effect"


class Ready(Struct, frozen=True, kw_only=True):
    """A call that may start, its arguments validated."""

    call: ToolCall
    tool: Tool[Any]
    arguments: Any
    attempt: int = 1
    started: bool = False
    """Its start is in the journal, by a driver that died: that entry stands for this attempt too.
    """
    approved: bool = False
    """A person said yes to this very call."""
    changed: str = ""
    """Author of changed arguments, for the note to the model."""
    places: Mapping[str, str] = {}
    """Real locations of the call's paths at the time of the decision."""
    looks_only: bool = False
    """`Decision.looks_only`: it needs no write access and no network."""
    stays_confined: bool = False
    """A rule is about some of what it reads, and only the sandbox can hide that: a person's
    approval does not take it outside.
    """


class RefusedCall(Struct, frozen=True, kw_only=True):
    """A call that never starts, and the result that says why."""

    call: ToolCall
    finished: ToolFinished
    unapproved: bool = False
    """True if the call was refused for lack of an approver."""


class HeldCall(Struct, frozen=True, kw_only=True):
    """A call that waits for a person, and the run with it."""

    call: ToolCall
    reason: str
    parallel: bool = True
    asked: bool = False
    """The question is in the journal."""


class Deferred(Struct, frozen=True):
    """A call that has started and has no result yet: it comes from outside, and the run waits for
    it.
    """

    reason: str


def refused(
    call: ToolCall,
    text: str,
    *,
    status: Literal["ok", "error", "denied"] = "error",
    unapproved: bool = False,
    cut_by: Outcome | None = None,
) -> RefusedCall:
    result = (
        ToolResult(call_id=call.id, name=call.name, content=text)
        if status == "ok"
        else failure(call.id, call.name, text)
    )
    finished = ToolFinished(at=now(), status=status, result=result, started=False, cut_by=cut_by)
    return RefusedCall(call=call, finished=finished, unapproved=unapproved)


class CallRunner(Protocol):
    """Runs a single call (toolbox.py)."""

    async def execute(self, ready: Ready) -> ToolFinished | Deferred: ...


Verify: TypeAlias = Callable[[], Awaitable[None]]
"""Raise AgentError(busy) unless the run is still this driver's."""


class OpenCalls:
    """The open calls of one response.

    Each but the held ones has its result once `execute` has returned, all once `cut` has.
    """

    def __init__(
        self,
        state: RunState,
        prepared: Sequence[Ready | RefusedCall | HeldCall] = (),
        *,
        on_unknown: OnUnknown = "tell",
    ) -> None:
        """`on_unknown`: what becomes of a call whose own timeout leaves its outcome unknown."""
        self._state = state
        self._on_unknown = on_unknown
        self._prepared = list(prepared)
        self._open = {p.call.id for p in prepared if isinstance(p, Ready) and p.started}
        """Started in the journal, and without a result."""
        self._here: dict[str, bool] = {}
        """Started by this driver -> whether the tool has been called, and so may have happened."""
        self._in_order: anyio.Lock | None = None
        """Calls that run together append one after the other, so that their events leave in the
        order of the entries.
        """
        self._came_to_wait = False
        """A person is asked what became of a call that had started."""
        self._failed: Exception | None = None

    def opening(self) -> list[Entry]:
        """Return the entries to append first: refusals, questions, and the starts of the calls that
        start now.
        """
        entries: list[Entry] = []
        for p in self._prepared:
            if isinstance(p, RefusedCall):
                entries.extend(_refusal(p))
            elif isinstance(p, HeldCall) and not p.asked:
                entries.append(_question(p.call, p.reason))
        first = next(self._stages(), ())
        return entries + [self._start(ready) for ready in first[:MAX_PARALLEL] if not ready.started]

    def _stages(self) -> Iterator[list[Ready]]:
        """Yield groups of calls in order: neighbouring parallel calls together, a sequential one
        alone.

        Calls behind a held call that may not run in parallel with it wait too.
        """
        stage: list[Ready] = []
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
            if stage and not (p.tool.parallel and stage[-1].tool.parallel):
                yield stage
                if self._came_to_wait:
                    return
                stage = []
            stage.append(p)
        if stage:
            yield stage

    def _start(self, ready: Ready) -> ToolStarted:
        call, started = ready.call, self._state.started
        assert started is not None, "calls are a run's"
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
        """Runs what is ready. Each result is appended as it comes; the last of each stage rides
        with what follows.

        `verify` is awaited before a `once` call runs again under a start that it already has.

        Cancellation: stops the calls; `cut` then closes those that have no result.
        """
        for stage in self._stages():
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
            except Exception as e:  # noqa: BLE001  the journal refused: told to the loop as it is, not wrapped into a group
                self._failed = e
                scope.cancel()

    async def _run(self, ready: Ready, runner: CallRunner, append: Append, verify: Verify) -> None:
        call_id = ready.call.id
        if call_id not in self._open:
            await append(self._start(ready), hold=True)
            await self._flush(append)
        elif ready.started and ready.tool.effect == "once":
            await verify()  # its probe may have taken longer than a lease
        await checkpoint_if_cancelled()  # from here on it may have happened
        self._here[call_id] = True
        finished = await runner.execute(ready)
        self._open.remove(call_id)
        known: Entry
        if isinstance(finished, Deferred):
            known, self._came_to_wait = _question(ready.call, finished.reason, deferred=True), True
        elif finished.status == "unknown" and self._on_unknown == "wait":
            known, self._came_to_wait = _question(ready.call, finished.result.text), True
        else:
            known = finished
        await append(known, hold=True)  # known from here on: whatever comes, the end appends it
        if self._open:
            await self._flush(append)

    async def _flush(self, append: Append) -> None:
        self._in_order = self._in_order or anyio.Lock(fast_acquire=True)
        async with self._in_order:
            await append()

    def cut(self, why: str) -> list[ToolFinished]:
        """Closes every call that has no result yet: `unknown` where it may have happened."""
        return [self._stopped(call, why) for call in self._state.current.open_calls]

    def _stopped(self, call: ToolCall, why: str) -> ToolFinished:
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
        result = failure(call.id, call.name, text, unknown=unknown)
        return ToolFinished(
            at=now(),
            status="unknown" if unknown else "cancelled",
            result=result,
            started=started is not None,
        )


def why_unknown(call: ToolCall, state: RunState) -> str:
    """Explain the unknown outcome to the model. A person's question has the reason, if there was
    one.
    """
    asked = state.approvals.asked.get(call.id)
    if asked is not None and asked.deferred:
        why = (
            f"Its result was to come later ({asked.reason}), and is not waited for any more. "
            f"{NOT_KNOWN}"
        )
    else:
        why = STOPPED if asked is None or asked.reason == ASK else asked.reason
    return (
        changed_by(PERSON, state.approvals.edited[call.id], why)
        if call.id in state.approvals.edited
        else why
    )


def changed(prepared: Ready | RefusedCall | HeldCall, whom: str) -> Ready | RefusedCall | HeldCall:
    """Mark a call with changed arguments, so that the model sees the change with its result."""
    match prepared:
        case Ready():
            return structs.replace(prepared, changed=whom)
        case RefusedCall(call=call, finished=finished):
            result = structs.replace(
                finished.result, content=changed_by(whom, call.arguments_json, finished.result.text)
            )
            return structs.replace(prepared, finished=structs.replace(finished, result=result))
        case HeldCall():
            return prepared


def changed_by(whom: str, arguments_json: JsonText, text: str) -> str:
    """A result's text, for a model that asked for something else."""
    return f"[{whom} changed the arguments to {arguments_json}]\n{text}"


def _question(call: ToolCall, reason: str, *, deferred: bool = False) -> ApprovalAsked:
    return ApprovalAsked(
        at=now(),
        call_id=call.id,
        name=call.name,
        arguments_json=call.arguments_json,
        reason=reason,
        deferred=deferred,
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


def idempotency_key(run_id: str, call_id: str) -> str:
    """The same for every attempt of a call, different for every other call."""
    return f"{run_id}:{call_id}"

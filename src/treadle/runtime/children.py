"""Runs that calls of other runs start: begun within what is left, gone on with after a restart, and
never left behind.

Putting a run together is assembly.py's, driving it the loop's. Entry: `Children`; `open_below`,
`close_run`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import anyio

from treadle.agents.agent import Agent
from treadle.budget.ledger import LIMIT_NAMES, BudgetSpent
from treadle.errors import AgentError
from treadle.events.feed import EventStream, Feed
from treadle.journal.entries import CancelAsked
from treadle.journal.journal import Journal, RunInfo
from treadle.journal.run_state import RunState
from treadle.loop.calls import OpenCalls
from treadle.loop.plan import ParentCall, Plan, unfinished
from treadle.loop.recovery import Answers
from treadle.messages.events import ChildEnd, ChildStart
from treadle.messages.message import Message, Part
from treadle.messages.result import Out, RunResult
from treadle.runtime.run_stream import RunHandle
from treadle.runtime.session import ResumeOptions, RunOptions
from treadle.tools.tool import ToolFailed
from treadle.types import Limits, Outcome, now

logger = logging.getLogger("treadle")

MAX_DEPTH = 5
"""Runs one below the other."""
CLOSE_GRACE_S = 5.0
ORPHANS_MOST = 500
"""Closed at a time."""
LOOK_S = 0.2
"""Interval at which a run that another process drives is polled."""


class ParentRun(NamedTuple):
    """The call that starts a run, and where the run that it belongs to says what happens."""

    caller: ParentCall
    feed: Feed


class Spawning(NamedTuple):
    """A call that starts runs."""

    plan: Plan
    """Plan of the parent run."""
    feed: Feed
    call_id: str
    repeated: bool
    """True if the call had begun under an earlier driver, and may have started children then."""


class Starter(Protocol):
    """Starts and resumes runs (runs.py)."""

    async def start(
        self,
        agent: Agent[Any, Out],
        text: str | Sequence[Part],
        deps: Any,
        options: RunOptions,
        stream: EventStream | None,
        *,
        parent: ParentRun | None = None,
    ) -> RunHandle[Out]: ...

    async def resume(
        self,
        run_id: str,
        agent: Agent[Any, Out] | None,
        deps: Any,
        options: ResumeOptions,
        stream: EventStream | None,
        *,
        parent: ParentRun | None = None,
    ) -> RunHandle[Out]: ...

    async def drop(self, job: RunHandle[Any]) -> None:
        """Lets go of one that is not driven after all."""
        ...

    def result_of(self, state: RunState, agent: Agent[Any, Out]) -> RunResult[Out]:
        """Return the result of a finished run, from its journal."""
        ...


class _Earlier(NamedTuple):
    """A run that a driver before this one had started."""

    info: RunInfo
    call_id: str | None
    text: str


class Children:
    """Child runs of all runs of a runtime."""

    def __init__(self, journal: Journal, starter: Starter) -> None:
        self._journal, self._starter = journal, starter
        self._left: set[str] = set()
        """Runs with children that are not over."""
        self._earlier: dict[str, list[_Earlier]] = {}
        """Children that have not been requested again yet, by run."""

    async def run(
        self,
        call: Spawning,
        agent: Agent[Any, Out],
        text: str | Sequence[Part],
        *,
        deps: Any,
        inputs: Mapping[str, Any] | None,
        limits: Limits | None,
    ) -> RunResult[Out]:
        """To its end, in the task of the call that starts it.

        Raises ToolFailed where limits allow no more runs, else AgentError.
        """
        parent = call.plan
        if parent.depth + 1 >= MAX_DEPTH:
            raise ToolFailed(
                f"Not started: agents start agents at most {MAX_DEPTH - 1} deep. Do it yourself."
            )
        above = ParentRun(ParentCall(parent, call.call_id), call.feed)
        before = (
            await self._take_before(parent.run_id, call.call_id, agent.name, text)
            if call.repeated
            else None
        )
        if before is None:
            job = await self._starter.start(
                agent, text, deps, _inherited(parent, inputs, limits), None, parent=above
            )
        else:
            state = await self._journal.load(before.run_id)
            if state.finished is not None:
                return self._starter.result_of(state, agent)
            self._left.add(parent.run_id)
            job = await self._starter.resume(
                before.run_id, agent, deps, await self._going_on(parent, state), None, parent=above
            )
        try:
            job.run.reserve()
        except BudgetSpent as e:
            await self._starter.drop(job)
            raise ToolFailed(
                f"Not started: the limit of {LIMIT_NAMES[e.outcome]} leaves nothing for another "
                "agent."
            ) from e
        for cut in () if before is None else job.run.state.under_way:
            parent.state.ledger.take_back(cut)
        return await self._driven(job, parent.run_id, call.feed, agent.name)

    async def _driven(
        self, job: RunHandle[Out], run_id: str, feed: Feed, agent: str
    ) -> RunResult[Out]:
        child = job.run.plan.run_id
        feed.say(ChildStart, {"child_run_id": child, "agent": agent})
        try:
            await job.drive(job)
        finally:
            ending = job.run.ending
            if ending is None or ending.waiting:
                self._left.add(run_id)
            outcome = (
                ending.outcome
                if ending is not None
                else Outcome.CANCELLED
                if job.result is None
                else Outcome.ERROR
            )
            feed.say(ChildEnd, {"child_run_id": child, "outcome": outcome})
        return job.unwrap()

    # ------------------------------------------------------------ after a restart

    async def _take_before(
        self, run_id: str, call_id: str, agent: str, text: str | Sequence[Part]
    ) -> RunInfo | None:
        """The run that this call had started for the same prompt; of one whose prompt has changed
        since, the oldest that is left.
        """
        if run_id not in self._earlier:
            found = [await self._read(info) for info in await self._journal.children(run_id)]
            self._earlier.setdefault(run_id, found)  # several calls may have looked at once
        left = self._earlier[run_id]
        asked, mine = (
            Message.user(text).text,
            [one for one in left if (one.call_id, one.info.agent) == (call_id, agent)],
        )
        if not mine:
            return None
        taken = next((one for one in mine if one.text == asked), mine[0])
        left.remove(taken)
        return taken.info

    async def _read(self, info: RunInfo) -> _Earlier:
        started = (await self._journal.load(info.run_id)).started
        assert started is not None, "a run begins with run.started"
        return _Earlier(info, started.parent_call_id, started.input.text)

    async def _going_on(self, parent: Plan, state: RunState) -> ResumeOptions:
        """Return the options for resuming a child: its rights are at most its parent's, and it
        receives the answers to its calls and to those below it.
        """
        options: ResumeOptions = {"mode": parent.mode, "cwd": parent.cwd, "on_ask": parent.on_ask}
        if parent.approver is not None:
            options["on_approval"] = parent.approver
        if parent.resumption is None:
            return options
        if (on_unknown := parent.resumption.answers.on_unknown) is not None:
            options["on_unknown"] = on_unknown
        below = parent.resumption.below
        if below:
            theirs = below.only(
                {
                    call.id
                    for each in (state, *await open_below(self._journal, state))
                    for call in each.current.open_calls
                }
            )
            options |= {"approve": theirs.approve, "deny": theirs.deny, "results": theirs.results}
        return options

    async def over(self, state: RunState, *, waiting: bool) -> None:
        """Handle the end of driving a run. If it has ended, its children without a driver end with
        it. Raises nothing.
        """
        assert state.started is not None, "a run begins with run.started"
        run_id = state.started.run_id
        self._earlier.pop(run_id, None)
        # drivers before this one may have left some, of calls
        if waiting or (run_id not in self._left and not (state.resumed and state.context.call_ids)):
            return
        self._left.discard(run_id)
        with anyio.move_on_after(CLOSE_GRACE_S, shield=True):
            try:
                await close_children(self._journal, run_id)
            except AgentError as e:
                logger.warning(
                    "the runs that run %s had started could not be closed: %s", run_id, e.message
                )


def _inherited(parent: Plan, inputs: Mapping[str, Any] | None, limits: Limits | None) -> RunOptions:
    """Return the options of a child: its rights are at most its parent's."""
    options: RunOptions = {
        "mode": parent.mode,
        "cwd": parent.cwd,
        "user_id": parent.user_id,
        "inputs": inputs or {},
    }
    options |= {"on_ask": parent.on_ask, "on_unknown": parent.on_unknown}
    if limits is not None:
        options["limits"] = limits
    if parent.approver is not None:
        options["on_approval"] = parent.approver
    return options


# ---------------------------------------------------------------- in the journal


async def open_below(journal: Journal, state: RunState) -> list[RunState]:
    """Runs that are not over, of calls of this one that will be made again when it goes on; and
    those below them.
    """
    assert state.started is not None, "a run begins with run.started"
    again = {
        call.id
        for call in state.current.open_calls
        if (start := state.current.starts.get(call.id)) is not None and start.effect != "once"
    }
    found: list[RunState] = []
    for info in await journal.children(state.started.run_id) if again else ():
        if info.status == "finished":
            continue
        child = await journal.load(info.run_id)
        if child.started is not None and child.started.parent_call_id in again:
            found += [child, *await open_below(journal, child)]
    return found


async def divided(journal: Journal, state: RunState, answers: Answers) -> tuple[Answers, Answers]:
    """Divide answers into those to calls of this run and those to calls of its children.

    Raises AgentError(invalid) for a call that is not open.
    """
    if not answers:
        return answers, Answers()
    own = {
        call.id
        for call in state.current.open_calls
        if (asked := state.approvals.asked.get(call.id)) is None or not asked.deferred
    }
    where: dict[str, list[str]] = {}
    for each in await open_below(journal, state):
        assert each.started is not None, "a run begins with run.started"
        for call in each.current.open_calls:
            where.setdefault(call.id, []).append(each.started.run_id)
    below = answers.calls & (where.keys() - own)
    for call_id in sorted(below):
        if len(runs := where[call_id]) > 1:
            raise AgentError(
                "invalid",
                (
                    f"the call {call_id!r} waits in {len(runs)} runs below this one: answer in "
                    f"each of them first: {', '.join(runs)}"
                ),
            )
    mine = answers.only(answers.calls - below)
    mine.check(state, below=sorted(where.keys() - own))
    return mine, answers.only(below)


async def close_children(journal: Journal, run_id: str) -> None:
    """Close the children that have no driver."""
    for info in await journal.children(run_id):
        if info.status in ("queued", "stopped", "waiting"):
            await close_run(journal, info.run_id, by="parent")


async def close_orphans(journal: Journal) -> None:
    """End runs whose parent has ended and whose process died before it closed them.

    Several processes may call this at once. Raises AgentError if the journal does not answer.
    """
    for run_id in await journal.orphans(limit=ORPHANS_MOST):
        try:
            await close_run(journal, run_id, by="parent")
        except AgentError as e:
            if (await journal.info(run_id)).status != "finished":
                logger.warning(
                    "run %s, whose parent run has ended, could not be closed: %s", run_id, e.message
                )


async def close_run(journal: Journal, run_id: str, *, by: str, force: bool = False) -> None:
    """End a run without a driver (`force`: with any) as `cancelled`, and the runs below it.

    Raises AgentError(busy) if it has a driver.
    """
    writer = await journal.take_over(run_id, force=force)
    try:
        state = await journal.load(run_id)
        total = (await journal.info(run_id)).total
        cut = [CancelAsked(at=now(), by=by), *OpenCalls(state).cut("The run was stopped")]
        open_turn, driven_s = state.turn or None, state.driven_s
        for entry in cut:
            state.apply(entry)
        await writer.append(
            [
                *cut,
                unfinished(state, Outcome.CANCELLED, driven_s=driven_s, total=total).finished(
                    open_turn
                ),
            ]
        )
    finally:
        await writer.release()
    await close_children(journal, run_id)


async def until_idle(journal: Journal, run_id: str) -> RunInfo:
    """Wait while a living process drives the run. Raises AgentError(invalid) for an unknown run."""
    while (info := await journal.info(run_id)).status == "running":  # noqa: ASYNC110  another process drives it
        await anyio.sleep(LOOK_S)
    return info


def typed(result: RunResult[Any], agent: Agent[Any, Out]) -> RunResult[Out]:
    """Its output as a value of the agent's type, where it was one when the run ended."""
    return (
        replace(result, output=agent.answer.again(result.output))
        if agent.answer is not None and result.validated
        else result
    )

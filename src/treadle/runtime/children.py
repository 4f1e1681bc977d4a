"""Child runs, started by calls of other runs: they share the remaining limits, continue after a
restart, and end with their parent.

assembly.py prepares a run; the loop drives it. Entry points: `Children`; `open_below`,
`check_seen`, `close_run`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import anyio

from treadle.agents.agent import Agent
from treadle.budget.limits import LIMIT_NAMES, BudgetSpent
from treadle.errors import AgentError
from treadle.events.feed import EventStream, Feed
from treadle.journal.entries import ApprovalAsked, ToolStarted
from treadle.journal.journal import Journal
from treadle.journal.run_info import RunInfo
from treadle.journal.run_state import RunState
from treadle.loop.answers import Answers
from treadle.loop.plan import ParentCall, Plan
from treadle.messages.events import ChildEnd, ChildStart
from treadle.messages.message import Prompt
from treadle.messages.result import Out, RunResult
from treadle.runtime.closing_runs import close_children
from treadle.runtime.prompt import prompt_of
from treadle.runtime.run_stream import RunHandle
from treadle.runtime.session import ResumeOptions, RunOptions
from treadle.tools.tool import ToolFailed
from treadle.types import Limits, Outcome

logger = logging.getLogger("treadle")

MAX_DEPTH = 5
"""Maximum nesting of runs."""
CLOSE_GRACE_S = 5.0


class ParentRun(NamedTuple):
    """The call that starts a run, and the event feed of the calling run."""

    caller: ParentCall
    feed: Feed


class Spawning(NamedTuple):
    """A call that starts runs."""

    plan: Plan
    """Plan of the parent run."""
    feed: Feed
    call_id: str
    repeated: bool
    """True if the call had started under an earlier driver, and may have started children then."""


class Starter(Protocol):
    """Starter of runs, new or resumed (runs.py)."""

    async def start(
        self,
        agent: Agent[Any, Out],
        text: Prompt,
        deps: Any,
        options: RunOptions,
        hears: EventStream | ParentRun | None,
    ) -> RunHandle[Out]: ...

    async def resume(
        self,
        run_id: str,
        agent: Agent[Any, Out] | None,
        deps: Any,
        options: ResumeOptions,
        hears: EventStream | ParentRun | None,
    ) -> RunHandle[Out]: ...

    async def drop(self, job: RunHandle[Any]) -> None:
        """Release a run that will not be driven after all."""
        ...

    def finished(self, state: RunState, agent: Agent[Any, Out] | None) -> RunResult[Out]:
        """Return the result of a finished run, from its journal."""
        ...


class _Earlier(NamedTuple):
    """Child run that an earlier driver of its parent had started."""

    info: RunInfo
    call_id: str | None
    text: str


class Children:
    """Child runs of all runs of a runtime."""

    def __init__(self, journal: Journal, starter: Starter) -> None:
        self._journal, self._starter = journal, starter
        self._left: set[str] = set()
        """Runs with unfinished children."""
        self._earlier: dict[str, list[_Earlier]] = {}
        """Children that their calls have not requested again yet, by parent run."""

    async def spawn(
        self,
        parent: Plan,
        feed: Feed,
        call_id: str,
        repeated: bool,
        agent: Agent[Any, Out],
        text: str,
        **options: Any,
    ) -> RunResult[Out]:
        """Run an agent for a tool. The first four arguments identify the call that starts it."""
        return await self.run(Spawning(parent, feed, call_id, repeated), agent, text, **options)

    async def run(
        self,
        call: Spawning,
        agent: Agent[Any, Out],
        text: Prompt,
        *,
        deps: Any,
        inputs: Mapping[str, Any] | None,
        limits: Limits | None,
    ) -> RunResult[Out]:
        """Run a child to its end, in the task of the call that starts it.

        Raises ToolFailed if the limits allow no further run, and AgentError for other errors.
        """
        parent = call.plan
        if parent.depth + 1 >= MAX_DEPTH:
            text = f"Not started: agents start agents at most {MAX_DEPTH - 1} deep. Do it yourself."
            raise ToolFailed(text)
        above = ParentRun(ParentCall(parent, call.call_id), call.feed)
        before = (
            await self._take_before(parent.run_id, call.call_id, agent.name, text)
            if call.repeated
            else None
        )
        if before is None:
            job = await self._starter.start(
                agent, text, deps, _inherited(parent, inputs, limits), above
            )
        else:
            state = await self._journal.load(before.run_id)
            if state.finished is not None:
                return self._starter.finished(state, agent)
            self._left.add(parent.run_id)
            job = await self._starter.resume(
                before.run_id, agent, deps, await self._going_on(parent, state), above
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
        self, run_id: str, call_id: str, agent: str, text: Prompt
    ) -> RunInfo | None:
        """Return the run that this call had started for the same prompt; if the prompt has changed
        since, the oldest remaining one.
        """
        if run_id not in self._earlier:
            found = [await self._read(info) for info in await self._journal.children(run_id)]
            self._earlier.setdefault(run_id, found)  # several calls may have searched concurrently
        left = self._earlier[run_id]
        asked = prompt_of(text).text
        mine = [one for one in left if (one.call_id, one.info.agent) == (call_id, agent)]
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

    def forget(self, run_id: str) -> None:
        """Forget a run that is no longer driven here. Its next driver looks for its children."""
        self._earlier.pop(run_id, None)

    async def over(self, state: RunState, *, waiting: bool) -> None:
        """Handle the end of driving a run. If it has ended, its children without a driver end with
        it. Never raises.
        """
        assert state.started is not None, "a run begins with run.started"
        run_id = state.started.run_id
        # earlier drivers may have left some, started by calls or hooks
        if waiting or (run_id not in self._left and not state.resumed):
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
        "tags": parent.tags,
        "metadata": parent.metadata,
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
    """Return the unfinished child runs, at any depth, of calls that will be repeated when this run
    resumes.
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
        answers.only(answers.calls - own).check_late(each)
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
    if mine.seen is not None:
        assert state.started is not None, "a run begins with run.started"
        await check_seen(journal, state.started.run_id, mine.calls, mine.seen)
    return mine, replace(answers.only(below), seen=None)


async def check_seen(journal: Journal, run_id: str, calls: Collection[str], seen: int) -> None:
    """Raise AgentError(busy) if a call has started or requested approval after the entry `seen`."""
    for row in await journal.read(run_id, after=seen):
        if isinstance(row.entry, ToolStarted | ApprovalAsked) and row.entry.call_id in calls:
            raise AgentError(
                "busy",
                (
                    f"the call {row.entry.call_id!r} has started or was asked about again since "
                    f"entry {seen}, the last one seen: look at the run, then answer"
                ),
            )

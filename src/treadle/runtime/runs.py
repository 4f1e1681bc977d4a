"""Active runs of one runtime: their start, their hold on a session, and their end.

assembly.py makes their plans; loop/ runs them. Entry points: `Runs`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio

from treadle._internal.clock import Clock
from treadle.agents.agent import Agent, Deps
from treadle.agents.registry import AgentRegistry, KnownAgents
from treadle.errors import AgentError
from treadle.events.feed import EventStream, Feed
from treadle.events.hub import Hub
from treadle.events.live_deltas import DeltaPlace, Relay
from treadle.journal.fork import check_results, fork_of
from treadle.journal.run_state import RunState
from treadle.journal.sessions import ViewMark
from treadle.loop.ending import as_error
from treadle.loop.loop import Run
from treadle.loop.plan import Plan, Resumption
from treadle.loop.session_past import begun
from treadle.messages.message import Prompt
from treadle.messages.result import Out, RunResult
from treadle.models.retry import RetryPolicy
from treadle.runtime.assembly import Assembly, resumed
from treadle.runtime.busy_sessions import BusySessions
from treadle.runtime.children import Children, ParentRun, divided
from treadle.runtime.closing_runs import taken_unchanged, until_idle
from treadle.runtime.evaluating import PlannedRun, going_on
from treadle.runtime.evaluating import begun as begun_agent
from treadle.runtime.handing_over import finished_result, forked_agent, handed_over, in_charge
from treadle.runtime.late_runs import LateRuns
from treadle.runtime.options import (
    ForkPoint,
    answers_of,
    check_agent,
    forked_options,
    session_id_of,
)
from treadle.runtime.prompt import prompt_of
from treadle.runtime.results import after_run, result_of
from treadle.runtime.run_stream import RunHandle
from treadle.runtime.session import ForkOptions, ResumeOptions, RunOptions, check_options
from treadle.runtime.toolbox_factory import close_kept
from treadle.tools.function.threads import abandoned_calls
from treadle.types import new_id

CLOSE_GRACE_S = 5.0
"""Seconds that closing waits for runs to close and for the threads of abandoned sync tools."""


class Runs:
    """Runs of a runtime. May be used from many tasks of one event loop; `tell` from any thread."""

    def __init__(
        self,
        assembly: Assembly,
        hub: Hub,
        registry: AgentRegistry,
        clock: Clock,
        retries: RetryPolicy,
    ) -> None:
        self._assembly, self._hub, self._clock, self._retries = assembly, hub, clock, retries
        self._redactor = lambda: assembly.redactor
        self._journal = assembly.journal
        self._sessions = assembly.journal.sessions
        self._agents = KnownAgents(registry)
        self.busy = BusySessions()
        self._jobs: dict[str, RunHandle[Any]] = {}
        """Active runs, by id."""
        self._children = Children(assembly.journal, self)
        self._relay = Relay(hub, assembly.journal.notifier)
        self.late = LateRuns(assembly)
        self.ran = False
        """True if any run has started here."""
        self._closed = False
        self._preparing = 0  # runs that are being planned
        self._fewer = anyio.Event()
        """Set when a run has been prepared or has ended."""
        self._journal.on_stop(self._stop)
        assembly.served.approver_of = lambda run_id: (
            None if (job := self._jobs.get(run_id)) is None else job.run.plan.approver
        )

    async def aclose(self, *, lets_go: bool) -> None:
        """Stop every run and wait for it, for a limited time. Idempotent.

        `lets_go`: leave runs to be resumed, instead of cancelling them.
        """
        self._closed = True
        with anyio.move_on_after(CLOSE_GRACE_S):
            while self._jobs or self._preparing:
                for job in list(self._jobs.values()):
                    (job.run.let_go if lets_go else partial(job.run.cancel, "close"))()
                self._fewer = anyio.Event()
                await self._fewer.wait()
        await self.late.wait(CLOSE_GRACE_S)

    def let_go(self, run_id: str | None = None) -> bool:
        left = {run_id}
        for job in self._jobs.values():  # children begin after their parents
            if run_id is None or left & {job.run.plan.run_id, job.run.plan.parent_run_id}:
                left.add(job.run.plan.run_id)
                job.run.let_go()
        return len(left) > 1 or run_id in self._jobs

    # ------------------------------------------------------------ active runs

    def _stop(self, run_id: str) -> None:
        self.cancel(run_id, by="kill")

    def cancel(self, run_id: str | None, *, by: str = "caller") -> bool:
        """Cancel a run. False if it is not active here."""
        if (job := self._jobs.get(run_id or "")) is None:
            return False
        job.run.cancel(by)
        return True

    # ------------------------------------------------------------ beginnings

    async def start(
        self,
        agent: Agent[Deps, Out],
        text: Prompt,
        deps: Deps,
        options: RunOptions,
        hears: EventStream | ParentRun | None,
    ) -> RunHandle[Out]:
        """Start a run. Raises every error that can occur before it starts."""
        self._check(options, RunOptions)
        check_agent(agent)
        prompt, session_id = prompt_of(text), session_id_of(options.get("session"))
        await self.late.store()
        caller = hears.caller if isinstance(hears, ParentRun) else None

        async def make() -> PlannedRun[Out]:
            found, given = agent, options
            if agent.is_dynamic:
                found, given = await begun_agent(agent, deps, session_id, options)
            planned = self._assembly.plan(found, prompt, session_id, given, caller=caller)
            return PlannedRun(found, await planned, (agent,))

        return await self._claimed(session_id, agent, make, deps, hears)

    async def submit(
        self,
        agent: Agent[Any, Any],
        text: Prompt,
        options: RunOptions,
        add: Callable[[Plan, ViewMark | None], Awaitable[None]],
    ) -> str:
        """Plan a run for another driver and create it with `add`.

        Needs no key, sandbox or MCP server.
        """
        self._check(options, RunOptions)
        check_agent(agent)
        prompt, session_id = prompt_of(text), session_id_of(options.get("session"))
        await self.late.store()
        if session_id is not None:
            self.busy.claim(session_id)
        try:
            plan = await self._assembly.plan(agent, prompt, session_id, options, submits=True)
            await begun(plan.past, partial(add, plan))
        finally:
            if session_id is not None:
                self.busy.let_go(session_id)
        self._agents.remember(agent)
        return plan.run_id

    async def fork(
        self,
        point: ForkPoint,
        agent: Agent[Deps, Out] | None,
        deps: Deps,
        options: ForkOptions,
        stream: EventStream | None,
    ) -> RunHandle[Out]:
        self._check(options, ForkOptions)
        await self.late.store()
        run_id, turn, text = point
        state = await self._journal.load(run_id)
        fork = fork_of(
            run_id, state, turn, options.get("results", {}), asks=text is not None or turn == 0
        )
        records = await self._journal.read(run_id)
        check_results(fork, records)
        started = state.started
        assert started is not None, "a run begins with run.started"
        found = self._agents.known(agent, started.agent, run_id)
        found = forked_agent(found, started, records[: fork.seq], self._agents.get)
        forked, given = forked_options(found, started, state, options)
        session_id = None if started.session_id is None else new_id("session")
        prompt = started.input if text is None else prompt_of(text)

        async def make() -> PlannedRun[Out]:
            now, options = forked, given
            if forked.is_dynamic:
                now, options = await begun_agent(forked, deps, session_id, given)
            plan = await self._assembly.forked(now, fork, prompt, session_id, options)
            if session_id is not None:
                origin = self._sessions.get(started.session_id or "")
                self._sessions.create(
                    f"{origin.title} (fork)" if origin else "", session_id=session_id
                )
            return PlannedRun(now, plan, (forked,))

        job = await self._claimed(session_id, forked, make, deps, stream)
        self._agents.remember(found)  # not the run with the changes of this fork
        return job

    async def resume(
        self,
        run_id: str,
        agent: Agent[Deps, Out] | None,
        deps: Deps,
        options: ResumeOptions,
        hears: EventStream | ParentRun | None,
        *,
        read: RunState | None = None,
    ) -> RunHandle[Out]:
        """Resume a run. Errors are raised before it is taken over.

        `read`: the run as just read, which this call owns from now on.
        """
        self._check(options, ResumeOptions)
        if options.get("wait") and read is None:
            await until_idle(self._journal, run_id)
        # before the run is read, because the session may be its own
        stored = await self.late.store()
        state = await self._journal.load(run_id) if stored or read is None else read
        started = state.started
        assert started is not None, "a run begins with run.started"
        if state.finished is not None:
            raise AgentError("invalid", f"run {run_id} is finished: replay it, or fork it")
        found = self._agents.known(agent, started.agent, run_id)
        answers, below = await divided(self._journal, state, answers_of(options))

        caller = hears.caller if isinstance(hears, ParentRun) else None

        async def make() -> PlannedRun[Out]:
            last = in_charge(found, state, self._agents.get)
            now = await going_on(last, deps, state, options) if last.is_dynamic else last
            plan = await self._assembly.resumed(now, state, options, caller=caller)
            writer = await taken_unchanged(self._journal, run_id, state)
            resumption = Resumption(writer=writer, answers=answers, below=below)
            return PlannedRun(now, resumed(plan, resumption), (found, last))

        return await self._claimed(started.session_id, found, make, deps, hears)

    def _check(self, options: Mapping[str, object], known: type[Any]) -> None:
        if self._closed:
            raise AgentError("invalid", "this runtime is closed: open another one")
        check_options(options, known)

    async def _claimed(
        self,
        session_id: str | None,
        agent: Agent[Deps, Out],
        make: Callable[[], Awaitable[PlannedRun[Out]]],
        deps: Deps,
        hears: EventStream | ParentRun | None,
    ) -> RunHandle[Out]:
        """Claim the session before its history is read."""
        inside = None if session_id is None else self.busy.claim(session_id)
        self._preparing += 1
        try:
            planned = await make()
            job = self._job(planned, deps, hears)
            self._agents.remember(agent)
        except BaseException:
            if session_id is not None:
                self.busy.let_go(session_id)
            raise
        finally:
            self._preparing -= 1
            self._fewer.set()
        if session_id is None or inside is None:
            return job
        self.busy.begin(session_id, job.run, inside)
        return job

    def _job(
        self,
        planned: PlannedRun[Out],
        deps: Deps,
        hears: EventStream | ParentRun | None,
    ) -> RunHandle[Out]:
        plan = planned.plan
        parent = hears if isinstance(hears, ParentRun) else None
        feed = Feed(
            plan.run_id,
            plan.session_id,
            self._hub,
            hears.feed if isinstance(hears, ParentRun) else hears,
            redactor=self._redactor,
            hooks=plan.hooks,
        )
        run = self._run(planned, deps, feed)
        if parent is not None and (above := self._jobs.get(parent.caller.plan.run_id)) is not None:
            run.time.above = above.run.time
        self.late.go_on_in(run)
        job: RunHandle[Out] = RunHandle(run=run, drive=self._drive)
        self.ran = True
        self._jobs[plan.run_id] = job
        self._relay.begin(plan.run_id, partial(_place_of, job))
        return job

    def _run(self, planned: PlannedRun[Any], deps: Any, feed: Feed) -> Run:
        agent, plan = planned.agent, planned.plan
        if plan.hooks:
            plan.hooks.warn = feed.warn
        toolbox = self._assembly.toolboxes.make(agent, plan, deps, feed, self._children.spawn)
        run = Run(plan, toolbox, self._journal, feed, clock=self._clock, retries=self._retries)
        if agent.handoffs:
            run.hand_over = partial(self._hand_over, planned.definitions, deps, feed)
        return run

    async def _hand_over(
        self, agents: Sequence[Agent[Any, Any]], deps: Any, feed: Feed, before: Run
    ) -> Run:
        planned = await handed_over(self._assembly, agents, deps, before, self._agents.get)
        feed.use(planned.plan.hooks)
        return self._run(planned, deps, feed)

    def finished(self, state: RunState, agent: Agent[Any, Out] | None) -> RunResult[Out]:
        """Return the result of a finished run, from its journal."""
        return finished_result(state, agent, self._agents.get)

    async def drop(self, job: RunHandle[Any]) -> None:
        """Release a run that will not be driven after all."""
        if (resumption := job.run.plan.resumption) is not None:
            await resumption.writer.release(waiting=bool(job.run.state.approvals.asked))
        self._release(job)

    async def _drive(self, job: RunHandle[Out]) -> None:
        try:
            await job.run.drive()
            while (following := job.run.next) is not None:  # another agent continues
                following.follow(job.run)
                job.run = following
                self.busy.follow(following)
                await following.drive()
        except AgentError as e:
            job.result = e
        except Exception as e:  # noqa: BLE001  the edge of a task: a journal's bug is logged, not raised
            job.result = as_error(e, job.run.plan, "could not begin")
        finally:
            if job.run.ending is not None:
                job.result = result_of(job.run.state, job.run.ending)
                await after_run(job.run.plan, job.result)
                await self._children.over(job.run.state, waiting=job.run.ending.waiting)
            elif job.result is None:
                job.result = AgentError(
                    "cancelled", f"run {job.run.plan.run_id} was left before its end: resume it"
                )
            if (session_id := job.run.plan.session_id) is not None:
                self._assembly.toolboxes.rest(session_id)
            elif kept := self._assembly.toolboxes.end(job.run.plan.run_id):
                with anyio.CancelScope(shield=True):
                    await close_kept(job.run.plan.run_id, kept)
            if job.run.is_left:
                await self.late.leave(job.run)
            self._release(job)
            await self._assembly.toolboxes.confining.tidy()

    def _release(self, job: RunHandle[Any]) -> None:
        plan = job.run.plan
        self._jobs.pop(plan.run_id, None)
        self._children.forget(plan.run_id)
        self._relay.end(plan.run_id)
        if abandoned_calls(plan.run_id) or job.run.state.unknown_calls:
            self.late.keep(job.run)
        self._fewer.set()
        if plan.session_id is None:
            self._assembly.models.forget(plan.run_id)
            return
        try:
            if job.run.ending is not None and not job.run.ending.waiting:
                state = job.run.state
                self._sessions.remember(
                    plan.session_id,
                    state.context.history[:] if plan.fork else state.context.said,
                    run_id=plan.run_id,
                )
        finally:
            self.busy.let_go(plan.session_id)


def _place_of(job: RunHandle[Any]) -> DeltaPlace:
    run = job.run
    writer = getattr(run.pen, "writer", None)  # not set before the run is in the journal
    return DeltaPlace(0 if writer is None else writer.fence, run.state.seq)

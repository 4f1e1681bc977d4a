"""Active runs of one runtime: their start, their hold on a session, and their end.

assembly.py makes their plans; loop/ runs them. Entry points: `Runs`; `StartedRuns`, a base class
of `Runtime`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from typing_extensions import Unpack

from treadle._internal.clock import Clock
from treadle.agents.agent import Agent, Deps
from treadle.agents.registry import AgentRegistry, KnownAgents
from treadle.errors import AgentError
from treadle.events.feed import EventStream, Feed
from treadle.events.hub import Hub
from treadle.events.live_deltas import DeltaPlace, Relay
from treadle.loop.ending import as_error
from treadle.loop.loop import Run
from treadle.loop.plan import Plan
from treadle.messages.message import Prompt
from treadle.messages.result import Out, RunResult
from treadle.models.retry import RetryPolicy
from treadle.runtime.assembly import Assembly
from treadle.runtime.busy_sessions import BusySessions
from treadle.runtime.children import Children, ParentRun
from treadle.runtime.closing_runs import put_down
from treadle.runtime.evaluating import PlannedRun, hooked_run
from treadle.runtime.evaluating import begun as begun_agent
from treadle.runtime.handing_over import handed_over
from treadle.runtime.late_runs import LateRuns
from treadle.runtime.options import check_agent, session_id_of
from treadle.runtime.prompt import prompt_of
from treadle.runtime.results import after_run, result_of
from treadle.runtime.run_stream import RunHandle, RunStream, collect
from treadle.runtime.session import RunOptions, check_options, listeners_of
from treadle.runtime.toolbox_factory import close_kept
from treadle.tools.function.threads import abandoned_calls

CLOSE_GRACE_S = 5.0
"""Seconds that closing waits for runs to close and for the threads of abandoned sync tools."""


class RunClaim:
    """A run that is being planned, and its hold on a session, which the end of the run releases."""

    __slots__ = ("_inside", "_runs", "_session_id")

    def __init__(self, runs: Runs, session_id: str | None) -> None:
        self._runs, self._session_id = runs, session_id
        self._inside: Callable[[Callable[[], None]], None] | None = None

    def __enter__(self) -> Self:
        """Raise AgentError(busy) if the session has an active run."""
        if self._session_id is not None:
            self._inside = self._runs.busy.claim(self._session_id)
        self._runs.preparing += 1
        return self

    def begin(self, run: Run) -> None:
        """Make the run reachable by its session."""
        if self._session_id is not None and self._inside is not None:
            self._runs.busy.begin(self._session_id, run, self._inside)

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None and self._session_id is not None:
            self._runs.busy.let_go(self._session_id)
        self._runs.preparing -= 1
        if not self._runs.preparing:
            self._runs.stops.clear()
        self._runs.fewer.set()


class Runs:
    """Runs of a runtime that begin with a prompt. May be used from many tasks of one event loop;
    `busy` from any thread.
    """

    _children: Children
    """Made by `ContinuingRuns`, because a child run may be resumed."""

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
        self.journal = assembly.journal
        self._sessions = assembly.journal.sessions
        self.agents = KnownAgents(registry)
        self.busy = BusySessions()
        self._jobs: dict[str, RunHandle[Any]] = {}
        """Active runs, by id."""
        self._relay = Relay(hub, assembly.journal.notifier)
        self.late = LateRuns(assembly)
        self.ran = False
        """True if any run has started here."""
        self._closed = False
        self.preparing = 0
        """Number of runs that are being planned."""
        self.stops: set[str] = set()
        """Runs that were asked to stop while they may have been taken over to be driven."""
        self.fewer = anyio.Event()
        """Set when a run has been planned or has ended."""
        self.journal.on_stop(self._stop)
        assembly.served.approver_of = lambda run_id: (
            None if (job := self._jobs.get(run_id)) is None else job.run.plan.approver
        )

    async def aclose(self, *, lets_go: bool) -> None:
        """Stop every run and wait for it, for a limited time. Idempotent.

        `lets_go`: leave runs to be resumed, instead of cancelling them.
        """
        self._closed = True
        with anyio.move_on_after(CLOSE_GRACE_S):
            while self._jobs or self.preparing:
                for job in list(self._jobs.values()):
                    (job.run.let_go if lets_go else partial(job.run.cancel, "close"))()
                self.fewer = anyio.Event()
                await self.fewer.wait()
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
        if not self.cancel(run_id, by="kill") and self.preparing:
            self.stops.add(run_id)

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
        self.check(options, RunOptions)
        check_agent(agent)
        prompt, session_id = prompt_of(text), session_id_of(options.get("session"))
        if self.late.runs:
            await self.late.store()
        caller = hears.caller if isinstance(hears, ParentRun) else None
        with RunClaim(self, session_id) as claim:  # before the session's history is read
            found, given = agent, options
            if agent.is_dynamic:
                found, given = await begun_agent(agent, deps, session_id, options)
            plan = await self._assembly.plan(found, prompt, session_id, given, caller=caller)
            await checkpoint_if_cancelled()  # it would begin, only to end as cancelled
            return self.ready(claim, PlannedRun(found, plan, (agent,)), deps, hears)

    def check(self, options: Mapping[str, object], known: type[Any]) -> None:
        if self._closed:
            raise AgentError("invalid", "this runtime is closed: open a new one")
        check_options(options, known)

    def ready(
        self,
        claim: RunClaim,
        planned: PlannedRun[Out],
        deps: Deps,
        hears: EventStream | ParentRun | None,
    ) -> RunHandle[Out]:
        """Return a planned run, ready to be driven."""
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
        run = self._run(planned, deps, feed, {})
        if parent is not None and (above := self._jobs.get(parent.caller.plan.run_id)) is not None:
            run.time.above = above.run.time
        if self.late.runs:
            self.late.go_on_in(run)
        job: RunHandle[Out] = RunHandle(run=run, drive=self._drive)
        if plan.batch is not None:
            plan.batch.enter()
        self.ran = True
        self._jobs[plan.run_id] = job
        self._relay.begin(plan.run_id, partial(_place_of, job))
        self.agents.remember(planned.definitions[0])
        claim.begin(run)
        if plan.run_id in self.stops:
            self.stops.discard(plan.run_id)
            run.cancel("kill")
        return job

    def _run(self, planned: PlannedRun[Any], deps: Any, feed: Feed, known: dict[str, Any]) -> Run:
        agent, plan = planned.agent, planned.plan
        if plan.hooks.points:
            spawn = partial(self._children.spawn, plan, feed)
            plan.hooks.begin(hooked_run(plan, deps, spawn, known), feed.warn)
        toolbox = self._assembly.toolboxes.make(agent, plan, deps, feed, self._children.spawn)
        run = Run(plan, toolbox, self.journal, feed, clock=self._clock, retries=self._retries)
        if agent.handoffs:
            run.hand_over = partial(self._hand_over, planned.definitions, deps, feed, known)
        return run

    async def _hand_over(
        self,
        agents: Sequence[Agent[Any, Any]],
        deps: Any,
        feed: Feed,
        known: dict[str, Any],
        before: Run,
    ) -> Run:
        planned = await handed_over(self._assembly, agents, deps, before, self.agents.get)
        feed.use(planned.plan.hooks)
        return self._run(planned, deps, feed, known)

    async def _drive(self, job: RunHandle[Out]) -> None:
        try:
            await job.run.drive()
            while (following := job.run.next) is not None:  # another agent continues
                self._release_servers(job.run.plan)
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
                    "cancelled",
                    f"run {job.run.plan.run_id} was released before it ended: resume it",
                )
            if job.run.ending is None and not job.run.is_left:
                await put_down(job.run)
            if (session_id := job.run.plan.session_id) is not None:
                self._assembly.toolboxes.rest(session_id)
            elif kept := self._assembly.toolboxes.end(job.run.plan.run_id):
                with anyio.CancelScope(shield=True):
                    await close_kept(job.run.plan.run_id, kept)
            if job.run.plan.batch is not None:
                ending = job.run.ending
                await job.run.plan.batch.leave(cancels=ending is not None and not ending.waiting)
            if job.run.is_left:
                await self.late.leave(job.run)
            self.release(job)
            await self._assembly.toolboxes.confining.tidy()

    def _release_servers(self, plan: Plan) -> None:
        if plan.late_tools is not None:
            self._assembly.served.release(plan.late_tools)

    def release(self, job: RunHandle[Any]) -> None:
        """Forget a run that is no longer driven here."""
        plan = job.run.plan
        self._jobs.pop(plan.run_id, None)
        self._children.forget(plan.run_id)
        self._relay.end(plan.run_id)
        if plan.late_tools is not None:
            self._release_servers(plan)
        if abandoned_calls(plan.run_id) or job.run.state.unknown_calls:
            self.late.keep(job.run)
        self.fewer.set()
        if plan.session_id is None:
            self._assembly.models.forget(plan.run_id)
            return
        try:
            ending = job.run.ending
            # not if the end could not be stored: then another driver ends the run
            if ending is not None and not ending.waiting and not job.run.is_left:
                said = job.run.state.context.added(is_fork=plan.fork is not None)
                self._sessions.remember(plan.session_id, said, run_id=plan.run_id)
        finally:
            self.busy.let_go(plan.session_id)


class StartedRuns:
    """Methods of a runtime that start runs."""

    _runs: Runs

    async def run(
        self,
        agent: Agent[Deps, Out],
        text: Prompt,
        *,
        deps: Deps = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[Out]:
        """Run an agent to its end. Raises AgentError for errors before the run starts; afterwards,
        every end is an outcome.

        Cancelling the awaiting task closes the run first: its history is valid and its outcome
        journaled.
        """
        start = partial(self._runs.start, agent, text, deps, options)
        return await collect(start, listeners_of(options))

    def stream(
        self,
        agent: Agent[Deps, Out],
        text: Prompt,
        *,
        deps: Deps = None,
        **options: Unpack[RunOptions],
    ) -> RunStream[Out]:
        """Start a run and stream its events:

        `async with rt.stream(…) as run: async for event in run: …`. The run starts with the block.
        """
        start = partial(self._runs.start, agent, text, deps, options)
        return RunStream(start, listeners_of(options))


def _place_of(job: RunHandle[Any]) -> DeltaPlace:
    writer = getattr(job.run.pen, "writer", None)  # not set before the run is in the journal
    return DeltaPlace(0 if writer is None else writer.fence, job.run.state.seq)

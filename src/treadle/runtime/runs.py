"""The runs of a runtime that are under way: how each begins, who holds its session, and what is
left of it when it is over.

What a run is made of is assembly.py's; how it runs the loop's. Entry: `Runs`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from treadle._internal.clock import Clock
from treadle.agents.agent import Agent, Deps
from treadle.agents.registry import AgentRegistry
from treadle.errors import AgentError
from treadle.events.feed import EventStream, Feed
from treadle.events.hub import Hub
from treadle.events.live_deltas import DeltaPlace, Relay
from treadle.journal.fork import check_results, fork_of
from treadle.journal.run_state import RunState
from treadle.journal.sessions import ViewMark, check_session_id
from treadle.loop.closing import GRACE_S
from treadle.loop.loop import Run
from treadle.loop.plan import Ending, Plan, Resumption, ending_of
from treadle.loop.session_past import begun
from treadle.messages.message import Part
from treadle.messages.result import Out, RunResult
from treadle.models.retry import RetryPolicy
from treadle.runtime.assembly import Assembly, answers_of, resumed
from treadle.runtime.children import Children, ParentRun, Spawning, divided, typed, until_idle
from treadle.runtime.prompt import prompt_of
from treadle.runtime.run_stream import RunHandle
from treadle.runtime.session import ForkOptions, ResumeOptions, RunOptions, Session, check_options
from treadle.runtime.toolbox_factory import close_kept, into_this_loop
from treadle.tools.function.threads import abandoned_calls, wait_for_abandoned
from treadle.types import new_id

logger = logging.getLogger("treadle")

CLOSE_GRACE_S = 5.0
"""Time that closing waits for runs to close and for the threads of abandoned sync tools."""


class _Active(NamedTuple):
    """A session's run."""

    run: Run | None
    """None while it is being put together."""
    inside: Callable[[Callable[[], None]], None]
    """Calls a function in the run's event loop."""


class Runs:
    """Runs of a runtime. Safe from many tasks of one event loop; `tell` is safe from any thread."""

    def __init__(
        self,
        assembly: Assembly,
        hub: Hub,
        registry: AgentRegistry,
        clock: Clock,
        retries: RetryPolicy,
    ) -> None:
        self._assembly, self._hub, self._registry, self._clock, self._retries = (
            assembly,
            hub,
            registry,
            clock,
            retries,
        )
        self._redactor = lambda: assembly.redactor
        self._journal = assembly.journal
        self._sessions = assembly.journal.sessions
        self._agents: dict[str, Agent[Any, Any]] = {}
        """Last agent of each name that ran here."""
        self._lock = threading.Lock()
        """Guards `_active`: two threads must not both find a session idle."""
        self._long: set[str] = set()
        """Sessions with a pending compaction request."""
        self._active: dict[str, _Active] = {}
        """Running runs by session id."""
        self._jobs: dict[str, RunHandle[Any]] = {}
        """Under way, by run id."""
        self._children = Children(assembly.journal, self)
        self._relay = Relay(hub, assembly.journal.notifier)
        self._late: dict[str, Run] = {}
        """Ended runs of which a sync tool still runs in its thread, and runs that were let go: one
        is released when its last thread has ended.
        """
        self.ran = False
        """True if anything has run here."""
        self._closed = False
        self._preparing: set[anyio.Event] = set()
        """Set once each run that is being prepared is among the jobs, or has failed."""
        self._journal.on_stop(self._stop)
        assembly.served.approver_of = lambda run_id: (
            None if (job := self._jobs.get(run_id)) is None else job.run.plan.approver
        )

    async def aclose(self, *, lets_go: bool) -> bool:
        """Stop every run and wait for it. Idempotent.

        `lets_go`: leave runs to be resumed, instead of cancelling them. Returns False where calls
        still run after the grace period.
        """
        self._closed = True
        with anyio.move_on_after(CLOSE_GRACE_S):
            while self._jobs or self._preparing:
                jobs = list(self._jobs.values())
                for job in jobs:
                    (job.run.let_go if lets_go else partial(job.run.cancel, "close"))()
                for over in [*self._preparing, *(job.over for job in jobs)]:
                    await over.wait()
        await self._wait_for_threads()
        return not self._jobs and not any(run.is_left for run in self._late.values())

    def let_go(self) -> None:
        for job in self._jobs.values():
            job.run.let_go()

    async def _wait_for_threads(self) -> None:
        """A sync tool's thread cannot be stopped: it gets the grace, and is named in the log where
        that is not enough.
        """
        calls = [call for run_id in self._late for call in abandoned_calls(run_id)]
        for left in await wait_for_abandoned(calls, CLOSE_GRACE_S):
            logger.warning(
                "the sync tool %r of run %s still runs in its thread after %.0f s: left alone",
                left.tool,
                left.run_id,
                CLOSE_GRACE_S,
            )
        await self._store_late()

    async def _store_late(self) -> bool:
        """Store late results of calls whose run has ended: the session's next run passes them to
        its model.

        False if there were none.
        """
        stored = False
        for run_id, run in list(self._late.items()):
            if run.inbox.late:
                stored = True
                said = await run.inbox.late.store(run.pen.writer, self._assembly.redactor)
                if (
                    run.plan.session_id is not None
                    and run.ending is not None
                    and not run.ending.waiting
                ):
                    self._sessions.remember(run.plan.session_id, said)
            # two runs that begin at once both come here
            if (
                not abandoned_calls(run_id)
                and self._late.pop(run_id, None) is not None
                and run.is_left
            ):
                await run.pen.writer.release()
        return stored

    # ------------------------------------------------------------ what runs

    def is_busy(self, session_id: str) -> bool:
        with self._lock:
            return session_id in self._active

    def while_idle(self, session_id: str, what: Callable[[str], object]) -> None:
        """Raises AgentError(busy) while a run of the session is under way."""
        with self._lock:
            if session_id in self._active:
                raise AgentError(
                    "busy",
                    f"session {session_id!r} is running: cancel the run, or wait for its end",
                )
            what(session_id)

    def tell(self, session_id: str, what: Callable[[Run], None]) -> bool:
        """Call `what` in the event loop of the session's run; False if there is none."""
        with self._lock:
            run, inside = self._active.get(session_id, (None, None))
        if run is None or inside is None:
            return False
        inside(partial(what, run))
        return True

    def compact(self, session_id: str) -> bool:
        """Before the next request of the session's run; False where that is one that has yet to
        begin.
        """
        with self._lock:
            run, inside = self._active.get(session_id, (None, None))
            if run is None or inside is None:
                self._long.add(session_id)
                return False
        inside(run.compact)
        return True

    def _stop(self, run_id: str) -> None:
        self.cancel(run_id, by="kill")

    def cancel(self, run_id: str | None, *, by: str = "caller") -> bool:
        """False if no such run is under way here."""
        if (job := self._jobs.get(run_id or "")) is None:
            return False
        job.run.cancel(by)
        return True

    # ------------------------------------------------------------ beginnings

    async def start(
        self,
        agent: Agent[Deps, Out],
        text: str | Sequence[Part],
        deps: Deps,
        options: RunOptions,
        stream: EventStream | None,
        *,
        parent: ParentRun | None = None,
    ) -> RunHandle[Out]:
        """Start a run. Raises every error that can occur before it starts."""
        self._check(options, RunOptions)
        _check_agent(agent)
        prompt, session_id = prompt_of(text), _session_id(options.get("session"))
        await self._store_late()
        make = partial(
            self._assembly.plan,
            agent,
            prompt,
            session_id,
            options,
            caller=parent.caller if parent else None,
        )
        return await self._claimed(session_id, agent, make, deps, options, stream, parent=parent)

    async def submit(
        self,
        agent: Agent[Any, Any],
        text: str | Sequence[Part],
        options: RunOptions,
        add: Callable[[Plan, ViewMark | None], Awaitable[None]],
    ) -> str:
        """Plan a run for another driver and create it with `add`.

        Needs no key, sandbox or MCP server.
        """
        self._check(options, RunOptions)
        _check_agent(agent)
        prompt, session_id = prompt_of(text), _session_id(options.get("session"))
        await self._store_late()
        if session_id is not None:
            self._claim(session_id)
        try:
            plan = await self._assembly.plan(agent, prompt, session_id, options, submits=True)
            await begun(plan.past, partial(add, plan))
        finally:
            if session_id is not None:
                self._let_go(session_id)
        self._agents[agent.name] = agent
        return plan.run_id

    async def fork(
        self,
        run_id: str,
        turn: int,
        text: str | Sequence[Part] | None,
        agent: Agent[Deps, Out] | None,
        deps: Deps,
        options: ForkOptions,
        stream: EventStream | None,
    ) -> RunHandle[Out]:
        self._check(options, ForkOptions)
        await self._store_late()
        state = await self._journal.load(run_id)
        fork = fork_of(
            run_id, state, turn, options.get("results", {}), asks=text is not None or turn == 0
        )
        check_results(fork, await self._journal.read(run_id))
        started = state.started
        assert started is not None, "a run begins with run.started"
        found = self._known(agent, started.agent, run_id)
        model = options.get("model") or (
            state.model if isinstance(found.model, str | None) else found.model
        )
        session_id = None if started.session_id is None else new_id("session")
        same = found.name == started.agent
        given: RunOptions = {
            "mode": state.mode,
            "cwd": state.cwd,
            "user_id": started.user_id,
            "on_ask": started.on_ask,
            "on_unknown": started.on_unknown,
            "inputs": found.used_inputs(msgspec.json.decode(started.inputs, type=dict[str, Any]))
            if same
            else {},
            **{k: v for k, v in options.items() if k not in ("model", "results")},
        }  # pyright: ignore[reportAssignmentType]  what is left are a run's
        forked = replace(
            found,
            model=model,
            limits=started.limits,
            settings=started.settings if same else found.settings,
        )
        prompt = started.input if text is None else prompt_of(text)

        async def make() -> Plan:
            plan = await self._assembly.forked(forked, fork, prompt, session_id, given)
            if session_id is not None:
                origin = self._sessions.get(started.session_id or "")
                self._sessions.create(
                    f"{origin.title} (fork)" if origin else "", session_id=session_id
                )
            return plan

        job = await self._claimed(session_id, forked, make, deps, given, stream)
        self._agents[found.name] = found  # not the one with what this fork changed
        return job

    async def resume(
        self,
        run_id: str,
        agent: Agent[Deps, Out] | None,
        deps: Deps,
        options: ResumeOptions,
        stream: EventStream | None,
        *,
        parent: ParentRun | None = None,
        read: RunState | None = None,
    ) -> RunHandle[Out]:
        """Resume a run. Errors are raised before it is taken over.

        `read`: the run as read just now, which is owned by this call from here on.
        """
        self._check(options, ResumeOptions)
        if options.get("wait") and read is None:
            await until_idle(self._journal, run_id)
        stored = await self._store_late()  # before the run is read, which it may belong to
        state = await self._journal.load(run_id) if stored or read is None else read
        started = state.started
        assert started is not None, "a run begins with run.started"
        if state.finished is not None:
            raise AgentError("invalid", f"run {run_id} is finished: replay it, or fork it")
        found = self._known(agent, started.agent, run_id)
        answers, below = await divided(self._journal, state, answers_of(options))

        async def make() -> Plan:
            plan = await self._assembly.resumed(
                found, state, options, caller=parent.caller if parent else None
            )
            writer = await self._journal.take_over(run_id)
            try:
                if await self._journal.read(run_id, after=state.seq):
                    raise AgentError(
                        "busy",
                        (
                            f"run {run_id} has moved on just now, driven by another process: look "
                            "at it, then try again"
                        ),
                    )
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await writer.release()
                raise
            return resumed(plan, Resumption(writer=writer, answers=answers, below=below))

        return await self._claimed(
            started.session_id, found, make, deps, options, stream, parent=parent
        )

    def _check(self, options: Mapping[str, object], known: type[Any]) -> None:
        if self._closed:
            raise AgentError("invalid", "this runtime is closed: open another one")
        check_options(options, known)

    def _known(self, agent: Agent[Deps, Out] | None, name: str, run_id: str) -> Agent[Deps, Out]:
        found = agent or self._agents.get(name) or self._registry.get(name)
        if found is None:
            raise AgentError(
                "invalid",
                (
                    f"the agent {name!r} of run {run_id} is not known here: pass agent=, or "
                    "register it with Runtime.agents"
                ),
            )
        return found

    async def _claimed(
        self,
        session_id: str | None,
        agent: Agent[Deps, Out],
        make: Callable[[], Awaitable[Plan]],
        deps: Deps,
        options: RunOptions | ResumeOptions,
        stream: EventStream | None,
        *,
        parent: ParentRun | None = None,
    ) -> RunHandle[Out]:
        """The session is claimed before its history is read."""
        inside = None if session_id is None else self._claim(session_id)
        self._preparing.add(prepared := anyio.Event())
        try:
            job = self._job(agent, await make(), deps, options, stream, parent)
        except BaseException:
            if session_id is not None:
                self._let_go(session_id)
            raise
        finally:
            self._preparing.discard(prepared)
            prepared.set()
        if session_id is None or inside is None:
            return job
        with self._lock:
            self._active[session_id] = _Active(job.run, inside)
            job.run.room.wanted = session_id in self._long
            self._long.discard(session_id)
        return job

    def _job(
        self,
        agent: Agent[Deps, Out],
        plan: Plan,
        deps: Deps,
        options: RunOptions | ResumeOptions,
        stream: EventStream | None,
        parent: ParentRun | None,
    ) -> RunHandle[Out]:
        feed = Feed(
            plan.run_id,
            plan.session_id,
            self._hub,
            stream,
            redactor=self._redactor,
            parent=parent and parent.feed,
            hooks=plan.hooks,
        )
        if plan.hooks:
            plan.hooks.warn = feed.warn
        toolbox = self._assembly.toolboxes.make(agent, plan, deps, feed, self._run_child)
        run = Run(plan, toolbox, self._journal, feed, clock=self._clock, retries=self._retries)
        if parent is not None and (above := self._jobs.get(parent.caller.plan.run_id)) is not None:
            run.time.above = above.run.time
        if (before := self._late.pop(plan.run_id, None)) is not None:
            before.inbox.late.go_on_in(run.inbox.late)
        job = RunHandle[Out](run=run, drive=self._drive, over=anyio.Event())
        self.ran = True
        self._agents[agent.name] = agent
        self._jobs[plan.run_id] = job
        self._relay.begin(plan.run_id, partial(_place_of, run))
        return job

    async def _run_child(
        self,
        parent: Plan,
        feed: Feed,
        call_id: str,
        repeated: bool,
        agent: Agent[Any, Out],
        text: str,
        **options: Any,
    ) -> RunResult[Out]:
        return await self._children.run(
            Spawning(parent, feed, call_id, repeated), agent, text, **options
        )

    def finished(self, state: RunState, agent: Agent[Any, Out] | None) -> RunResult[Out]:
        """The same, of an agent that may be known here by its name."""
        assert state.started is not None, "a run begins with run.started"
        name = state.started.agent
        found = agent or self._agents.get(name) or self._registry.get(name)
        return result_of(state, ending_of(state)) if found is None else self.result_of(state, found)

    def result_of(self, state: RunState, agent: Agent[Any, Out]) -> RunResult[Out]:
        """Return the result of a finished run, from its journal."""
        return typed(result_of(state, ending_of(state)), agent)

    async def drop(self, job: RunHandle[Any]) -> None:
        """Lets go of one that is not driven after all."""
        if (resumption := job.run.plan.resumption) is not None:
            await resumption.writer.release(waiting=bool(job.run.state.approvals.asked))
        self._release(job)

    async def _drive(self, job: RunHandle[Out]) -> None:
        try:
            await job.run.drive()
        except AgentError as e:
            job.result = e
        except Exception as e:  # the edge of a task: a journal's bug is logged, not raised
            logger.exception("run %s could not begin", job.run.plan.run_id)
            job.result = AgentError(
                "agent",
                f"the run could not begin: {type(e).__name__}: {self._assembly.redact(str(e))}",
            )
        finally:
            if job.run.ending is not None:
                job.result = result_of(job.run.state, job.run.ending)
                await _after_run(job.run.plan, job.result)
                await self._children.over(job.run.state, waiting=job.run.ending.waiting)
            elif job.result is None:
                job.result = AgentError(
                    "cancelled", f"run {job.run.plan.run_id} was left before its end: resume it"
                )
            if job.run.plan.session_id is None and (
                kept := self._assembly.toolboxes.end(job.run.plan.run_id)
            ):
                with anyio.CancelScope(shield=True):
                    await close_kept(job.run.plan.run_id, kept)
            if job.run.is_left:
                await self._leave(job.run)
            self._release(job)
            await self._assembly.toolboxes.confining.tidy()

    async def _leave(self, run: Run) -> None:
        """Release a run that was let go; while a thread of its calls runs, keep it for
        `_store_late` to release.
        """
        self._late[run.plan.run_id] = run
        with anyio.move_on_after(GRACE_S, shield=True):
            # a call that has just ended tells its result in the next round of the event loop
            await checkpoint()
            await self._store_late()

    def _release(self, job: RunHandle[Any]) -> None:
        plan = job.run.plan
        self._jobs.pop(plan.run_id, None)
        self._relay.end(plan.run_id)
        if abandoned_calls(plan.run_id) or job.run.state.unknown_calls:
            self._late[plan.run_id] = job.run
        job.over.set()
        if plan.session_id is None:
            self._assembly.models.forget(plan.run_id)
            return
        try:
            if job.run.ending is not None and not job.run.ending.waiting:
                state = job.run.state
                self._sessions.remember(
                    plan.session_id, state.context.history[:] if plan.fork else state.context.said
                )
        finally:
            self._let_go(plan.session_id)

    def _claim(self, session_id: str) -> Callable[[Callable[[], None]], None]:
        inside = into_this_loop()
        with self._lock:
            if session_id in self._active:
                raise AgentError(
                    "busy",
                    (
                        f"session {session_id!r} is running already: wait for its end, cancel it, "
                        "or steer it"
                    ),
                )
            self._active[session_id] = _Active(None, inside)
        return inside

    def _let_go(self, session_id: str) -> None:
        with self._lock:
            active = self._active.pop(session_id, None)
            if active is not None and active.run is not None and active.run.room.wanted:
                self._long.add(session_id)


def _place_of(run: Run) -> DeltaPlace:
    writer = getattr(run.pen, "writer", None)  # not set before the run is in the journal
    return DeltaPlace(0 if writer is None else writer.fence, run.state.seq)


async def _after_run(plan: Plan, result: RunResult[Any]) -> None:
    """Run the hooks after a run, also while the task is being cancelled."""
    if plan.hooks.has("after_run"):
        with anyio.move_on_after(CLOSE_GRACE_S, shield=True):
            await plan.hooks.after_run(plan.hooked, result)


def _check_agent(agent: object) -> None:
    if not isinstance(agent, Agent):
        raise AgentError(
            "invalid",
            (
                "the first argument is the agent, an Agent(name=…), and not a "
                f"{type(agent).__name__}; the second one is the prompt"
            ),
        )


def _session_id(session: Session[Any, Any] | str | None) -> str | None:
    if isinstance(session, Session):
        session = session.id
    if session is not None:
        check_session_id(session)
    return session


def result_of(state: RunState, ending: Ending) -> RunResult[Any]:
    started = state.started
    assert started is not None, "a run begins with run.started"
    # a request cannot end with a call that waits
    closed = len(state.context.history) - bool(state.current.open_calls)
    return RunResult(
        run_id=started.run_id,
        session_id=started.session_id,
        outcome=ending.outcome,
        output=ending.output,
        validated=ending.validated,
        output_json=ending.output_json,
        waiting=ending.waiting,
        text=ending.text,
        error=ending.error,
        messages=state.context.history[:closed],
        new_messages=state.context.history[state.context.prompt_at : closed],
        metrics=ending.metrics,
    )

"""What runs share, and every way to start, follow and end one: the top of the library.

What a run is made of is assembly.py's, how it runs the loop's. Entry: `Runtime`. `run` and `run_sync` are it, opened in memory
for one run.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn, Self

import anyio
from typing_extensions import Unpack

from treadle.agent import Agent, Deps
from treadle.assembly import Assembly, answers_of, into_this_loop, prompt_of, resumed
from treadle.callbacks import Listeners
from treadle.calls import Batch
from treadle.clock import Clock
from treadle.config import Config, load
from treadle.difference import RunDiff, compare
from treadle.entries import CancelAsked, Fork, Record, RunStarted
from treadle.errors import AgentError
from treadle.events import ChildEnd, ChildStart, Event
from treadle.feed import EventStream, Feed
from treadle.hub import Hub
from treadle.journal import Journal, RunInfo
from treadle.journals import open_journal
from treadle.journals.memory import MemoryJournal
from treadle.loop import Run
from treadle.message import Message, Part
from treadle.plan import Ending, Plan, Resumption, ending_of, metrics_of
from treadle.registry import Models
from treadle.result import Out, RunResult
from treadle.retry import RetryPolicy
from treadle.run_state import RunState
from treadle.run_stream import Job, RunStream, check_steering
from treadle.session import ForkOptions, ResumeOptions, RunOptions, Session
from treadle.session_store import Sessions, check_session_id
from treadle.tools.function.threads import abandoned_calls, wait_for_abandoned
from treadle.types import Limits, Outcome, now

logger = logging.getLogger("treadle")

CLOSE_GRACE_S = 5.0
"""How long closing waits for runs to close and for the threads of abandoned sync tools."""
STOP_GRACE_S = 10.0
"""How long `kill` waits for the process that drives the run."""


class _Parent(NamedTuple):
    """The run whose tool started another one."""

    plan: Plan
    feed: Feed


class _Active(NamedTuple):
    """A session's run."""

    run: Run | None
    """None while it is being put together."""
    inside: Callable[[Callable[[], None]], None]
    """Calls a function in the run's event loop."""


def _later(name: str) -> Callable[..., Coroutine[Any, Any, NoReturn]]:
    async def method(*_: object, **__: object) -> NoReturn:
        raise AgentError("invalid", f"Runtime.{name} comes in a later version")

    return method


class Runtime:
    """Holds what runs share: journal, sessions, connections, hub. An async context manager; nothing outlives it.

    Runs may be started from any number of tasks of one event loop.
    """

    def __init__(self, *, config: Config | None = None, journal: Journal | None = None, clock: Clock | None = None, retries: RetryPolicy | None = None) -> None:
        """Most people want `Runtime.open`."""
        self.journal: Journal = journal if journal is not None else MemoryJournal()
        self.hub = Hub()
        self._clock = clock or Clock()
        self._retries = retries or RetryPolicy()
        self._assembly = Assembly(config if config is not None else load(files=False), self.journal, self._clock)
        self._agents: dict[str, Agent[Any, Any]] = {}
        """Those that were run here, by name: the last of each."""
        self._lock = threading.Lock()
        """Guards `_active`: two threads must not both find a session idle."""
        self._active: dict[str, _Active] = {}
        """By session id."""
        self._jobs: dict[str, Job[Any]] = {}
        """Under way, by run id."""
        self._late: dict[str, Run] = {}
        """Ended runs of which a sync tool still runs in its thread."""
        self._closed = False
        self.journal.on_stop(self._stop)

    @classmethod
    def open(cls, url: str = "memory:", *, config: Config | None = None, durability: Literal["process", "power"] = "process") -> Self:
        """A runtime over the journal at `url`: `memory:` or `sqlite:///FILE` (`sqlite:////FILE` from the root).

        `durability`: what an acknowledged entry survives: the death of the process, or (slower) of the power too. The start of a
        once-call survives both. Raises AgentError(invalid) for a journal that cannot be opened.
        """
        return cls(config=config, journal=open_journal(url, durability=durability))

    @property
    def config(self) -> Config:
        return self._assembly.config

    @property
    def models(self) -> Models:
        return self._assembly.models

    @property
    def sessions(self) -> Sessions:
        return self.journal.sessions

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancels what still runs, waits for it, and closes every connection. Idempotent."""
        self._closed = True
        jobs = list(self._jobs.values())
        for job in jobs:
            job.run.cancel("close")
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(CLOSE_GRACE_S):
                for job in jobs:
                    await job.over.wait()
            await self._wait_for_threads()
            await self._assembly.models.aclose()
            await self.journal.aclose()
        self.hub.close()
        self._assembly.spill.close()

    async def _wait_for_threads(self) -> None:
        """A sync tool's thread cannot be stopped: it gets the grace, and is named in the log where that is not enough."""
        calls = [call for run_id in self._late for call in abandoned_calls(run_id)]
        for left in await wait_for_abandoned(calls, CLOSE_GRACE_S):
            logger.warning("the sync tool %r of run %s still runs in its thread after %.0f s: left alone", left.tool, left.run_id, CLOSE_GRACE_S)
        await self._store_late()

    async def _store_late(self) -> None:
        """What calls gave after their run had ended: the next run of the session tells its model."""
        for run_id, run in list(self._late.items()):
            if run.late:
                await run.store_late()
            if not abandoned_calls(run_id):
                del self._late[run_id]

    # ------------------------------------------------------------ running

    async def run(self, agent: Agent[Deps, Out], text: str | Sequence[Part], *, deps: Deps = None, **options: Unpack[RunOptions]) -> RunResult[Out]:
        """One run to its end. Raises AgentError for what is wrong before it starts; every end after that is a value.

        Cancelling the awaiting task closes the run first: its history is valid and its outcome journaled.
        """
        return await self._collect(partial(self._start, agent, text, deps, options), _listeners(options))

    def stream(self, agent: Agent[Deps, Out], text: str | Sequence[Part], *, deps: Deps = None, **options: Unpack[RunOptions]) -> RunStream[Out]:
        """The same run, its events as they come: `async with rt.stream(…) as run: async for event in run: …`. It begins with the block."""
        return RunStream(partial(self._start, agent, text, deps, options), _listeners(options))

    async def resume(self, run_id: str, agent: Agent[Deps, Out] | None = None, *, deps: Deps = None, **options: Unpack[ResumeOptions]) -> RunResult[Out]:
        """Goes on with a run whose process died, or that waits for a person; of a finished one only the result is given.

        Pure and idempotent calls that were running are run again, with the same key; once-calls are asked after by their probe, else
        told as `unknown`, or what `on_unknown` says. `agent` may be left out where one of this name was run here before. Raises
        AgentError: invalid for an unknown run, agent, tool or call, busy where a living process drives the run.
        """
        state = await self.journal.load(run_id)
        if state.finished is not None:
            return _result(state, ending_of(state))
        return await self._collect(partial(self._resume, run_id, agent, deps, options), _listeners(options))

    def resume_stream(self, run_id: str, agent: Agent[Deps, Out] | None = None, *, deps: Deps = None, **options: Unpack[ResumeOptions]) -> RunStream[Out]:
        """The same, its events as they come. Raises AgentError(invalid) for a finished run: `replay` it."""
        return RunStream(partial(self._resume, run_id, agent, deps, options), _listeners(options))

    async def replay(self, run_id: str) -> RunResult[Any]:
        """The run again, exactly, out of its journal: no model is asked and no tool is run. Raises AgentError(invalid) for an unknown run.

        One that is not finished has the outcome `approval_needed` where it waits for a person, else `error`.
        """
        state = await self.journal.load(run_id)
        return _result(state, ending_of(state) if state.finished is not None else _unfinished(state))

    async def events(self, run_id: str) -> list[Event]:
        """The durable events of a run, as they were, out of its journal."""
        records = await self.journal.read(run_id)
        stream = EventStream()
        feed = Feed(run_id, _session_of(records), Hub(), stream, redactor=lambda: self._assembly.redactor)
        for record in records:
            feed.appended([record.entry], record.seq)
        stream.close()
        return [event async for event in stream]

    async def fork(
        self,
        run_id: str,
        *,
        turn: int,
        text: str | Sequence[Part] | None = None,
        agent: Agent[Deps, Out] | None = None,
        deps: Deps = None,
        **options: Unpack[ForkOptions],
    ) -> RunResult[Out]:
        """A new run that goes on after `turn` turns of another one, whose entries it reads and never repeats.

        `text`: the next words of the person (at turn 0: instead of the prompt); `model=` another model; `results=` another result for
        calls of that turn, by call id. Raises AgentError(invalid) for a turn beyond the end, and where there is nothing to go on with.
        """
        return await self._collect(partial(self._fork, run_id, turn, text, agent, deps, options), _listeners(options))

    def fork_stream(
        self,
        run_id: str,
        *,
        turn: int,
        text: str | Sequence[Part] | None = None,
        agent: Agent[Deps, Out] | None = None,
        deps: Deps = None,
        **options: Unpack[ForkOptions],
    ) -> RunStream[Out]:
        """The same, its events as they come."""
        return RunStream(partial(self._fork, run_id, turn, text, agent, deps, options), _listeners(options))

    async def diff(self, run_id: str, other: str) -> RunDiff:
        """Where two runs part, and how they ended."""
        return compare(await self.journal.load(run_id), await self.journal.load(other))

    async def kill(self, run_id: str, *, force: bool = False) -> RunInfo:
        """Ends a run as `cancelled`, in whatever process it is driven; one that nobody drives is closed here. A finished one stays as it is.

        Raises AgentError(busy) where its process does not answer; `force` then takes the run away from it.
        """
        found = await self.journal.info(run_id)
        if found.status == "finished":
            return found
        if not force and await self.journal.ask_to_stop(run_id):
            with anyio.move_on_after(STOP_GRACE_S):
                while (found := await self.journal.info(run_id)).status == "running":  # noqa: ASYNC110  another process ends it
                    await anyio.sleep(0.02)
            if found.status == "running":
                raise AgentError("busy", f"the process that drives run {run_id} does not answer: end that process, or take the run away from it by force")
            if found.status == "finished":
                return found
        writer = await self.journal.take_over(run_id, force=force)
        try:
            state = await self.journal.load(run_id)
            cut = [CancelAsked(at=now(), by="kill"), *Batch(state).cut("The run was stopped")]
            open_turn = state.turn or None
            for entry in cut:
                state.apply(entry)
            await writer.append([*cut, _unfinished(state, Outcome.CANCELLED).finished(open_turn)])
        finally:
            await writer.release()
        return await self.journal.info(run_id)

    def session(self, session_id: str | None = None, *, agent: Agent[Deps, Out]) -> Session[Deps, Out]:
        """Opens a session, or makes it where there is none of this id."""
        if session_id is None or self.sessions.get(session_id) is None:
            session_id = self.sessions.create(session_id=session_id).id
        return Session(session_id, agent, self)

    submit = _later("submit")

    def set_credentials(self, provider: str, *, api_key: str | None = None, auth_token: str | None = None) -> None:
        """Another key for a provider, from the next request on; sessions and their histories stay.

        Raises AgentError(invalid) for an unknown provider or a key that cannot be one.
        """
        self._assembly.use(self.config.with_credentials(provider, api_key=api_key, auth_token=auth_token))
        self._assembly.models.use(self.config)

    def redact(self, text: str) -> str:
        """Without known secrets: what every sink is given."""
        return self._assembly.redact(text)

    # ------------------------------------------------------------ sessions, by id

    def steer(self, session_id: str, text: str) -> None:
        """Text for the session's running run. Raises AgentError(invalid) where nothing runs in it, or the text is empty."""
        check_steering(text)
        if not self._tell(session_id, lambda run: run.steer(text)):
            raise AgentError("invalid", f"nothing runs in session {session_id!r}: send the text instead")

    def cancel(self, session_id: str) -> bool:
        """Ends the session's running run; False where nothing runs in it."""
        return self._tell(session_id, Run.cancel)

    def is_busy(self, session_id: str) -> bool:
        with self._lock:
            return session_id in self._active

    async def messages(self, session_id: str) -> list[Message]:
        return list(await anyio.to_thread.run_sync(self.sessions.get_messages, session_id))

    async def clear(self, session_id: str) -> None:
        """Forgets the session's messages. Raises AgentError(busy) while a run is under way."""
        with self._lock:
            if session_id in self._active:
                raise AgentError("busy", f"session {session_id!r} is running: cancel the run, or wait for its end")
            self.sessions.clear_messages(session_id)
            self._assembly.forget(session_id)

    def _tell(self, session_id: str, what: Callable[[Run], None]) -> bool:
        """In the event loop of the session's run; False where there is none."""
        with self._lock:
            run, inside = self._active.get(session_id, (None, None))
        if run is None or inside is None:
            return False
        inside(partial(what, run))
        return True

    def _stop(self, run_id: str) -> None:
        if (job := self._jobs.get(run_id)) is not None:
            job.run.cancel("kill")

    # ------------------------------------------------------------ starting

    async def _collect(self, start: Callable[[EventStream | None], Awaitable[Job[Out]]], listeners: Listeners) -> RunResult[Out]:
        """Where nobody listens, the run is driven in the caller's own task and makes no events."""
        if not listeners:
            job = await start(None)
            await job.drive(job)
            return job.unwrap()
        async with RunStream(start, listeners) as stream:
            async for _ in stream:
                pass
        return stream.result

    async def _start(
        self,
        agent: Agent[Deps, Out],
        text: str | Sequence[Part],
        deps: Deps,
        options: RunOptions,
        stream: EventStream | None,
        *,
        parent: _Parent | None = None,
    ) -> Job[Out]:
        """Everything that can be wrong before a run starts is said here."""
        self._check(options, RunOptions)
        prompt, session_id = prompt_of(text), _session_id(options.get("session"))
        make = partial(self._assembly.plan, agent, prompt, session_id, options, parent_run_id=parent.plan.run_id if parent else None)
        return await self._claimed(session_id, agent, make, deps, options, stream, parent=parent.feed if parent else None)

    async def _fork(
        self,
        run_id: str,
        turn: int,
        text: str | Sequence[Part] | None,
        agent: Agent[Deps, Out] | None,
        deps: Deps,
        options: ForkOptions,
        stream: EventStream | None,
    ) -> Job[Out]:
        self._check(options, ForkOptions)
        state = await self.journal.load(run_id)
        fork = _fork_of(run_id, state, turn, options.get("results", {}), asks=text is not None or turn == 0)
        started = state.started
        assert started is not None, "a run begins with run.started"
        found = self._known(agent, started.agent, run_id)
        model = options.get("model") or (state.model if isinstance(found.model, str | None) else found.model)
        session_id = None
        if started.session_id is not None:
            info = self.sessions.get(started.session_id)
            session_id = self.sessions.create(f"{info.title} (fork)" if info else "").id
        given: RunOptions = {
            "mode": state.mode,
            "cwd": state.cwd,
            "limits": started.limits,
            **{k: v for k, v in options.items() if k not in ("model", "results")},
        }  # pyright: ignore[reportAssignmentType]  what is left are a run's
        forked = replace(found, model=model)
        prompt = started.input if text is None else prompt_of(text)
        make = partial(self._assembly.forked, forked, fork, prompt, session_id, given)
        return await self._claimed(session_id, forked, make, deps, given, stream)

    async def _resume(self, run_id: str, agent: Agent[Deps, Out] | None, deps: Deps, options: ResumeOptions, stream: EventStream | None) -> Job[Out]:
        """What is wrong is said before the run is taken over."""
        self._check(options, ResumeOptions)
        state = await self.journal.load(run_id)
        started = state.started
        assert started is not None, "a run begins with run.started"
        if state.finished is not None:
            raise AgentError("invalid", f"run {run_id} is finished: replay it, or fork it")
        found = self._known(agent, started.agent, run_id)

        async def make() -> Plan:
            plan = await self._assembly.resumed(found, state, options)
            writer = await self.journal.take_over(run_id)
            if await self.journal.read(run_id, after=state.seq):
                await writer.release()
                raise AgentError("busy", f"run {run_id} has moved on just now, driven by another process: look at it, then try again")
            return resumed(plan, Resumption(writer=writer, answers=answers_of(options)))

        return await self._claimed(started.session_id, found, make, deps, options, stream)

    def _check(self, options: Mapping[str, object], known: type[Any]) -> None:
        if self._closed:
            raise AgentError("invalid", "this runtime is closed: open another one")
        names: frozenset[str] = known.__optional_keys__
        if strange := sorted(set(options) - names):
            raise AgentError("invalid", f"this version knows no option {strange[0]!r} of a run; it knows: {', '.join(sorted(names))}")

    def _known(self, agent: Agent[Deps, Out] | None, name: str, run_id: str) -> Agent[Deps, Out]:
        found = agent or self._agents.get(name)
        if found is None:
            raise AgentError("invalid", f"the agent {name!r} of run {run_id} is not known here: pass agent=")
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
        parent: Feed | None = None,
    ) -> Job[Out]:
        """The session is claimed before its history is read."""
        await self._store_late()
        if session_id is None:
            return self._job(agent, await make(), deps, options, stream, parent)
        inside = self._claim(session_id)
        try:
            job = self._job(agent, await make(), deps, options, stream, parent)
        except BaseException:
            self._let_go(session_id)
            raise
        with self._lock:
            self._active[session_id] = _Active(job.run, inside)
        return job

    def _job(
        self, agent: Agent[Deps, Out], plan: Plan, deps: Deps, options: RunOptions | ResumeOptions, stream: EventStream | None, parent: Feed | None
    ) -> Job[Out]:
        feed = Feed(plan.run_id, plan.session_id, self.hub, stream, redactor=lambda: self._assembly.redactor, parent=parent)
        toolbox = self._assembly.toolbox(agent, plan, deps, feed, self._run_child)
        run = Run(plan, toolbox, self.journal, feed, clock=self._clock, retries=self._retries)
        job = Job[Out](run=run, drive=self._drive, over=anyio.Event())
        self._agents[agent.name] = agent
        self._jobs[plan.run_id] = job
        return job

    async def _run_child(
        self,
        parent: Plan,
        feed: Feed,
        agent: Agent[Any, Out],
        text: str | Sequence[Part],
        *,
        deps: Any,
        inputs: Mapping[str, Any] | None,
        limits: Limits | None,
    ) -> RunResult[Out]:
        """A run that a tool of another one started, in that tool's own task."""
        options: RunOptions = {"mode": parent.mode, "cwd": parent.cwd, "user_id": parent.user_id, "inputs": inputs or {}}
        if limits is not None:
            options["limits"] = limits
        job = await self._start(agent, text, deps, options, None, parent=_Parent(parent, feed))
        child = job.run.plan.run_id
        feed.say(ChildStart, {"child_run_id": child, "agent": agent.name})
        try:
            await job.drive(job)
        finally:
            if (ending := job.run.ending) is not None:
                feed.say(ChildEnd, {"child_run_id": child, "outcome": ending.outcome})
        return job.unwrap()

    async def _drive(self, job: Job[Out]) -> None:
        try:
            await job.run.drive()
        except AgentError as e:
            job.result = e
        except Exception as e:  # the edge of a task: a journal's bug is told, not thrown about
            logger.exception("run %s could not begin", job.run.plan.run_id)
            job.result = AgentError("agent", f"the run could not begin: {type(e).__name__}: {self.redact(str(e))}")
        finally:
            if job.run.ending is not None:
                job.result = _result(job.run.state, job.run.ending)
            self._release(job)

    def _release(self, job: Job[Any]) -> None:
        plan = job.run.plan
        self._jobs.pop(plan.run_id, None)
        if abandoned_calls(plan.run_id):
            self._late[plan.run_id] = job.run
        job.over.set()
        if plan.session_id is None:
            self._assembly.models.forget(plan.run_id)
            return
        try:
            if job.run.ending is not None and not job.run.ending.waiting:
                state = job.run.state
                self.sessions.remember(plan.session_id, state.history[0 if plan.fork else state.past :], kept=plan.window)
        finally:
            self._let_go(plan.session_id)

    def _claim(self, session_id: str) -> Callable[[Callable[[], None]], None]:
        inside = into_this_loop()
        with self._lock:
            if session_id in self._active:
                raise AgentError("busy", f"session {session_id!r} is running already: wait for its end, cancel it, or steer it")
            self._active[session_id] = _Active(None, inside)
        return inside

    def _let_go(self, session_id: str) -> None:
        with self._lock:
            self._active.pop(session_id, None)


def _listeners(options: RunOptions | ResumeOptions | ForkOptions) -> Listeners:
    return Listeners(options.get("callbacks"), options.get("on_event"))


def _session_id(session: Session[Any, Any] | str | None) -> str | None:
    if isinstance(session, Session):
        session = session.id
    if session is not None:
        check_session_id(session)
    return session


def _session_of(records: Sequence[Record]) -> str | None:
    started = records[0].entry
    return started.session_id if isinstance(started, RunStarted) else None


def _fork_of(run_id: str, state: RunState, turn: int, results: Mapping[str, str], *, asks: bool) -> Fork:
    """Raises AgentError(invalid) where there is no such turn, or nothing to go on with."""
    turns = state.ledger.turns
    if not 0 <= turn <= turns:
        raise AgentError("invalid", f"run {run_id} has {turns} turn{'' if turns == 1 else 's'}: fork it after one of 0 to {turns}, not after {turn}")
    if turn == turns and not asks and state.response is not None and not state.calls:
        raise AgentError("invalid", f"turn {turn} of run {run_id} was its answer: say in a text how it should go on, or fork it after an earlier turn")
    seq = state.closed[turn - 1] if 0 < turn <= len(state.closed) else 1 if turn == 0 else state.seq
    return Fork(run_id=run_id, turn=turn, seq=seq, asks=asks, results=dict(results))


def _unfinished(state: RunState, outcome: Outcome | None = None) -> Ending:
    """Of a run that has no end in its journal."""
    metrics = metrics_of(state, duration_s=state.driven_s)
    if outcome is None and state.asked:
        return Ending(outcome=Outcome.APPROVAL_NEEDED, text=state.text, error=None, metrics=metrics, waiting=True)
    error = AgentError("agent", "the run is not finished: resume it, or kill it") if outcome is None else None
    return Ending(outcome=outcome or Outcome.ERROR, text=state.text, error=error, metrics=metrics)


def _result(state: RunState, ending: Ending) -> RunResult[Any]:
    started = state.started
    assert started is not None, "a run begins with run.started"
    closed = len(state.history) - bool(state.open_calls)  # a request cannot end with a call that waits
    return RunResult(
        run_id=started.run_id,
        session_id=started.session_id,
        outcome=ending.outcome,
        output=ending.text if ending.outcome is Outcome.COMPLETED else None,
        validated=ending.outcome is Outcome.COMPLETED,
        text=ending.text,
        error=ending.error,
        messages=state.history[:closed],
        new_messages=state.history[state.prompt_at : closed],
        metrics=ending.metrics,
    )


async def run(agent: Agent[Deps, Out], text: str | Sequence[Part], *, deps: Deps = None, **options: Unpack[RunOptions]) -> RunResult[Out]:
    """One run in a runtime of its own, in memory. Raises AgentError for what is wrong before it starts."""
    async with Runtime.open() as runtime:
        return await runtime.run(agent, text, deps=deps, **options)


def run_sync(agent: Agent[Deps, Out], text: str | Sequence[Part], *, deps: Deps = None, **options: Unpack[RunOptions]) -> RunResult[Out]:
    """The same from code without an event loop. Raises AgentError(invalid) inside a running one, where it would block it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise AgentError("invalid", "run_sync cannot run inside a running event loop: use `await treadle.run(…)` there")
    return anyio.run(partial(run, agent, text, deps=deps, **options))

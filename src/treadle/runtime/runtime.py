"""Shared resources of runs, and every way to start, follow and end a run: the top of the library.

assembly.py makes plans, the loop executes them. Entry point: `Runtime`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, overload

import anyio
from anyio import to_thread
from typing_extensions import Unpack

from treadle._internal.clock import Clock
from treadle.agents.agent import Agent, Deps
from treadle.agents.registry import AgentRegistry
from treadle.config import Config, completed, load
from treadle.config.readers import span_of
from treadle.errors import AgentError, ErrorKind
from treadle.events.callbacks import Listeners
from treadle.events.feed import EventStream
from treadle.events.follow import Follow, Projection
from treadle.events.hooks import Hook, checked_hooks
from treadle.events.hub import Hub
from treadle.events.telemetry.configured import ConfiguredTelemetry
from treadle.events.tracing import Tracer
from treadle.journal import LEASE_S, open_journal
from treadle.journal.diff import RunDiff, compare
from treadle.journal.engine import Engine
from treadle.journal.entries import Record, RunStarted
from treadle.journal.journal import Journal, RunInfo
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.queue import DEFAULT_QUEUE, QueuePlace
from treadle.journal.sessions import Sessions, ViewMark
from treadle.loop.loop import Run
from treadle.loop.plan import Plan, ending_of, unfinished
from treadle.messages.events import Event
from treadle.messages.message import Message, Part
from treadle.messages.result import Out, RunResult
from treadle.models.registry import Models
from treadle.models.retry import PATIENT as PATIENT
from treadle.models.retry import RetryPolicy
from treadle.policy.paths import Reach
from treadle.policy.policy import reach_of
from treadle.runtime.assembly import Assembly, answers_of, checked_mode
from treadle.runtime.children import close_orphans, close_run, until_idle
from treadle.runtime.run_stream import RunHandle, RunStream, check_steering
from treadle.runtime.runs import Runs, result_of
from treadle.runtime.session import ForkOptions, ResumeOptions, RunOptions, Session
from treadle.runtime.submit import changed, check_queue, place_of, refuse_what_lives_here, wake
from treadle.tools.subagent import Subagent
from treadle.types import Mode, Time, now

if TYPE_CHECKING:
    from treadle.tools.mcp import ServerStatus

logger = logging.getLogger("treadle")

OnClose = Literal["let_go", "cancel"]
PRUNE_GRACE_S = 5.0
STOP_GRACE_S = 10.0
"""Time that `kill` waits for the process that drives the run."""


class Runtime:
    """Holds what runs share: journal, sessions, connections, hub. An async context manager; nothing
    outlives it.

    Runs may be started from any number of tasks of one event loop.
    """

    def __init__(
        self,
        *,
        config: Config | None = None,
        journal: Journal | None = None,
        clock: Clock | None = None,
        retries: RetryPolicy | None = None,
        tracer: Tracer | None = None,
        hooks: Sequence[Hook] = (),
        on_close: OnClose | None = None,
    ) -> None:
        """Most people want `Runtime.open`, where `config` and `on_close` are described."""
        self.journal: Journal = journal if journal is not None else MemoryJournal()
        self._on_close = on_close or (
            "cancel" if isinstance(self.journal, MemoryJournal) else "let_go"
        )
        if self._on_close not in get_args(OnClose):
            raise AgentError(
                "invalid", f"on_close={on_close!r} is none of: {', '.join(get_args(OnClose))}"
            )
        self.hub = Hub()
        self.agents = AgentRegistry(check=self._check_models)
        """Found here by name when a run of theirs is resumed or forked without `agent=`."""
        self.engine: Engine | None = None
        """Engine that delivers queued runs in this process, if a worker works in it."""
        clock = clock or Clock()
        self._assembly = Assembly(
            load(files=False) if config is None else completed(config), self.journal, clock
        )
        self._assembly.hooks = checked_hooks(hooks)
        self._telemetry = ConfiguredTelemetry(self.config.telemetry, self.hub, tracer)
        self._assembly.toolboxes.tracer = self._telemetry.tracer
        self._runs = Runs(self._assembly, self.hub, self.agents, clock, retries or RetryPolicy())

    @classmethod
    def open(
        cls,
        url: str = "memory:",
        *,
        config: Config | None = None,
        durability: Literal["process", "power"] = "process",
        retries: RetryPolicy | None = None,
        tracer: Tracer | None = None,
        hooks: Sequence[Hook] = (),
        on_close: OnClose | None = None,
    ) -> Self:
        """A runtime over the journal at `url`: `memory:`, `sqlite:///FILE` (`sqlite:////FILE` from
        the root) or `postgresql://USER@HOST/DATABASE`.

        `config`: what it leaves at its default comes from the environment (keys, base URLs,
        TREADLE_MODEL), as all does without it; no file is read. `treadle.config.load()` reads files
        too; `load({}, files=False)` reads nothing.

        `durability`: what an acknowledged entry survives: the death of the process, or (slower) of
        the power too. The start of a once-call survives both. `retries`: of requests that failed;
        None: three. `treadle.retry.PATIENT` waits out overloads. `tracer`: follows runs from
        outside, as `treadle.telemetry.otel_tracer()` does. `hooks`: of all runs, before those of
        their agents.

        `on_close`: what closing does with runs under way. "let_go" stops them where they are, to be
        resumed, as after a crash but at once; "cancel" ends them as `cancelled`. None: let_go, or
        cancel where the journal is in memory. Raises AgentError(invalid) for a journal that cannot
        be opened.
        """
        lease_s = LEASE_S if config is None else config.workers.lease_s
        return cls(
            config=config,
            journal=open_journal(url, durability=durability, lease_s=lease_s),
            retries=retries,
            tracer=tracer,
            hooks=hooks,
            on_close=on_close,
        )

    def _check_models(self, agent: Agent[Any, Any]) -> None:
        """Raises AgentError(invalid) for a model, of this agent or of one below it, that no
        provider here can have.
        """
        if isinstance(agent.model, str):
            try:
                self.config.split(agent.model)
            except AgentError as e:
                raise AgentError(e.kind, f"agent {agent.name!r}: {e.message}") from e
        for tool in agent.own_tools:
            if isinstance(tool, Subagent) and isinstance(tool.agent, Agent):
                self._check_models(tool.agent)

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
        await self._assembly.served.enter()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
        await self._assembly.served.leave()

    async def aclose(self) -> None:
        """Stop the runs under way as `on_close` says, wait for them, and close every connection.
        Idempotent.

        A call that still runs after a few seconds keeps its run: no other process can resume it
        before this one ends.
        """
        with anyio.CancelScope(shield=True):
            all_over = await self._runs.aclose(lets_go=self._on_close == "let_go")
            await self._assembly.toolboxes.aclose()
            await self._assembly.served.aclose()
            await self._forget_old_runs()
            await self._assembly.models.aclose()
            await self.journal.aclose(keep_runs=not all_over)
            self.hub.close()
            await self._telemetry.aclose()

    def let_go(self) -> None:
        """Stop the runs under way at their next await, to be resumed: `stopped` in the journal."""
        self._runs.let_go()

    async def _forget_old_runs(self) -> None:
        """Delete old runs as the configuration says. The rest is left to the next time after a few
        seconds.
        """
        if self.config.keep_runs is None or not self._runs.ran:
            return
        try:
            with anyio.move_on_after(PRUNE_GRACE_S):
                await close_orphans(self.journal)
                freed = await self.journal.prune(now() - span_of(self.config.keep_runs), apply=True)
                if (undo := self._assembly.toolboxes.undo) is not None:
                    await to_thread.run_sync(undo.forget, freed.runs)
                logger.info(
                    "keep_runs=%s: %d old runs were deleted", self.config.keep_runs, len(freed.runs)
                )
        except AgentError as e:
            logger.warning("old runs could not be deleted: %s", e.message)

    # ------------------------------------------------------------ running

    async def run(
        self,
        agent: Agent[Deps, Out],
        text: str | Sequence[Part],
        *,
        deps: Deps = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[Out]:
        """Run an agent to its end. Raises AgentError for errors before it starts; every end after
        that is a value.

        Cancelling the awaiting task closes the run first: its history is valid and its outcome
        journaled.
        """
        return await self._collect(
            partial(self._runs.start, agent, text, deps, options), _listeners(options)
        )

    def stream(
        self,
        agent: Agent[Deps, Out],
        text: str | Sequence[Part],
        *,
        deps: Deps = None,
        **options: Unpack[RunOptions],
    ) -> RunStream[Out]:
        """The same run, its events as they come:

        `async with rt.stream(…) as run: async for event in run: …`. It begins with the block.
        """
        return RunStream(partial(self._runs.start, agent, text, deps, options), _listeners(options))

    @overload
    async def resume(
        self, run_id: str, agent: None = None, *, deps: Any = None, **options: Unpack[ResumeOptions]
    ) -> RunResult[Any]: ...
    @overload
    async def resume(
        self,
        run_id: str,
        agent: Agent[Deps, Out],
        *,
        deps: Deps = None,
        **options: Unpack[ResumeOptions],
    ) -> RunResult[Out]: ...
    async def resume(
        self,
        run_id: str,
        agent: Agent[Deps, Out] | None = None,
        *,
        deps: Deps = None,
        **options: Unpack[ResumeOptions],
    ) -> RunResult[Out]:
        """Resume a run whose process died, or that waits for a person; for a finished one, return
        the result.

        Pure and idempotent calls that were running run again, with the same key; once-calls are
        probed, else reported as `unknown`, or as `on_unknown` says. Leave out `agent` if one of
        this name ran here before, or is among `agents`. Raises AgentError: invalid for an unknown
        run, agent, tool or call, busy if a living process drives the run and `wait` is false.
        """
        if options.get("wait"):
            await until_idle(self.journal, run_id)
        state = await self.journal.load(run_id)
        if state.finished is not None:
            return self._runs.finished(state, agent)
        return await self._collect(
            partial(self._runs.resume, run_id, agent, deps, options, read=state),
            _listeners(options),
        )

    @overload
    def resume_stream(
        self, run_id: str, agent: None = None, *, deps: Any = None, **options: Unpack[ResumeOptions]
    ) -> RunStream[Any]: ...
    @overload
    def resume_stream(
        self,
        run_id: str,
        agent: Agent[Deps, Out],
        *,
        deps: Deps = None,
        **options: Unpack[ResumeOptions],
    ) -> RunStream[Out]: ...
    def resume_stream(
        self,
        run_id: str,
        agent: Agent[Deps, Out] | None = None,
        *,
        deps: Deps = None,
        **options: Unpack[ResumeOptions],
    ) -> RunStream[Out]:
        """The same, its events as they come. Raises AgentError(invalid) for a finished run:

        `replay` it.
        """
        return RunStream(
            partial(self._runs.resume, run_id, agent, deps, options), _listeners(options)
        )

    async def replay(self, run_id: str) -> RunResult[Any]:
        """The run again, exactly, out of its journal: no model is asked and no tool is run. Raises
        AgentError(invalid) for an unknown run.

        One that is not finished has the outcome `approval_needed` where it waits for a person, else
        `error`.
        """
        state = await self.journal.load(run_id)
        return result_of(
            state, ending_of(state) if state.finished is not None else unfinished(state)
        )

    async def events(self, run_id: str) -> list[Event]:
        """The durable events of a run, as they were, out of its journal."""
        records = await self.journal.read(run_id)
        projection = Projection(run_id, _session_of(records), lambda: self._assembly.redactor)
        return [event for record in records for event in projection.of(record)]

    def follow(self, run_id: str, *, after: str | None = None, deltas: bool = True) -> Follow:
        """A run's events from any process over its journal, while it is driven anywhere: `async
        with rt.follow(…) as events: async for event in events: …`.

        Durable events come exactly once and in order, those behind `after` (the `id` of one),
        through waits and takeovers, until after run_end; what has no id (`deltas`) is gathered for
        a moment, and may be lost. For a queued run it waits. Raises AgentError(invalid) for an
        `after` that is no id; the rest is raised by the first event.
        """
        return Follow(
            self.journal, run_id, lambda: self._assembly.redactor, after=after, deltas=deltas
        )

    @overload
    async def fork(
        self,
        run_id: str,
        *,
        turn: int,
        text: str | Sequence[Part] | None = None,
        agent: None = None,
        deps: Any = None,
        **options: Unpack[ForkOptions],
    ) -> RunResult[Any]: ...
    @overload
    async def fork(
        self,
        run_id: str,
        *,
        turn: int,
        text: str | Sequence[Part] | None = None,
        agent: Agent[Deps, Out],
        deps: Deps = None,
        **options: Unpack[ForkOptions],
    ) -> RunResult[Out]: ...
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
        """A new run that goes on after `turn` turns of another one, whose entries it reads and
        never repeats.

        `text`: the next words of the person (at turn 0: instead of the prompt); `model=` another
        model; `results=` another result for calls of that turn, by call id. Raises
        AgentError(invalid) for a turn beyond the end, and where there is nothing to go on with.
        """
        return await self._collect(
            partial(self._runs.fork, run_id, turn, text, agent, deps, options), _listeners(options)
        )

    @overload
    def fork_stream(
        self,
        run_id: str,
        *,
        turn: int,
        text: str | Sequence[Part] | None = None,
        agent: None = None,
        deps: Any = None,
        **options: Unpack[ForkOptions],
    ) -> RunStream[Any]: ...
    @overload
    def fork_stream(
        self,
        run_id: str,
        *,
        turn: int,
        text: str | Sequence[Part] | None = None,
        agent: Agent[Deps, Out],
        deps: Deps = None,
        **options: Unpack[ForkOptions],
    ) -> RunStream[Out]: ...
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
        return RunStream(
            partial(self._runs.fork, run_id, turn, text, agent, deps, options), _listeners(options)
        )

    async def diff(self, run_id: str, other: str) -> RunDiff:
        """Return where two runs diverge, and how they ended."""
        return compare(await self.journal.load(run_id), await self.journal.load(other))

    async def kill(self, run_id: str, *, force: bool = False) -> RunInfo:
        """End a run as `cancelled`, in whichever process it is driven; a run without a driver is
        closed here. A finished one stays unchanged.

        Raises AgentError(busy) if its process does not answer; `force` then takes the run away from
        it.
        """
        found = await self.journal.info(run_id)
        if found.status == "finished":
            return found
        if not force and await self.journal.ask_to_stop(run_id):
            with anyio.move_on_after(STOP_GRACE_S):
                while (found := await self.journal.info(run_id)).status == "running":  # noqa: ASYNC110  another process ends it
                    await anyio.sleep(0.02)
            if found.status == "running":
                by_force = f"with force=True (`treadle runs kill {run_id} --force`)"
                raise AgentError(
                    "busy",
                    (
                        f"the process that drives run {run_id} does not answer: end that process, "
                        f"or take the run away from it {by_force}"
                    ),
                )
            if found.status == "finished":
                return found
        try:
            await close_run(self.journal, run_id, by="kill", force=force)
        except AgentError as e:
            if e.kind is not ErrorKind.BUSY or found.status == "running":
                raise
            return await self.kill(run_id, force=force)  # a worker has just begun with it
        if self.engine is not None and found.queue is not None:
            try:
                await self.engine.cancel(run_id)
            except AgentError as e:
                logger.info(
                    "run %s is over, and may be delivered all the same: %s", run_id, e.message
                )
        return await self.journal.info(run_id)

    def session(
        self, session_id: str | None = None, *, agent: Agent[Deps, Out]
    ) -> Session[Deps, Out]:
        """Opens a session, or makes it where there is none of this id."""
        if session_id is None or self.sessions.get(session_id) is None:
            session_id = self.sessions.create(session_id=session_id).id
        return Session(session_id, agent, self)

    # ------------------------------------------------------------ elsewhere

    async def submit(
        self,
        agent: Agent[Any, Any],
        text: str | Sequence[Part],
        *,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        tenant: str | None = None,
        at: Time | None = None,
        **options: Unpack[RunOptions],
    ) -> str:
        """Hands a run to whatever worker takes it from the queue (`treadle worker`), and gives its
        id: it is in the journal when this returns.

        The higher `priority` (-1000 to 1000) goes first, of equals the older; not before `at`.
        `tenant`: for whom, as limits count it; None: `user_id`. What lives in this process (deps,
        callbacks, on_event, on_approval) is not taken; keys and servers of tools are the worker's.
        Raises AgentError: invalid for what is wrong with the run or its queue, busy where the
        session has a run that is not finished, or `run_id` is taken.
        """
        refuse_what_lives_here(options)
        place = place_of(
            self.config.queue_names,
            queue,
            priority=priority,
            tenant=tenant if tenant is not None else options.get("user_id"),
            at=at,
        )

        async def add(plan: Plan, found: ViewMark | None) -> None:
            await self.journal.queue.add([plan.started(), *plan.compacted()], place, found=found)

        return await self._runs.submit(agent, text, options, add)

    async def wake(
        self,
        run_id: str,
        *,
        approve: Collection[str] = (),
        deny: Mapping[str, str] | None = None,
        results: Mapping[str, str] | None = None,
        arguments: Mapping[str, Mapping[str, Any]] | None = None,
        at: Time | None = None,
        place: QueuePlace | None = None,
    ) -> RunInfo:
        """Puts a run into its queue again (`place`: into another, or the first one), now or at a
        time: one that waits for a person, is parked, or was stopped.

        Answers are as for `resume`, and `arguments` are what approved calls are to be called with
        instead; they are in the journal when this returns, and whichever worker takes the run goes
        by them. Raises AgentError: invalid for an unknown or finished run, one in no queue, and an
        answer to a call that is not open; busy where a living process drives it.
        """
        answers = changed(
            answers_of({"approve": approve, "deny": deny or {}, "results": results or {}}),
            arguments or {},
        )
        if place is not None:
            check_queue(self.config.queue_names, place.queue)
        return await wake(self.journal, run_id, answers, at=at, place=place)

    def set_credentials(
        self, provider: str, *, api_key: str | None = None, auth_token: str | None = None
    ) -> None:
        """Another key for a provider, from the next request on; sessions and their histories stay.

        Raises AgentError(invalid) for an unknown provider or a key that cannot be one.
        """
        self._assembly.use(
            self.config.with_credentials(provider, api_key=api_key, auth_token=auth_token)
        )

    async def is_priced(self, agent: Agent[Any, Any]) -> bool:
        """True if the price of every model that a run of this agent may ask is known, so that the
        run may have a limit on money.
        """
        return await self._assembly.is_priced(agent)

    def redact(self, text: str) -> str:
        """Without known secrets: what every sink is given."""
        return self._assembly.redact(text)

    # ------------------------------------------------------------ sessions, by id

    def steer(self, session_id: str, text: str) -> None:
        """Text for the session's running run.

        Raises AgentError(invalid) where nothing runs in it, or the text is empty.
        """
        check_steering(text)
        if not self._runs.tell(session_id, lambda run: run.steer(text)):
            raise AgentError(
                "invalid", f"nothing runs in session {session_id!r}: send the text instead"
            )

    def cancel(self, session_id: str | None = None, *, run_id: str | None = None) -> bool:
        """End the session's running run, or the run of that id, as `cancelled`: what awaits it gets
        its result. False if this runtime drives none.

        `run_id` belongs to the event loop of the run; `kill` ends a run in any process. Raises
        AgentError(invalid) without exactly one of the two.
        """
        if (session_id is None) is (run_id is None):
            raise AgentError("invalid", "cancel takes a session's id, or run_id=: give one of them")
        return (
            self._runs.cancel(run_id)
            if session_id is None
            else self._runs.tell(session_id, Run.cancel)
        )

    def compact(self, session_id: str) -> bool:
        """Makes room in a conversation, also where there is some: old results go, then a model sums
        up what is old.

        It happens before the next request of the session's running run; where nothing runs (False),
        when its next run begins in this runtime. What leaves the model's view stays stored and is
        found. Raises AgentError(invalid) for an unknown session.
        """
        if self.sessions.get(session_id) is None:
            raise AgentError("invalid", f"there is no session {session_id!r}")
        return self._runs.compact(session_id)

    def allow(self, session_id: str, pattern: Sequence[str]) -> None:
        """A person's yes to an `ApprovalRequest.pattern`, for all runs of this session in this
        runtime, the one under way included.

        Raises AgentError(invalid) for a rule that is never offered.
        """
        self._assembly.toolboxes.grants.allow(session_id, pattern)

    def use_mode(self, session_id: str, mode: Mode) -> None:
        """The mode of the session's running run from its next call on, and of what that starts;
        where nothing runs, nothing is changed.

        Raises AgentError(invalid) for a mode that is none.
        """
        self._assembly.toolboxes.grants.use_mode(session_id, checked_mode(mode))

    def is_busy(self, session_id: str) -> bool:
        return self._runs.is_busy(session_id)

    async def is_confined(self, agent: Agent[Any, Any]) -> bool:
        """Return True if a working sandbox confines the commands that the agent runs without
        approval, or it has no commands.
        """
        return await self._assembly.toolboxes.confining.works_for(agent)

    def reach(self, cwd: Path) -> Reach:
        """Judges paths by the configured permissions, as for a run in `cwd`. Make one for each
        decision: it remembers where links led.

        Raises AgentError(invalid) for a rule that is none.
        """
        return reach_of(cwd, self._assembly.toolboxes.permissions)

    def mcp_servers(self, agent: Agent[Any, Any]) -> list[ServerStatus]:
        """Return the status of the agent's servers: which run, their tools, errors; none is started
        for it. Blocks while it reads a file.
        """
        return self._assembly.served.standing(agent)

    async def messages(self, session_id: str) -> list[Message]:
        return list((await self.journal.view(session_id)).messages)

    async def clear(self, session_id: str) -> None:
        """Forgets the session's messages. Raises AgentError(busy) while a run is under way."""
        self._runs.while_idle(session_id, self.sessions.clear_messages)
        self._assembly.toolboxes.forget(session_id)

    async def _collect(
        self, start: Callable[[EventStream | None], Awaitable[RunHandle[Out]]], listeners: Listeners
    ) -> RunResult[Out]:
        """Drive the run in the caller's own task, without events, if there are no subscribers."""
        if not listeners:
            job = await start(None)
            await job.drive(job)
            return job.unwrap()
        async with RunStream(start, listeners) as stream:
            async for _ in stream:
                pass
        return stream.result


def _listeners(options: RunOptions | ResumeOptions | ForkOptions) -> Listeners:
    return Listeners(options.get("callbacks"), options.get("on_event"))


def _session_of(records: Sequence[Record]) -> str | None:
    started = records[0].entry
    return started.session_id if isinstance(started, RunStarted) else None

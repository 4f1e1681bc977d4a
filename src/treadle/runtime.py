"""The only assembler: puts a definition, a model, tools and a journal together, and lets the loop run.

Entry: `Runtime`. `run` and `run_sync` are it, opened in memory for one run.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, Self, cast, get_args

import anyio
import msgspec
from typing_extensions import Unpack

from treadle.agent import Agent, Deps, expand, expand_message
from treadle.callbacks import Listeners
from treadle.calls import Ready, idempotency_key
from treadle.clock import Clock
from treadle.config import Config, load
from treadle.environment import child_environment
from treadle.errors import AgentError
from treadle.execution import Toolbox, without_images
from treadle.feed import EventStream, Feed
from treadle.hub import Hub
from treadle.journal import Journal
from treadle.journals.memory import MemoryJournal
from treadle.loop import Run
from treadle.message import MediaPart, Message, Part, TextPart, encode_json
from treadle.model import History, Model
from treadle.plan import Ending, Plan
from treadle.redaction import Redactor
from treadle.registry import Models
from treadle.result import Out, RunResult
from treadle.retry import RetryPolicy
from treadle.run_stream import Job, RunStream, check_steering
from treadle.session import RunOptions, Session
from treadle.session_store import NEW_SESSION, SessionStore, check_session_id, title_of
from treadle.spill import Spill
from treadle.tooling import ToolContext, ToolRegistry
from treadle.tools.function.threads import abandoned_calls, wait_for_abandoned
from treadle.types import DEFAULT_MAX_TOKENS, Limits, Mode, Outcome, Settings, SystemBlock, new_id

logger = logging.getLogger("treadle")

DEFAULT_LIMITS = Limits(turns=100)
"""Where nobody gives limits."""
CLOSE_GRACE_S = 5.0
"""How long closing waits for runs to close and for the threads of abandoned sync tools."""


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
        self.config = config if config is not None else load(files=False)
        self.sessions = SessionStore()
        self.hub = Hub()
        self._journal: Journal = journal if journal is not None else MemoryJournal()
        self._clock = clock or Clock()
        self._retries = retries or RetryPolicy()
        self._redactor = Redactor(self.config.secrets())
        self.models = Models(self.config, clean=self.redact)
        self._environment = child_environment(self.config.secrets())
        self._spill = Spill()
        self._lock = threading.Lock()
        """Guards `_active`: two threads must not both find a session idle."""
        self._active: dict[str, _Active] = {}
        """By session id."""
        self._jobs: set[Job[Any]] = set()
        self._closed = False
        self._abandoning: set[str] = set()
        """Runs that left a sync tool behind in its thread."""
        self._seen_files: dict[str, dict[str, str]] = {}

    @classmethod
    def open(cls, url: str = "memory:", *, config: Config | None = None, durability: Literal["process", "power"] = "process") -> Self:
        """A runtime over the journal at `url`. Raises AgentError(invalid) for one that this version cannot open."""
        scheme = url.partition(":")[0]
        if scheme in ("sqlite", "postgresql"):
            raise AgentError("invalid", f"{scheme} journals come in a later version: open 'memory:'")
        if scheme != "memory":
            raise AgentError("invalid", f"{url!r} is no journal: use 'memory:'")
        if durability not in ("process", "power"):
            raise AgentError("invalid", f"durability is 'process' or 'power', not {durability!r}")
        return cls(config=config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancels what still runs, waits for it, and closes every connection. Idempotent."""
        self._closed = True
        jobs = list(self._jobs)
        for job in jobs:
            job.run.cancel()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(CLOSE_GRACE_S):
                for job in jobs:
                    await job.over.wait()
            await self._wait_for_threads()
            await self.models.aclose()
            await self._journal.aclose()
        self.hub.close()
        self._spill.close()

    async def _wait_for_threads(self) -> None:
        """A sync tool's thread cannot be stopped: it gets the grace, and is named in the log where that is not enough."""
        calls = [call for run_id in self._abandoning for call in abandoned_calls(run_id)]
        for left in await wait_for_abandoned(calls, CLOSE_GRACE_S):
            logger.warning("the sync tool %r of run %s still runs in its thread after %.0f s: left alone", left.tool, left.run_id, CLOSE_GRACE_S)

    # ------------------------------------------------------------ running

    async def run(self, agent: Agent[Deps, Out], text: str | Sequence[Part], *, deps: Deps = None, **options: Unpack[RunOptions]) -> RunResult[Out]:
        """One run to its end. Raises AgentError for what is wrong before it starts; every end after that is a value.

        Cancelling the awaiting task closes the run first: its history is valid and its outcome journaled.
        """
        listeners = _listeners(options)
        async with RunStream(lambda events: self._start(agent, text, deps, options, events if listeners else None), listeners) as stream:
            async for _ in stream:
                pass
        return stream.result

    def stream(self, agent: Agent[Deps, Out], text: str | Sequence[Part], *, deps: Deps = None, **options: Unpack[RunOptions]) -> RunStream[Out]:
        """The same run, its events as they come: `async with rt.stream(…) as run: async for event in run: …`. It begins with the block."""
        return RunStream(lambda events: self._start(agent, text, deps, options, events), _listeners(options))

    def session(self, session_id: str | None = None, *, agent: Agent[Deps, Out]) -> Session[Deps, Out]:
        """Opens a session, or makes it where there is none of this id."""
        if session_id is None or self.sessions.get(session_id) is None:
            session_id = self.sessions.create(session_id=session_id).id
        return Session(session_id, agent, self)

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
                job.result = _result(job, job.run.ending)
            self._release(job)

    def _release(self, job: Job[Any]) -> None:
        plan = job.run.plan
        self._jobs.discard(job)
        if abandoned_calls(plan.run_id):
            self._abandoning.add(plan.run_id)
        job.over.set()
        if plan.session_id is None:
            self.models.forget(plan.run_id)
            return
        try:
            if job.run.ending is not None:
                self._remember(plan.session_id, job)
        finally:
            self._let_go(plan.session_id)

    def _remember(self, session_id: str, job: Job[Any]) -> None:
        history, found = job.run.plan.history, self.sessions.get(session_id)
        if found is not None and found.title == NEW_SESSION:  # named by the person's words, not by the agent's first messages
            self.sessions.update_title(session_id, title_of(history[job.prompt_at].text))
        self.sessions.add_messages(session_id, history[job.new_from :])

    def set_credentials(self, provider: str, *, api_key: str | None = None, auth_token: str | None = None) -> None:
        """Another key for a provider, from the next request on; sessions and their histories stay.

        Raises AgentError(invalid) for an unknown provider or a key that cannot be one.
        """
        self.config = self.config.with_credentials(provider, api_key=api_key, auth_token=auth_token)
        self._redactor = Redactor(self.config.secrets())
        self._environment = child_environment(self.config.secrets())
        self.models.use(self.config)

    resume = _later("resume")
    replay = _later("replay")
    fork = _later("fork")
    diff = _later("diff")
    submit = _later("submit")

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

    def messages(self, session_id: str) -> list[Message]:
        return list(self.sessions.get_messages(session_id))

    def clear(self, session_id: str) -> None:
        """Forgets the session's messages. Raises AgentError(busy) while a run is under way."""
        with self._lock:
            if session_id in self._active:
                raise AgentError("busy", f"session {session_id!r} is running: cancel the run, or wait for its end")
            self.sessions.clear_messages(session_id)
            self._seen_files.pop(session_id, None)

    def _tell(self, session_id: str, what: Callable[[Run], None]) -> bool:
        """In the event loop of the session's run; False where there is none."""
        with self._lock:
            run, inside = self._active.get(session_id, (None, None))
        if run is None or inside is None:
            return False
        inside(partial(what, run))
        return True

    # ------------------------------------------------------------ assembling

    def _start(self, agent: Agent[Deps, Out], text: str | Sequence[Part], deps: Deps, options: RunOptions, stream: EventStream | None) -> Job[Out]:
        """Everything that can be wrong before a run starts is said here. The session is claimed before its history is read."""
        if self._closed:
            raise AgentError("invalid", "this runtime is closed: open another one")
        if strange := sorted(set(options) - RunOptions.__optional_keys__):
            raise AgentError("invalid", f"this version knows no option {strange[0]!r} of a run; it knows: {', '.join(sorted(RunOptions.__optional_keys__))}")
        if options.get("mode", "full") not in get_args(Mode):
            raise AgentError("invalid", f"mode={options.get('mode')!r} is none of: {', '.join(get_args(Mode))}")
        prompt = _prompt(text)
        session_id = self._session_id(options.get("session"))
        if session_id is None:
            return self._job(agent, prompt, deps, options, stream)
        inside = self._claim(session_id)
        try:
            job = self._job(agent, prompt, deps, options, stream)
            if self.sessions.get(session_id) is None:  # only now: what cannot run leaves no empty session behind
                self.sessions.create(session_id=session_id)
        except BaseException:
            self._let_go(session_id)
            raise
        with self._lock:
            self._active[session_id] = _Active(job.run, inside)
        return job

    def _job(self, agent: Agent[Deps, Out], prompt: Message, deps: Deps, options: RunOptions, stream: EventStream | None) -> Job[Out]:
        values = agent.values(options.get("inputs", {}))
        session_id = self._session_id(options.get("session"))
        run_id = new_id("run")
        model = self._model(agent, session_id or run_id)
        if "images" in model.refuses:
            prompt = prompt.with_parts(without_images(prompt.parts))
        past = [] if session_id is None else self.messages(session_id)
        fresh = [] if past else [expand_message(m, values) for m in agent.messages]
        settings, warnings = self._settings(options.get("settings", Settings()), agent, model)
        plan = Plan(
            run_id=run_id,
            session_id=session_id,
            agent=agent.name,
            agent_hash=agent.fingerprint,
            model=model,
            system=(SystemBlock(text=expand(agent.instructions, values)),) if agent.instructions else (),
            settings=settings,
            limits=self._limits(options.get("limits"), agent),
            mode=options.get("mode", "full"),
            cwd=_directory(options.get("cwd")),
            history=History([*past, *fresh, prompt], settled=len(past)),
            redactor=self._redactor,
            inputs_json=encode_json(values).decode(),
            user_id=options.get("user_id"),
            warnings=warnings,
        )
        feed = Feed(run_id, session_id, self.hub, stream)
        toolbox = self._toolbox(agent, plan, deps, feed)
        run = Run(plan, toolbox, self._journal, feed, clock=self._clock, retries=self._retries)
        job = Job[Out](run=run, drive=self._drive, new_from=len(past), prompt_at=len(past) + len(fresh), over=anyio.Event())
        self._jobs.add(job)
        return job

    def redact(self, text: str) -> str:
        """Without known secrets: what every sink is given."""
        return self._redactor.exact(text)

    def _claim(self, session_id: str) -> Callable[[Callable[[], None]], None]:
        inside = _into_this_loop()
        with self._lock:
            if session_id in self._active:
                raise AgentError("busy", f"session {session_id!r} is running already: wait for its end, cancel it, or steer it")
            self._active[session_id] = _Active(None, inside)
        return inside

    def _let_go(self, session_id: str) -> None:
        with self._lock:
            self._active.pop(session_id, None)

    def _session_id(self, session: Session[Any, Any] | str | None) -> str | None:
        if isinstance(session, Session):
            session = session.id
        if session is not None:
            check_session_id(session)
        return session

    def _model(self, agent: Agent[Any, Any], scope: str) -> Model:
        model = agent.model if agent.model is not None else self.config.models.large
        return self.models.get(model, scope=scope) if isinstance(model, str) else model

    def _settings(self, call: Settings, agent: Agent[Any, Any], model: Model) -> tuple[Settings, tuple[str, ...]]:
        """Call, agent, configuration, then 8192 tokens. What the model refuses is an error on the call, else dropped with a warning."""
        if wrong := sorted(call.given & model.refuses):
            raise AgentError("invalid", f"{model.name} does not take {wrong[0]}: leave it out")
        settings = call.over(agent.settings).over(self.config.defaults.settings).over(Settings(max_tokens=DEFAULT_MAX_TOKENS))
        dropped = sorted(settings.given & model.refuses)
        settings = msgspec.structs.replace(settings, **dict.fromkeys(dropped))
        return settings, tuple(f"{model.name} does not take {name}: it was left out" for name in dropped)

    def _limits(self, call: Limits | None, agent: Agent[Any, Any]) -> Limits:
        given = [limits for limits in (agent.limits, call) if limits is not None]
        if not given:
            return DEFAULT_LIMITS
        merged = {name: value for limits in given for name, value in msgspec.structs.asdict(limits).items() if value is not None}
        if "cost_usd" in merged:
            raise AgentError("invalid", "a limit on money (cost_usd) comes in a later version: limit tokens or turns")
        return Limits(**merged)

    def _toolbox(self, agent: Agent[Deps, Any], plan: Plan, deps: Deps, feed: Feed) -> Toolbox:
        registry = ToolRegistry(agent.tools)
        seen = self._seen_files.setdefault(plan.session_id, {}) if plan.session_id is not None else {}
        inside = _into_this_loop()

        def report(call_id: str, text: str, done: float | None, total: float | None) -> None:
            inside(partial(feed.progress, call_id, self.redact(text), done, total))

        def context(ready: Ready, deadline: float | None, cancelled: Callable[[], bool]) -> ToolContext[Deps]:
            return ToolContext(
                deps=deps,
                run_id=plan.run_id,
                session_id=plan.session_id,
                call_id=ready.call.id,
                user_id=plan.user_id,
                cwd=plan.cwd,
                deadline=deadline,
                attempt=1,
                idempotency_key=idempotency_key(plan.run_id, ready.call.id),
                spill=self._spill.write,
                seen_files=seen,
                environment=self._environment,
                report=partial(report, ready.call.id),
                is_cancelled=cancelled,
            )

        return Toolbox(
            registry=registry,
            mode=plan.mode,
            cwd=plan.cwd,
            clock=self._clock,
            clean=self.redact,
            context=context,
            definitions=registry.definitions(),
            takes_images="images" not in plan.model.refuses,
        )


def _listeners(options: RunOptions) -> Listeners:
    return Listeners(options.get("callbacks"), options.get("on_event"))


def _prompt(text: str | Sequence[Part]) -> Message:
    prompt = Message.user(text)
    if strange := [part for part in prompt.parts if not isinstance(part, (TextPart, MediaPart))]:
        raise AgentError("invalid", f"a prompt holds text and media, not {type(strange[0]).__name__}")
    if not prompt.text.strip() and not any(isinstance(part, MediaPart) for part in prompt.parts):
        raise AgentError("invalid", "the prompt is empty: say what the agent should do")
    return prompt


def _directory(cwd: str | Path | None) -> Path:
    if cwd is None:
        return Path.cwd()  # the system gives it absolute, real and a directory
    path = Path(cwd)
    if not path.is_dir():
        raise AgentError("invalid", f"cwd={str(path)!r} is no directory")
    return path.resolve()


def _into_this_loop() -> Callable[[Callable[[], None]], None]:
    """Calls a function in the event loop that is running now, from whatever thread."""
    loop, home = asyncio.get_running_loop(), threading.get_ident()

    def inside(called: Callable[[], None]) -> None:
        if threading.get_ident() == home:
            called()
        else:
            with suppress(RuntimeError):  # the loop is closed, and with it the run
                loop.call_soon_threadsafe(called)

    return inside


def _result(job: Job[Out], ending: Ending) -> RunResult[Out]:
    plan = job.run.plan
    completed = ending.outcome is Outcome.COMPLETED
    return RunResult(
        run_id=plan.run_id,
        session_id=plan.session_id,
        outcome=ending.outcome,
        output=cast("Out", ending.text) if completed else None,
        validated=completed,
        text=ending.text,
        error=ending.error,
        messages=list(plan.history),
        new_messages=plan.history[job.prompt_at :],
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

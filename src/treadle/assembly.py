"""Puts a definition, a model, tools and what came before together into a plan and a toolbox; whatever can be wrong is said here.

It starts nothing. Entry: `Assembly`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias, get_args

import msgspec

from treadle.agent import Agent, Deps, expand_message
from treadle.calls import Ready, idempotency_key
from treadle.clock import Clock
from treadle.config import Config, home
from treadle.entries import Fork, RunStarted
from treadle.environment import child_environment
from treadle.errors import AgentError
from treadle.events import Warned
from treadle.execution import Toolbox, has_commands, without_images
from treadle.feed import Feed
from treadle.journal import Journal
from treadle.journals.memory import MemoryJournal
from treadle.message import MediaPart, Message, Part, TextPart, encode_json
from treadle.model import Model
from treadle.model_choice import Asker, ModelChoice
from treadle.plan import Plan, Resumption
from treadle.policy import Permissions, permissions_of, withholds
from treadle.recovery import Answers, missing_tool
from treadle.redaction import Redactor, mask_logs
from treadle.registry import Models
from treadle.run_state import RunState
from treadle.sandbox import Confinement, Room, Sandbox, Standing
from treadle.session import ResumeOptions, RunOptions
from treadle.spill import Spill
from treadle.tooling import ToolContext, ToolRegistry
from treadle.types import DEFAULT_MAX_TOKENS, Limits, Mode, Settings, new_id
from treadle.undo import UNDO_FOLDER, Before, Undo
from treadle.window import window

logger = logging.getLogger("treadle")

DEFAULT_LIMITS = Limits(turns=100)
"""Where nobody gives limits."""


RunChild: TypeAlias = Callable[..., Awaitable[Any]]
Inside: TypeAlias = Callable[[Callable[[], None]], None]
"""Calls a function in the event loop of a run, from whatever thread."""


class Assembly:
    """What plans and toolboxes are made of; one for each runtime."""

    def __init__(self, config: Config, journal: Journal, clock: Clock) -> None:
        self.journal = journal
        self.spill = Spill()
        self._clock = clock
        self._loop: tuple[asyncio.AbstractEventLoop, Inside] | None = None
        """Of the last run."""
        self._seen_files: dict[str, dict[str, str]] = {}
        """By session."""
        self._kept: dict[str, dict[Callable[[], Any], Any]] = {}
        """What tools keep, by session, and by run where there is none."""
        self._sandbox: Sandbox | None = None
        self._warned = False
        self.models = Models(config, clean=self.redact)
        self.use(config)

    def use(self, config: Config) -> None:
        """Other credentials, from the next run on."""
        self.config = config
        self._choice = ModelChoice(config, self.models, self.journal)
        self.redactor = mask_logs(Redactor(config.secrets()))
        self.environment = child_environment(config.secrets())

    def redact(self, text: str) -> str:
        """Without known secrets: what every sink is given."""
        return self.redactor.exact(text)

    def forget(self, session_id: str) -> None:
        """What the model was shown of files in this session."""
        self._seen_files.pop(session_id, None)

    async def end(self, owner: str) -> None:
        """What tools kept for a session, or for a run without one, is closed. Raises nothing."""
        for thing in self._kept.pop(owner, {}).values():
            close: Callable[[], Awaitable[None]] | None = getattr(thing, "aclose", None)
            if close is not None:
                try:
                    await close()
                except Exception:  # anybody's code, while something else is being closed
                    logger.exception("what a tool kept for %s could not be closed", owner)

    async def aclose(self) -> None:
        """Idempotent. Models and journal are the runtime's to close."""
        for owner in list(self._kept):
            await self.end(owner)
        if self._sandbox is not None:
            await self._sandbox.aclose()
        self.spill.close()

    # ------------------------------------------------------------ the sandbox

    def sandbox(self) -> Sandbox | None:
        """None where nobody wants it. It is found, and begins to find out whether it works, when it is first asked for."""
        if self.config.defaults.sandbox == "off":
            return None
        if self._sandbox is None:
            from treadle.sandboxes import find_sandbox  # noqa: PLC0415  most runs have no commands

            self._sandbox = find_sandbox(self._home)
        self._sandbox.begin()
        return self._sandbox

    @cached_property
    def _home(self) -> Path | None:
        folder = Path(self.config.home or home(os.environ))
        return folder if folder.is_dir() else None

    @cached_property
    def undo(self) -> Undo | None:
        """What files were before runs changed them. None where runs are forgotten, and nobody could ask for it."""
        return None if isinstance(self.journal, MemoryJournal) else Undo(Path(self.config.home or home(os.environ)) / UNDO_FOLDER)

    def before_change(self, run_id: str, call_id: str) -> Callable[[Before], None] | None:
        return None if self.undo is None else partial(self.undo.keep, run_id, call_id)

    async def check_sandbox(self, agent: Agent[Any, Any]) -> None:
        """Raises AgentError(invalid) where the configuration insists on a sandbox, the agent has commands, and none works."""
        if self.config.defaults.sandbox != "on" or not any(map(has_commands, agent.tools)) or (sandbox := self.sandbox()) is None:
            return
        if not (standing := await sandbox.standing()).works:
            raise AgentError("invalid", f"defaults.sandbox is on, and no sandbox works: {standing.text}. Mend that, or set it to auto")

    def confinement(self, plan: Plan, ready: Ready, toolbox: Toolbox) -> Confinement | None:
        """Where the commands of a call run. What a person said yes to runs outside, unless the configuration insists."""
        if toolbox.sandbox is None or not has_commands(ready.tool):
            return None
        assert toolbox.standing is not None, "it is known before a command is decided"
        if not toolbox.confines or (ready.approved and self.config.defaults.sandbox != "on"):
            return None
        owner = plan.session_id or plan.run_id
        room = Room(
            workspace=plan.cwd,
            scratch=partial(self.spill.folder, f"tmp-{owner}"),
            shown=(*self.spill.directories, *own_python(plan.cwd)),
            quarantine=self._quarantine,
            is_open=plan.mode == "full" or ready.approved,
        )
        return Confinement(toolbox.sandbox, room)

    def _quarantine(self) -> Path:
        if self._home is None:
            return Path(tempfile.mkdtemp(prefix="treadle-quarantine-"))
        folder = self._home / "quarantine" / new_id("moved")
        folder.mkdir(parents=True, mode=0o700)
        return folder

    # ------------------------------------------------------------ plans

    async def plan(self, agent: Agent[Any, Any], prompt: Message, session_id: str | None, options: RunOptions, *, parent_run_id: str | None = None) -> Plan:
        """Of a new run."""
        past = [] if session_id is None else list(await self.journal.messages(session_id))
        cut = window(past)
        state = RunState(past if cut is None else cut.of(past))
        plan = await self._plan(agent, prompt, session_id, options, state=state, fresh=not past, parent_run_id=parent_run_id)
        return plan if session_id is None else _but(plan, window=cut, past=len(past))

    async def forked(self, agent: Agent[Any, Any], fork: Fork, prompt: Message, session_id: str | None, options: RunOptions) -> Plan:
        """Of a run that goes on from inside another one."""
        state = await self.journal.load_fork(fork)
        return await self._plan(agent, prompt, session_id, options, state=state, fork=fork)

    async def resumed(self, agent: Agent[Any, Any], state: RunState, options: ResumeOptions) -> Plan:
        """Of a run whose driver is gone; without its resumption."""
        started, answers = _started(state), answers_of(options)
        answers.check(state)
        await self.check_sandbox(agent)
        if (gone := missing_tool(state, {tool.name: tool for tool in agent.tools})) is not None:
            raise AgentError(
                "invalid", f"run {started.run_id} has an open call of the tool {gone!r}, which agent {agent.name!r} has no more: pass an agent that has it"
            )
        wanted = options.get("model") or (state.model if agent.model is None or isinstance(agent.model, str) else agent.model)
        limits = _over(options.get("limits"), state.ledger.limits)
        chosen = await self._choice.choose(wanted, Asker(started.run_id, started.session_id, state=state), limits)
        values = agent.values_again(msgspec.json.decode(started.inputs, type=dict[str, Any]))
        warnings = (
            []
            if agent.fingerprint == state.agent_hash
            else [f"agent {agent.name!r} has changed since this run was last driven: it goes on with what it is now"]
        )
        settings, dropped = _settings(Settings(), started.settings, chosen.model)
        return Plan(
            run_id=started.run_id,
            session_id=started.session_id,
            agent=agent.name,
            agent_hash=agent.fingerprint,
            model=chosen.model,
            model_name=chosen.name,
            models=chosen.names,
            system=agent.system(values),
            settings=settings,
            limits=limits,
            mode=_mode(options.get("mode") or state.mode),
            cwd=_directory(options.get("cwd") or state.cwd),
            state=state,
            prompt=started.input,
            redactor=self.redactor,
            inputs_json=started.inputs,
            user_id=started.user_id,
            parent_run_id=started.parent_run_id,
            on_ask=options.get("on_ask", started.on_ask),
            on_unknown=options.get("on_unknown", started.on_unknown),
            fork=started.fork,
            prices=chosen.prices,
            warnings=(*warnings, *dropped),
        )

    async def _plan(
        self,
        agent: Agent[Any, Any],
        prompt: Message,
        session_id: str | None,
        options: RunOptions,
        *,
        state: RunState,
        fresh: bool = False,
        fork: Fork | None = None,
        parent_run_id: str | None = None,
    ) -> Plan:
        values, run_id = agent.values(options.get("inputs") or {}), new_id("run")
        await self.check_sandbox(agent)
        asked = agent.model if agent.model is not None else self.config.models.large
        limits = _limits(options.get("limits"), agent)
        chosen = await self._choice.choose(asked, Asker(run_id, session_id, fork=fork), limits)
        if "images" in chosen.model.refuses:
            prompt = prompt.with_parts(without_images(prompt.parts))
        settings, warnings = _settings(options.get("settings", Settings()), agent.settings.over(self.config.defaults.settings), chosen.model)
        return Plan(
            run_id=run_id,
            session_id=session_id,
            agent=agent.name,
            agent_hash=agent.fingerprint,
            model=chosen.model,
            model_name=chosen.name,
            models=chosen.names,
            system=agent.system(values),
            settings=settings,
            limits=limits,
            mode=_mode(options.get("mode", "full")),
            cwd=_directory(options.get("cwd")),
            state=state,
            prompt=prompt,
            messages=tuple(expand_message(m, values) for m in agent.messages) if fresh else (),
            redactor=self.redactor,
            inputs_json=encode_json(values).decode(),
            user_id=options.get("user_id"),
            parent_run_id=parent_run_id,
            on_ask=options.get("on_ask", "deny"),
            on_unknown=options.get("on_unknown", "tell"),
            fork=fork,
            prices=chosen.prices,
            warnings=warnings,
        )

    # ------------------------------------------------------------ toolboxes

    def toolbox(self, agent: Agent[Deps, Any], plan: Plan, deps: Deps, feed: Feed, run_child: RunChild) -> Toolbox:
        """How the calls of this run are run."""
        registry = ToolRegistry(agent.tools)
        sandbox = self.sandbox() if any(map(has_commands, agent.tools)) else None
        seen = self._seen_files.setdefault(plan.session_id, {}) if plan.session_id is not None else {}
        kept = self._kept.setdefault(plan.session_id or plan.run_id, {})
        contexts = _Contexts(self, plan, feed, deps, seen, kept, self._inside(), run_child)
        return Toolbox(
            registry=registry,
            mode=plan.mode,
            cwd=plan.cwd,
            clock=self._clock,
            clean=self.redact,
            context=contexts.make,
            definitions=registry.definitions(),
            permissions=self.permissions(),
            takes_images="images" not in plan.model.refuses,
            on_ask=plan.on_ask,
            sandbox=sandbox,
            learned=partial(self._warn_of_sandbox, plan, feed),
        )

    def permissions(self) -> Permissions:
        """Of every run that begins now. Raises AgentError(invalid) for a rule that is none."""
        said = self.config.permissions
        own = self.config.home or str(home(os.environ))
        return permissions_of(allow=said.allow, ask=said.ask, deny=said.deny, own=own, readable=lambda: self.spill.directories)

    def _warn_of_sandbox(self, plan: Plan, feed: Feed, standing: Standing) -> None:
        """Loudly, once."""
        if not standing.works and not self._warned:
            self._warned = True
            instead = "in mode full they may do whatever you may" if plan.mode == "full" else "what a sandbox would let run unasked needs approval instead"
            feed.say(Warned, {"text": f"commands are not confined: {standing.text}; {instead}"})

    def _inside(self) -> Inside:
        """The same for all runs of one event loop."""
        loop = asyncio.get_running_loop()
        last = self._loop
        if last is None or last[0] is not loop:
            last = self._loop = (loop, into_this_loop())
        return last[1]


class _Contexts:
    """Makes what each call of one run knows of it. Tells the run, from whatever thread, what calls say."""

    __slots__ = ("_assembly", "_deps", "_feed", "_inside", "_kept", "_plan", "_run_child", "_seen")

    def __init__(
        self,
        assembly: Assembly,
        plan: Plan,
        feed: Feed,
        deps: Any,
        seen: dict[str, str],
        kept: dict[Callable[[], Any], Any],
        inside: Inside,
        run_child: RunChild,
    ) -> None:
        self._assembly, self._plan, self._feed, self._deps, self._seen, self._kept = assembly, plan, feed, deps, seen, kept
        self._inside, self._run_child = inside, run_child

    def make(self, ready: Ready, deadline: float | None, toolbox: Toolbox) -> ToolContext[Any]:
        plan, call_id = self._plan, ready.call.id
        return ToolContext(
            deps=self._deps,
            run_id=plan.run_id,
            session_id=plan.session_id,
            call_id=call_id,
            user_id=plan.user_id,
            cwd=plan.cwd,
            deadline=deadline,
            attempt=ready.attempt,
            idempotency_key=idempotency_key(plan.run_id, call_id),
            spill=self._assembly.spill.write,
            seen_files=self._seen,
            places=ready.places,
            withheld=withholds(toolbox.permissions, toolbox.cwd),
            before_change=self._assembly.before_change(plan.run_id, call_id),
            environment=self._assembly.environment,
            masking=self._assembly.redactor.masking if self._assembly.redactor else None,
            sandbox=self._assembly.confinement(plan, ready, toolbox),
            kept=self._kept,
            tell=self._warn,
            report=partial(self._report, call_id),
            is_cancelled=toolbox.is_stopping,
            late=partial(self._late, toolbox, call_id),
            run_child=partial(self._run_child, plan, self._feed),
        )

    def _report(self, call_id: str, text: str, done: float | None, total: float | None) -> None:
        self._inside(partial(self._feed.progress, call_id, self._assembly.redact(text), done, total))

    def _warn(self, text: str) -> None:
        self._inside(partial(self._feed.say, Warned, {"text": self._assembly.redact(text)}))

    def _late(self, toolbox: Toolbox, call_id: str, text: str) -> None:
        self._inside(partial(toolbox.late, call_id, self._assembly.redact(text)))


def prompt_of(text: str | Sequence[Part]) -> Message:
    """Raises AgentError(invalid) where there is nothing in it that a model could be asked."""
    prompt = Message.user(text)
    if strange := [part for part in prompt.parts if not isinstance(part, (TextPart, MediaPart))]:
        raise AgentError("invalid", f"a prompt holds text and media, not {type(strange[0]).__name__}")
    if not prompt.text.strip() and not any(isinstance(part, MediaPart) for part in prompt.parts):
        raise AgentError("invalid", "the prompt is empty: say what the agent should do")
    return prompt


def answers_of(options: ResumeOptions) -> Answers:
    """What a person said about open calls."""
    approve = options.get("approve", ())
    return Answers(
        on_unknown=options.get("on_unknown"),
        approve=frozenset([approve] if isinstance(approve, str) else approve),
        deny=options.get("deny", {}),
        results=options.get("results", {}),
    )


def resumed(plan: Plan, resumption: Resumption) -> Plan:
    return _but(plan, resumption=resumption)


def _but(plan: Plan, **changes: Any) -> Plan:
    return replace(plan, **changes)


def _started(state: RunState) -> RunStarted:
    assert state.started is not None, "a run begins with run.started"
    return state.started


def _settings(call: Settings, lower: Settings, model: Model) -> tuple[Settings, tuple[str, ...]]:
    """Call, agent, configuration, then 8192 tokens. What the model refuses is an error on the call, else dropped with a warning."""
    if wrong := sorted(call.given & model.refuses):
        raise AgentError("invalid", f"{model.name} does not take {wrong[0]}: leave it out")
    settings = call.over(lower).over(Settings(max_tokens=DEFAULT_MAX_TOKENS))
    dropped = sorted(settings.given & model.refuses)
    settings = msgspec.structs.replace(settings, **dict.fromkeys(dropped))
    return settings, tuple(f"{model.name} does not take {name}: it was left out" for name in dropped)


def _limits(call: Limits | None, agent: Agent[Any, Any]) -> Limits:
    if call is None and agent.limits is None:
        return DEFAULT_LIMITS
    return _over(call, agent.limits or Limits())


def _over(call: Limits | None, lower: Limits) -> Limits:
    merged = {name: value for limits in (lower, call) if limits is not None for name, value in msgspec.structs.asdict(limits).items() if value is not None}
    return Limits(**merged)


def _mode(mode: str) -> Mode:
    if mode not in get_args(Mode):
        raise AgentError("invalid", f"mode={mode!r} is none of: {', '.join(get_args(Mode))}")
    return mode  # pyright: ignore[reportReturnType]  it is one of them


def _directory(cwd: str | Path | None) -> Path:
    if cwd is None:
        return Path.cwd()  # the system gives it absolute, real and a directory
    path = Path(cwd)
    if not path.is_dir():
        raise AgentError("invalid", f"cwd={str(path)!r} is no directory")
    return path.resolve()


_PRIVATE = ("/tmp", "/var/tmp", "/run")
"""Of which confined commands see their own, or nothing."""


def own_python(workspace: Path) -> tuple[Path, ...]:
    """The environment of the Python that runs us, where confined commands would not see it: `python` on their PATH is in it."""
    prefix = Path(os.path.realpath(sys.prefix))
    hidden = any(prefix.is_relative_to(os.path.realpath(place)) for place in _PRIVATE)
    return (prefix,) if hidden and not prefix.is_relative_to(workspace) and not workspace.is_relative_to(prefix) else ()


def into_this_loop() -> Inside:
    """Calls a function in the event loop that is running now, from whatever thread."""
    loop, home = asyncio.get_running_loop(), threading.get_ident()

    def inside(called: Callable[[], None]) -> None:
        if threading.get_ident() == home:
            called()
        else:
            with suppress(RuntimeError):  # the loop is closed, and with it the run
                loop.call_soon_threadsafe(called)

    return inside

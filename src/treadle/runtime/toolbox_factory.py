"""Toolboxes of runs, with state that the runs of a runtime share. Entry point: `Toolboxes`."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import structs

from treadle._internal.clock import Clock
from treadle._internal.environment import child_environment
from treadle._internal.redaction import Redactor
from treadle.agents.agent import Agent, Deps
from treadle.config import Config, home
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError
from treadle.events.feed import Feed
from treadle.events.tracing import NO_TRACER, UNTRACED, Traced, TracedRun, Tracer
from treadle.loop.call_values import Ready
from treadle.loop.calls import idempotency_key
from treadle.loop.plan import Plan
from treadle.loop.toolbox import Toolbox
from treadle.models.model import Model
from treadle.policy.guarded_paths import is_secret
from treadle.policy.permissions import Permissions, permissions_of, withholds
from treadle.runtime.evaluating import output_check, processor
from treadle.runtime.sandboxing import Confining
from treadle.runtime.session_grants import Grants
from treadle.tools.failures import LateStatus
from treadle.tools.file_history import UNDO_FOLDER, Undo
from treadle.tools.registry import ToolRegistry
from treadle.tools.spill import Spill
from treadle.tools.tool import Tool, ToolContext

logger = logging.getLogger("treadle")

RunChild: TypeAlias = Callable[..., Awaitable[Any]]
Inside: TypeAlias = Callable[[Callable[[], None]], None]
"""Function that calls a function in the event loop of a run, from any thread."""


@dataclass(frozen=True, slots=True)
class _Shared:
    seen_files: dict[str, str] = field(default_factory=dict[str, str])
    """Content of files that the model has read, by path."""
    kept: dict[Callable[[], Any], Any] = field(default_factory=dict[Callable[[], Any], Any])
    """Objects that tools keep between calls, by factory."""


class Toolboxes:
    """Factory of toolboxes. Each runtime has one."""

    def __init__(self, config: Config, redactor: Redactor, clock: Clock, *, forgets: bool) -> None:
        """Create a factory of toolboxes. `forgets`: runs are lost with the process, so that nothing
        can be undone later.
        """
        self.confining = Confining(
            config.defaults.sandbox, self.own_folder, config.permissions.network
        )
        self._clock, self._forgets = clock, forgets
        self._loop: tuple[asyncio.AbstractEventLoop, Inside] | None = None
        """Event loop of the last run, and its limit on child runs."""
        self.grants = Grants()
        self._shared: dict[str, _Shared] = {}
        """Shared state by session, or by run without a session."""
        self._spills: dict[str, Spill] = {}
        """Spills by family."""
        self.tracer: Tracer = NO_TRACER
        """Traces the runs that begin from now on."""
        self.use(config, redactor, config.secrets())

    def use(self, config: Config, redactor: Redactor, secrets: frozenset[str]) -> None:
        """Replace the credentials, from the next run on.

        `secrets`: values to remove from the environment of child processes.
        """
        self._config, self.redactor = config, redactor
        self.environment = child_environment(secrets)
        self._own: Path | None = None
        self._permissions: Permissions | None = None

    def own_folder(self) -> Path:
        """Return Treadle's own directory. Raises AgentError(invalid) as `home` does."""
        if self._own is None:
            self._own = Path(self._config.home or home(os.environ))
        return self._own

    @property
    def permissions(self) -> Permissions:
        """Return the permissions of the configuration. Raises AgentError(invalid) for an invalid
        rule.
        """
        if self._permissions is None:
            said = self._config.permissions
            self._permissions = permissions_of(
                allow=said.allow,
                ask=said.ask,
                deny=said.deny,
                own=str(self.own_folder()),
                withheld=self._config.withheld_rules,
            )
        return self._permissions

    @cached_property
    def undo(self) -> Undo | None:
        """Return the store of original file contents. None if it could never be used."""
        return None if self._forgets else Undo(self.own_folder() / UNDO_FOLDER)

    def make(
        self, agent: Agent[Deps, Any], plan: Plan, deps: Deps, feed: Feed, run_child: RunChild
    ) -> Toolbox:
        """Make the toolbox of a run."""
        tools = (*agent.own_tools, *plan.more_tools)
        offers = partial(_suits, getattr(plan.model, "abilities", UNKNOWN))
        registry = ToolRegistry(tools, offers=offers)
        definitions, defers = registry.definitions(), False
        for one in (*definitions, *agent.mcp_servers):
            defers |= one.deferred
        if defers:
            registry = _searched(tools, offers, plan.model)
            definitions = registry.definitions()
        contexts = _Contexts(self, plan, feed, deps, run_child)
        spill, shared = contexts.spill, contexts.shared
        toolbox = Toolbox(
            registry=registry,
            mode=plan.mode,
            cwd=plan.cwd,
            clock=self._clock,
            clean=self.redact,
            context=contexts.make,
            definitions=definitions,
            permissions=self.grants.over(
                plan.family, self.permissions.also_reading(lambda: spill.directories)
            ),
            takes_images="images" not in plan.model.refuses,
            on_ask=plan.on_ask,
            sandbox=self.confining.sandbox_for(agent),
            has_completion=plan.completion,
            has_handoffs=agent.handoffs != (),
            kept=shared.kept,
            hooks=plan.hooks,
            output_check=None
            if agent.output_check is None and "check_output" not in plan.hooks.points
            else output_check(agent, plan, deps, self.redact),
            processor=None if agent.history is None else processor(agent, plan, deps),
            traced=UNTRACED
            if self.tracer is NO_TRACER
            else Traced(self.tracer, _traced(agent, plan)),
        )
        if toolbox.sandbox is not None:
            toolbox.learned = self.confining.warner(plan.mode, feed)
        if plan.depth == 0:
            toolbox.mode_changed = self.confining.announcer(agent, plan.mode, feed)
        return self.grants.follow(plan, toolbox)

    def shared(self, plan: Plan) -> _Shared:
        return self._shared.setdefault(plan.session_id or plan.run_id, _Shared())

    def spill(self, plan: Plan) -> Spill:
        return self._spills.setdefault(plan.family, Spill())

    def inside(self) -> Inside:
        """Return the limit on child runs, shared by all runs of one event loop."""
        loop = asyncio.get_running_loop()
        last = self._loop
        if last is None or last[0] is not loop:
            last = self._loop = (loop, into_this_loop())
        return last[1]

    def redact(self, text: str) -> str:
        """Mask the secrets known at this time, which may be more than when a run began."""
        return self.redactor.exact(text)

    # ------------------------------------------------------------ state, and its lifetime

    def forget(self, session_id: str) -> None:
        """Forget which files the model has read in this session."""
        if (shared := self._shared.get(session_id)) is not None:
            self._shared[session_id] = _Shared(kept=shared.kept)

    def rest(self, session_id: str) -> None:
        """Drop the state of a session that has no run, because a service has many sessions."""
        shared, spill = self._shared.get(session_id), self._spills.get(session_id)
        if shared is not None and not shared.kept and not shared.seen_files:
            del self._shared[session_id]
        if spill is not None and not spill.directories:
            del self._spills[session_id]

    def end(self, owner: str) -> Sequence[object]:
        """Return the objects that tools kept for a session, or for a run without one; `close_kept`
        closes them.
        """
        self.grants.forget(owner)
        spill = self._spills.get(owner)
        if spill is not None and not spill.directories:
            del self._spills[owner]
        shared, network = self._shared.pop(owner, None), self.confining.release(owner)
        return (
            *(() if shared is None else shared.kept.values()),
            *(() if network is None else (network,)),
        )

    async def aclose(self) -> None:
        """Close the state of all sessions. Idempotent."""
        for owner in list(self._shared):
            await close_kept(owner, self.end(owner))
        await self.confining.aclose()
        for spill in self._spills.values():
            spill.close()


async def close_kept(owner: str, kept: Sequence[object]) -> None:
    """Close the objects that `Toolboxes.end` returned. Never raises."""
    for thing in kept:
        close: Callable[[], Awaitable[None]] | None = getattr(thing, "aclose", None)
        if close is not None:
            try:
                await close()
            except Exception:  # user code, while something else is being closed
                logger.exception("what a tool kept for %s could not be closed", owner)


def _searched(
    tools: Sequence[Tool[Any]], offers: Callable[[Tool[Any]], bool], model: Model
) -> ToolRegistry:
    from treadle.tools.tool_search import SearchedRegistry  # noqa: PLC0415  only for deferred tools

    return SearchedRegistry(tools, offers, native=getattr(model, "searches_tools", False) is True)


def _suits(abilities: Abilities, tool: Tool[Any]) -> bool:
    """Return True unless the tool needs an ability that the model is not known to have."""
    ability: str | None = getattr(tool, "ability", None)
    return ability is None or getattr(abilities, ability, None) is True


def _traced(agent: Agent[Any, Any], plan: Plan) -> TracedRun:
    return TracedRun(
        run_id=plan.run_id,
        session_id=plan.session_id,
        parent_run_id=plan.parent_run_id,
        agent=agent.name,
        agent_hash=plan.agent_hash,
        description=agent.description,
        model=plan.model_name,
        user_id=plan.user_id,
        tags=plan.tags,
        metadata=plan.metadata,
    )


class _Contexts:
    """Factory of the contexts of one run's calls.

    Forwards reports of calls to the run from any thread.
    """

    __slots__ = (
        "_boxes",
        "_deps",
        "_feed",
        "_inside",
        "_plan",
        "_run_child",
        "_same",
        "shared",
        "spill",
    )

    def __init__(
        self, boxes: Toolboxes, plan: Plan, feed: Feed, deps: Any, run_child: RunChild
    ) -> None:
        self._boxes, self._plan, self._feed, self._deps = boxes, plan, feed, deps
        self.shared, self.spill = boxes.shared(plan), boxes.spill(plan)
        self._inside, self._run_child = boxes.inside(), partial(run_child, plan, feed)
        self._same: ToolContext[Any] | None = None

    def make(self, ready: Ready, deadline: float | None, toolbox: Toolbox) -> ToolContext[Any]:
        if (same := self._same) is None:
            same = self._same = self._for_all(toolbox)
        boxes, run_id, call_id = self._boxes, self._plan.run_id, ready.call.id
        return structs.replace(
            same,
            call_id=call_id,
            deadline=deadline,
            attempt=ready.attempt,
            idempotency_key=idempotency_key(run_id, call_id),
            places=ready.places,
            withheld=withholds(toolbox.permissions, toolbox.cwd),
            before_change=None
            if (undo := boxes.undo) is None
            else partial(undo.keep, run_id, call_id),
            environment=boxes.environment,
            masking=boxes.redactor.masking if boxes.redactor else None,
            sandbox=None
            if toolbox.sandbox is None
            else boxes.confining.confinement(self._plan, ready, toolbox, self.spill),
            tell=self._warn,
            report=partial(self._report, call_id),
            late=partial(self._late, toolbox, call_id, ready.attempt),
            run_child=partial(self._run_child, call_id, ready.attempt > 1),
            verify=ready.verify,
        )

    def _for_all(self, toolbox: Toolbox) -> ToolContext[Any]:
        """Return the part of the context that is the same for every call of the run.

        It must not reference this object or the toolbox, which hold it.
        """
        plan, scope = self._plan, toolbox.scope
        return ToolContext(
            deps=self._deps,
            run_id=plan.run_id,
            session_id=plan.session_id,
            call_id="",
            user_id=plan.user_id,
            cwd=plan.cwd,
            deadline=None,
            attempt=1,
            idempotency_key="",
            spill=self.spill.write,
            seen_files=self.shared.seen_files,
            documents=getattr(plan.model, "abilities", UNKNOWN).documents is True,
            kept=self.shared.kept,
            is_secret=is_secret,
            is_cancelled=lambda: scope.cancel_called,
        )

    def _report(self, call_id: str, text: str, done: float | None, total: float | None) -> None:
        self._inside(partial(self._feed.progress, call_id, self._boxes.redact(text), done, total))

    def _warn(self, text: str) -> None:
        self._inside(partial(self._feed.warn, self._boxes.redact(text)))

    def _late(
        self, toolbox: Toolbox, call_id: str, attempt: int, text: str, status: LateStatus = None
    ) -> None:
        self._inside(partial(toolbox.late, call_id, attempt, self._boxes.redact(text), status))


def _logged(called: Callable[[], None]) -> None:
    try:
        called()
    except AgentError as e:
        logger.warning("a message from another thread came too late: %s", e.message)


def into_this_loop() -> Inside:
    """Return a function that calls functions in the current event loop, from any thread.

    Exceptions propagate if the call is immediate; otherwise an AgentError is logged.
    """
    loop, home = asyncio.get_running_loop(), threading.get_ident()

    def inside(called: Callable[[], None]) -> None:
        if threading.get_ident() == home:
            called()
        else:
            with suppress(RuntimeError):  # the loop is closed, and with it the run
                loop.call_soon_threadsafe(_logged, called)

    return inside

"""Resolve an agent, model, settings and history into a `Plan`. Raises every error that can occur
before a run starts, and starts nothing.

Entry point: `Assembly`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

import anyio
import msgspec

from treadle._internal.clock import Clock
from treadle._internal.log_masking import mask_logs
from treadle._internal.redaction import Redactor
from treadle.agents.agent import Agent
from treadle.agents.templates import expand_message
from treadle.config import Config
from treadle.context.compaction import Summariser
from treadle.errors import AgentError
from treadle.events.hooks import Hook, hooks_of
from treadle.journal.entries import Fork, RunStarted
from treadle.journal.journal import Journal
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.run_state import RunState
from treadle.loop.plan import ParentCall, Plan, Resumption
from treadle.loop.recovery import missing_tool
from treadle.loop.session_past import SessionPast
from treadle.messages.images import fitted_message
from treadle.messages.message import Message, encode_json
from treadle.models.model import Model
from treadle.models.registry import Models
from treadle.runtime.mcp_servers import RuntimeServers
from treadle.runtime.model_choice import Asker, ChosenModel, ModelChoice, missed_small, replaced
from treadle.runtime.options import (
    check_images,
    check_words,
    checked_mode,
    directory_of,
    given_schema,
    limit_of,
    limits_over,
    merged_limits,
    merged_settings,
    output_settings,
)
from treadle.runtime.prompt import as_begun, earlier_of, run_id_of, system_again
from treadle.runtime.session import ResumeOptions, RunOptions
from treadle.runtime.toolbox_factory import Toolboxes
from treadle.tools.builtin.complete import Complete
from treadle.tools.offered import GoneTool
from treadle.tools.tool import LateTools, Tool
from treadle.types import NO_LIMITS, NOTHING_SET, Limits, Mode


class More(NamedTuple):
    """Tools in addition to the agent's own, and warnings about unavailable ones."""

    tools: tuple[Tool[Any], ...] = ()
    missed: tuple[str, ...] = ()
    late: LateTools | None = None
    waited_s: float = 0.0


class _Origin(NamedTuple):
    """Origin of a new run: the state that it continues from, and its caller."""

    state: RunState
    fork: Fork | None = None
    caller: ParentCall | None = None
    submits: bool = False


class Assembly:
    """Factory of plans. Each runtime has one."""

    def __init__(self, config: Config, journal: Journal, clock: Clock) -> None:
        self.config, self.journal = config, journal
        self._learned: frozenset[str] = frozenset()
        """Secrets that are not part of the configuration."""
        self.redactor = mask_logs(Redactor(config.secrets()))
        self.models = Models(config, clean=self.redact)
        self.toolboxes = Toolboxes(
            config, self.redactor, clock, forgets=isinstance(journal, MemoryJournal)
        )
        self.served = RuntimeServers(
            self.toolboxes.own_folder, lambda: self.toolboxes.environment, self._learn
        )
        self.choice = ModelChoice(config, self.models, journal)
        self.settings = config.defaults.settings
        self.hooks: tuple[Hook, ...] = ()
        """Hooks of all runs."""

    def use(self, config: Config) -> None:
        """Replace the credentials, from the next run on."""
        self.config = config
        self.models.use(config)
        self.choice = ModelChoice(config, self.models, self.journal)
        self.settings = config.defaults.settings
        self._hide()

    async def is_priced(self, agent: Agent[Any, Any]) -> bool:
        """Return True if a run of this agent may have a cost limit."""
        return await self.choice.is_priced(self.asked(agent))

    def asked(self, agent: Agent[Any, Any], named: str | Model | None = None) -> str | Model:
        return replaced.get(agent.name) or named or agent.model or self.config.models.large

    def _learn(self, secrets: frozenset[str]) -> None:
        """Register secrets before any text can contain them."""
        if not secrets <= self._learned:
            self._learned |= secrets
            self._hide()

    def _hide(self) -> None:
        """Mask the current secrets in all outputs and hide them from child processes."""
        secrets = self.config.secrets() | self._learned
        self.redactor = mask_logs(Redactor(secrets))
        self.toolboxes.use(self.config, self.redactor, secrets)

    def redact(self, text: str) -> str:
        """Return text with known secrets masked, as every sink receives it."""
        return self.redactor.exact(text)

    # ------------------------------------------------------------ plans

    async def plan(
        self,
        agent: Agent[Any, Any],
        prompt: Message,
        session_id: str | None,
        options: RunOptions,
        *,
        caller: ParentCall | None = None,
        submits: bool = False,
    ) -> Plan:
        """Plan a new run. `caller`: the tool call that starts it, if any.

        `submits`: True if another process will drive it, with its own keys, sandbox and servers.
        """
        past = None
        if session_id is not None:
            read = partial(self.journal.view, session_id)
            past = SessionPast(read, await read(), limit_of(options.get("session")))
        state = RunState() if past is None else past.state
        plan = await self._plan(
            agent, prompt, session_id, options, _Origin(state, caller=caller, submits=submits)
        )
        return _but(plan, past=past)

    async def forked(
        self,
        agent: Agent[Any, Any],
        fork: Fork,
        prompt: Message,
        session_id: str | None,
        options: RunOptions,
    ) -> Plan:
        """Plan a run that continues from inside another one."""
        state = await self.journal.load_fork(fork)
        return await self._plan(agent, prompt, session_id, options, _Origin(state, fork))

    async def resumed(
        self,
        agent: Agent[Any, Any],
        state: RunState,
        options: ResumeOptions,
        *,
        caller: ParentCall | None = None,
    ) -> Plan:
        """Plan a resumed run, without its `Resumption`. The answers to its calls have been
        checked.
        """
        started = _started(state)
        check_words(options)
        await self.toolboxes.confining.check(agent)
        limits = limits_over(options.get("limits"), state.ledger.limits)
        more = await self.more_tools(
            agent, limits, awaited={call.name for call in state.current.open_calls}
        )
        _check_open_calls(agent, more, state)
        last = state.model if isinstance(agent.model, str | None) else None
        wanted = self.asked(agent, options.get("model") or last)
        asker = Asker(started.run_id, started.session_id, state=state)
        chosen = await self.choice.choose(wanted, asker, limits)
        system, changed = system_again(agent, started, state)
        settings, dropped = merged_settings(
            NOTHING_SET, state.agent.settings.over(output_settings(agent)), chosen.model
        )
        if state.context.call_ids:  # only calls start child runs
            await self._count_children(started.run_id, state)
        mode = checked_mode(options.get("mode") or state.mode)
        return Plan(
            run_id=started.run_id,
            session_id=started.session_id,
            **self.shared(agent, chosen, asker, more, caller),
            system=system,
            settings=settings,
            limits=limits,
            mode=mode,
            cwd=directory_of(options.get("cwd") or state.cwd),
            state=state,
            prompt=started.input,
            inputs_json=started.inputs,
            user_id=started.user_id,
            parent_run_id=started.parent_run_id,
            parent_call_id=started.parent_call_id,
            family=caller.plan.family if caller else started.session_id or started.run_id,
            on_ask="wait" if options.get("on_approval") else options.get("on_ask", started.on_ask),
            on_unknown=options.get("on_unknown", started.on_unknown),
            fork=started.fork,
            approver=options.get("on_approval"),
            warnings=(*changed, *dropped, *more.missed, *self._announced(agent, mode, caller)),
        )

    def shared(
        self,
        agent: Agent[Any, Any],
        chosen: ChosenModel,
        asker: Asker,
        more: More,
        caller: ParentCall | None,
    ) -> dict[str, Any]:
        """Return the fields that every plan has, however its run begins."""
        return {
            "agent": agent.name,
            "agent_hash": agent.fingerprint,
            "evaluated": agent.evaluated,
            "model": chosen.model,
            "model_name": chosen.name,
            "models": chosen.names,
            "redactor": self.redactor,
            "answer": agent.answer,
            "completion": agent.completion,
            "mends": agent.retries,
            "is_processed": agent.history is not None,
            "more_tools": more.tools,
            "late_tools": more.late,
            "prepared_s": more.waited_s,
            "hooks": hooks_of(self.hooks, agent.hooks),
            "prices": chosen.prices,
            "windows": chosen.windows,
            "compacting": chosen.compacting,
            "outputs": chosen.outputs,
            "summarisers": partial(self._summarisers, chosen, asker),
            **_below(caller),
        }

    def _announced(
        self, agent: Agent[Any, Any], mode: Mode, caller: ParentCall | None
    ) -> Sequence[str]:
        """Return warnings about the sandbox. A child run does not repeat its parent's."""
        return () if caller else self.toolboxes.confining.announced(agent, mode)

    async def more_tools(
        self, agent: Agent[Any, Any], limits: Limits, *, awaited: Collection[str] = ()
    ) -> More:
        """Return tools in addition to the agent's own.

        Waits for the tools of servers within the limits; for an `awaited` one until its server has
        responded or failed.
        """
        more = (*((Complete(agent.answer),) if agent.completion else ()), *agent.handoff_tools)
        if not agent.mcp_servers:
            return More(more)
        begun, own = anyio.current_time(), {tool.name for tool in agent.own_tools}
        joining = await self.served.join(
            agent, within_s=limits.seconds, to_the_end=not own.issuperset(awaited)
        )
        tools, missed = joining.take()
        return More((*more, *tools), tuple(missed), joining, anyio.current_time() - begun)

    async def _count_children(self, run_id: str, state: RunState) -> None:
        """Add the usage of child runs at any depth, because limits apply to all of them."""
        for child in await self.journal.children(run_id):
            spent = await self.journal.load(child.run_id)
            await self._count_children(child.run_id, spent)
            # lost with its process; reversed if the child resumes and counts it itself
            for cut in spent.under_way:
                spent.ledger.lose(cut)
            state.ledger.add_below(child.run_id, spent.ledger)

    async def _plan(
        self,
        agent: Agent[Any, Any],
        prompt: Message,
        session_id: str | None,
        options: RunOptions,
        origin: _Origin,
    ) -> Plan:
        check_words(options)
        state, fork, caller, submits = origin
        earlier = earlier_of(options.get("messages", ()), session_id)
        values, run_id = agent.values(options.get("inputs") or {}), run_id_of(options.get("run_id"))
        if not submits:
            await self.toolboxes.confining.check(agent)
        limits = merged_limits(options.get("limits"), agent)
        asker = Asker(run_id, session_id, fork=fork, submits=submits)
        chosen = await self.choice.choose(self.asked(agent), asker, limits)
        check_images(prompt, chosen)
        prompt, scaled = await fitted_message(prompt)
        wanted = options.get("settings", NOTHING_SET).over(output_settings(agent))
        settings, warnings = merged_settings(
            wanted, agent.settings.over(self.settings), chosen.model
        )
        more = More() if submits else await self.more_tools(agent, limits)
        system, changed = await as_begun(
            self.journal, agent, agent.system(values), state, fork or session_id
        )
        mode = checked_mode(options.get("mode", "full"))
        return Plan(
            run_id=run_id,
            session_id=session_id,
            **self.shared(agent, chosen, asker, more, caller),
            system=system,
            settings=settings,
            limits=limits,
            mode=mode,
            cwd=directory_of(options.get("cwd")),
            state=state,
            prompt=prompt,
            messages=(*(expand_message(m, values) for m in agent.messages), *earlier)
            if fork is None
            else (),
            changed=changed,
            inputs_json=encode_json(values).decode(),
            given_schema=given_schema(agent, settings),
            user_id=options.get("user_id"),
            parent_run_id=caller and caller.plan.run_id,
            parent_call_id=caller and caller.call_id,
            family=caller.plan.family if caller else session_id or run_id,
            on_ask="wait" if options.get("on_approval") else options.get("on_ask", "deny"),
            on_unknown=options.get("on_unknown", "tell"),
            fork=fork,
            approver=options.get("on_approval"),
            warnings=(*warnings, *scaled, *more.missed, *self._announced(agent, mode, caller)),
        )

    async def _summarisers(
        self, own: ChosenModel, asker: Asker
    ) -> AsyncGenerator[Summariser, None]:
        """Yield the small model; if it is unavailable or fails, the run's own."""
        missed = ""
        try:
            small = await self.choice.choose(self.config.models.small, asker, NO_LIMITS)
        except AgentError as e:
            missed = missed_small(self.config, own.name, e)
        else:
            yield Summariser(small.model, small.name, small.prices, small.windows(small.name))
        yield Summariser(own.model, own.name, own.prices, own.windows(own.name), missed)


def _below(caller: ParentCall | None) -> dict[str, Any]:
    return (
        {}
        if caller is None
        else {"depth": caller.plan.depth + 1, "above": caller.plan.state.ledger}
    )


def resumed(plan: Plan, resumption: Resumption) -> Plan:
    return _but(plan, resumption=resumption)


def _but(plan: Plan, **changes: Any) -> Plan:
    return msgspec.structs.replace(plan, **changes)


def _check_open_calls(agent: Agent[Any, Any], more: More, state: RunState) -> None:
    """Check that the tool of every open call still exists. Raises AgentError(invalid)."""
    own = [tool for tool in agent.own_tools if not isinstance(tool, GoneTool)]
    tools = {tool.name: tool for tool in (*own, *more.tools)}
    if (gone := missing_tool(state, tools)) is not None:
        raise AgentError(
            "invalid",
            f"run {_started(state).run_id} has an open call of the tool {gone!r}, which agent "
            f"{agent.name!r} has no more: pass an agent that has it",
        )


def _started(state: RunState) -> RunStarted:
    assert state.started is not None, "a run begins with run.started"
    return state.started

"""Resolve an agent, model, settings and history into a `Plan`. Raises every error that can occur
before a run starts, and starts nothing.

Entry point: `Assembly`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

from treadle._internal.clock import Clock
from treadle._internal.log_masking import mask_logs
from treadle._internal.redaction import Redactor
from treadle.agents.agent import Agent
from treadle.agents.templates import expand_message
from treadle.config import Config
from treadle.events.hooks import NO_HOOKS, Hook, Hooks
from treadle.journal.entries import Fork
from treadle.journal.journal import Journal
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.run_state import RunState
from treadle.loop.plan import ParentCall, Plan
from treadle.loop.session_past import SessionPast
from treadle.messages.images import fitted_message
from treadle.messages.message import Message, encode_json
from treadle.models.model import Model
from treadle.models.registry import Models
from treadle.runtime.batches import Batches
from treadle.runtime.chosen_model import Asker, ChosenModel
from treadle.runtime.mcp_servers import More, RuntimeServers
from treadle.runtime.model_choice import ModelChoice, replaced
from treadle.runtime.options import (
    check_images,
    check_words,
    checked_mode,
    directory_of,
    given_schema,
    headers_of,
    labels_of,
    limit_of,
    merged_limits,
    merged_settings,
    output_settings,
)
from treadle.runtime.prompt import as_begun, earlier_of, run_id_of
from treadle.runtime.session import RunOptions
from treadle.runtime.toolbox_factory import Toolboxes
from treadle.tools.builtin.complete import Complete
from treadle.types import NOTHING_SET, Limits, Mode


class RunOrigin(NamedTuple):
    """Origin of a new run: the state that it continues from, and its caller."""

    state: RunState
    past: SessionPast | None = None
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
        self.batches = Batches(clock)
        self._batched = self.batches.members
        self.settings = config.defaults.settings
        self.hooks: tuple[Hook[Any], ...] = ()
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
        origin = RunOrigin(state, past, caller=caller, submits=submits)
        return await self.plan_from(agent, prompt, session_id, options, origin)

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
            "run_id": asker.run_id,
            "session_id": asker.session_id,
            "agent": agent.name,
            "agent_hash": agent.fingerprint,
            "evaluated": agent.evaluated,
            "model": chosen.model,
            "model_name": chosen.name,
            "models": chosen.names,
            "redactor": self._redactor_of(asker),
            "headers": asker.headers,
            "batch": asker.batch,
            "answer": agent.answer,
            "completion": agent.completion,
            "mends": agent.retries,
            "is_processed": agent.history is not None,
            "more_tools": more.tools,
            "late_tools": more.late,
            "prepared_s": more.waited_s,
            "hooks": Hooks((*self.hooks, *agent.hooks)) if self.hooks or agent.hooks else NO_HOOKS,
            "prices": chosen.prices,
            "windows": chosen.windows,
            "compacting": chosen.compacting,
            "outputs": chosen.outputs,
            "summarisers": lambda: self.choice.summarisers(chosen, asker),
            **_below(caller),
        }

    def announced(
        self, agent: Agent[Any, Any], mode: Mode, caller: ParentCall | None
    ) -> Sequence[str]:
        """Return warnings about the sandbox. A child run does not repeat its parent's."""
        return () if caller else self.toolboxes.confining.announced(agent, mode)

    async def more_tools(
        self, agent: Agent[Any, Any], limits: Limits, *, awaited: Collection[str] = ()
    ) -> More:
        """Return tools in addition to the agent's own, as `RuntimeServers.more` does."""
        own = (*((Complete(agent.answer),) if agent.completion else ()), *agent.handoff_tools)
        servers = self.served if agent.mcp_servers else None
        return await servers.more(agent, own, limits, awaited) if servers else More(own)

    def _redactor_of(self, asker: Asker) -> Redactor:
        """Return the redactor of a run's errors."""
        if asker.headers is None:
            return self.redactor
        sent = asker.headers.plain.values()
        return Redactor({*self.config.secrets(), *self._learned, *sent})

    async def plan_from(
        self,
        agent: Agent[Any, Any],
        prompt: Message,
        session_id: str | None,
        options: RunOptions,
        origin: RunOrigin,
    ) -> Plan:
        """Plan a new run from its origin."""
        check_words(options)
        state, past, fork, caller, submits = origin
        earlier = earlier_of(options.get("messages", ()), session_id)
        values, run_id = agent.values(options.get("inputs") or {}), run_id_of(options.get("run_id"))
        headers = headers_of(self.choice, self.asked(agent), options, caller, submits=submits)
        asker = Asker(run_id, session_id, None, fork, submits, headers, self._batched.get(run_id))
        if not submits:
            await self.toolboxes.confining.check(agent)
        limits = merged_limits(options.get("limits"), agent)
        above = None if caller is None else caller.plan.state.ledger
        chosen = await self.choice.choose(self.asked(agent), asker, limits, above)
        prompt, scaled = await fitted_message(prompt)
        own = options.get("settings", NOTHING_SET).over(output_settings(agent))
        settings, warnings = merged_settings(own, agent.settings.over(self.settings), chosen.model)
        check_images(prompt, chosen, settings)
        more = More() if submits else await self.more_tools(agent, limits)
        system, changed = await as_begun(
            self.journal, agent, agent.system(values), state, fork or session_id
        )
        mode = checked_mode(options.get("mode", "full"))
        return Plan(
            **self.shared(agent, chosen, asker, more, caller),
            system=system,
            settings=settings,
            limits=limits,
            mode=mode,
            cwd=directory_of(options.get("cwd")),
            state=state,
            prompt=prompt,
            messages=()
            if fork
            else (*(expand_message(m, values) for m in agent.messages), *earlier),
            changed=changed,
            inputs_json=encode_json(values).decode(),
            given_schema=given_schema(agent, settings),
            **labels_of(options),
            parent_run_id=caller and caller.plan.run_id,
            parent_call_id=caller and caller.call_id,
            family=caller.plan.family if caller else session_id or run_id,
            on_ask="wait" if options.get("on_approval") else options.get("on_ask", "deny"),
            on_unknown=options.get("on_unknown", "tell"),
            fork=fork,
            past=past,
            approver=options.get("on_approval"),
            warnings=(*warnings, *scaled, *more.missed, *self.announced(agent, mode, caller)),
        )


def _below(caller: ParentCall | None) -> dict[str, Any]:
    return (
        {}
        if caller is None
        else {"depth": caller.plan.depth + 1, "above": caller.plan.state.ledger}
    )

"""Terms of a batch, from the options of `treadle work`: those of a new one, and those that a
resumed one changes. Entry points: `BatchRequest`, `new_terms`, `changed_terms`, `allowed_before`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import msgspec

from treadle.apps.batch.batch import Terms
from treadle.cli.agent_option import ASSISTANT, chosen_agent
from treadle.cli.exits import CommandFailed
from treadle.cli.run_options import settings_of
from treadle.config import Config
from treadle.journal.queue import DEFAULT_QUEUE
from treadle.runtime.model_choice import from_anywhere
from treadle.types import Limits, Settings

LIMITS = {
    "max_turns": "turns",
    "max_tool_calls": "tool_calls",
    "max_tokens": "tokens",
    "max_cost": "cost_usd",
    "timeout": "seconds",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """Options of `treadle work` and which of them were given."""

    options: dict[str, Any]
    given: frozenset[str]
    """Names of the options that were given on the command line; the others have their defaults."""

    def said(self, name: str) -> bool:
        return name in self.given


def new_terms(config: Config, options: dict[str, Any]) -> Terms:
    """Return the terms of a new batch. Raises AgentError(invalid) and CommandFailed for a wrong
    agent, inputs or output schema.
    """
    chosen = chosen_agent(config, options["cwd"].resolve(), options)
    agent, model = chosen.agent, chosen.agent.model or config.models.large
    return Terms(
        agent=None if agent.name == ASSISTANT else agent.name,
        inputs=chosen.inputs,
        output=cast("dict[str, object]", agent.output) if options["output_schema"] else None,
        model=from_anywhere(model) if isinstance(model, str) else model.name,
        cwd=str(options["cwd"].resolve()),
        mode=config.defaults.mode,
        settings=settings_of(options),
        limits=chosen.limits,
        attached=tuple(str(path.absolute()) for path in options["attached"]),
        gate_timeout_s=options["gate_timeout"],
        sandbox=options["no_sandbox"],
        network=options["network"],
        queue=_queue(config, options),
        **{
            name: options[name]
            for name in (
                "on_ask",
                "on_unknown",
                "allow",
                "worktree",
                "gates",
                "retries",
                "parallel",
            )
        },
    )


def _queue(config: Config, options: dict[str, Any]) -> str | None:
    """Return the queue for the runs. Raises CommandFailed for an unknown queue."""
    if not (options["workers"] or options["detach"]):
        return None
    queue = DEFAULT_QUEUE if options["queue"] is None else options["queue"]
    if queue not in config.queue_names:
        raise CommandFailed(
            f"unknown queue {queue!r}. Available: {', '.join(config.queue_names)}. To add "
            "it, list it under queues in the configuration"
        )
    return queue


def allowed_before(options: dict[str, Any], terms: Terms) -> dict[str, Any]:
    """Merge permissions: those granted when the batch started stay, and new ones are added."""
    allowed = {
        "allow": tuple(dict.fromkeys((*terms.allow, *options["allow"]))),
        "no_sandbox": options["no_sandbox"] or terms.sandbox,
    }
    return {**options, **allowed, "network": options["network"] or terms.network}


def changed_terms(
    terms: Terms, config: Config, options: dict[str, Any], wish: BatchRequest
) -> Terms:
    """Return the terms of a batch, updated by the options given now."""
    changes: dict[str, Any] = {
        name: options[name]
        for name in ("on_ask", "on_unknown", "gates", "retries", "parallel")
        if wish.said(name)
    }
    changes |= {
        "allow": options["allow"],
        "sandbox": options["no_sandbox"],
        "network": options["network"],
    }
    if wish.said("workers"):
        changes["queue"] = _queue(config, options)
    if wish.said("gate_timeout"):
        changes["gate_timeout_s"] = options["gate_timeout"]
    if wish.said("model"):
        changes["model"] = from_anywhere(config.models.large)
    if wish.said("mode"):
        changes["mode"] = config.defaults.mode
    given = {field: options[name] for name, field in LIMITS.items() if wish.said(name)}
    changes["limits"] = Limits(**{**msgspec.structs.asdict(terms.limits), **given})
    changes["settings"] = Settings(
        effort=options["effort"], max_tokens=options["max_output_tokens"]
    ).over(terms.settings)
    return msgspec.structs.replace(terms, **changes)

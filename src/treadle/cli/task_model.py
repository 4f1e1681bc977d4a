"""Which model the task assistant asks: the one that was chosen, or the default one where there is a
key for it, else rules.

Entry: `task_model`, `model_flags`.
"""

from __future__ import annotations

from typing import Final

from treadle.config import Config
from treadle.errors import AgentError

EMBEDDED: Final = "embedded"
"""The name of the rules, for whoever has a key and wants them."""


def model_flags(model: str | None) -> dict[str, str]:
    """`--model` for the configuration, which knows no model by the name of the rules."""
    return {"--model": model} if model and model != EMBEDDED else {}


def task_model(config: Config, chosen: str | None = None) -> str | None:
    """Its name; None: the embedded one, which needs no key. Of a model that somebody named nothing
    is asked here: what is wrong with it is said later.

    `chosen`: what `--model` said.
    """
    name = config.models.large
    if chosen == EMBEDDED:
        return None
    if config.origin("models", "large").source != "default":
        return name
    try:
        provider, _ = config.split(name)
        reached = config.endpoint(provider)
    except AgentError:
        return None
    return name if reached.api_key or reached.auth_token else None

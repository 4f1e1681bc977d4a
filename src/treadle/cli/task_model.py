"""Model of the task assistant: the chosen one, else the default one if it has a key, else rules.
Entry points: `task_model`, `model_flags`.
"""

from __future__ import annotations

from typing import Final

from treadle.config import Config
from treadle.errors import AgentError

EMBEDDED: Final = "embedded"
"""Model name that selects the rules, for users who also have a key."""


def model_flags(model: str | None) -> dict[str, str]:
    """Return the configuration flags for `--model`; none for the embedded rules."""
    return {"--model": model} if model and model != EMBEDDED else {}


def task_model(config: Config, chosen: str | None = None) -> str | None:
    """Return the name of the model, or None for the embedded rules, which need no key. A configured
    model is not checked here: its first use reports errors.

    `chosen`: value of `--model`.
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

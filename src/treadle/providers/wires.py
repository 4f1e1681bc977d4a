"""Which wire a provider speaks, by the type that the configuration gives it: each is imported when the first model asks for it.

What a name means is registry.py's; the wires are folders of their own. Entry: `wire_of`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

from treadle.abilities import Abilities
from treadle.config.endpoint import Endpoint
from treadle.errors import AgentError
from treadle.model import Model

if TYPE_CHECKING:
    from treadle.providers.connection import Connection
    from treadle.providers.http import HttpConnection

_WIRES = {
    "anthropic": "treadle.providers.anthropic",
    "openai": "treadle.providers.openai_responses",
    "openai-chat": "treadle.providers.openai_chat",
    "gemini": "treadle.providers.gemini",
}


class Wire(Protocol):
    """What the package of a wire offers."""

    def connect_to(self, endpoint: Endpoint) -> HttpConnection:
        """Our own connection, which any number of models can share. Opens nothing yet. Raises AgentError: auth, invalid."""
        ...

    def model_over(self, connection: Connection, endpoint: Endpoint, model_id: str, abilities: Abilities) -> Model:
        """The model `model_id` over such a connection; its name is `endpoint.name:model_id`."""
        ...


def wire_of(endpoint_type: str) -> Wire:
    """Raises AgentError(invalid) for a type that no wire has."""
    if (module := _WIRES.get(endpoint_type)) is None:
        raise AgentError("invalid", f"no provider is of type {endpoint_type!r}; use one of: {', '.join(_WIRES)}")
    return cast("Wire", importlib.import_module(module))

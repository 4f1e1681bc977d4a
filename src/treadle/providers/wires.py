"""Which wire a provider speaks, by the type that the configuration gives it: each is imported when the first model asks for it.

What a name means is registry.py's; the wires are folders of their own. Entry: `wire_of`, `models_at`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

import anyio

from treadle.abilities import Abilities
from treadle.config.endpoint import Endpoint
from treadle.errors import AgentError
from treadle.model import Model

if TYPE_CHECKING:
    from treadle.providers.connection import Connection
    from treadle.providers.http import HttpConnection
    from treadle.providers.listing import Listed

_WIRES = {
    "anthropic": "treadle.providers.anthropic",
    "openai": "treadle.providers.openai_responses",
    "openai-chat": "treadle.providers.openai_chat",
    "gemini": "treadle.providers.gemini",
}


CLOSE_WITHIN_S = 1.0


class Wire(Protocol):
    """What the package of a wire offers."""

    def connect_to(self, endpoint: Endpoint) -> HttpConnection:
        """Our own connection, which any number of models can share. Opens nothing yet. Raises AgentError: auth, invalid."""
        ...

    def model_over(self, connection: Connection, endpoint: Endpoint, model_id: str, abilities: Abilities) -> Model:
        """The model `model_id` over such a connection; its name is `endpoint.name:model_id`."""
        ...

    async def list_models(self, connection: Connection, endpoint: Endpoint) -> list[Listed]:
        """The models that can be asked at this address, with what the provider tells of them. Raises AgentError."""
        ...


def wire_of(endpoint_type: str) -> Wire:
    """Raises AgentError(invalid) for a type that no wire has."""
    if (module := _WIRES.get(endpoint_type)) is None:
        raise AgentError("invalid", f"no provider is of type {endpoint_type!r}; use one of: {', '.join(_WIRES)}")
    return cast("Wire", importlib.import_module(module))


async def models_at(endpoint: Endpoint) -> list[Listed]:
    """What its provider has, asked over a connection of its own. Raises AgentError."""
    wire = wire_of(endpoint.type)
    connection = wire.connect_to(endpoint)
    try:
        return await wire.list_models(connection, endpoint)
    finally:
        with anyio.move_on_after(CLOSE_WITHIN_S, shield=True):
            await connection.aclose()

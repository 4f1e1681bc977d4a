"""Lookup of wires by provider type. Each is imported when its first model is made. A type that is
not built in is the name of a plug-in (`treadle.models`), whose entry point is a `Wire`.

registry.py resolves model names. Entry points: `wire_of`, `connect_to`, `models_at`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, cast

import anyio
from typing_extensions import get_protocol_members

from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import Abilities
from treadle.config.plugins import load_plugin
from treadle.errors import AgentError
from treadle.models.model import Model

if TYPE_CHECKING:
    from treadle.models.providers.access_tokens import AccessTokens
    from treadle.models.providers.connection import Connection
    from treadle.models.providers.http import HttpConnection
    from treadle.models.providers.listing import Listed

_WIRES = {
    "anthropic": "treadle.models.providers.anthropic",
    "openai": "treadle.models.providers.openai_responses",
    "openai-chat": "treadle.models.providers.openai_chat",
    "gemini": "treadle.models.providers.gemini",
    "bedrock": "treadle.models.providers.bedrock",
    "vertex": "treadle.models.providers.vertex",
}


CLOSE_WITHIN_S = 1.0
_STANDS_FOR_TOKEN = "token"
"""Makes a wire authorize its requests with a token. `AccessTokens` replaces the header."""


class Wire(Protocol):
    """Interface of a wire: a package, or the object that a plug-in provides."""

    def connect(
        self,
        *,
        api_key: str | None,
        auth_token: str | None,
        base_url: str | None,
        timeout_s: float,
        headers: Mapping[str, str],
    ) -> HttpConnection:
        """Create a connection that any number of models can share. Opens nothing yet.

        Raises AgentError: auth, invalid.
        """
        ...

    def model_over(
        self, connection: Connection, endpoint: Endpoint, model_id: str, abilities: Abilities
    ) -> Model:
        """Return the model `model_id` over a connection of this wire. Its name is
        `endpoint.name:model_id`.
        """
        ...

    async def list_models(self, connection: Connection, endpoint: Endpoint) -> list[Listed]:
        """Return the language models at this address, with the data that the provider reports.

        Raises AgentError.
        """
        ...


def wire_of(endpoint_type: str) -> Wire:
    """Return the wire of a provider type. Raises AgentError(invalid) for an unknown type."""
    if (module := _WIRES.get(endpoint_type)) is not None:
        return cast("Wire", importlib.import_module(module))
    if (loaded := load_plugin("models", endpoint_type)) is None:
        raise AgentError(
            "invalid", f"unknown provider type {endpoint_type!r}; use one of: {', '.join(_WIRES)}"
        )
    return cast("Wire", loaded.having(*get_protocol_members(Wire)))


def connect_to(endpoint: Endpoint) -> HttpConnection:
    """Create the configured connection. Opens nothing yet. Raises AgentError: auth, invalid."""
    connection = wire_of(endpoint.type).connect(
        api_key=endpoint.api_key.reveal() if endpoint.api_key else None,
        auth_token=endpoint.auth_token.reveal()
        if endpoint.auth_token
        else None
        if endpoint.token is None
        else _STANDS_FOR_TOKEN,
        base_url=endpoint.base_url,
        timeout_s=endpoint.timeout_s,
        headers={header: value.reveal() for header, value in endpoint.headers.items()},
    )
    if endpoint.total_timeout_s is endpoint.http_proxy is endpoint.token is None:
        return connection
    return connection.reached(
        total_s=endpoint.total_timeout_s, proxy=endpoint.http_proxy, tokens=_tokens_of(endpoint)
    )


def _tokens_of(endpoint: Endpoint) -> AccessTokens | None:
    if endpoint.token is None:
        return None
    from treadle.models.providers.access_tokens import AccessTokens  # noqa: PLC0415  few need it

    return AccessTokens(endpoint.token, endpoint.name)


async def models_at(endpoint: Endpoint) -> list[Listed]:
    """Return the models of a provider, over a temporary connection. Raises AgentError."""
    connection = connect_to(endpoint)
    try:
        return await wire_of(endpoint.type).list_models(connection, endpoint)
    finally:
        with anyio.move_on_after(CLOSE_WITHIN_S, shield=True):
            await connection.aclose()

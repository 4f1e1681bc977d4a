"""`Model` for Anthropic's Messages API: sends requests as bytes and returns responses as deltas.

request.py and messages.py encode, stream.py decodes, connecting.py and sdk.py connect. No retries
and no state between calls. Entry point: `AnthropicModel`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Self
from urllib.parse import urlsplit

import msgspec

from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.models.model import Delta, ModelRequest
from treadle.models.providers.anthropic.compaction import summarised
from treadle.models.providers.anthropic.connecting import BASE_URL, KEY_FROM
from treadle.models.providers.anthropic.remedies import remedies_for, without_rejected
from treadle.models.providers.anthropic.request import Encoded, RequestEncoder
from treadle.models.providers.anthropic.schemas import fitted
from treadle.models.providers.anthropic.stream import MessagesDecoder
from treadle.models.providers.connection import Connection
from treadle.models.providers.documents import asked_once
from treadle.models.providers.exchange import exchanged
from treadle.models.providers.images import noted
from treadle.models.providers.refusals import Refusals
from treadle.models.providers.structured import structured
from treadle.types import Settings

_REFUSES = frozenset({"temperature"})
_CLIENT_FROM = "the credentials of the client"


def model_over(
    connection: Connection, endpoint: Endpoint, model_id: str, abilities: Abilities
) -> AnthropicModel:
    return AnthropicModel(
        model_id,
        connection=connection,
        preamble=endpoint.preamble if endpoint.auth_token is not None else "",
        name=f"{endpoint.name}:{model_id}",
        abilities=abilities,
        own_host=endpoint.base_url is None
        or urlsplit(endpoint.base_url).hostname == urlsplit(BASE_URL).hostname,
        credential=endpoint.credential,
    )


class AnthropicModel:
    """A model behind Anthropic's Messages API. Stateless between calls: the caller owns the history
    and its cached encoding.

    `settings.extra` is merged into the body, with three special fields: `betas` (a list) becomes
    the `anthropic-beta` header; `tools` are merged by name into the request's (a server's tools are
    appended); objects, such as `thinking`, are merged with ours.
    """

    def __init__(
        self,
        model_id: str,
        *,
        connection: Connection,
        preamble: str = "",
        name: str | None = None,
        abilities: Abilities = UNKNOWN,
        own_host: bool = False,
        credential: str = "",
    ) -> None:
        """Create a model of Anthropic's API. `preamble`: first system block, needed only with a
        token.

        `own_host`: Anthropic itself responds, whatever the connection's address. It accepts more
        images, and reports cache misses. `credential`: origin of the key or token, for auth errors.
        """
        self.abilities = abilities
        self._name = name or f"anthropic:{model_id}"
        self._connection = connection
        is_vendor = own_host or connection.base_url.startswith(BASE_URL)
        self._encoder = RequestEncoder(model_id, preamble, abilities, is_vendor=is_vendor)
        self._refusals = Refusals(credential or KEY_FROM, request_id="request-id")

    @classmethod
    def from_client(cls, client: object, model_id: str) -> Self:
        """Create a model over an async client of the official `anthropic` SDK 2.x. The caller
        closes the client.

        Raises AgentError(invalid) if the SDK is missing, or the client is of another kind.
        """
        from treadle.models.providers.anthropic.sdk import SdkConnection  # noqa: PLC0415  needed only with an SDK client

        return cls(model_id, connection=SdkConnection(client), credential=_CLIENT_FROM)

    @property
    def name(self) -> str:
        return self._name

    @property
    def base_url(self) -> str:
        """Base URL, which prices depend on."""
        return self._connection.base_url

    @property
    def refuses(self) -> frozenset[str]:
        """Settings that the model rejects. Since version 2026-10-21, the API returns 400 for a
        temperature with any model.
        """
        return self.abilities.refused() | _REFUSES

    @property
    def searches_tools(self) -> bool:
        """True if the API searches deferred tools."""
        return self._encoder.heads.searches_tools

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return notes on differences between requests and `settings` that are due to the model."""
        return self._encoder.heads.notes(settings)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        return structured(self._sent, request, self._abilities_for(request))

    def _abilities_for(self, request: ModelRequest) -> Abilities:
        schema, abilities = request.settings.output_schema, self.abilities
        if (
            schema is not None
            and abilities.structured_output in (None, "native")
            and fitted(schema) is None
        ):
            return msgspec.structs.replace(abilities, structured_output="tool")
        return abilities

    def can_compact(self, settings: Settings) -> bool:
        """Return True if the API compacts conversations with these settings."""
        return self._encoder.heads.sends_blocks(settings)

    def compact(self, request: ModelRequest, instructions: str) -> AsyncGenerator[Delta, None]:
        """Yield the deltas of a summary of the messages: its text, and the API's equivalent block.

        Without a block, the API wrote no summary. Raises AgentError.
        """
        chain = ""

        def ask(asked: ModelRequest) -> AsyncGenerator[Delta, None]:
            nonlocal chain
            encoded = self._encoder.encode_compaction(asked, instructions)
            chain = encoded.chain
            return self._asked(encoded)

        # tools and system prompt must be those of the other requests
        return summarised(structured(ask, request, self._abilities_for(request)), lambda: chain)

    def _sent(
        self, request: ModelRequest, wanted_back: Mapping[str, object] | None = None
    ) -> AsyncGenerator[Delta, None]:
        encoded = self._encoder.encode(request)
        asked = self._asked(encoded, wanted_back)
        if encoded.has_thinking or encoded.has_block:
            remedies = remedies_for(encoded)
            asked = without_rejected(request, asked, remedies, self._sent, wanted_back or {})
        return noted(encoded.notes, asked) if encoded.notes else asked

    def _asked(
        self, encoded: Encoded, wanted_back: Mapping[str, object] | None = None
    ) -> AsyncGenerator[Delta, None]:
        decoder = MessagesDecoder(
            self._refusals.in_stream, encoded.prefix, wanted_back, encoded.body
        )
        return exchanged(
            self._connection,
            "/v1/messages",
            encoded.body,
            encoded.headers,
            decoder=decoder,
            refusals=self._refusals,
        )

    async def count_tokens(self, request: ModelRequest) -> int:
        """Return the input tokens of the request, counted by the provider. Raises AgentError."""
        body, headers = self._encoder.encode_count(request)
        path = "/v1/messages/count_tokens"
        return (
            await asked_once(
                self._connection, path, body, headers=headers, refusals=self._refusals, kind=_Count
            )
        ).input_tokens

    async def aclose(self) -> None:
        """Close the connection, which other models may share. A client of the SDK stays open."""
        await self._connection.aclose()


class _Count(msgspec.Struct):
    input_tokens: int

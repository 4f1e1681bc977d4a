"""`Model` for Anthropic's Messages API: sends requests as bytes and returns responses as deltas.

request.py and messages.py encode, stream.py decodes, http.py and sdk.py connect. No retries and no
state between calls. Entry points: `AnthropicModel`, `connect`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import msgspec

from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.models.model import Delta, ModelNotice, ModelRequest
from treadle.models.providers.anthropic.compaction import summarised
from treadle.models.providers.anthropic.fields import AS_TEXT, SINCE
from treadle.models.providers.anthropic.request import Encoded, RequestEncoder
from treadle.models.providers.anthropic.schemas import fitted
from treadle.models.providers.anthropic.stream import MessagesDecoder
from treadle.models.providers.connection import Connection
from treadle.models.providers.exchange import asked_once, exchanged
from treadle.models.providers.http import TIMEOUT_S, HttpConnection
from treadle.models.providers.identity import JSON_HEADERS, Identity, in_lower_case
from treadle.models.providers.images import noted
from treadle.models.providers.refusals import Refusals
from treadle.models.providers.structured import structured
from treadle.types import Settings

BASE_URL = "https://api.anthropic.com"
API_VERSION = "2026-10-21"
TOKEN_BETA = "oauth-2025-04-20"

_REFUSES = frozenset({"temperature"})
_KEY_FROM = "the key: ANTHROPIC_API_KEY, or api_key in the configuration"
_TOKEN_FROM = "the token: ANTHROPIC_AUTH_TOKEN, or auth_token in the configuration"
_CLIENT_FROM = "the credentials of the client"


class Remedy(NamedTuple):
    """Content that a request can omit after the API has rejected it."""

    refusal: re.Pattern[str]
    notice: str
    extra: Callable[[ModelRequest], dict[str, object]]
    """Function that returns the fields of `settings.extra` that omit it."""


def _since_now(request: ModelRequest) -> dict[str, object]:
    return {SINCE: request.messages[-1].created_at.timestamp()}


def _as_text(request: ModelRequest) -> dict[str, object]:
    return {AS_TEXT: True}


_THINKING = Remedy(
    # the preceding content has changed, or another server signed the thinking
    re.compile(r"in `?(?:redacted_)?thinking`? block"),
    "the provider rejected the model's earlier thinking as that of another conversation: "
    "it is left out from here on",
    _since_now,
)
_BLOCK = Remedy(
    re.compile(r"compact"),
    "the provider refused its own summary of the conversation: it is sent as plain text from here "
    "on",
    _as_text,
)


def connect(
    *,
    api_key: str | None = None,
    auth_token: str | None = None,
    base_url: str | None = None,
    timeout_s: float = TIMEOUT_S,
    headers: Mapping[str, str] | None = None,
) -> HttpConnection:
    """Create a connection that any number of models can share. Opens nothing yet. A base_url alone
    means a server without a key.

    Key and token are both sent as `Authorization: Bearer`: the vendor's SDK sends a key in this way
    with this API version (2.10, measured), so its gateways accept it too, and two headers for one
    key would matter only to old ones. `x-api-key` is not sent. `headers` (a gateway's) override
    ours. A token for Anthropic's own host also needs a beta header, which is not sent to gateways,
    because they may not know it.

    Raises AgentError: auth (no credentials, or they cannot be sent), invalid (the address).
    """
    who = Identity.of(
        "Anthropic",
        (_KEY_FROM, _TOKEN_FROM),
        api_key=api_key,
        auth_token=auth_token,
        base_url=base_url,
    )
    ours = {**JSON_HEADERS, "anthropic-version": API_VERSION, **who.bearer}
    if not who.is_key and base_url in (None, BASE_URL, BASE_URL + "/"):
        ours["anthropic-beta"] = TOKEN_BETA
    return HttpConnection(base_url or BASE_URL, {**ours, **in_lower_case(headers)}, timeout_s)


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
        self._refusals = Refusals(credential or _KEY_FROM, request_id="request-id")

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

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return notes on differences between requests and `settings` that are due to the model."""
        return self._encoder.notes(settings)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        return structured(self._stream, request, self._abilities_for(request))

    def _abilities_for(self, request: ModelRequest) -> Abilities:
        schema, abilities = request.settings.output_schema, self.abilities
        if (
            schema is not None
            and abilities.structured_output in (None, "native")
            and fitted(schema) is None
        ):
            return msgspec.structs.replace(abilities, structured_output="tool")
        return abilities

    def _stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        return self._sent(request, self._encoder.encode(request))

    def can_compact(self, settings: Settings) -> bool:
        """Return True if the API compacts conversations with these settings."""
        return self._encoder.sends_blocks(settings)

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
        self,
        request: ModelRequest,
        encoded: Encoded,
        wanted_back: Mapping[str, object] | None = None,
    ) -> AsyncGenerator[Delta, None]:
        asked = self._asked(encoded, wanted_back)
        remedies = [
            *([_THINKING] if encoded.has_thinking else []),
            *([_BLOCK] if encoded.has_block else []),
        ]
        if remedies:
            asked = self._mended(request, asked, remedies, wanted_back or {})
        return noted(encoded.notes, asked) if encoded.notes else asked

    async def _mended(
        self,
        request: ModelRequest,
        asked: AsyncGenerator[Delta, None],
        remedies: Sequence[Remedy],
        wanted_back: Mapping[str, object],
    ) -> AsyncGenerator[Delta, None]:
        """Yield the deltas of `asked`.

        If the API rejects earlier content that the request can omit, send it once more without that
        content, and omit it from then on.
        """
        has_begun = False
        try:
            async with aclosing(asked):
                async for delta in asked:
                    has_begun = True
                    yield delta
            return
        except AgentError as e:
            remedy = next((one for one in remedies if one.refusal.search(e.message)), None)
            if has_begun or remedy is None or e.kind is not ErrorKind.INVALID:
                raise
        yield ModelNotice(remedy.notice)
        since = remedy.extra(request)
        settings = msgspec.structs.replace(
            request.settings, extra={**(request.settings.extra or {}), **since}
        )
        request = msgspec.structs.replace(request, settings=settings)
        again = self._sent(request, self._encoder.encode(request), {**wanted_back, **since})
        async with aclosing(again):
            async for delta in again:
                yield delta

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

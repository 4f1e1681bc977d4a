"""`Model` for Google's Gemini API: sends requests as bytes and returns responses as deltas.

request.py and messages.py encode, stream.py decodes, http.py connects. No retries and no state
between calls. Entry points: `GeminiModel`, `connect`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import msgspec

from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.models.model import Delta, ModelRequest, ResponseEnd
from treadle.models.providers.connection import Connection
from treadle.models.providers.documents import asked_once
from treadle.models.providers.encoding import dumped
from treadle.models.providers.exchange import exchanged
from treadle.models.providers.gemini.naming import (
    GENERATION_OF_LEVELS,
    GENERATION_OF_THOUGHTS,
    is_older,
    resource_of,
)
from treadle.models.providers.gemini.request import RequestEncoder
from treadle.models.providers.gemini.stream import ContentDecoder
from treadle.models.providers.http import TIMEOUT_S, HttpConnection
from treadle.models.providers.identity import JSON_HEADERS, Identity, in_lower_case
from treadle.models.providers.images import with_notice
from treadle.models.providers.refusals import Refusals
from treadle.models.providers.structured import structured
from treadle.types import Settings

BASE_URL = "https://generativelanguage.googleapis.com"
API_VERSION = "v1beta"
RESPONSE_TOKENS_MAX = 65_536
"""Maximum output tokens of one streamed response, whatever the request asks for.

Source: the developer's guide to Gemini 4 Argon (2026-11).
"""

_VERSION = re.compile(r"//[^/]+.*/v\d+[a-z0-9]*(?:/|$)")
_KEY_FROM = "the key: GEMINI_API_KEY, or api_key in the configuration"
_TOKEN_FROM = "the token: auth_token in the configuration"
_THOUGHTS = frozenset({"thinking", "effort"})
_WITHOUT_TOOLS = Abilities(structured_with_tools=False)


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

    `/v1beta` is appended to a base_url without an API version (such as `/v1`). A key is sent as
    `x-goog-api-key`, never in the URL, which would appear in logs; a token as `Authorization:
    Bearer`. `headers` (a gateway's) override ours.

    Raises AgentError: auth (no credentials, or they cannot be sent), invalid (the address).
    """
    who = Identity.of(
        "Gemini",
        (_KEY_FROM, _TOKEN_FROM),
        api_key=api_key,
        auth_token=auth_token,
        base_url=base_url,
    )
    ours = {**JSON_HEADERS, **({"x-goog-api-key": who.secret} if who.is_key else who.bearer)}
    address = (base_url or BASE_URL).rstrip("/")
    versioned = address if _VERSION.search(address) else f"{address}/{API_VERSION}"
    return HttpConnection(versioned, {**ours, **in_lower_case(headers)}, timeout_s)


def model_over(
    connection: Connection, endpoint: Endpoint, model_id: str, abilities: Abilities
) -> GeminiModel:
    return GeminiModel(
        model_id,
        connection=connection,
        name=f"{endpoint.name}:{model_id}",
        abilities=abilities,
        credential=endpoint.credential,
    )


class GeminiModel:
    """A model behind the Gemini API. Stateless between calls: the caller owns the history and its
    cached encoding.

    `settings.extra` is merged into the body: functions in its `tools` are merged by name into the
    request's, provider tools (`{"googleSearch": {}}`) are appended; objects, such as
    `generationConfig`, are merged with ours.
    """

    def __init__(
        self,
        model_id: str,
        *,
        connection: Connection,
        name: str | None = None,
        abilities: Abilities = UNKNOWN,
        credential: str = _KEY_FROM,
    ) -> None:
        """Create a model of Gemini's API. `credential`: origin of the key, for auth errors."""
        self.abilities = (
            abilities.over(_WITHOUT_TOOLS)
            if is_older(model_id, GENERATION_OF_LEVELS)
            else abilities
        )
        self._refuses = abilities.refused() | (
            _THOUGHTS if is_older(model_id, GENERATION_OF_THOUGHTS) else frozenset[str]()
        )
        self._name = name or f"gemini:{model_id}"
        self._model_id = model_id
        self._path = f"/{resource_of(model_id)}"
        self._asked_at = f"{self._path}:streamGenerateContent?alt=sse"
        self._connection = connection
        self._encoder = RequestEncoder(model_id, abilities)
        self._refusals = Refusals(credential)

    @property
    def name(self) -> str:
        return self._name

    @property
    def base_url(self) -> str:
        """Base URL, which prices depend on."""
        return self._connection.base_url

    @property
    def refuses(self) -> frozenset[str]:
        """Settings that the model rejects. Models before 2.5 do not think, and reject requests to
        do so.
        """
        return self._refuses

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return notes on differences between requests and `settings` that are due to the model."""
        alone = settings.hosted_tools and is_older(self._model_id, GENERATION_OF_LEVELS)
        hosted = (
            (
                (
                    "hosted tools are left out of requests with other tools: models before Gemini "
                    "3 take one or the other"
                ),
            )
            if alone
            else ()
        )
        return (*self._encoder.notes(settings), *hosted)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        return structured(self._stream, request, self.abilities)

    def _stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        requests_max = -(
            -(request.settings.max_tokens or self.abilities.output()) // RESPONSE_TOKENS_MAX
        )
        body, decoder = (
            self._encoder.encode(request),
            ContentDecoder(self._refusals.in_stream, self._model_id, requests_max),
        )
        deltas = (
            self._exchanged(body, decoder) if requests_max == 1 else self._continued(body, decoder)
        )
        return with_notice(request.messages, deltas)

    def _exchanged(self, body: bytes, decoder: ContentDecoder) -> AsyncGenerator[Delta, None]:
        return exchanged(
            self._connection, self._asked_at, body, {}, decoder=decoder, refusals=self._refusals
        )

    async def _continued(self, body: bytes, decoder: ContentDecoder) -> AsyncGenerator[Delta, None]:
        """Yield an answer that spans several responses as a single one."""
        asked = body
        while True:
            async with aclosing(self._exchanged(body, decoder)) as deltas:
                async for delta in deltas:
                    if decoder.continuation is None or type(delta) is not ResponseEnd:
                        yield delta
            if decoder.continuation is None:
                return
            body = asked[:-1] + b',"continuationToken":' + dumped(decoder.continuation) + b"}"
            decoder.go_on()

    async def count_tokens(self, request: ModelRequest) -> int:
        """Return the input tokens of the request, counted by the provider. Raises AgentError."""
        body, path = self._encoder.encode_count(request), f"{self._path}:countTokens"
        return (
            await asked_once(
                self._connection, path, body, headers={}, refusals=self._refusals, kind=_Count
            )
        ).total_tokens

    async def aclose(self) -> None:
        """Close the connection, which other models may share."""
        await self._connection.aclose()


class _Count(msgspec.Struct, rename="camel"):
    total_tokens: int

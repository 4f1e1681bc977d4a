"""`Model` for OpenAI's Responses API: sends requests as bytes and returns responses as deltas.

request.py and messages.py encode, stream.py decodes, http.py connects. No retries, and no state
between calls, neither here nor at the provider. Entry points: `OpenAIResponsesModel`, `connect`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from urllib.parse import urlsplit

import msgspec

from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.models.model import Delta, ModelNotice, ModelRequest, ResponseEnd
from treadle.models.providers.connection import Connection
from treadle.models.providers.documents import asked_once
from treadle.models.providers.encoding import dumped
from treadle.models.providers.exchange import exchanged
from treadle.models.providers.http import TIMEOUT_S, HttpConnection
from treadle.models.providers.identity import JSON_HEADERS, Identity, in_lower_case
from treadle.models.providers.images import with_notice
from treadle.models.providers.openai_responses.compaction import PATH, Compacted, compacted
from treadle.models.providers.openai_responses.request import AS_TEXT, RequestEncoder
from treadle.models.providers.openai_responses.stream import ResponsesDecoder
from treadle.models.providers.refusals import Refusals
from treadle.models.providers.structured import structured
from treadle.types import Settings

BASE_URL = "https://api.openai.com/v1"

_REFUSES = frozenset({"stop"})
_KEY_FROM = "the key: OPENAI_API_KEY, or api_key in the configuration"
_TOKEN_FROM = "the token: auth_token in the configuration"
_NOT_READ = re.compile(r"encrypted content|compact", re.IGNORECASE)
_TEXT_BACK = dumped({AS_TEXT: True}).decode()
_HEADERS: Mapping[str, str] = {}


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

    Key and token are both sent as `Authorization: Bearer`. `headers` (a gateway's, or
    `OpenAI-Project`) override ours.

    Raises AgentError: auth (no credentials, or they cannot be sent), invalid (the address).
    """
    who = Identity.of(
        "OpenAI",
        (_KEY_FROM, _TOKEN_FROM),
        api_key=api_key,
        auth_token=auth_token,
        base_url=base_url,
    )
    return HttpConnection(
        base_url or BASE_URL, {**JSON_HEADERS, **who.bearer, **in_lower_case(headers)}, timeout_s
    )


def model_over(
    connection: Connection, endpoint: Endpoint, model_id: str, abilities: Abilities
) -> OpenAIResponsesModel:
    own_host = (
        endpoint.base_url is None
        or urlsplit(endpoint.base_url).hostname == urlsplit(BASE_URL).hostname
    )
    name = f"{endpoint.name}:{model_id}"
    return OpenAIResponsesModel(
        model_id,
        connection=connection,
        name=name,
        abilities=abilities,
        own_host=own_host,
        credential=endpoint.credential,
    )


class OpenAIResponsesModel:
    """A model behind the Responses API. Stateless between calls: the caller owns the history and
    its cached encoding.

    `settings.extra` is merged into the body, with two special fields: `tools` are merged by name
    into the request's (hosted tools are appended; one of type `custom` replaces a tool of ours,
    which receives the text as its argument `input`), and `include` is joined with ours; objects,
    such as `reasoning` and `text`, are merged with ours.
    """

    def __init__(
        self,
        model_id: str,
        *,
        connection: Connection,
        name: str | None = None,
        abilities: Abilities = UNKNOWN,
        own_host: bool = False,
        credential: str = _KEY_FROM,
    ) -> None:
        """Create a model of OpenAI's Responses API. `own_host`: OpenAI itself responds, which
        counts tokens and uses cache keys. `credential`: origin of the key, for auth errors.
        """
        self.abilities = abilities
        self._name = name or f"openai:{model_id}"
        self._own_host = own_host
        self._connection = connection
        self._encoder = RequestEncoder(model_id, abilities, cache_keys=own_host)
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
        """Settings that the model rejects. The API has no stop sequences."""
        return self.abilities.refused() | _REFUSES

    @property
    def searches_tools(self) -> bool:
        """True if the API searches deferred tools. Other servers with this API may not."""
        return self._own_host and self.abilities.tool_search is True

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return notes on differences between requests and `settings` that are due to the model."""
        return self._encoder.notes(settings)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        schema = request.settings.output_schema
        abilities = self.abilities
        # the API accepts no other schema, strict or not
        if schema is not None and schema.get("type") != "object":
            abilities = msgspec.structs.replace(abilities, structured_output="prompt")
        return structured(self._stream, request, abilities)

    def can_compact(self, settings: Settings) -> bool:
        """Return True if OpenAI compacts conversations with these settings."""
        return self._encoder.sends_windows(settings)

    async def compact(
        self, request: ModelRequest, instructions: str
    ) -> AsyncGenerator[Delta, None]:
        """Yield deltas of the window that replaces the messages. The endpoint takes no
        instructions.

        Raises AgentError.
        """
        body = self._encoder.encode_compaction(request)
        answer = await asked_once(
            self._connection,
            PATH,
            body,
            headers=_HEADERS,
            refusals=self._refusals,
            kind=Compacted,
        )
        for delta in compacted(answer):
            yield delta

    def _stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        asked = self._asked(request)
        return self._mended(request, asked) if self._encoder.has_window(request) else asked

    async def _mended(
        self, request: ModelRequest, asked: AsyncGenerator[Delta, None]
    ) -> AsyncGenerator[Delta, None]:
        """Yield the deltas of `asked`.

        If OpenAI cannot read a compacted window, for example another account's, send the request
        once more with text in its place, and use that from then on.
        """
        has_begun = False
        try:
            async with aclosing(asked):
                async for delta in asked:
                    has_begun = True
                    yield delta
            return
        except AgentError as e:
            if has_begun or e.kind is not ErrorKind.INVALID or not _NOT_READ.search(e.message):
                raise
        yield ModelNotice(
            "the provider refused its own summary of the conversation: it is sent as plain text "
            "from here on"
        )
        extra = {**(request.settings.extra or {}), AS_TEXT: True}
        settings = msgspec.structs.replace(request.settings, extra=extra)
        again = self._asked(msgspec.structs.replace(request, settings=settings))
        async with aclosing(again):
            async for delta in again:
                if isinstance(delta, ResponseEnd):
                    delta = msgspec.structs.replace(delta, provider_data=_TEXT_BACK)
                yield delta

    def _asked(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        decoder = ResponsesDecoder(self._refusals.in_stream, request.messages)
        deltas = exchanged(
            self._connection,
            "/responses",
            self._encoder.encode(request),
            _HEADERS,
            decoder=decoder,
            refusals=self._refusals,
        )
        return with_notice(request.messages, deltas)

    async def count_tokens(self, request: ModelRequest) -> int:
        """Return the input tokens of the request: counted by OpenAI, or an estimate for other
        servers. Raises AgentError.
        """
        if not self._own_host:
            from treadle.models.providers.estimate import estimated_tokens  # noqa: PLC0415  needed only for counting

            return estimated_tokens(request)
        body = self._encoder.encode_count(request)
        return (
            await asked_once(
                self._connection,
                "/responses/input_tokens",
                body,
                headers=_HEADERS,
                refusals=self._refusals,
                kind=_Count,
            )
        ).input_tokens

    async def aclose(self) -> None:
        """Close the connection, which other models may share."""
        await self._connection.aclose()


class _Count(msgspec.Struct):
    input_tokens: int

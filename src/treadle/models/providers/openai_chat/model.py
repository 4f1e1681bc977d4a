"""`Model` for any Chat Completions server: sends requests as bytes and returns responses as deltas.

request.py and messages.py encode, stream.py decodes, servers.py lists differences between servers,
http.py connects. No retries and no state between calls. Entry points: `ChatModel`, `connect`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TypeVar

import msgspec

from treadle.config.endpoint import Endpoint
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError, ErrorKind
from treadle.models.model import Delta, ModelNotice, ModelRequest, ResponseEnd
from treadle.models.providers.connection import Connection
from treadle.models.providers.documents import asked_once
from treadle.models.providers.encoding import dumped
from treadle.models.providers.estimate import estimated_tokens
from treadle.models.providers.exchange import exchanged
from treadle.models.providers.hosted import left_out, nothing
from treadle.models.providers.http import TIMEOUT_S, HttpConnection
from treadle.models.providers.identity import JSON_HEADERS, Identity, in_lower_case
from treadle.models.providers.images import with_notice
from treadle.models.providers.openai_chat.request import SINCE, RequestEncoder
from treadle.models.providers.openai_chat.servers import (
    NAMES,
    OTHER,
    ServerTraits,
    server_at,
    server_named,
    server_owning,
)
from treadle.models.providers.openai_chat.stream import ChatDecoder
from treadle.models.providers.refusals import Refusals
from treadle.models.providers.structured import mode_for, structured
from treadle.types import Settings

BASE_URL = "https://api.openai.com/v1"

_PATH = "/chat/completions"
_ROOT = "/.."
"""Path from the base URL, which usually ends with `/v1`, to the server's root, where token counting
is.
"""
_STOP = frozenset({"stop"})
_KEY_FROM = "the key: OPENAI_API_KEY, or api_key in the configuration"

_T = TypeVar("_T")


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

    Key and token are both sent as `Authorization: Bearer`. `base_url` is everything before
    `/chat/completions`; it usually ends with `/v1`. `headers` (a gateway's) override ours.

    Raises AgentError: auth (no key for OpenAI itself, or one that cannot be sent), invalid (the
    address).
    """
    who = Identity.of(
        "OpenAI", (_KEY_FROM, _KEY_FROM), api_key=api_key, auth_token=auth_token, base_url=base_url
    )
    return HttpConnection(
        base_url or BASE_URL, {**JSON_HEADERS, **who.bearer, **in_lower_case(headers)}, timeout_s
    )


def model_over(
    connection: Connection, endpoint: Endpoint, model_id: str, abilities: Abilities
) -> ChatModel:
    """Return a model of the configured server, or else of the one at that address, or else of the
    one that the provider is named after.

    Raises AgentError(invalid) if the configured server is not in the table.
    """
    if endpoint.server and server_named(endpoint.server) is None:
        raise AgentError(
            "invalid",
            (
                f"providers.{endpoint.name}.server is {endpoint.server!r}; use one of: "
                f"{', '.join(NAMES)}"
            ),
        )
    server = server_at(endpoint.base_url or BASE_URL, endpoint.server, endpoint.name)
    name = f"{endpoint.name}:{model_id}"
    return ChatModel(
        model_id,
        connection=connection,
        server=server,
        name=name,
        abilities=abilities,
        credential=endpoint.credential,
    )


_THINKING = re.compile(r"in `?(?:redacted_)?thinking`? block")
THINKING_REFUSED = (
    "the provider takes the model's earlier thinking for that of another conversation: it is left "
    "out from here on"
)


class ChatModel:
    """A model behind the Chat Completions API. Stateless between calls, except for the detected
    server: the caller owns the history and its cached encoding.

    `settings.extra` is merged into the body: `tools` are merged by name into the request's (others
    are appended), objects are merged with the request's.
    """

    def __init__(
        self,
        model_id: str,
        *,
        connection: Connection,
        server: ServerTraits = OTHER,
        name: str | None = None,
        abilities: Abilities = UNKNOWN,
        credential: str = _KEY_FROM,
    ) -> None:
        """Create a model of Chat Completions. `server`: traits of the server. `credential`: origin
        of the key, for auth errors.
        """
        self.abilities = abilities.over(server.abilities)
        self._name = name or f"openai-chat:{model_id}"
        self._model_id = model_id
        self._connection = connection
        self._server = server
        self._encoder = RequestEncoder(model_id, server, self.abilities)
        self._refusals = Refusals(credential)
        self._counts = server.counts if server is not OTHER else None
        """Method by which the server counts tokens; None if the server was not detected yet."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def base_url(self) -> str:
        """Base URL, which prices depend on."""
        return self._connection.base_url

    @property
    def refuses(self) -> frozenset[str]:
        """Settings that the model rejects. GPT reasoning models accept no stop sequences."""
        return self.abilities.refused() | (
            _STOP if self._server.fits_effort and self.abilities.efforts else frozenset[str]()
        )

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return notes on differences between requests and `settings` that are due to the model or
        its server.
        """
        tier = settings.service_tier
        lacks = tier is not None and tier not in self._server.tiers
        own = (
            (f"{self._server.name} has no tier {tier!r}: service_tier is left out",)
            if lacks
            else ()
        )
        return (*self._encoder.notes(settings), *left_out(settings, {}, nothing), *own)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        as_json = (
            self._server.json_object
            and request.settings.output_schema is not None
            and mode_for(request, self.abilities) == "prompt"
        )
        return structured(partial(self._stream, as_json=as_json), request, self.abilities)

    def _stream(self, request: ModelRequest, *, as_json: bool) -> AsyncGenerator[Delta, None]:
        deltas = self._asked(request, as_json=as_json)
        if self._server.reasoning != "reasoning_details":
            return deltas
        return self._mended(request, deltas, as_json=as_json)

    def _asked(self, request: ModelRequest, *, as_json: bool) -> AsyncGenerator[Delta, None]:
        body = self._encoder.encode(request, as_json=as_json)
        decoder = ChatDecoder(self._refusals.in_stream, tells_cost=self._server.tells_cost)
        deltas = exchanged(
            self._connection, _PATH, body, {}, decoder=decoder, refusals=self._refusals
        )
        return with_notice(request.messages, deltas)

    async def _mended(
        self, request: ModelRequest, asked: AsyncGenerator[Delta, None], *, as_json: bool
    ) -> AsyncGenerator[Delta, None]:
        """Yield the deltas of `asked`.

        If Claude rejects its earlier thinking, because something before it has changed, send the
        request once more without it, and omit it from then on.
        """
        has_begun = False
        try:
            async with aclosing(asked):
                async for delta in asked:
                    has_begun = True
                    yield delta
            return
        except AgentError as e:
            if has_begun or e.kind is not ErrorKind.INVALID or not _THINKING.search(e.message):
                raise
        yield ModelNotice(THINKING_REFUSED)
        since: dict[str, object] = {SINCE: request.messages[-1].created_at.timestamp()}
        extra = {**(request.settings.extra or {}), **since}
        settings = msgspec.structs.replace(request.settings, extra=extra)
        request = msgspec.structs.replace(request, settings=settings)
        async with aclosing(self._asked(request, as_json=as_json)) as again:
            async for delta in again:
                if isinstance(delta, ResponseEnd):
                    delta = msgspec.structs.replace(delta, provider_data=dumped(since).decode())
                yield delta

    async def count_tokens(self, request: ModelRequest) -> int:
        """Return the input tokens of the request: exact for vLLM and llama.cpp, else an estimate.

        Raises AgentError.
        """
        if self._counts is None:
            self._counts = await self._find_out()
        messages: dict[str, object] = {
            "model": self._model_id,
            "messages": self._encoder.messages(request),
        }
        if tools := self._encoder.tools(request):
            messages["tools"] = tools
        match self._counts:
            case "messages":
                return (await self._ask("/tokenize", messages, _Count)).count
            case "template":
                prompt = (await self._ask("/apply-template", messages, _Prompt)).prompt
                return len(
                    (
                        await self._ask(
                            "/tokenize",
                            {"content": prompt, "add_special": True, "parse_special": True},
                            _Tokens,
                        )
                    ).tokens
                )
            case _:
                return estimated_tokens(request)

    async def _find_out(self) -> str:
        """Detect how the server counts, by the owner of its models. Servers without such a list
        cannot count.
        """
        try:
            models = await asked_once(
                self._connection, "/models", None, headers={}, refusals=self._refusals, kind=_Models
            )
        except AgentError:
            return ""
        return server_owning(models.data[0].owned_by).counts if models.data else ""

    async def _ask(self, path: str, question: dict[str, object], kind: type[_T]) -> _T:
        return await asked_once(
            self._connection,
            _ROOT + path,
            dumped(question),
            headers={},
            refusals=self._refusals,
            kind=kind,
        )

    async def aclose(self) -> None:
        """Close the connection, which other models may share."""
        await self._connection.aclose()


class _Count(msgspec.Struct):
    count: int


class _Prompt(msgspec.Struct):
    prompt: str


class _Tokens(msgspec.Struct):
    tokens: list[msgspec.Raw]


class _Owned(msgspec.Struct):
    owned_by: str = ""


class _Models(msgspec.Struct):
    data: list[_Owned] = []

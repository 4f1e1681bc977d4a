"""Claude, and whatever else speaks Anthropic's Messages API: a request goes out as bytes, and its answer comes back as deltas.

What the bytes are stands in request.py and messages.py, what the events mean in stream.py, and the
network in http.py and sdk.py. No retries and no state between calls. Entry: `AnthropicModel`, `connect`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Self

import msgspec

from treadle.errors import AgentError
from treadle.model import Delta, ModelRequest
from treadle.providers.anthropic.errors import refusal, reported
from treadle.providers.anthropic.request import RequestEncoder
from treadle.providers.anthropic.stream import Decoder
from treadle.providers.connection import Connection, Reply, read_beginning, read_whole
from treadle.providers.http import TIMEOUT_S, HttpConnection

BASE_URL = "https://api.anthropic.com"
API_VERSION = "2026-10-21"
TOKEN_BETA = "oauth-2025-04-20"

_REFUSES = frozenset({"temperature"})
_KEY_FROM = "the key: ANTHROPIC_API_KEY, or api_key in the configuration"
_TOKEN_FROM = "the token: ANTHROPIC_AUTH_TOKEN, or auth_token in the configuration"
_CLIENT_FROM = "the credentials of the client"


def connect(
    *,
    api_key: str | None = None,
    auth_token: str | None = None,
    base_url: str | None = None,
    timeout_s: float = TIMEOUT_S,
    headers: Mapping[str, str] | None = None,
) -> HttpConnection:
    """Our own connection, which any number of models can share. Opens nothing yet. A base_url alone is a server that wants no key.

    A key and a token are both sent as `Authorization: Bearer`: that is how the vendor's SDK sends a key with this API version (2.10,
    measured), so its gateways take it too, and two headers for one key would only differ on old ones. `x-api-key` is not sent.
    `headers` (a gateway's) go over ours. A token for Anthropic's own host also needs a beta header; a gateway is spared it, since it may not know it.

    Raises AgentError: auth (nothing to identify with, or it cannot be sent), invalid (the address).
    """
    ours = {"anthropic-version": API_VERSION, "content-type": "application/json", "accept": "text/event-stream, application/json"}
    theirs = {name.lower(): value for name, value in (headers or {}).items()}
    return HttpConnection(base_url or BASE_URL, {**ours, **_credentials(api_key, auth_token, base_url), **theirs}, timeout_s)


def _credentials(api_key: str | None, auth_token: str | None, base_url: str | None) -> dict[str, str]:
    secret = (api_key or auth_token or "").strip()
    source = _KEY_FROM if api_key else _TOKEN_FROM
    if not secret:
        if base_url is None:
            raise AgentError("auth", f"there is no key for Anthropic. Set {_KEY_FROM}")
        return {}
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise AgentError("auth", f"the key holds characters that no key has, such as a space or a line break. Check {source}")
    headers = {"authorization": f"Bearer {secret}"}
    if not api_key and base_url in (None, BASE_URL, BASE_URL + "/"):
        headers["anthropic-beta"] = TOKEN_BETA
    return headers


class AnthropicModel:
    """A `Model`. Keeps nothing between calls: the caller owns the history, and with it what is remembered of its encoding.

    `settings.extra` goes into the body, with three words of its own: `betas` (a list) becomes the `anthropic-beta` header; `tools` are
    merged by name into the request's (a server's tools follow); objects, such as `thinking`, are merged with ours.
    """

    def __init__(
        self,
        model_id: str,
        *,
        connection: Connection,
        preamble: str = "",
        bearer: bool = False,
        name: str | None = None,
    ) -> None:
        """`preamble` is the first system block where a token is used (`bearer`), and is left out where a key is."""
        self._name = name or f"anthropic:{model_id}"
        self._connection = connection
        self._encoder = RequestEncoder(model_id, preamble if bearer else "")
        self._credential = _TOKEN_FROM if bearer else _KEY_FROM

    @classmethod
    def from_client(cls, client: object, model_id: str) -> Self:
        """Over an async client of the official `anthropic` SDK 2.x; the caller closes it.

        Raises AgentError(invalid) where the SDK is missing, or the client is of another kind.
        """
        from treadle.providers.anthropic.sdk import SdkConnection  # noqa: PLC0415  only who has a client needs it

        model = cls(model_id, connection=SdkConnection(client))
        model._credential = _CLIENT_FROM
        return model

    @property
    def name(self) -> str:
        return self._name

    @property
    def refuses(self) -> frozenset[str]:
        """The API answers 400 to a temperature since version 2026-10-21."""
        return _REFUSES

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        body, headers = self._encoder.encode(request)
        async with self._connection.post("/v1/messages", body, headers) as reply:
            content_type = reply.header("content-type") or ""
            if reply.status != 200 or "html" in content_type:
                raise await self._refusal(reply)
            decoder = Decoder(self._reported)
            try:
                while decoder.end is None:
                    if "json" in content_type:
                        deltas = decoder.take_body(await read_whole(reply))
                    elif chunk := await reply.read():
                        deltas = decoder.feed(chunk)
                        if decoder.heard:
                            reply.heard()
                    else:
                        deltas = decoder.finish()
                    for delta in deltas:
                        yield delta
                    if decoder.failure is not None:
                        raise decoder.failure
            except AgentError as error:  # the provider has worked by now, and can be asked about it by its id
                error.status = reply.status
                error.request_id = error.request_id or reply.header("request-id")
                raise
        yield decoder.end

    async def count_tokens(self, request: ModelRequest) -> int:
        """Input tokens of the request, as the provider counts them. Raises AgentError."""
        body, headers = self._encoder.encode_count(request)
        async with self._connection.post("/v1/messages/count_tokens", body, headers) as reply:
            if reply.status != 200:
                raise await self._refusal(reply)
            counted = await read_whole(reply)
        try:
            return msgspec.json.decode(counted, type=_Count).input_tokens
        except ValueError as e:
            raise AgentError("network", f"the provider's count of tokens cannot be read: {e}", status=200) from e

    async def aclose(self) -> None:
        """Closes its connection, which other models may share; a client of the SDK stays open."""
        await self._connection.aclose()

    async def _refusal(self, reply: Reply) -> AgentError:
        if reply.status != 200:
            return refusal(reply.status, reply.header, await read_beginning(reply), self._credential)
        return AgentError("invalid", f"the server answered with a page ({reply.header('content-type')!r}) instead of a response: check base_url", status=200)

    def _reported(self, event: bytes) -> AgentError:
        return reported(event, self._credential)


class _Count(msgspec.Struct):
    input_tokens: int

"""The connection of a run whose requests go out in batches. Entry points: `BatchConnection`,
`batch_api`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeAlias

import msgspec

from treadle.config.endpoint import Endpoint
from treadle.models.providers.batching.anthropic import AnthropicBatches
from treadle.models.providers.batching.api import ApiCalls, BatchAnswer, BatchApi
from treadle.models.providers.batching.gemini import STREAM, GeminiBatches
from treadle.models.providers.batching.openai import PATHS, OpenAIBatches
from treadle.models.providers.batching.request_batch import BatchMember
from treadle.models.providers.connection import Connection, HttpReply
from treadle.models.providers.encoding import Fields
from treadle.models.providers.refusals import Refusals

MakeApi: TypeAlias = Callable[[ApiCalls, str], BatchApi | None]
"""Makes the batch API for requests to a path; None if no batch takes them."""

_STREAM: Final = ("stream", "stream_options")
"""Fields that ask for a stream, which no batch has."""
_CHAT_SERVERS: Final = frozenset({"openai", "groq"})
"""Chat Completions servers with OpenAI's batch API."""
_NOTHING: Final = msgspec.Raw(b'""')


def batch_api(endpoint: Endpoint) -> MakeApi | None:
    """Return the batch API of a provider, or None if it has none that is known."""
    match endpoint.type:
        case "anthropic":
            return lambda calls, path: AnthropicBatches(calls) if path == "/v1/messages" else None
        case "openai":
            return _openai
        case "openai-chat":
            from treadle.models.providers.openai_chat.model import BASE_URL  # noqa: PLC0415  its wire loads both
            from treadle.models.providers.openai_chat.servers import server_at  # noqa: PLC0415

            server = server_at(endpoint.base_url or BASE_URL, endpoint.server, endpoint.name)
            return _openai if server.name in _CHAT_SERVERS else None
        case "gemini":
            return lambda calls, path: GeminiBatches(calls, path) if path.endswith(STREAM) else None
        case _:
            return None


def _openai(calls: ApiCalls, path: str) -> BatchApi | None:
    return OpenAIBatches(calls, path) if path in PATHS else None


class BatchConnection:
    """Connection of one run: another connection, whose batch API answers the requests of a model.

    Requests that no batch takes, for example to count tokens, are sent at once.
    """

    def __init__(
        self, inner: Connection, make_api: MakeApi, endpoint: Endpoint, member: BatchMember
    ) -> None:
        self._inner, self._make_api, self._member = inner, make_api, member
        self._endpoint, self._refusals = endpoint, Refusals(endpoint.credential)

    @property
    def base_url(self) -> str:
        return self._inner.base_url

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[HttpReply, None]:
        api = self._make_api(ApiCalls(self._inner, self._refusals, headers), path)
        if api is None:
            async with self._inner.post(path, body, headers) as reply:
                yield reply
            return
        fields = msgspec.json.decode(body, type=Fields)
        for name in _STREAM:
            fields.pop(name, None)
        # a batch has one path and one set of headers; OpenAI's also has one model
        model = bytes(fields.get("model", _NOTHING))
        group = (self._endpoint.name, path, model, *sorted(headers.items()))
        yield _Document(await self._member.ask(group, api, fields))

    def get(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[HttpReply]:
        return self._inner.get(path, headers)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Document:
    """A response that has arrived as a whole."""

    def __init__(self, answer: BatchAnswer) -> None:
        self.status, self._rest = answer
        self.headers: Mapping[str, str] = {"content-type": "application/json"}

    async def read(self) -> bytes:
        body, self._rest = self._rest, b""
        return body

    def heard(self) -> None: ...

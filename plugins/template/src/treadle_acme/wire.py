"""Wire of Acme's API, which answers `POST /say {"text"}` with `{"text", "tokens"}`.

The module is the `Wire`: `connect`, `model_over` and `list_models`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping

from treadle.config import Endpoint
from treadle.config.model_profile import Abilities
from treadle.errors import AgentError
from treadle.models.deltas import Delta, ResponseEnd, TextDelta
from treadle.models.model import ModelRequest
from treadle.models.providers.connection import Connection, read_whole
from treadle.models.providers.http import HttpConnection
from treadle.models.providers.listing import Listed
from treadle.types import StopReason, Usage

URL = "http://127.0.0.1:7007"


class AcmeModel:
    """A model of Acme."""

    refuses = frozenset({"temperature", "images"})

    def __init__(self, name: str, connection: Connection) -> None:
        self.name = name
        self._connection = connection

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        said = request.messages[-1].text if request.messages else ""
        body = json.dumps({"text": said}).encode()
        async with self._connection.post("/say", body, {}) as reply:
            answer = await read_whole(reply)
        if reply.status != 200:
            raise AgentError(
                "overloaded" if reply.status == 503 else "invalid", f"Acme: {reply.status}"
            )
        told = json.loads(answer)
        yield TextDelta(told["text"])
        yield ResponseEnd(
            stop_reason=StopReason.COMPLETE,
            usage=Usage(output_tokens=told["tokens"]),
            model=self.name,
        )


def connect(
    *,
    api_key: str | None,
    auth_token: str | None,
    base_url: str | None,
    timeout_s: float,
    headers: Mapping[str, str],
) -> HttpConnection:
    key = {"x-acme-key": api_key} if api_key else {}
    sent = {"content-type": "application/json", **key, **headers}
    return HttpConnection(base_url or URL, sent, timeout_s)


def model_over(
    connection: Connection, endpoint: Endpoint, model_id: str, abilities: Abilities
) -> AcmeModel:
    return AcmeModel(f"{endpoint.name}:{model_id}", connection)


async def list_models(connection: Connection, endpoint: Endpoint) -> list[Listed]:
    return [Listed(id="one")]

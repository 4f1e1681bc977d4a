from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.models.providers.loopback import Server
from tests.models.providers.speech import KEY, MODEL, Speech
from tests.models.providers.speeches.anthropic import AnthropicSpeech
from tests.models.providers.speeches.gemini import GeminiSpeech
from tests.models.providers.speeches.openai_chat import ChatSpeech
from tests.models.providers.speeches.openai_responses import OpenAIResponsesSpeech
from treadle.models.model import Model
from treadle.models.providers.anthropic import AnthropicModel, connect

SPEECHES: tuple[Speech, ...] = (
    AnthropicSpeech(),
    OpenAIResponsesSpeech(),
    ChatSpeech(),
    GeminiSpeech(),
)

ModelOn = Callable[..., AnthropicModel]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, no credentials and no trust store of the machine."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.delenv("ANTHROPIC_CUSTOM_HEADERS", raising=False)


# ---------------------------------------------------------------- every wire


@dataclass
class Wire:
    """One wire, over one kind of connection."""

    speech: Speech
    _model_on: Callable[..., Any]

    def model(self, server: Server | str, *, timeout_s: float = 10, **options: object) -> Model:
        return self._model_on(server, timeout_s=timeout_s, **options)


@pytest.fixture
async def over_ours() -> AsyncIterator[Callable[[Speech], Callable[..., Model]]]:
    """Models of a wire over our own connection."""
    connections = []

    def of(speech: Speech) -> Callable[..., Model]:
        def model_on(server: Server | str, *, timeout_s: float = 10, **options: object) -> Model:
            connections.append(
                speech.connection(
                    server if isinstance(server, str) else server.url, timeout_s=timeout_s
                )
            )
            return speech.model(connections[-1], **options)

        return model_on

    yield of
    for connection in connections:
        await connection.aclose()


@pytest.fixture(params=[*(speech.wire for speech in SPEECHES), "anthropic, SDK"])
def wire(request: pytest.FixtureRequest) -> Wire:
    """Each test that asks for it runs over every wire, and over every connection that a wire has."""
    name, over_sdk, _ = str(request.param).partition(", SDK")
    speech = next(speech for speech in SPEECHES if speech.wire == name)
    return Wire(
        speech,
        request.getfixturevalue("sdk")
        if over_sdk
        else request.getfixturevalue("over_ours")(speech),
    )


# ---------------------------------------------------------------- Claude


@pytest.fixture
async def own() -> AsyncIterator[ModelOn]:
    """A model over our own connection to a server."""
    connections = []

    def model_on(
        server: Server | str, *, timeout_s: float = 10, **options: object
    ) -> AnthropicModel:
        url = server if isinstance(server, str) else server.url
        connections.append(connect(api_key=KEY, base_url=url, timeout_s=timeout_s))
        return AnthropicModel(MODEL, connection=connections[-1], **options)

    yield model_on
    for connection in connections:
        await connection.aclose()


@pytest.fixture
async def sdk() -> AsyncIterator[ModelOn]:
    """The same over a client of the vendor's SDK."""
    anthropic = pytest.importorskip("anthropic")
    from treadle.models.providers.anthropic.sdk import SdkConnection

    clients = []

    def model_on(
        server: Server | str, *, timeout_s: float = 10, **options: object
    ) -> AnthropicModel:
        url = server if isinstance(server, str) else server.url
        clients.append(anthropic.AsyncAnthropic(api_key=KEY, base_url=url))
        return AnthropicModel(MODEL, connection=SdkConnection(clients[-1], timeout_s), **options)

    yield model_on
    for client in clients:
        await client.close()


@pytest.fixture(params=["own", "sdk"])
def model_on(request: pytest.FixtureRequest) -> ModelOn:
    """Each test that asks for it runs over every connection."""
    return request.getfixturevalue(request.param)

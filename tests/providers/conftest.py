from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from tests.providers.loopback import Server
from treadle.providers.anthropic import AnthropicModel, connect

KEY = "key-of-the-test"

ModelOn = Callable[..., AnthropicModel]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, no credentials and no trust store of the machine."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.delenv("ANTHROPIC_CUSTOM_HEADERS", raising=False)


@pytest.fixture
async def own() -> AsyncIterator[ModelOn]:
    """A model over our own connection to a server."""
    connections = []

    def model_on(server: Server | str, *, timeout_s: float = 10, **options: object) -> AnthropicModel:
        url = server if isinstance(server, str) else server.url
        connections.append(connect(api_key=KEY, base_url=url, timeout_s=timeout_s))
        return AnthropicModel("claude-test", connection=connections[-1], **options)

    yield model_on
    for connection in connections:
        await connection.aclose()


@pytest.fixture
async def sdk() -> AsyncIterator[ModelOn]:
    """The same over a client of the vendor's SDK."""
    anthropic = pytest.importorskip("anthropic")
    from treadle.providers.anthropic.sdk import SdkConnection

    clients = []

    def model_on(server: Server | str, *, timeout_s: float = 10, **options: object) -> AnthropicModel:
        url = server if isinstance(server, str) else server.url
        clients.append(anthropic.AsyncAnthropic(api_key=KEY, base_url=url))
        return AnthropicModel("claude-test", connection=SdkConnection(clients[-1], timeout_s), **options)

    yield model_on
    for client in clients:
        await client.close()


@pytest.fixture(params=["own", "sdk"])
def model_on(request: pytest.FixtureRequest) -> ModelOn:
    """Each test that asks for it runs over every connection."""
    return request.getfixturevalue(request.param)

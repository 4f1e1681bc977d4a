"""What is particular to clients of the vendor's SDK."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import pytest

from tests.late import Late
from tests.models.providers.claude import START, TEXT, WHOLE, text
from tests.models.providers.loopback import Answer, Step, document, serving, stream
from tests.models.providers.speech import HELLO, KEY
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import TextPart
from treadle.models.model import Fold, fold_stream
from treadle.models.providers.anthropic import AnthropicModel
from treadle.models.providers.anthropic.sdk import SdkConnection

anthropic: Any = Late("anthropic")


def test_a_missing_sdk_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(AgentError, match=r"pip install 'treadle\[anthropic\]'") as raised:
        AnthropicModel.from_client(object(), "claude-test")
    assert raised.value.kind is ErrorKind.INVALID


@pytest.mark.parametrize("client", [object(), "sync"])
def test_what_is_no_async_client_is_refused(client: object) -> None:
    given = anthropic.Anthropic(api_key=KEY) if client == "sync" else client
    with pytest.raises(AgentError, match="async client") as raised:
        SdkConnection(given)
    assert raised.value.kind is ErrorKind.INVALID


async def test_a_model_can_be_made_of_a_client_alone_and_leaves_it_open() -> None:
    refused = document({"error": {"type": "authentication_error", "message": "no"}}, status=401)
    async with (
        serving(stream(*WHOLE), refused, stream(*WHOLE)) as server,
        anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url) as client,
    ):
        model = AnthropicModel.from_client(client, "claude-test")
        assert (await fold_stream(model.stream(HELLO))).text == "Good day"
        with pytest.raises(AgentError, match="the credentials of the client"):
            await fold_stream(model.stream(HELLO))
        await model.aclose()
        assert (await fold_stream(model.stream(HELLO))).text == "Good day"
    assert server.seen[0].headers["x-stainless-retry-count"] == "0"


async def test_a_client_without_credentials_is_an_auth_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_PROFILE",
        "ANTHROPIC_CONFIG_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    async with anthropic.AsyncAnthropic(base_url="http://127.0.0.1:9") as client:
        with pytest.raises(AgentError, match="cannot identify itself") as raised:
            await fold_stream(AnthropicModel.from_client(client, "claude-test").stream(HELLO))
    assert raised.value.kind is ErrorKind.AUTH


async def test_a_closed_client_is_wrong_use() -> None:
    async with serving(stream(*WHOLE)) as server:
        client = anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url)
        await client.close()
        with pytest.raises(AgentError) as raised:
            await fold_stream(AnthropicModel.from_client(client, "claude-test").stream(HELLO))
    assert raised.value.kind in (ErrorKind.INVALID, ErrorKind.NETWORK)


async def test_the_clients_own_patience_ends_in_a_timeout() -> None:
    async with (
        serving(Answer(steps=(Step.HANG,), status=0)) as server,
        anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url, timeout=0.2) as client,
    ):
        with anyio.fail_after(20), pytest.raises(AgentError) as raised:
            await fold_stream(AnthropicModel.from_client(client, "claude-test").stream(HELLO))
    assert raised.value.kind is ErrorKind.TIMEOUT


# ---------------------------------------------------------------- clouds, whose events the SDK reads itself


def vertex(url: str) -> Any:
    return anthropic.AsyncAnthropicVertex(
        region="europe-west1", project_id="p", access_token="token", base_url=url
    )


async def test_a_client_that_reads_events_itself_gives_the_same_response() -> None:
    async with (
        serving(stream(*WHOLE), stream(*WHOLE)) as server,
        vertex(server.url) as cloud,
        anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url) as plain,
    ):
        responses = [
            await fold_stream(AnthropicModel.from_client(client, "claude-test").stream(HELLO))
            for client in (cloud, plain)
        ]
    assert responses[0] == responses[1]
    assert (
        server.seen[0].target
        == "/projects/p/locations/europe-west1/publishers/anthropic/models/claude-test:streamRawPredict"
    )
    assert server.seen[0].headers["authorization"] == "Bearer token"
    assert server.seen[0].json["anthropic_version"]


async def test_errors_of_such_a_client_are_of_the_same_kinds() -> None:
    broken = stream(
        START,
        TEXT,
        text("Partial"),
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    )
    cut = Answer(steps=(*stream(START, TEXT).steps, Step.CUT))
    refused = document(
        {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}},
        status=429,
        headers={"retry-after": "3"},
    )
    errors, folds = list[AgentError](), [Fold(), Fold(), Fold()]
    async with serving(broken, cut, refused) as server, vertex(server.url) as client:
        model = AnthropicModel.from_client(client, "claude-test")
        for fold in folds:
            try:
                async for delta in model.stream(HELLO):
                    fold.add(delta)
            except AgentError as e:
                errors.append(e)
    assert [(e.kind, e.status) for e in errors] == [
        (ErrorKind.RATE_LIMIT, 200),
        (ErrorKind.NETWORK, 200),
        (ErrorKind.RATE_LIMIT, 429),
    ]
    assert folds[0].partial() == (TextPart(text="Partial"),)
    assert errors[2].retry_after_s == 3.0


async def test_such_a_client_counts_tokens() -> None:
    async with serving(document({"input_tokens": 12})) as server, vertex(server.url) as client:
        assert await AnthropicModel.from_client(client, "claude-test").count_tokens(HELLO) == 12

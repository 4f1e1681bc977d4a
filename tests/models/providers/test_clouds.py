"""Amazon Bedrock and Vertex AI: each model over the API that the cloud has for it, with tokens that
the vendors' own libraries make, and only for the vendors' own addresses.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.models.providers.loopback import document, serving
from tests.models.providers.speech import Speech, stream, text
from tests.models.providers.speeches.anthropic import AnthropicSpeech
from tests.models.providers.speeches.gemini import GeminiSpeech
from tests.models.providers.speeches.openai_chat import ChatSpeech
from treadle import Agent, Runtime
from treadle.budget.price_list import Prices
from treadle.config import Config, Provider, Secret, bedrock_tokens, load, vertex_tokens
from treadle.config.endpoint import Endpoint
from treadle.config.tokens import TokenSource, own_tokens
from treadle.errors import AgentError
from treadle.models.model import ModelRequest
from treadle.models.providers.anthropic import AnthropicModel
from treadle.models.providers.known_models import known
from treadle.models.providers.wires import connect_to, wire_of
from treadle.types import Settings, Usage

PROJECT = "/v1/projects/books/locations/global"
MANTLE = "https://bedrock-mantle.eu-west-1.api.aws"


@pytest.mark.parametrize(
    ("name", "speech", "path"),
    [
        ("bedrock:anthropic.claude-haiku-5-5", AnthropicSpeech(), "/anthropic/v1/messages"),
        ("bedrock:openai.gpt-oss-120b", ChatSpeech(), "/v1/chat/completions"),
        (
            "vertex:gemini-4-argon",
            GeminiSpeech(),
            f"{PROJECT}/publishers/google/models/gemini-4-argon:streamGenerateContent?alt=sse",
        ),
        (
            "vertex:claude-haiku-5-5",
            AnthropicSpeech(),
            f"{PROJECT}/publishers/anthropic/models/claude-haiku-5-5:streamRawPredict",
        ),
        ("vertex:meta/llama-4", ChatSpeech(), f"{PROJECT}/endpoints/openapi/chat/completions"),
    ],
)
async def test_each_model_is_reached_over_its_own_api(name: str, speech: Speech, path: str) -> None:
    cloud, _, model_id = name.partition(":")
    async with serving(stream(speech, text("Hello."))) as server:
        url = server.url + (PROJECT if cloud == "vertex" else "")
        given = Provider(base_url=url, auth_token=Secret("a-token"))
        async with Runtime.open(config=Config(providers={cloud: given})) as rt:
            result = await rt.run(Agent(name="a", model=name), "Hi.")
    assert result.text == "Hello."
    (seen,) = server.seen
    assert (seen.target, seen.headers["authorization"]) == (path, "Bearer a-token")
    body = json.loads(seen.body)
    if cloud == "vertex" and model_id.startswith("claude"):
        assert "model" not in body
        assert body["anthropic_version"] == "2026-10-21"
    elif "google" not in path:
        assert body["model"] == model_id


async def test_tokens_of_claude_on_vertex_are_counted_there() -> None:
    async with serving(document({"input_tokens": 7})) as server:
        endpoint = Endpoint(
            name="vertex",
            type="vertex",
            base_url=server.url + PROJECT,
            api_key=None,
            auth_token=Secret("a-token"),
            key_origin="",
            preamble="",
            timeout_s=10,
            headers={},
        )
        connection = connect_to(endpoint)
        model = wire_of("vertex").model_over(
            connection, endpoint, "claude-haiku-5-5", known("vertex", "", "claude-haiku-5-5")
        )
        request = ModelRequest(system=(), messages=(), tools=(), settings=Settings())
        assert isinstance(model, AnthropicModel)
        assert await model.count_tokens(request) == 7
        await connection.aclose()
    (seen,) = server.seen
    assert seen.target == f"{PROJECT}/publishers/anthropic/models/count-tokens:rawPredict"
    assert json.loads(seen.body)["model"] == "claude-haiku-5-5"


async def test_vertex_has_no_list_of_models_and_says_how_to_name_one() -> None:
    config = load({"GOOGLE_CLOUD_PROJECT": "books"}, files=False)
    endpoint = config.endpoint("vertex")
    with pytest.raises(AgentError, match="name one, like vertex:gemini-4-argon"):
        await wire_of("vertex").list_models(connect_to(endpoint), endpoint)


@pytest.mark.parametrize(
    ("cloud", "model_id", "vendor", "its_id"),
    [
        ("bedrock", "anthropic.claude-haiku-5-5", "anthropic", "claude-haiku-5-5"),
        ("vertex", "claude-haiku-5-5", "anthropic", "claude-haiku-5-5"),
        ("vertex", "gemini-4-argon", "gemini", "gemini-4-argon"),
    ],
)
async def test_what_is_known_of_a_model_and_its_price_hold_in_the_cloud(
    cloud: str, model_id: str, vendor: str, its_id: str
) -> None:
    assert known(cloud, MANTLE, model_id) == known(vendor, None, its_id)
    env = {"AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "books"}
    price = Prices(load(env, files=False)).of(f"{cloud}:{model_id}")
    assert await price.load() is not None
    assert await price.cost_usd(Usage(input_tokens=1_000_000), datetime.now(UTC), model_id)


def test_only_a_vendors_own_address_gets_its_credentials() -> None:
    env = {"AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "books"}
    for name in ("bedrock", "vertex"):
        assert load(env, files=False).endpoint(name).credential.startswith("your ")
    for address in (f"{MANTLE}.example", "https://example/?https://aiplatform.googleapis.com/v1"):
        for name in ("bedrock", "vertex", "openrouter"):
            assert own_tokens(name, address) is None
    assert own_tokens("groq", MANTLE) is None


# ---------------------------------------------------------------- the vendors' libraries


@pytest.fixture
def no_cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without credentials of either vendor."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for variable in ("AWS_PROFILE", "GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    return monkeypatch


async def test_a_token_for_bedrock_is_signed_with_the_credentials_of_the_machine(
    no_cloud: pytest.MonkeyPatch,
) -> None:
    no_cloud.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    no_cloud.setenv("AWS_SECRET_ACCESS_KEY", "an-example")
    token = await bedrock_tokens("eu-west-1")()
    assert not isinstance(token, Secret)
    signed = base64.b64decode(token.value.reveal().removeprefix("bedrock-api-key-")).decode()
    query = parse_qs(signed.partition("?")[2])
    assert query["X-Amz-Expires"] == ["900"]
    assert token.expires_in_s == 900
    assert query["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert "/eu-west-1/bedrock/" in query["X-Amz-Credential"][0]
    assert "an-example" not in repr(token)


async def test_a_token_for_vertex_is_fetched_with_a_key_file(
    no_cloud: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = rsa.generate_private_key(65_537, 2_048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    async with serving(document({"access_token": "fetched", "expires_in": 3_600})) as server:
        account = {
            "type": "service_account",
            "client_email": "books@example",
            "private_key": key.decode(),
            "token_uri": f"{server.url}/token",
            "universe_domain": "googleapis.com",
        }
        file = tmp_path / "account.json"
        file.write_text(json.dumps(account))
        no_cloud.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        no_cloud.setenv("GOOGLE_CLOUD_PROJECT", "books")
        token = await vertex_tokens()()
    assert not isinstance(token, Secret)
    assert token.value.reveal() == "fetched"
    assert token.expires_in_s == pytest.approx(3_600, abs=300)
    assert server.seen[0].target == "/token"


@pytest.mark.parametrize(
    ("tokens", "library", "parts"),
    [
        pytest.param(
            lambda: bedrock_tokens("eu-west-1"),
            None,
            ("aws sts get-caller-identity", "AWS_BEARER_TOKEN_BEDROCK"),
            id="bedrock, no credentials",
        ),
        pytest.param(
            lambda: bedrock_tokens("eu-west-1"),
            "aws_bedrock_token_generator",
            ("pip install 'treadle[bedrock]'", "AWS_BEARER_TOKEN_BEDROCK"),
            id="bedrock, no library",
        ),
        pytest.param(
            vertex_tokens,
            None,
            ("gcloud auth application-default login", "GOOGLE_APPLICATION_CREDENTIALS"),
            id="vertex, no credentials",
        ),
        pytest.param(
            vertex_tokens,
            "google.auth",
            ("pip install 'treadle[vertex]'",),
            id="vertex, no library",
        ),
    ],
)
async def test_what_is_missing_is_said_before_anything_is_sent(
    no_cloud: pytest.MonkeyPatch,
    tokens: Callable[[], TokenSource],
    library: str | None,
    parts: tuple[str, ...],
) -> None:
    if library is not None:
        no_cloud.setitem(sys.modules, library, None)
    async with serving() as server:
        given: Any = Provider(type="openai-chat", base_url=server.url, token=tokens())
        async with Runtime.open(config=Config(providers={"cloud": given})) as rt:
            result = await rt.run(Agent(name="a", model="cloud:m"), "Hi.")
    assert server.seen == []
    assert result.error is not None
    assert result.error.kind == "auth"
    assert all(part in result.error.message for part in parts), result.error.message

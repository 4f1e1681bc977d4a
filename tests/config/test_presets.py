"""Providers that work by name: their addresses, whose key they get, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.test_endpoint import configured, key
from treadle._internal.redaction import Secret
from treadle.config import Config, load
from treadle.config.endpoint import Provider
from treadle.config.environment import KEYS_OF_THE_ENVIRONMENT
from treadle.config.given import completed
from treadle.config.presets import PRESETS
from treadle.errors import AgentError
from treadle.models.providers.openai_chat.servers import server_at

CLOUDS = ("bedrock", "vertex")
HOSTED = [name for name in PRESETS if PRESETS[name].key_variable and name not in CLOUDS]
LOCAL = [name for name in PRESETS if name not in (*HOSTED, *CLOUDS)]
EVERY_KEY = {variable: f"key-of-{variable}" for variable in KEYS_OF_THE_ENVIRONMENT}
RESOURCE = "https://books.openai.azure.com"
EVERYTHING = {**EVERY_KEY, "AZURE_OPENAI_ENDPOINT": RESOURCE}
del EVERYTHING["TREADLE_AGENT_API_KEY"]


@pytest.mark.parametrize("name", HOSTED)
def test_a_vendor_is_reached_by_name_with_its_own_key(name: str) -> None:
    endpoint = load(EVERYTHING, files=False).endpoint(name)
    variable = PRESETS[name].key_variable
    assert key(endpoint) == (f"key-of-{variable}", variable)
    assert endpoint.base_url == (PRESETS[name].base_url or f"{RESOURCE}/openai/v1")
    assert endpoint.type == PRESETS[name].type


@pytest.mark.parametrize("name", HOSTED)
def test_no_vendor_gets_the_key_of_another(name: str) -> None:
    others = {k: v for k, v in EVERYTHING.items() if k != PRESETS[name].key_variable}
    with pytest.raises(AgentError, match=f"set {PRESETS[name].key_variable} in the") as raised:
        load(others, files=False).endpoint(name)
    assert raised.value.kind == "auth"


@pytest.mark.parametrize("name", HOSTED)
def test_a_key_of_the_environment_is_not_sent_to_another_address(name: str, tmp_path: Path) -> None:
    text = f"providers: {{{name}: {{base_url: 'https://proxy.example/v1'}}}}"
    env = {k: v for k, v in EVERYTHING.items() if k != "AZURE_OPENAI_ENDPOINT"}
    endpoint = configured(tmp_path, text, **env).endpoint(name, to_ask=False)
    assert key(endpoint) == ("", "")
    assert endpoint.base_url == "https://proxy.example/v1"


@pytest.mark.parametrize("name", LOCAL)
def test_a_server_on_this_machine_is_reached_by_name_without_a_key(name: str) -> None:
    endpoint = load(EVERYTHING, files=False).endpoint(name)
    assert key(endpoint) == ("", "")
    assert (endpoint.base_url or "").startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    "given", [RESOURCE, f"{RESOURCE}/", f"{RESOURCE}/openai/v1", f"{RESOURCE}/openai/v1/"]
)
def test_azure_has_the_address_of_its_resource(given: str) -> None:
    config = load({**EVERYTHING, "AZURE_OPENAI_ENDPOINT": given}, files=False)
    assert config.endpoint("azure").base_url == f"{RESOURCE}/openai/v1"


def test_azure_without_an_address_asks_for_it() -> None:
    with pytest.raises(AgentError, match="no address for the provider 'azure': set AZURE_OPENAI_E"):
        load(EVERY_KEY, files=False).endpoint("azure")


@pytest.mark.parametrize(
    ("name", "env", "address"),
    [
        ("bedrock", {"AWS_REGION": "eu-west-1"}, "https://bedrock-mantle.eu-west-1.api.aws"),
        (
            "bedrock",
            {"AWS_DEFAULT_REGION": "us-east-2"},
            "https://bedrock-mantle.us-east-2.api.aws",
        ),
        (
            "vertex",
            {"GOOGLE_CLOUD_PROJECT": "books"},
            "https://aiplatform.googleapis.com/v1/projects/books/locations/global",
        ),
        (
            "vertex",
            {"GOOGLE_CLOUD_PROJECT": "example.org:books", "GOOGLE_CLOUD_LOCATION": "europe-west4"},
            "https://europe-west4-aiplatform.googleapis.com/v1/projects/example.org:books"
            "/locations/europe-west4",
        ),
        (
            "vertex",
            {"GOOGLE_CLOUD_PROJECT": "books", "GOOGLE_CLOUD_LOCATION": "eu"},
            "https://aiplatform.eu.rep.googleapis.com/v1/projects/books/locations/eu",
        ),
        ("bedrock", {"AWS_REGION": "evil.example/"}, None),
        ("vertex", {"GOOGLE_CLOUD_PROJECT": "books/../../x"}, None),
        ("vertex", {"GOOGLE_CLOUD_LOCATION": "global"}, None),
    ],
)
def test_a_cloud_has_the_address_of_a_region_or_project(
    name: str, env: dict[str, str], address: str | None
) -> None:
    config = load(env, files=False)
    if address is None:
        variable = PRESETS[name].address_variable
        with pytest.raises(
            AgentError, match=f"no address for the provider '{name}': set {variable}"
        ):
            config.endpoint(name)
    else:
        assert config.endpoint(name).base_url == address


def test_a_key_for_bedrock_comes_before_the_credentials_of_the_machine() -> None:
    env = {"AWS_REGION": "eu-west-1", "AWS_BEARER_TOKEN_BEDROCK": "a-key"}
    endpoint = load(env, files=False).endpoint("bedrock")
    assert key(endpoint) == ("a-key", "AWS_BEARER_TOKEN_BEDROCK")
    assert endpoint.token is None


def test_a_file_needs_only_the_key(tmp_path: Path) -> None:
    endpoint = configured(tmp_path, "providers: {groq: {api_key: mine}}").endpoint("groq")
    assert key(endpoint)[0] == "mine"
    assert endpoint.base_url == PRESETS["groq"].base_url


def test_a_program_needs_only_the_key() -> None:
    config = completed(Config(providers={"groq": Provider(api_key=Secret("mine"))}), {})
    endpoint = config.endpoint("groq")
    assert key(endpoint)[0] == "mine"
    assert endpoint.base_url == PRESETS["groq"].base_url


def test_a_file_may_give_the_name_another_meaning(tmp_path: Path) -> None:
    text = "providers: {vllm: {type: anthropic, base_url: 'http://127.0.0.1:9/x'}}"
    endpoint = configured(tmp_path, text, **EVERYTHING).endpoint("vllm")
    assert (endpoint.type, endpoint.base_url) == ("anthropic", "http://127.0.0.1:9/x")


def test_a_default_model_may_be_one_of_them_and_has_the_agents_key(tmp_path: Path) -> None:
    config = configured(tmp_path, "models: {large: 'groq:x'}", TREADLE_AGENT_API_KEY="agent-key")
    assert key(config.endpoint("groq")) == ("agent-key", "TREADLE_AGENT_API_KEY")


def test_a_workspace_cannot_choose_one_that_the_user_did_not_configure(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".treadle").mkdir()
    (tmp_path / ".treadle" / "config.yaml").write_text("models: {large: 'groq:x'}")
    config = configured(tmp_path, "", **EVERYTHING)
    assert config.models.large == Config().models.large
    assert any("a workspace may only name a provider" in text for text in config.warnings)


@pytest.mark.parametrize("name", [name for name in PRESETS if PRESETS[name].base_url])
def test_what_is_known_of_its_requests_belongs_to_the_address(name: str) -> None:
    plain = name.replace("llamacpp", "llama.cpp")
    assert server_at(PRESETS[name].base_url or "", called=name).name == plain


def test_an_unknown_provider_is_told_the_names() -> None:
    with pytest.raises(AgentError, match="did you mean 'mistral'"):
        load({}, files=False).split("mistrall:large")

"""Which key reaches which provider, and what to do where there is none."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from treadle._internal.redaction import Secret
from treadle.config import Config, Endpoint, load
from treadle.config.endpoint import Provider, needs_no_key
from treadle.config.sections import Defaults, Models, Permissions, Price
from treadle.errors import AgentError
from treadle.types import Limits

CANARY = "sk-ant-api03-CANARY-9f3b2c7d1e"


def configured(tmp_path: Path, text: str, **env: str) -> Config:
    own = tmp_path / "home" / "config.yaml"
    own.parent.mkdir(exist_ok=True)
    own.write_text(text)
    own.chmod(0o600)
    return load({"TREADLE_HOME": str(own.parent), **env}, cwd=tmp_path)


def key(endpoint: Endpoint) -> tuple[str, str]:
    """Its value, and where it came from."""
    secret = endpoint.api_key or endpoint.auth_token
    assert endpoint.api_key is None or endpoint.auth_token is None
    return (secret.reveal() if secret else "", endpoint.key_origin)


ALL = {
    "TREADLE_AGENT_API_KEY": "agent-key",
    "ANTHROPIC_API_KEY": "vendor-key",
    "ANTHROPIC_AUTH_TOKEN": "vendor-token",
}


def test_an_explicit_key_wins_then_the_configured_one_then_the_agents_then_the_vendors(
    tmp_path: Path,
) -> None:
    mine = "providers: {anthropic: {api_key: my-key}}"
    assert key(configured(tmp_path, mine, **ALL).endpoint("anthropic", api_key="given")) == (
        "given",
        "api_key=",
    )
    assert key(configured(tmp_path, mine, **ALL).endpoint("anthropic")) == (
        "my-key",
        f"{tmp_path}/home/config.yaml:1",
    )
    assert key(configured(tmp_path, "", **ALL).endpoint("anthropic")) == (
        "agent-key",
        "TREADLE_AGENT_API_KEY",
    )
    rest = {k: v for k, v in ALL.items() if k != "TREADLE_AGENT_API_KEY"}
    assert key(configured(tmp_path, "", **rest).endpoint("anthropic")) == (
        "vendor-key",
        "ANTHROPIC_API_KEY",
    )
    token = configured(tmp_path, "", ANTHROPIC_AUTH_TOKEN="vendor-token").endpoint("anthropic")
    assert (key(token), token.kind) == (("vendor-token", "ANTHROPIC_AUTH_TOKEN"), "auth_token")


def test_a_configured_token_wins_over_every_variable(tmp_path: Path) -> None:
    endpoint = configured(
        tmp_path, "providers: {anthropic: {auth_token: my-token, preamble: I am.}}", **ALL
    ).endpoint("anthropic")
    assert (endpoint.kind, key(endpoint)[0], endpoint.preamble) == (
        "auth_token",
        "my-token",
        "I am.",
    )


def test_what_stands_at_an_address_can_be_said(tmp_path: Path) -> None:
    text = "providers: {here: {type: openai-chat, base_url: 'http://127.0.0.1:9/v1', server: vllm}}"
    assert configured(tmp_path, text).endpoint("here").server == "vllm"


def test_of_a_configured_key_and_token_the_key_is_used(tmp_path: Path) -> None:
    config = configured(tmp_path, "providers: {anthropic: {auth_token: my-token, api_key: my-key}}")
    assert config.endpoint("anthropic").kind == "api_key"
    explicit = config.endpoint("anthropic", auth_token="given-token")
    assert (explicit.kind, key(explicit)) == ("auth_token", ("given-token", "auth_token="))


def test_the_agents_key_goes_to_the_default_models_provider_only() -> None:
    env = {"TREADLE_AGENT_API_KEY": "agent-key", "TREADLE_MODEL": "gemini:x"}
    assert key(load(env, files=False).endpoint("gemini"))[0] == "agent-key"
    with pytest.raises(AgentError, match="no API key for the provider 'anthropic'"):
        load(env, files=False).endpoint("anthropic")
    flagged = load(env, files=False, flags={"--model": "openai:x"})
    assert key(flagged.endpoint("openai"))[0] == "agent-key"
    with pytest.raises(AgentError):
        flagged.endpoint("gemini")


def test_a_workspace_cannot_choose_who_gets_the_agents_key(tmp_path: Path) -> None:
    (tmp_path / ".treadle").mkdir()
    (tmp_path / ".treadle" / "config.yaml").write_text("models: {large: 'openai:x'}\n")
    config = configured(tmp_path, "", TREADLE_AGENT_API_KEY="agent-key")
    assert config.models.large == "openai:x"
    assert key(config.endpoint("anthropic"))[0] == "agent-key"
    with pytest.raises(AgentError, match="no API key"):
        config.endpoint("openai")


@pytest.mark.parametrize(
    ("variable", "provider"),
    [
        ("OPENAI_API_KEY", "openai"),
        ("OPENAI_API_KEY", "openai-chat"),
        ("GEMINI_API_KEY", "gemini"),
        ("GOOGLE_API_KEY", "gemini"),
    ],
)
def test_each_vendor_has_its_own_variable(variable: str, provider: str) -> None:
    assert key(load({variable: " vendor-key\n"}, files=False).endpoint(provider)) == (
        "vendor-key",
        variable,
    )


def test_a_vendors_key_never_goes_to_an_address_that_is_not_the_vendors(tmp_path: Path) -> None:
    text = (
        "providers:\n"
        "  gate: {type: anthropic, base_url: 'https://gate.test'}\n"
        "  twin: {type: anthropic, timeout_s: 5}\n"
        "  local: {type: openai-chat, base_url: 'http://host.test/v1'}\n"
        "  openai-chat: {base_url: 'http://other.test/v1'}\n"
    )
    config = configured(tmp_path, text, ANTHROPIC_API_KEY="vendor-key", OPENAI_API_KEY="other-key")
    with pytest.raises(AgentError, match="no API key") as e:
        config.endpoint("gate")
    assert "ANTHROPIC_API_KEY" not in e.value.message
    assert (key(config.endpoint("twin"))[0], config.endpoint("twin").timeout_s) == ("vendor-key", 5)
    assert config.endpoint("local").kind == config.endpoint("openai-chat").kind == "none"
    assert key(config.endpoint("openai"))[0] == "other-key"


def test_addresses_come_from_the_file_and_then_from_the_environment(tmp_path: Path) -> None:
    text = "providers: {anthropic: {base_url: 'https://mine.test/'}}"
    assert configured(tmp_path, text, **ALL).endpoint("anthropic").base_url == "https://mine.test"
    env = {
        "ANTHROPIC_BASE_URL": "https://env.test/x/",
        "OPENAI_BASE_URL": "http://openai.test",
        "GEMINI_BASE_URL": "http://gemini.test",
        "OPENAI_API_KEY": "k" * 9,
    }
    config = configured(tmp_path, text, **ALL, **env)
    assert config.endpoint("anthropic").base_url == "https://env.test/x"
    assert (
        config.endpoint("openai").base_url
        == config.endpoint("openai-chat").base_url
        == "http://openai.test"
    )
    assert str(config.origin("providers", "gemini", "base_url")) == "GEMINI_BASE_URL"
    assert load(ALL, files=False).endpoint("anthropic").base_url is None


def test_a_variable_that_cannot_be_used_is_named_when_it_is_needed() -> None:
    config = load(
        {
            "ANTHROPIC_BASE_URL": "localhost:80",
            "ANTHROPIC_API_KEY": "k" * 9,
            "OPENAI_API_KEY": f"{CANARY} {CANARY}",
        },
        files=False,
    )
    with pytest.raises(
        AgentError, match="ANTHROPIC_BASE_URL: the base URL of 'anthropic' must be a URL like"
    ) as e:
        config.endpoint("anthropic")
    assert e.value.kind == "invalid"
    with pytest.raises(
        AgentError, match="OPENAI_API_KEY: the key of 'openai' must be a key in one piece"
    ) as e:
        config.endpoint("openai")
    assert "CANARY" not in e.value.message
    with pytest.raises(AgentError, match="api_key=: the key of 'gemini' must be a key"):
        config.endpoint("gemini", api_key="two words")


def test_without_a_key_there_are_three_ways_on(tmp_path: Path) -> None:
    with pytest.raises(AgentError) as e:
        configured(tmp_path, "").endpoint("anthropic")
    assert e.value.kind == "auth"
    for way in (
        "set ANTHROPIC_API_KEY in the environment",
        "treadle config set providers.anthropic.api_key",
        "providers.anthropic.base_url http://127.0.0.1",
        "treadle demo",
    ):
        assert way in e.value.message


@pytest.mark.parametrize(
    ("wire", "address", "free"),
    [
        ("anthropic", None, False),
        ("openai-chat", None, False),
        ("anthropic", "http://127.0.0.1:8080", True),
        ("anthropic", "http://127.1.2.3/v1", True),
        ("anthropic", "http://LOCALHOST", True),
        ("anthropic", "http://api.localhost:1/v1", True),
        ("anthropic", "http://[::1]:8080/v1", True),
        ("anthropic", "http://u:p@localhost:1", True),
        ("anthropic", "https://api.test", False),
        ("anthropic", "https://localhost@evil.test", False),
        ("anthropic", "https://localhost.evil.test", False),
        ("anthropic", "https://127.0.0.evil.test", False),
        ("openai", "https://evil.test/localhost", False),
        ("openai-chat", "https://open.test", True),
    ],
)
def test_a_server_on_this_machine_needs_no_key(wire: str, address: str | None, free: bool) -> None:
    assert needs_no_key(wire, address) is free


def test_a_local_server_is_reached_without_a_key() -> None:
    endpoint = load({"ANTHROPIC_BASE_URL": "http://127.0.0.1:8080"}, files=False).endpoint(
        "anthropic"
    )
    assert (endpoint.kind, endpoint.key_origin, endpoint.type, endpoint.timeout_s) == (
        "none",
        "",
        "anthropic",
        600,
    )


def test_headers_of_a_provider_are_part_of_how_it_is_reached(tmp_path: Path) -> None:
    config = configured(tmp_path, "providers: {anthropic: {headers: {X-Team: blue}}}", **ALL)
    assert config.endpoint("claude").headers == {"X-Team": Secret("blue")}


def test_unknown_providers_name_the_nearest() -> None:
    config = load({}, files=False)
    with pytest.raises(
        AgentError, match="unknown provider 'antropic': did you mean 'anthropic'"
    ) as e:
        config.endpoint("antropic")
    assert e.value.kind == "invalid"
    with pytest.raises(AgentError, match="'script' names a file, not a provider"):
        config.endpoint("script")


def test_a_models_name_is_split_at_its_provider(tmp_path: Path) -> None:
    config = configured(tmp_path, "providers: {local: {type: openai-chat, base_url: 'http://h'}}")
    assert config.split("anthropic:x") == config.split("claude:x") == ("anthropic", "x")
    assert config.split("local:llama:8b") == ("local", "llama:8b")
    assert config.split("script:/a:b.json") == ("script", "/a:b.json")
    for name, hint in (
        ("antropic:x", "unknown provider 'antropic' in 'antropic:x': did you mean 'anthropic'"),
        ("lokal:x", "did you mean 'local'"),
        ("opus", "like 'anthropic:opus'"),
        ("anthropic:", "like 'anthropic:claude-opus-5-5'"),
        ("", "like 'anthropic:claude-opus-5-5'"),
    ):
        with pytest.raises(AgentError, match=hint):
            config.split(name)


# ---------------------------------------------------------------- replaced while running


def test_credentials_can_be_replaced_and_old_ones_stay_secret(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        "providers: {anthropic: {auth_token: my-old-token, timeout_s: 5}}\nlimits: {turns: 3}\n",
    )
    after = config.with_credentials("claude", api_key="my-new-key")
    assert key(after.endpoint("anthropic")) == ("my-new-key", "api_key=")
    assert (after.endpoint("anthropic").timeout_s, after.limits, after.warnings) == (
        5,
        config.limits,
        config.warnings,
    )
    assert key(config.endpoint("anthropic"))[0] == "my-old-token"
    assert {"my-old-token", "my-new-key"} <= after.secrets()
    again = after.with_credentials("anthropic", auth_token="third-token")
    assert again.endpoint("anthropic").kind == "auth_token"


def test_credentials_can_be_given_to_a_provider_that_had_none() -> None:
    config = load({}, files=False).with_credentials("gemini", api_key="my-new-key")
    assert key(config.endpoint("gemini"))[0] == "my-new-key"
    with pytest.raises(AgentError, match="unknown provider"):
        config.with_credentials("nobody", api_key="my-new-key")
    with pytest.raises(AgentError, match="must be a key in one piece"):
        config.with_credentials("gemini", api_key="two words")


def test_a_new_key_keeps_every_setting_of_a_configuration_made_in_python() -> None:
    """Each field is set to something else than its default, so that a new one cannot be forgotten."""
    values: dict[str, object] = {
        "models": Models(large="own:large"),
        "providers": {
            "own": Provider(type="openai-chat", base_url="http://127.0.0.1:1"),
            "anthropic": Provider(type="anthropic", timeout_s=5),
        },
        "permissions": Permissions(allow=("ls",), ask=("touch",), deny=("wipe",)),
        "prices": {"own:large": Price(input=1, output=2)},
        "defaults": Defaults(mode="plan"),
        "limits": Limits(turns=3),
        "home": "/nowhere",
        "withheld_rules": frozenset({"wipe"}),
    }
    before = msgspec.structs.replace(Config(), **values)
    after = before.with_credentials("anthropic", api_key="my-new-key")
    for name in Config.__struct_fields__:
        if name not in ("providers", "settings", "known_secrets"):
            assert getattr(after, name) == getattr(before, name), name
    assert after.providers["own"] == before.providers["own"]
    assert after.providers["anthropic"].timeout_s == 5
    assert key(after.endpoint("anthropic")) == ("my-new-key", "api_key=")
    again = after.with_credentials("anthropic", auth_token="my-token")
    assert key(again.endpoint("anthropic"))[0] == "my-token"
    assert {"my-new-key", "my-token"} <= again.secrets()


@pytest.mark.parametrize("empty", ['""', "''", "'  '", "null"])
def test_an_empty_key_is_absent_and_the_environment_gives_one(tmp_path: Path, empty: str) -> None:
    config = configured(
        tmp_path, f"providers: {{anthropic: {{api_key: {empty}, auth_token: {empty}}}}}", **ALL
    )
    assert key(config.endpoint("anthropic")) == ("agent-key", "TREADLE_AGENT_API_KEY")
    assert not config.warnings
    with pytest.raises(AgentError, match="no API key for the provider 'anthropic'"):
        configured(tmp_path, f"providers: {{anthropic: {{api_key: {empty}}}}}").endpoint(
            "anthropic"
        )


@pytest.mark.parametrize(
    "given",
    [{}, {"api_key": ""}, {"auth_token": ""}, {"api_key": "a-key", "auth_token": "a-token"}],
)
def test_new_credentials_are_one_key(given: dict[str, str]) -> None:
    with pytest.raises(AgentError, match="either api_key= or auth_token="):
        load({}, files=False).with_credentials("gemini", **given)

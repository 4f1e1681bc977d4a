"""A configuration made in Python goes over the environment, and what it leaves open comes from
there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle import Agent, AgentError, Runtime
from treadle.config import Config, Models, Permissions, Price, Provider, Secret, completed, load
from treadle.config.sections import Defaults

PRICES = {"script:*": Price(input=4, output=20)}
ENV = {
    "ANTHROPIC_API_KEY": "vendor-key",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    "TREADLE_MODEL": "gemini:flash",
}


def test_what_a_program_leaves_open_comes_from_the_environment() -> None:
    config = completed(Config(prices=PRICES, permissions=Permissions(deny=("rm",))), ENV)
    endpoint = config.endpoint("anthropic")
    assert endpoint.api_key == Secret("vendor-key")
    assert endpoint.base_url == "http://127.0.0.1:9"
    assert (config.models.large, config.prices, config.permissions.deny) == (
        "gemini:flash",
        PRICES,
        ("rm",),
    )
    assert "vendor-key" in config.secrets()


def test_what_a_program_sets_goes_before_the_environment() -> None:
    own = Config(
        models=Models(large="local:llama"),
        providers={
            "anthropic": Provider(api_key=Secret("my-own-key-1"), timeout_s=5),
            "local": Provider(
                type="openai-chat",
                base_url="http://127.0.0.1:8",
                headers={"x-team": Secret("a-header-1")},
            ),
        },
        defaults=Defaults(temperature=0.5),
    )
    config = completed(own, ENV)
    assert config.models.large == "local:llama"
    assert config.endpoint("anthropic").api_key == Secret("my-own-key-1")
    assert (config.endpoint("anthropic").timeout_s, config.endpoint("anthropic").base_url) == (
        5,
        "http://127.0.0.1:9",
    )
    assert (config.endpoint("local").base_url, config.endpoint("local").headers) == (
        "http://127.0.0.1:8",
        {"x-team": Secret("a-header-1")},
    )
    assert config.defaults.temperature == 0.5
    assert {"my-own-key-1", "a-header-1"} <= config.secrets()
    assert str(config.origin("defaults", "temperature")) == "config="


def test_a_vendors_key_from_the_environment_does_not_go_to_an_address_that_a_program_gave() -> None:
    config = completed(
        Config(providers={"mine": Provider(type="anthropic", base_url="https://elsewhere.test")}),
        ENV,
    )
    with pytest.raises(AgentError, match="no API key for the provider 'mine'"):
        config.endpoint("mine")


def test_a_configuration_that_was_loaded_is_complete_as_it_is(tmp_path: Path) -> None:
    for loaded in (load({}, files=False), load({"TREADLE_HOME": str(tmp_path)})):
        assert completed(loaded, ENV) is loaded


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (
            {"providers": {"local": {"type": "openai-chat"}}},
            r"'local'.*is a dict|'local'.*contains a value of type dict: pass Provider",
        ),
        ({"prices": {"a:b": 3}}, "contains a value of type int: pass Price"),
        ({"models": {"large": "a:b"}}, "is a dict: pass Models"),
        ({"models": Models(large="nosuch:x")}, "unknown provider 'nosuch'"),
        (
            {"providers": {"mine": Provider(base_url="http://127.0.0.1:8")}},
            "providers.mine needs a type",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_when_the_runtime_opens(
    given: dict[str, Any], match: str
) -> None:
    with pytest.raises(AgentError, match=match):
        Runtime.open(config=Config(**given))


@pytest.mark.parametrize("field", ["api_key", "auth_token", "headers"])
def test_a_secret_that_is_plain_text_is_refused_with_what_to_write(field: str) -> None:
    with pytest.raises(AgentError, match=r"pass Secret\('…'\), from treadle.config") as refused:
        Provider(**{field: {"x-key": "sk-123456789"} if field == "headers" else "sk-123456789"})  # type: ignore[arg-type]
    assert "sk-123" not in str(refused.value)


async def test_a_runtime_with_a_configuration_of_its_own_asks_with_the_key_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "vendor-key")
    async with Runtime.open(config=Config(prices=PRICES)) as rt:
        assert rt.config.endpoint("anthropic").api_key == Secret("vendor-key")


async def test_a_program_without_a_key_is_given_advice_that_works_in_a_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    for config in (None, Config(prices=PRICES)):
        async with Runtime.open(config=config) as rt:
            with pytest.raises(AgentError) as refused:
                await rt.run(Agent(name="a", model="anthropic:claude-opus-5-5"), "hi")
        assert "config=treadle.config.load()" in refused.value.message
        assert "ANTHROPIC_API_KEY" in refused.value.message
        assert "treadle config set" not in refused.value.message

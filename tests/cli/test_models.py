"""`treadle models` in a process of its own, against servers on loopback; and what a run makes of
what they told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from tests.cli.conftest import KEY, Answer, Cli
from tests.models.providers import loopback
from tests.models.providers.loopback import document, serving, stream
from treadle.config import load
from treadle.config.model_profile import Abilities
from treadle.runtime import model_catalog
from treadle.runtime.runtime import Runtime

YES, NO = {"supported": True}, {"supported": False}
OPUS = {
    "id": "claude-opus-5-5",
    "type": "model",
    "max_input_tokens": 777_000,
    "max_tokens": 128_000,
    "capabilities": {
        "image_input": YES,
        "thinking": YES,
        "effort": {**YES, "low": YES, "high": YES},
        "structured_outputs": YES,
    },
}
HAIKU = {
    "id": "claude-haiku-5-5",
    "type": "model",
    "max_input_tokens": 200_000,
    "capabilities": {"effort": NO, "thinking": NO, "image_input": NO},
}
ANSWERED = (
    {
        "type": "message_start",
        "message": {
            "id": "m",
            "model": "claude-haiku-5-5",
            "content": [],
            "usage": {"input_tokens": 3, "output_tokens": 1},
        },
    },
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": "Hello."},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)


def anthropics(*models: Mapping[str, Any]) -> loopback.Answer:
    return document({"data": list(models), "has_more": False})


def others(*models: Mapping[str, Any]) -> loopback.Answer:
    return document({"object": "list", "data": list(models)})


def configured(cli: Cli, text: str) -> None:
    folder = cli.home / ".treadle"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config.yaml").write_text(text)
    (folder / "config.yaml").chmod(0o600)


def local(cli: Cli, server: loopback.Server, more: str = "") -> None:
    configured(
        cli, f"providers:\n  local: {{type: openai-chat, base_url: '{server.url}/v1'}}\n{more}"
    )


async def call(cli: Cli, *arguments: str, **environment: str) -> Answer:
    return await to_thread.run_sync(partial(cli, *arguments, **environment))


def provider(answer: Answer, name: str) -> dict[str, Any]:
    return next(each for each in answer.json["providers"] if each["name"] == name)


# ---------------------------------------------------------------- what is shown


async def test_every_provider_that_can_be_asked_is_and_each_model_has_its_sizes_prices_and_abilities(
    cli: Cli,
):
    async with (
        serving(anthropics(OPUS, HAIKU)) as vendor,
        serving(others({"id": "tiny", "max_model_len": 8192})) as server,
    ):
        local(cli, server)
        answer = await call(
            cli, "models", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=vendor.url, COLUMNS="100"
        )
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == "large  anthropic:claude-opus-5-5  (default)"
    assert f"✓ anthropic  {vendor.url} · key from ANTHROPIC_API_KEY · 2 models" in lines
    assert f"✓ local  {server.url}/v1 · no key · 1 model" in lines
    rows = {
        line.split()[0]: line.split()[1:] for line in lines if line.startswith(("claude", "tiny"))
    }
    assert rows["claude-opus-5-5"] == [
        "777k",
        "128k",
        "low",
        "to",
        "high",
        "native",
        "images",
        "tools",
        "thinks",
    ]
    assert rows["tiny"] == ["8.2k"]
    assert [seen.method for seen in (*vendor.seen, *server.seen)] == ["GET", "GET"]


async def test_the_json_is_complete(cli: Cli):
    async with serving(others({"id": "tiny", "max_model_len": 8192})) as server:
        local(cli, server, "prices: {'local:*': {input: 0.5, output: 1.5}}\n")
        answer = await call(cli, "models", "--json", "--provider", "local")
    assert answer.code == 0
    assert (answer.json["large"], answer.json["small"]) == (
        "anthropic:claude-opus-5-5",
        "anthropic:claude-haiku-5-5",
    )
    assert answer.json["providers"] == [
        {
            "name": "local",
            "type": "openai-chat",
            "address": f"{server.url}/v1",
            "key": None,
            "answers": True,
            "error": None,
            "models": [
                {
                    "name": "local:tiny",
                    "id": "tiny",
                    **dict.fromkeys(Abilities.__struct_fields__),
                    "context_tokens": 8192,
                    "input_usd": 0.5,
                    "output_usd": 1.5,
                }
            ],
        }
    ]


def test_a_price_of_the_list_is_shown(cli: Cli):
    opus = cli("models", "opus-5-5", "--offline", "--json", ANTHROPIC_API_KEY=KEY).json[
        "providers"
    ][0]["models"][0]
    assert opus["input_usd"] > 0
    assert opus["output_usd"] > opus["input_usd"]


async def test_a_price_that_the_provider_tells_goes_before_the_list(cli: Cli):
    async with serving(
        others(
            {
                "id": "openai/gpt-6-sol",
                "pricing": {"prompt": "0.00000123", "completion": "0.000004"},
            }
        )
    ) as server:
        local(cli, server)
        answer = await call(cli, "models", "--json", "--provider", "local")
    assert [(m["input_usd"], m["output_usd"]) for m in provider(answer, "local")["models"]] == [
        (1.23, 4.0)
    ]


async def test_a_table_fits_eighty_columns(cli: Cli):
    async with serving(anthropics(OPUS, HAIKU)) as vendor:
        answer = await call(
            cli, "models", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=vendor.url, COLUMNS="80"
        )
    table = answer.out.splitlines()[4:]
    assert table[0].split() == ["MODEL", "CONTEXT", "OUTPUT", "IN", "$", "OUT", "$", "CAN"]
    assert max(map(len, table)) <= 80


async def test_of_many_models_the_first_are_shown_and_all_where_somebody_asks(cli: Cli):
    models = others(*({"id": f"vendor/model-{n:03}"} for n in range(400)))
    async with serving(models, models, models) as server:
        local(cli, server, "models: {large: 'local:vendor/model-399'}\n")
        short = await call(
            cli, "models", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL="http://127.0.0.1:1"
        )
        whole = await call(cli, "models", "--provider", "local")
        some = await call(cli, "models", "MODEL-12", "--provider", "local")
    assert "… and 380 more models: treadle models --provider local [WORD]" in short.out
    assert [line.split()[0] for line in short.out.splitlines() if line.startswith("vendor/")][
        :2
    ] == ["vendor/model-399", "vendor/model-000"]
    assert whole.out.count("vendor/model-") == 401
    assert "10 models with names containing 'MODEL-12'" in some.out
    assert some.out.count("vendor/model-12") == 10


async def test_a_default_model_that_its_provider_does_not_have_is_pointed_out(cli: Cli):
    async with serving(anthropics(OPUS)) as vendor:
        answer = await call(cli, "models", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=vendor.url)
    assert "! anthropic:claude-haiku-5-5 is not among them: check its name" in answer.out
    assert "! anthropic:claude-opus-5-5" not in answer.out


# ---------------------------------------------------------------- who does not answer


async def test_who_does_not_answer_is_a_line_with_what_to_do_and_the_others_are_shown(cli: Cli):
    refusal = document(
        {
            "type": "error",
            "error": {"type": "authentication_error", "message": f"no such key: {KEY}"},
        },
        status=401,
    )
    page = loopback.Answer(
        steps=(b"<html><title>Sign in</title>",), type="text/html", chunked=False
    )
    async with (
        serving(refusal) as vendor,
        serving(page) as proxy,
        serving(others({"id": "tiny"})) as server,
    ):
        configured(
            cli,
            f"providers:\n  gone: {{type: openai-chat, base_url: 'http://127.0.0.1:1/v1'}}\n"
            f"  proxied: {{type: openai-chat, base_url: '{proxy.url}/v1'}}\n  local: {{type: openai-chat, base_url: '{server.url}/v1'}}\n",
        )
        answer = await call(cli, "models", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=vendor.url)
    assert answer.code == 0
    told = [line for line in answer.out.splitlines() if line.startswith(("✗", "✓"))]
    assert [line.split()[:2] for line in told] == [
        ["✗", "anthropic"],
        ["✗", "gone"],
        ["✓", "local"],
        ["✗", "proxied"],
    ]
    assert "Check the key of ANTHROPIC_API_KEY" in told[0]
    assert "Check that it runs" in told[1]
    assert "check base_url" in told[3]


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("gone", 1, "cannot connect"),
        ("gnoe", 2, "did you mean 'gone'"),
        ("openai", 2, "OPENAI_API_KEY"),
        ("script", 2, "not a provider"),
    ],
)
def test_one_provider_that_fails_fails_the_command(cli: Cli, name: str, code: int, said: str):
    configured(cli, "providers: {gone: {type: openai-chat, base_url: 'http://127.0.0.1:1/v1'}}\n")
    answer = cli("models", "--provider", name)
    assert answer.code == code
    assert said in answer.out + answer.err


def test_a_failure_is_in_the_json_too(cli: Cli):
    configured(cli, "providers: {gone: {type: openai-chat, base_url: 'http://127.0.0.1:1/v1'}}\n")
    answer = cli("models", "--provider", "gone", "--json")
    assert answer.code == 1
    assert provider(answer, "gone")["answers"] is False
    assert provider(answer, "gone")["error"]["kind"] == "network"


def test_without_any_provider_it_says_what_to_do(cli: Cli):
    answer = cli("models")
    assert answer.code == 0
    assert "set ANTHROPIC_API_KEY in the environment" in answer.out
    assert "treadle demo" in answer.out


def test_what_the_environment_says_of_openai_is_listed_once(cli: Cli):
    answer = cli(
        "models",
        "--offline",
        "--json",
        OPENAI_API_KEY=KEY,
        OPENAI_BASE_URL="http://127.0.0.1:1/v1",
        GOOGLE_API_KEY=KEY,
    )
    assert [each["name"] for each in answer.json["providers"]] == ["anthropic", "gemini", "openai"]


async def test_a_provider_that_says_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    async def say_nothing(endpoint: Any) -> list[Any]:
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(model_catalog, "ANSWER_WITHIN_S", 0)
    monkeypatch.setattr(model_catalog, "models_at", say_nothing)
    config = load({"HOME": str(tmp_path), "ANTHROPIC_API_KEY": KEY}, cwd=tmp_path)
    with anyio.fail_after(5):
        (answer,) = await model_catalog.looked_up(config, "anthropic", offline=False)
    assert answer.error is not None
    assert answer.error.kind == "timeout"


async def test_providers_are_asked_at_the_same_time(tmp_path: Path):
    """Each answers only once all of them were asked."""
    asked = anyio.Event()
    waiting = list[str]()

    async def answer(endpoint: Any) -> list[Any]:
        waiting.append(endpoint.name)
        if len(waiting) == 2:
            asked.set()
        await asked.wait()
        return []

    config = load(
        {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": KEY}, cwd=tmp_path
    )
    with pytest.MonkeyPatch.context() as patch, anyio.fail_after(5):
        patch.setattr(model_catalog, "models_at", answer)
        answers = await model_catalog.looked_up(config, None, offline=False)
    assert [each.name for each in answers] == ["anthropic", "gemini"]


# ---------------------------------------------------------------- what is remembered


async def test_what_was_told_is_shown_offline_and_kept_without_the_key(cli: Cli):
    async with serving(anthropics(OPUS, {**HAIKU, "id": KEY})) as vendor:
        place = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": vendor.url}
        assert (await call(cli, "models", **place)).code == 0
        answer = await call(cli, "models", "--offline", "--json", **place)
    opus = next(m for m in provider(answer, "anthropic")["models"] if m["id"] == "claude-opus-5-5")
    assert (opus["context_tokens"], opus["efforts"], opus["tools"]) == (
        777_000,
        ["low", "high"],
        True,
    )
    assert provider(answer, "anthropic")["answers"] is None
    file = cli.home / ".treadle" / "models.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert KEY not in file.read_text()
    assert len(vendor.seen) == 1


def test_offline_no_key_is_needed(cli: Cli):
    (openai,) = cli("models", "--offline", "--provider", "openai", "--json").json["providers"]
    assert any(model["name"] == "openai:gpt-6-sol" for model in openai["models"])


def test_offline_nothing_is_asked_and_what_is_known_is_shown(cli: Cli):
    answer = cli(
        "models", "--offline", "--json", ANTHROPIC_API_KEY=KEY, HTTPS_PROXY="http://127.0.0.1:1"
    )
    ids = [m["id"] for m in provider(answer, "anthropic")["models"]]
    assert ids[:2] == sorted(ids[:2])
    assert {"claude-opus-5-5", "claude-haiku-5-5"} <= set(ids)
    assert not (cli.home / ".treadle").exists()


async def test_where_nothing_can_be_remembered_the_list_is_shown_all_the_same(cli: Cli):
    folder = cli.home / ".treadle"
    folder.mkdir()
    (folder / "models.json").mkdir()
    async with serving(anthropics(OPUS)) as vendor:
        answer = await call(cli, "models", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=vendor.url)
    assert answer.code == 0
    assert "claude-opus-5-5" in answer.out
    assert "! anthropic: its list of models cannot be cached" in answer.err


# ---------------------------------------------------------------- what runs make of it


async def test_a_run_knows_what_its_provider_told(cli: Cli):
    async with serving(anthropics(OPUS, HAIKU), stream(*ANSWERED)) as vendor:
        place = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": vendor.url}
        await call(cli, "models", **place)
        refused = await call(
            cli,
            "run",
            "hi",
            "--model",
            "anthropic:claude-haiku-5-5",
            "--effort",
            "high",
            "--ephemeral",
            **place,
        )
        configured(cli, "defaults: {effort: high, thinking: true}\n")
        dropped = await call(
            cli,
            "run",
            "hi",
            "--model",
            "anthropic:claude-haiku-5-5",
            "--output",
            "stream-json",
            "--ephemeral",
            **place,
        )
    assert (refused.code, "anthropic:claude-haiku-5-5 does not accept effort" in refused.err) == (
        2,
        True,
    )
    assert dropped.code == 0
    warnings = [event["text"] for event in dropped.events if event["type"] == "warning"]
    assert warnings == [
        f"anthropic:claude-haiku-5-5 does not accept {name}: it was left out"
        for name in ("effort", "thinking")
    ]
    assert not {"thinking", "output_config"} & vendor.seen[-1].json.keys()


async def test_an_image_for_a_model_that_is_known_to_take_none_is_refused(cli: Cli):
    (cli.workspace / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20)
    async with serving(stream(*ANSWERED)) as vendor:
        place = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": vendor.url}
        asked = (
            "run",
            "What is it?",
            "--file",
            "dot.png",
            "--model",
            "anthropic:claude-haiku-5-5",
            "--ephemeral",
        )
        seen = await call(cli, *asked, **place)
        configured(cli, "providers: {anthropic: {abilities: {'claude-*': {images: false}}}}\n")
        blind = await call(cli, *asked, **place)
    assert (seen.code, blind.code) == (0, 2)
    assert '"type":"image"' in vendor.seen[0].body.decode()
    assert blind.err.startswith(
        "treadle: anthropic:claude-haiku-5-5 takes no images: leave out dot.png"
    )


async def test_what_a_person_configured_goes_over_what_was_told_and_that_over_what_is_known(
    cli: Cli,
):
    async with serving(anthropics(OPUS)) as vendor:
        place = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": vendor.url}
        before = await call(cli, "models", "--offline", "--json", **place)
        await call(cli, "models", **place)
        told = await call(cli, "models", "--offline", "--json", **place)
        configured(
            cli,
            "providers:\n  anthropic:\n    abilities:\n      '*': {context_tokens: 1, output_tokens: 1}\n"
            "      'claude-opus-*': {context_tokens: 2, images: false}\n      claude-opus-5-5: {context_tokens: 3, efforts: []}\n",
        )
        said = await call(cli, "models", "--offline", "--json", **place)
    opus = [
        next(m for m in provider(each, "anthropic")["models"] if m["id"] == "claude-opus-5-5")
        for each in (before, told, said)
    ]
    assert [m["context_tokens"] for m in opus] == [1_000_000, 777_000, 3]
    assert [m["output_tokens"] for m in opus] == [128_000, 128_000, 1]
    assert [m["images"] for m in opus] == [True, True, False]
    assert [m["efforts"] for m in opus] == [
        ["low", "medium", "high", "xhigh", "max"],
        ["low", "high"],
        [],
    ]
    assert [m["forced_tools"] for m in opus] == [False, False, False]


async def test_a_runtime_without_files_knows_only_the_data_file(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
):
    async with serving(anthropics(HAIKU)) as vendor:
        place = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": vendor.url}
        await call(cli, "models", **place)
        for name, value in {**place, "HOME": str(cli.home)}.items():
            monkeypatch.setenv(name, value)
        async with Runtime.open() as runtime:
            assert (
                "effort" not in runtime.models.get("anthropic:claude-haiku-5-5", scope="s").refuses
            )
        async with Runtime.open(config=load()) as runtime:
            assert "effort" in runtime.models.get("anthropic:claude-haiku-5-5", scope="s").refuses


def test_a_workspace_says_nothing_of_what_models_can_do(cli: Cli):
    folder = cli.workspace / ".treadle"
    folder.mkdir()
    (folder / "config.yaml").write_text(
        "providers: {anthropic: {abilities: {'*': {context_tokens: 5}}}}\n"
    )
    answer = cli("models", "--offline", "--json", ANTHROPIC_API_KEY=KEY)
    assert "providers.anthropic.abilities.*.context_tokens is ignored" in answer.err
    assert all(m["context_tokens"] != 5 for m in provider(answer, "anthropic")["models"])


def test_words_that_no_ability_has_are_refused_with_their_place(cli: Cli):
    configured(
        cli,
        "providers:\n  anthropic:\n    abilities:\n      claude-opus-5-5: {image: false}\n      '*': {structured_output: json}\n",
    )
    answer = cli("config", "check")
    assert answer.code == 2
    assert (
        "config.yaml:4: unknown key 'image' in providers.anthropic.abilities.claude-opus-5-5: did you mean 'images'?"
        in answer.err
    )
    assert (
        "config.yaml:5: providers.anthropic.abilities.*.structured_output must be one of native, tool, prompt"
        in answer.err
    )


def test_what_was_remembered_long_ago_counts_no_more(cli: Cli):
    text = json.dumps(
        {
            "schema": 1,
            "providers": {
                "anthropic": {
                    "at": "2020-01-01T00:00:00Z",
                    "address": "x",
                    "models": {"claude-old": {}},
                }
            },
        }
    )
    folder = cli.home / ".treadle"
    folder.mkdir(mode=0o700)
    (folder / "models.json").write_text(text)
    (folder / "models.json").chmod(0o600)
    answer = cli("models", "--offline", "--json", ANTHROPIC_API_KEY=KEY)
    assert "claude-old" not in answer.out, "it is old, and was told elsewhere"

"""The first start, on a real screen, with real files and servers on loopback."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.models.providers.loopback import document, serving
from tests.tui.standing import DOWN, ENTER, ESCAPE, Stage, standing
from treadle.config import Config, load
from treadle.errors import AgentError
from treadle.tui.wizard import first_start, is_first
from treadle.tui.wizard_ways import LOCAL, Local, keys_in

pytestmark = pytest.mark.anyio

KEY = "sk-test-0123456789-abcd"


@asynccontextmanager
async def starting(
    tmp_path: Path, environ: Mapping[str, str], **options: Any
) -> AsyncGenerator[tuple[Stage, list[Config | None]]]:
    """What it gives, afterwards."""
    env = {"HOME": str(tmp_path), **environ}
    got = list[Config | None]()
    async with standing(100, 24) as stage:

        async def run() -> None:
            got.append(
                await first_start(
                    stage.screen,
                    load(env, cwd=tmp_path),
                    environ=env,
                    reload=lambda: load(env, cwd=tmp_path),
                    **options,
                )
            )

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                await stage.sees("No model is set up yet")
                yield stage, got
        await stage.writes(
            "Nothing was written. To do it by hand" if got == [None] else "Written to"
        )


def file(tmp_path: Path) -> Path:
    return tmp_path / ".treadle" / "config.yaml"


async def test_a_key_of_the_environment_is_named_by_its_end_and_stays_there(tmp_path: Path):
    async with starting(tmp_path, {"OPENAI_API_KEY": KEY}) as (stage, got):
        text = await stage.sees("Use the key in OPENAI_API_KEY  OpenAI, set (ends …abcd)")
        assert KEY not in text
        stage.press(ENTER)
        await stage.sees("Check the key?")
        stage.press(DOWN, ENTER)
        await stage.sees("Which model?")
        stage.press(ENTER)
        await stage.sees("What may it do without approval?")
        stage.press(DOWN, ENTER)
    (config,) = got
    assert config is not None
    assert config.models.large == config.models.small
    assert config.models.large.startswith("openai:")
    assert config.defaults.mode == "accept-edits"
    assert KEY not in file(tmp_path).read_text()
    assert KEY not in stage.out.getvalue()
    assert (
        file(tmp_path).stat().st_mode & 0o777,
        file(tmp_path).parent.stat().st_mode & 0o777,
    ) == (0o600, 0o700)
    assert "readable only by you: models.large: openai:" in stage.written


async def test_a_pasted_key_is_masked_checked_only_after_a_yes_and_shown_by_its_end(tmp_path: Path):
    async with (
        serving(
            document({"data": [{"id": "claude-opus-5-5", "type": "model"}], "has_more": False})
        ) as vendor,
        starting(tmp_path, {"ANTHROPIC_BASE_URL": vendor.url}) as (stage, got),
    ):
        stage.press("paste", ENTER)
        await stage.sees("Paste the key; it is not shown")
        stage.press(f"\x1b[200~{KEY}\n\x1b[201~")
        await stage.sees("*" * len(KEY))
        stage.press(ENTER)
        await stage.sees("Which provider is this key for?")
        stage.press(ENTER)
        await stage.sees("Check the key?")
        assert vendor.seen == []
        stage.press(ENTER)
        await stage.sees("Which model?")
        assert len(vendor.seen) == 1
        stage.press(ENTER)
        await stage.sees("What may it do without approval?")
        stage.press(ENTER)
    (config,) = got
    assert config is not None
    key = config.endpoint("anthropic").api_key
    assert key is not None
    assert key.reveal() == KEY
    assert KEY not in stage.out.getvalue()
    assert "providers.anthropic.api_key: set (ends …abcd)" in stage.written


@pytest.mark.parametrize(
    "key", ["sk-ant-api03-abcdefghijklmnop0000", "0123456789abcdef0123456789abcdef"]
)
async def test_a_key_at_the_first_question_is_not_shown_and_is_taken(tmp_path: Path, key: str):
    async with starting(tmp_path, {}) as (stage, got):
        stage.press(f"\x1b[200~{key}\n\x1b[201~")
        await stage.sees("Use this key")
        assert "*" * len(key) in stage.text
        stage.press(ENTER)
        if not key.startswith("sk-ant-"):
            await stage.sees("Which provider is this key for?")
            stage.press(ENTER)
        await stage.sees("Check the key?")
        stage.press(key)
        await stage.sees("It is not an answer to this question.")
        stage.press(ESCAPE)
    assert got == [None]
    assert key not in stage.out.getvalue()


@pytest.mark.parametrize(
    ("key", "label"),
    [
        ("sk-ant-api03-abcdefghijklmnop0000", "Anthropic"),
        ("sk-or-v1-abcdefghijklmnop0000", "OpenRouter"),
        ("AIzaSyabcdefghijklmnop0000", "Google Gemini"),
        ("sk-proj-abcdefghijklmnop0000", "OpenAI"),
    ],
)
async def test_the_vendor_of_a_key_is_known_by_its_beginning(tmp_path: Path, key: str, label: str):
    async with starting(tmp_path, {}) as (stage, got):
        stage.press("paste", ENTER)
        await stage.sees("Paste the key; it is not shown")
        stage.press(f"\x1b[200~{key}\n\x1b[201~", ENTER)
        await stage.sees(f"Check the key? {label}")
        stage.press(ESCAPE)
    assert got == [None]
    assert key not in stage.out.getvalue()


async def test_what_was_printed_last_is_written_when_the_screen_ends():
    async with standing() as stage:
        stage.screen.put("last words\n")
    assert "last words" in stage.written


async def test_a_key_that_is_refused_leads_back_to_the_ways_and_is_not_shown(tmp_path: Path):
    refusal = document(
        {"type": "error", "error": {"type": "authentication_error", "message": f"bad key {KEY}"}},
        status=401,
    )
    async with (
        serving(refusal) as vendor,
        starting(tmp_path, {"ANTHROPIC_BASE_URL": vendor.url, "ANTHROPIC_API_KEY": KEY}) as (
            stage,
            got,
        ),
    ):
        stage.press(ENTER)
        await stage.sees("Check the key?")
        stage.press(ENTER)
        await stage.sees("No model is set up yet")
        stage.press(ESCAPE)
    assert got == [None]
    assert "Choose again, or choose another way." in stage.written
    assert KEY not in stage.out.getvalue()


async def test_a_server_on_this_machine_is_asked_only_when_that_was_chosen(tmp_path: Path):
    async with serving(
        document({"object": "list", "data": [{"id": "tiny"}, {"id": "small"}]})
    ) as server:
        local = [
            Local("ollama", "Ollama", f"{server.url}/v1"),
            Local("vllm", "vLLM", "http://127.0.0.1:1/v1"),
        ]
        async with starting(tmp_path, {}, local=local) as (stage, got):
            assert server.seen == []
            stage.press("machine", ENTER)
            await stage.sees("Which model?")
            stage.press("small", ENTER)
            await stage.sees("What may it do without approval?")
            stage.press(ENTER)
    (config,) = got
    assert config is not None
    assert (config.models.large, config.models.small) == ("ollama:small", "ollama:small")
    assert config.endpoint("ollama").base_url == f"{server.url}/v1"
    assert not is_first(config)


async def test_where_no_server_answers_it_says_who_was_asked(tmp_path: Path):
    async with starting(tmp_path, {}, local=[Local("vllm", "vLLM", "http://127.0.0.1:1/v1")]) as (
        stage,
        got,
    ):
        stage.press("machine", ENTER)
        await stage.writes("Tried: vLLM (127.0.0.1:1)")
        await stage.sees("No model is set up yet")
        stage.press(ESCAPE)
    assert got == [None]


@pytest.mark.parametrize("way", ["escape", "key", "check", "model", "mode"])
async def test_whoever_leaves_has_nothing_written_and_is_told_how_by_hand(tmp_path: Path, way: str):
    async with starting(tmp_path, {"OPENAI_API_KEY": KEY}) as (stage, got):
        match way:
            case "escape":
                pass
            case "key":
                stage.press("paste", ENTER)
                await stage.sees("Paste the key; it is not shown")
            case _:
                for title, key in (
                    ("No model", ENTER),
                    ("Check the key?", DOWN + ENTER),
                    ("Which model?", ENTER),
                )[: ("check", "model", "mode").index(way) + 1]:
                    await stage.sees(title)
                    stage.press(key)
                await stage.sees(
                    {"check": "Check the key", "model": "Which model?", "mode": "What may it do"}[
                        way
                    ]
                )
        stage.press(ESCAPE)
    assert got == [None]
    assert not file(tmp_path).parent.exists()


async def test_what_stands_in_the_file_already_stays(tmp_path: Path):
    file(tmp_path).parent.mkdir(mode=0o700)
    file(tmp_path).write_text("# mine\nlimits:\n  turns: 7  # few\n")
    file(tmp_path).chmod(0o600)
    async with starting(tmp_path, {"GROQ_API_KEY": KEY}) as (stage, got):
        stage.press(ENTER)
        await stage.sees("Check the key?")
        stage.press(DOWN, ENTER)
        await stage.sees("Name of the model at groq")
        stage.press("llama", ENTER)
        await stage.sees("What may it do without approval?")
        stage.press(ENTER)
    (config,) = got
    assert config is not None
    assert (config.models.large, config.limits.turns) == ("groq:llama", 7)
    assert file(tmp_path).read_text().startswith("# mine\nlimits:\n  turns: 7  # few\n")


async def test_a_file_that_is_broken_is_not_written_over(tmp_path: Path):
    async with standing() as stage:
        env = {"HOME": str(tmp_path), "OPENAI_API_KEY": KEY}
        config = load(env, cwd=tmp_path)
        file(tmp_path).parent.mkdir(mode=0o700)
        file(tmp_path).write_text("models: [\n")
        file(tmp_path).chmod(0o600)
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:

                async def run() -> None:
                    with pytest.raises(AgentError, match=r"config\.yaml:"):
                        await first_start(stage.screen, config, environ=env)

                group.start_soon(run)
                for title, key in (
                    ("No model", ENTER),
                    ("Check the key?", DOWN + ENTER),
                    ("Which model?", ENTER),
                    ("What may it do", ENTER),
                ):
                    await stage.sees(title)
                    stage.press(key)
        assert file(tmp_path).read_text() == "models: [\n"


def test_it_is_a_first_start_where_nobody_said_anything(tmp_path: Path):
    def first(environ: Mapping[str, str] = {}) -> bool:
        return is_first(load({"HOME": str(tmp_path), **environ}, cwd=tmp_path))

    assert first()
    assert first({"OPENAI_API_KEY": KEY})
    assert not first({"ANTHROPIC_API_KEY": KEY})
    assert not first({"TREADLE_MODEL": "script:x.json"})
    file(tmp_path).parent.mkdir()
    file(tmp_path).write_text("limits: {turns: 7}\n")
    file(tmp_path).chmod(0o600)
    assert not first()


def test_keys_of_the_environment_are_found_once_for_each_vendor():
    found = keys_in(
        {
            "GEMINI_API_KEY": "",
            "GOOGLE_API_KEY": KEY,
            "OPENROUTER_API_KEY": KEY,
            "OPENAI_API_KEY": "two words",
            "OTHER_API_KEY": KEY,
        }
    )
    assert [(key.vendor.name, key.variable, key.is_written) for key in found] == [
        ("gemini", "GOOGLE_API_KEY", False),
        ("openrouter", "OPENROUTER_API_KEY", False),
    ]


def test_only_this_machine_is_asked_for_a_server():
    assert {server.address.split(":")[1] for server in LOCAL} == {"//127.0.0.1"}

"""Conversations, models and earlier points, chosen on a real screen over real runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doubles import asks, call, says
from tests.models.providers.loopback import document, serving
from tests.tui.desks import FakeDesk, a_desk
from tests.tui.standing import DOWN, ENTER, ESCAPE
from treadle.config import load
from treadle.tui import confirm
from treadle.tui.pickers.models import pick_model
from treadle.tui.pickers.points import pick_point
from treadle.tui.pickers.sessions import pick_session

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Treadle's own folder, and a person who answers at once."""
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(confirm, "DEAF_S", 0)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "home" / ".treadle"))
    return tmp_path / "home" / ".treadle"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@asynccontextmanager
async def asking(desk: FakeDesk, ask: Callable[[Any], Awaitable[Any]]) -> AsyncGenerator[list[Any]]:
    """What it gives, afterwards."""
    got = list[Any]()

    async def run() -> None:
        got.append(await ask(desk))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while not desk.screen.is_asking:
                await anyio.sleep(0)
            yield got


# ---------------------------------------------------------------- conversations


async def test_a_conversation_is_found_by_its_title_with_its_last_words(folder: Path):
    async with a_desk(folder, [says("Paris it is."), says("Bread.")], columns=120) as desk:
        await desk.say("Which city?")
        city = desk.conversation.session_id
        desk.conversation.open(None)
        await desk.say("What to eat?")
        async with asking(desk, pick_session) as got:
            await desk.stage.sees(lambda text: "What to eat?" in text and "Bread." in text)
            assert "2 messages · open now" in desk.stage.text
            desk.stage.press(DOWN)
            await desk.stage.sees("Paris it is.")
            desk.stage.press(ENTER)
    assert got == [city]


async def test_a_conversation_is_found_by_what_was_said_in_it_and_says_where_it_was(
    folder: Path, tmp_path: Path
):
    async with a_desk(folder, [says("Paris it is.")], columns=60) as desk:
        desk.conversation.setting.cwd = tmp_path
        await desk.say("Which city?")
        desk.conversation.open(None)
        async with asking(desk, pick_session) as got:
            await desk.stage.sees("Which city?")
            assert f"in {tmp_path}"[:20] in desk.stage.text
            desk.stage.press("paris")
            await desk.stage.sees(lambda text: "Which city?  Paris it is." in text)
            desk.stage.press(ESCAPE)
    assert got == [None]


async def test_a_title_cannot_command_the_terminal(folder: Path):
    async with a_desk(folder, [says("ok")]) as desk:
        await desk.say("hello")
        assert desk.conversation.session_id is not None
        desk.conversation.runtime.sessions.update_title(
            desk.conversation.session_id, "a\x1b]0;owned\x07b"
        )
        async with asking(desk, pick_session):
            await desk.stage.sees("ab")
            desk.stage.press(ESCAPE)
        assert "owned" not in desk.stage.out.getvalue()


# ---------------------------------------------------------------- models


async def test_configured_models_come_first_and_those_that_a_provider_tells_are_added_while_it_is_open(
    folder: Path, own_home: Path
):
    async with serving(
        document(
            {"object": "list", "data": [{"id": "tiny", "max_model_len": 8192}, {"id": "other"}]}
        )
    ) as server:
        own_home.mkdir(mode=0o700)
        (own_home / "config.yaml").write_text(
            f"models: {{large: 'local:main', small: 'local:tiny'}}\nproviders:\n  local: {{type: openai-chat, base_url: '{server.url}/v1'}}\n"
        )
        (own_home / "config.yaml").chmod(0o600)
        async with a_desk(folder, config=load(cwd=folder)) as desk, asking(desk, pick_model) as got:
            text = await desk.stage.sees("local:other")
            lines = [line.strip() for line in text.splitlines()]
            at = next(n for n, line in enumerate(lines) if line.endswith("local:main  large"))
            assert lines[at + 1] == "local:tiny  small"
            desk.stage.press("other", ENTER)
    assert got == ["local:other"]


async def test_without_a_network_what_is_known_is_there(folder: Path):
    config = load(
        {
            "HOME": str(folder),
            "ANTHROPIC_API_KEY": "k" * 20,
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        },
        cwd=folder,
    )
    async with a_desk(folder, config=config) as desk, asking(desk, pick_model) as got:
        await desk.stage.sees("anthropic:claude-opus-5-5  large")
        desk.stage.press("haiku", ENTER)
    assert got == ["anthropic:claude-haiku-5-5"]


# ---------------------------------------------------------------- points


def journal(folder: Path) -> str:
    return f"sqlite:///{folder.parent / 'journal.db'}"


def write(content: str, n: int) -> list[Any]:
    return [asks(call("write", f"c{n}", path="note.txt", content=content)), says("done")]


async def test_files_and_conversation_go_back_to_before_a_prompt_once_what_that_means_was_seen(
    folder: Path,
):
    (folder / "note.txt").write_text("old")
    async with a_desk(
        folder,
        [
            says("hi"),
            asks(call("read", "r", path="note.txt")),
            *write("first", 1),
            *write("second", 2),
        ],
        url=journal(folder),
        columns=110,
    ) as desk:
        for prompt in ("greet", "write\nit, please", "again"):
            await desk.say(prompt)
        async with asking(desk, pick_point):
            await desk.stage.sees(
                lambda text: "again" in text and "It changed:" in text and "note.txt" in text
            )
            desk.stage.press(DOWN, ENTER)
            await desk.stage.sees("Conversation and files")
            assert (folder / "note.txt").read_text() == "second"
            desk.stage.press(ENTER)
            await desk.stage.sees("Restore 1 file, as listed above?")
            assert desk.told == ["To be restored:\n  note.txt: its earlier content"]
            desk.stage.press("y")
        assert (folder / "note.txt").read_text() == "old"
        assert desk.line.take() == "write\nit, please"
        assert desk.conversation.goes_back_to == (await desk.conversation.runs())[1].run_id


async def test_a_no_takes_nothing_back_and_escape_neither(folder: Path):
    async with a_desk(folder, write("new", 1), url=journal(folder)) as desk:
        await desk.say("write it")
        for keys in ((ESCAPE,), (ENTER, ESCAPE)):
            async with asking(desk, pick_point):
                for key in keys:
                    await desk.stage.sees(
                        "Go back to before" if key == keys[0] else "What to revert"
                    )
                    desk.stage.press(key)
        async with asking(desk, pick_point):
            for words in ("Go back to before", "What to revert"):
                await desk.stage.sees(words)
                desk.stage.press(ENTER)
            await desk.stage.sees("Restore 1 file")
            assert "note.txt: removed: it did not exist" in desk.told[0]
            desk.stage.press(ESCAPE)
        assert desk.told[-1] == "Nothing was restored."
        assert (folder / "note.txt").read_text() == "new"
        assert desk.conversation.goes_back_to is None
        assert desk.line.is_empty


async def test_the_conversation_alone_goes_back_and_earlier_points_stay_after_that(folder: Path):
    async with a_desk(folder, [says("one"), says("two"), says("three")]) as desk:
        await desk.say("first")
        await desk.say("second")
        async with asking(desk, pick_point):
            await desk.stage.sees("Go back to before")
            desk.stage.press(ENTER)
            await desk.stage.sees("What to revert")
            desk.stage.press(DOWN, ENTER)
        assert desk.line.take() == "second"
        await desk.say("otherwise")
        async with asking(desk, pick_point):
            text = await desk.stage.sees("Go back to before")
            assert "first" in text
            assert "otherwise" in text
            assert "second" not in text
            desk.stage.press(ESCAPE)


async def test_what_cannot_be_put_back_is_said_before(folder: Path):
    async with a_desk(folder, write("new", 1), url=journal(folder)) as desk:
        await desk.say("write it")
        (folder / "note.txt").write_text("by hand")
        async with asking(desk, pick_point):
            await desk.stage.sees("Go back to before")
            desk.stage.press(ENTER)
            await desk.stage.sees("What to revert")
            desk.stage.press(DOWN, DOWN, ENTER)
        assert desk.told == [
            "Cannot be restored:\n  note.txt: it has been changed since",
            "There are no files to restore.",
        ]
        assert (folder / "note.txt").read_text() == "by hand"


async def test_where_nothing_was_said_there_is_no_point(folder: Path):
    async with a_desk(folder) as desk:
        await pick_point(desk)
        assert desk.told == ["There is no earlier point: this conversation is empty."]

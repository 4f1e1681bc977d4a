"""Which mentions go to the model: what may be read unasked, what a person saw listed and agreed to,
and nothing else. Every file holds a mark, which the request to the model has or has not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doubles import says
from tests.tui.chats import Chatting, a_chat
from tests.tui.standing import ESCAPE, Stage
from treadle.config import load
from treadle.messages.message import TextPart
from treadle.testing import ScriptedModel
from treadle.tui.blocks import NoticeBlock
from treadle.tui.lines import _Typed  # pyright: ignore[reportPrivateUsage]  the input of the other kind of screen
from treadle.tui.mentions import mentions_of
from treadle.tui.pasted import PastedMentions

pytestmark = pytest.mark.anyio

QUESTION = "Attach these to your message?"
MARK = re.compile(r"mark-[a-z]+")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a secret and a private folder; a key outside of it, and a link that leads there."""
    monkeypatch.setattr("treadle.tui.confirm.DEAF_S", 0.0)
    home, work = tmp_path / "home", tmp_path / "work"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("mark-key")
    (work / "private").mkdir(parents=True)
    (work / "private" / "x").write_text("mark-private")
    (work / ".env").write_text("mark-env")
    (work / "app.py").write_text("mark-app")
    (work / "notes").symlink_to(home / ".ssh" / "id_rsa")
    (work / "read\u202eme").write_text("mark-bidi")
    monkeypatch.setenv("HOME", str(home))
    return work


class Sent:
    """A chat whose model is asked once, and the marks that reached it."""

    def __init__(self, chatting: Chatting, model: ScriptedModel) -> None:
        self.chatting, self._model = chatting, model

    @property
    def stage(self) -> Stage:
        return self.chatting.stage

    async def marks(self) -> list[str]:
        await self.chatting.until(lambda: self._model.requests)
        await self.chatting.is_idle()
        (request,) = self._model.requests
        return MARK.findall(
            "".join(part.text for part in request.messages[-1].parts if isinstance(part, TextPart))
        )


def opened(place: Path, **more: Any) -> Any:
    model = ScriptedModel([says("I see.")])
    return model, a_chat(place, model=model, **more)


async def sent(
    place: Path, act: Callable[[Chatting], None], *answers: str, **more: Any
) -> tuple[list[str], str]:
    """The marks that the model was sent once a person had pressed `answers`, one for each question; and
    what was written on the screen.
    """
    model, chat = opened(place, **more)
    async with chat as chatting:
        act(chatting)
        for answer in answers:
            await chatting.stage.sees(QUESTION)
            assert not model.requests
            chatting.stage.press(answer)
            await chatting.until(lambda: not chatting.chat.screen.is_asking)
        marks = await Sent(chatting, model).marks()
        blocks = chatting.chat.blocks
        return marks, "\n".join(block.text for block in blocks if isinstance(block, NoticeBlock))


def pasted(text: str) -> Callable[[Chatting], None]:
    def act(chatting: Chatting) -> None:
        chatting.chat.line.paste(text)
        chatting.chat.acting.send()

    return act


def typed(text: str) -> Callable[[Chatting], None]:
    return lambda chatting: chatting.says(text)


async def test_a_typed_file_of_the_workspace_is_attached_unasked_and_named(place: Path) -> None:
    marks, told = await sent(place, typed("see @app.py"))
    assert marks == ["mark-app"]
    assert "Attached: @app.py" in told


@pytest.mark.parametrize("mode", ["ask", "full"])
@pytest.mark.parametrize(
    ("mention", "mark"),
    [("@~/.ssh/id_rsa", "mark-key"), ("@.env", "mark-env"), ("@notes", "mark-key")],
)
async def test_what_needs_approval_is_read_only_after_a_yes(
    place: Path, mention: str, mark: str, mode: Any
) -> None:
    assert (await sent(place, typed(f"see {mention}"), "y", mode=mode))[0] == [mark]
    marks, told = await sent(place, typed(f"see {mention}"), ESCAPE, mode=mode)
    assert marks == []
    assert f"Only named, not attached: {mention}" in told


async def test_enter_does_not_attach(place: Path) -> None:
    assert (await sent(place, typed("see @.env"), "\r"))[0] == []


async def test_what_a_rule_denies_is_not_attached(place: Path) -> None:
    config = load(cwd=place, flags={"--deny": ["read(private/**)"]})
    marks, told = await sent(place, typed("see @private/x"), config=config)
    assert marks == []
    assert "denies reading" in told


@pytest.mark.parametrize("length", [0, 2_000])
async def test_pasted_mentions_are_listed_and_sent_only_after_a_yes(
    place: Path, length: int
) -> None:
    """A long paste stands as a marker, which shows none of its words."""
    text = "fix " + "x " * length + "@~/.ssh/id_rsa and @.env, then @private/x and @app.py"
    marks, told = await sent(place, pasted(text), ESCAPE)
    assert marks == []
    for name in ("@~/.ssh/id_rsa", "@.env", "@private/x", "@app.py"):
        assert name in told
    marks, _ = await sent(place, pasted(text), "y")
    assert marks == ["mark-key", "mark-env", "mark-private", "mark-app"]


@pytest.mark.parametrize("name", ["@types/x", " x"])
async def test_a_pasted_name_in_quotes_may_begin_with_any_character(place: Path, name: str) -> None:
    """Review 4: a name that begins with a blank or an `@` was attached unasked."""
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).write_text("mark-odd")
    marks, told = await sent(place, pasted(f'see @"{name}"'), ESCAPE)
    assert marks == []
    assert f"Only named, not attached: @{name}" in told


@pytest.mark.parametrize("name", ["@types/x", " x", "\u3000x", " ", "@", "@ @", "x y", "'x'"])
async def test_every_name_that_is_a_mention_is_remembered(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    text = f'@{name},\n"@{name}"\n@"{name}"\n@"{name}":1'
    found = mentions_of(text, tmp_path)
    assert {mention.said for mention in found} >= {name}
    pasted = PastedMentions()
    pasted.remember(text)
    assert all(pasted.has(mention.said) for mention in found)


async def test_a_mention_that_is_pasted_in_two_parts_was_pasted(place: Path) -> None:
    def act(chatting: Chatting) -> None:
        chatting.chat.line.paste("see @")
        chatting.chat.line.paste("app.py")
        chatting.chat.acting.send()

    assert (await sent(place, act, ESCAPE))[0] == []


async def test_a_name_is_listed_with_its_hidden_characters(place: Path) -> None:
    model, chat = opened(place)
    async with chat as chatting:
        chatting.says('see @"read\u202eme" @.env')
        shown = await chatting.stage.sees(QUESTION)
        assert "\u202e" not in shown
        chatting.stage.press("y")
        await chatting.until(lambda: model.requests)
        await chatting.stage.writes(r"Attached: @read\u202eme, @.env")


async def test_a_question_that_does_not_fit_cannot_be_agreed_to(place: Path) -> None:
    model, chat = opened(place)
    async with chat as chatting:
        stage = chatting.stage
        stage.resize(40, 7)
        await chatting.until(lambda: chatting.chat.screen.rows == 7)
        pasted("@.env @app.py @private/x @~/.ssh/id_rsa")(chatting)
        await stage.sees("Not all of it fits")
        stage.press("y")
        stage.press(ESCAPE)
        await chatting.until(lambda: not chatting.chat.screen.is_asking)
        assert await Sent(chatting, model).marks() == []


async def test_what_was_confirmed_is_not_asked_about_again_until_it_is_pasted_again(
    place: Path,
) -> None:
    model = ScriptedModel([says("one"), says("two"), says("three")])
    async with a_chat(place, model=model) as chatting:
        pasted("see @app.py")(chatting)
        await chatting.stage.sees(QUESTION)
        chatting.stage.press("y")
        await chatting.until(lambda: len(model.requests) == 1)
        await chatting.is_idle()
        typed("and @app.py")(chatting)
        await chatting.until(lambda: len(model.requests) == 2)
        await chatting.is_idle()
        pasted("see @app.py")(chatting)
        await chatting.stage.sees(QUESTION)


async def test_a_link_that_is_turned_after_the_answer_is_not_followed(place: Path) -> None:
    """A command of the agent may run meanwhile."""
    from treadle.tui.mentions import Mention, parts_of

    (place / "later").symlink_to(place / "app.py")
    judged = Mention((place / "later").resolve(), "later", None)
    (place / "app.py").unlink()
    (place / "app.py").symlink_to(place / ".env")
    prompt = parts_of("@later", [judged])
    assert prompt.attached == []
    assert "mark" not in json.dumps([str(part) for part in prompt.parts])


async def test_where_a_terminal_does_not_tell_what_is_pasted_everything_may_be(place: Path) -> None:
    from tests.tui.standing import THEME

    assert _Typed(THEME).pasted.has("app.py")
    await anyio.lowlevel.checkpoint()

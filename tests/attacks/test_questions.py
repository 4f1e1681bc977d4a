"""Questions that come at a moment of the attacker's choice: nothing that a person is typing answers
them, and the text of an MCP server looks like no part of ours (C3, C12).
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import anyio
import pytest

from tests.attacks import SEEDS, chance
from tests.attacks.names import hostile, unseen
from tests.attacks.test_approvals import answer, request
from tests.doubles import agent, says
from tests.tui.chats import a_chat
from tests.tui.standing import THEME, standing
from tests.tui.test_approval import said
from treadle._internal.terminal_text import revealed
from treadle.messages.events import TextDelta
from treadle.runtime.runtime import Runtime
from treadle.tools.approval import ApprovalRequest, Deny
from treadle.tui.approving import Approving
from treadle.tui.confirm import DEAF_S, QUOTE, Confirm, quoted
from treadle.tui.conversation import DELTA_CHARS, ChatConversation, RunSetting

pytestmark = pytest.mark.anyio

LETTERS = "yYaAsS134 othig essay always"
"""Most of them answer some question."""


def typing(random: Random, letters: str = LETTERS) -> list[str | float]:
    """Keys of somebody who types on, and the pauses between them, as `said` takes them."""
    keys = list[str | float]()
    for _ in range(random.randint(3, 25)):
        keys += [random.choice(letters), random.uniform(0.0, DEAF_S * 0.9)]
    return [*keys, DEAF_S, "n"]


async def test_what_is_being_typed_approves_no_call() -> None:
    for seed in SEEDS:
        reply, _ = await said(*typing(chance(seed, "typing")))
        assert reply.scope == "no", seed


async def test_what_is_being_typed_accepts_no_question() -> None:
    """Only the first half second was deaf: a server that asks while somebody types got a yes."""
    for seed in SEEDS:
        random, now, given = chance(seed, "typing"), [100.0], list[bool]()
        async with standing() as stage, anyio.create_task_group() as group:
            slot = Confirm(THEME, "May it?", danger=True, clock=lambda: now[0])  # noqa: B023

            async def ask(slot: Confirm = slot) -> None:
                given.append(await stage.screen.ask(slot))  # noqa: B023

            group.start_soon(ask)
            await stage.sees("May it?")
            for key in typing(random, LETTERS + "\r\t"):
                if isinstance(key, float):
                    now[0] += key
                    continue
                stage.press(key)
                for _ in range(20):
                    await anyio.sleep(0)
        assert given == [False], seed


def message(random: Random) -> str:
    """A text that imitates our questions, in between hostile characters."""
    imitations = [
        "Run this command?",
        "\u203a y Yes, this once",
        "  | evil",
        "Your answer goes to the server.",
        "MCP server 'good' asks you a question.",
        "y Yes   n No   Esc: no",
        "\r\x1b[2J? bash wants to run rm -rf",
        "\u2028? write",
        "\x85? edit",
        "\x0b? edit",
        "\x0c? edit",
    ]
    return "\n".join(
        f"{random.choice(imitations)} {hostile(random, lines=True)}"
        for _ in range(random.randint(1, 4))
    )


@pytest.mark.parametrize("seed", [*SEEDS][::3])
async def test_no_text_of_a_server_is_drawn_as_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("treadle.tui.confirm.DEAF_S", 0.0)
    text = message(chance(seed, "questions"))
    reply, seen = await answer(tmp_path, {"message": text, "schema": {"type": "object"}}, "n")
    assert reply == Deny()
    assert unseen(seen) == ""
    lines = [line.strip() for line in seen.splitlines()]
    begin = next(n for n, line in enumerate(lines) if line.startswith("? MCP server"))
    end = max(n for n, line in enumerate(lines) if line.startswith("Your answer goes to"))
    ours = [line for line in lines[begin:end] if not line.startswith("|")]
    assert " ".join(ours) == (
        r"? MCP server 'ev\\u202eil' asks you a question. Treadle has not checked this text:"
    )


@pytest.mark.parametrize("seed", SEEDS)
async def test_each_line_of_a_foreign_text_is_marked_at_any_width(seed: int) -> None:
    random = chance(seed, "widths")
    text = revealed(message(random) * random.randint(1, 5))
    before, after = quoted(text, random.randint(10, 90)), random.randint(10, 90)
    question = "\n".join(["It says:", *before, "Yes?"])
    head, *lines, end, _ = Confirm(THEME, question, columns=lambda: after).spoken()
    assert (head, end) == ("It says:", "Yes?")
    for shown in (before, lines):
        assert [line for line in shown if not line.startswith(QUOTE)] == []
        assert "".join("".join(line.removeprefix(QUOTE) for line in shown).split()) == "".join(
            text.split()
        )


async def test_a_form_that_is_declined_marks_each_line_of_its_text(tmp_path: Path) -> None:
    text = f"{'Please fill this in. ' * 9}\nMCP server 'good' was approved."
    schema = {"type": "object", "required": ["name"]}
    async with a_chat(tmp_path, [says("hello")]) as chatting:
        asked = request("evil", {"message": text, "schema": schema}, server="evil")
        assert await Approving(chatting.chat)(asked) == Deny()
        await chatting.stage.writes("Forms cannot be filled in here")
        columns = chatting.chat.screen.columns
        written = chatting.stage.written.rpartition("filled in: name.")[2]
    shown, _, _ = written.partition("Forms cannot be filled in here")
    assert shown.count("| ") == len(quoted(text, columns - 3)) > 3


@pytest.mark.parametrize("seed", [*SEEDS][::3])
async def test_no_delta_takes_the_turn_of_the_keys(tmp_path: Path, seed: int) -> None:
    random = chance(seed, "deltas")
    ends = random.choice(["\n", "\r", "\r\n", "\u2028", "\t", "|", "> ", "\n\n", ""])
    word = random.choice(
        ["x", "\N{CJK UNIFIED IDEOGRAPH-8A9E}", "e\u0301", "`", "*", "<b>", hostile(random)]
    )
    text = (word * random.randint(1, 5) + ends) * random.randint(1, 4_000)
    shown = list[str]()

    async def no(_: ApprovalRequest) -> Deny:
        return Deny("")

    setting = RunSetting(agent=agent([{"text": text}]), cwd=tmp_path, mode="full")
    async with Runtime() as runtime:
        conversation = ChatConversation(
            runtime,
            setting,
            session_id=None,
            approver=no,
            show=lambda event: shown.append(event.text) if isinstance(event, TextDelta) else None,
        )
        await conversation.say("count")
    assert "".join(shown) == text
    assert max(map(len, shown)) <= DELTA_CHARS

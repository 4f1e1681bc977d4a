"""The open chat: what goes wrong ends nothing else, nothing that was typed is lost, and what asks
goes away with who asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doubles import asks, call, says
from tests.tui.chats import Chatting, a_chat
from treadle import Agent, Runtime, tool
from treadle.config import load
from treadle.errors import AgentError
from treadle.messages.events import Event, UsageReported
from treadle.testing import ScriptedModel
from treadle.tools.approval import ApprovalRequest
from treadle.tui.approving import Approving
from treadle.tui.blocks import Block

pytestmark = pytest.mark.anyio


@tool(needs_approval=True)
async def note(text: str) -> str:
    """Notes it."""
    return f"noted {text}"


def request(name: str, *pattern: str) -> ApprovalRequest:
    return ApprovalRequest(
        run_id="run_1",
        session_id=None,
        parent_run_id=None,
        agent="helper",
        call_id=name,
        name=name,
        arguments={},
        reason="it writes",
        pattern=pattern or None,
    )


async def outcomes(chatting: Chatting) -> list[str | None]:
    return [run.outcome for run in await chatting.chat.conversation.runs()]


async def test_what_goes_wrong_in_a_task_is_told_and_the_chat_goes_on(tmp_path: Path) -> None:
    async def breaks() -> None:
        raise ZeroDivisionError("no number")

    async def refuses() -> None:
        raise AgentError("invalid", "that cannot be")

    async with a_chat(tmp_path, [says("Here I am.")]) as chatting:
        chatting.chat.soon(breaks)
        chatting.chat.soon(refuses)
        await chatting.stage.writes("This is a bug in Treadle: ZeroDivisionError: no number.")
        await chatting.stage.writes("that cannot be")
        chatting.says("still there?")
        await chatting.stage.writes("Here I am.")


async def test_a_run_goes_on_where_it_cannot_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_chat(tmp_path, [says("one")]) as chatting:
        apply = chatting.chat.transcript.apply

        def odd(event: Event) -> list[Block]:
            if isinstance(event, UsageReported):
                raise ValueError("an odd event")
            return apply(event)

        monkeypatch.setattr(chatting.chat.transcript, "apply", odd)
        chatting.says("first")
        await chatting.stage.writes("ValueError: an odd event")
        await chatting.is_idle()
        assert await outcomes(chatting) == ["completed"]


async def test_what_cannot_begin_is_told_and_what_was_queued_behind_it_comes_back(
    tmp_path: Path,
) -> None:
    async with a_chat(tmp_path, model="nobody:none") as chatting:
        chatting.says("first")
        chatting.says("second")
        await chatting.is_idle()
        await chatting.until(lambda: chatting.chat.line.buffer.text == "second")


async def test_of_calls_that_ask_at_once_one_yes_for_the_session_holds_for_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.tui.approval.DEAF_S", 0.0)
    async with a_chat(tmp_path, [says("hello")]) as chatting:
        approving, answers = Approving(chatting.chat), list[Any]()

        async def ask() -> None:
            answers.append(await approving(request("note", "tool(note)")))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(ask)
            await chatting.until(lambda: chatting.chat.screen.is_asking)
            chatting.stage.press("s")
            await chatting.until(lambda: len(answers) == 2)


async def test_a_question_goes_away_with_the_run_that_asked(tmp_path: Path) -> None:
    async with a_chat(
        tmp_path, [asks(call("note", "n", text="x"))], mode="ask", tools=[note]
    ) as chatting:
        chatting.says("go")
        await chatting.until(lambda: chatting.chat.screen.is_asking)
        chatting.chat.conversation.interrupt()
        await chatting.until(lambda: not chatting.chat.screen.is_asking)
        await chatting.is_idle()
        assert await outcomes(chatting) == ["cancelled"]


async def test_who_leaves_while_asked_leaves_a_run_that_is_closed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    async with a_chat(
        tmp_path, [asks(call("note", "n", text="x"))], url=url, mode="ask", tools=[note]
    ) as chatting:
        chatting.says("go")
        await chatting.until(lambda: chatting.chat.screen.is_asking)
    async with a_chat(tmp_path, url=url) as again:
        (info,) = again.chat.runtime.sessions.list()
        again.chat.conversation.open(info.id)
        assert await outcomes(again) == ["cancelled"]


async def test_an_escape_before_a_run_has_begun_holds_once_it_has(tmp_path: Path) -> None:
    async with a_chat(tmp_path, [says("never said")]) as chatting:
        chatting.says("go")
        while not chatting.chat.conversation.is_running:
            await anyio.sleep(0)
        chatting.chat.acting.escape()
        await chatting.is_idle()
        assert await outcomes(chatting) == ["cancelled"]


async def test_what_never_reached_a_run_comes_back_as_it_was_typed(tmp_path: Path) -> None:
    async with a_chat(
        tmp_path, [asks(call("note", "n", text="x"))], mode="ask", tools=[note]
    ) as chatting:
        chatting.says("go")
        await chatting.until(lambda: chatting.chat.screen.is_asking)
        chatting.chat.steer("in French")
        chatting.says("and then this")
        chatting.chat.conversation.interrupt()
        await chatting.is_idle()
        await chatting.until(lambda: chatting.chat.line.buffer.text)
        assert chatting.chat.line.buffer.text == "in French\nand then this"


async def test_a_marker_of_another_chats_paste_is_not_sent(tmp_path: Path) -> None:
    async with a_chat(tmp_path, [says("hello")]) as chatting:
        chatting.says("look at [pasted text #1, 40 lines]")
        await chatting.stage.writes(
            "[pasted text #1, 40 lines] was pasted in another chat and is not available here: "
            "paste it again."
        )
        assert chatting.chat.line.buffer.text == "look at [pasted text #1, 40 lines]"
        assert not chatting.chat.conversation.queued


async def test_a_conversation_that_another_drives_can_only_be_looked_at_until_a_new_one(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    async with a_chat(
        tmp_path, [asks(call("note", "n", text="x"))], url=url, mode="ask", tools=[note]
    ) as first:
        first.says("go")
        await first.until(lambda: first.chat.screen.is_asking)
        async with a_chat(
            tmp_path, [says("never asked")], url=url, session=first.chat.conversation.session_id
        ) as second:
            await second.stage.writes("This conversation is in use by process")
            second.says("let me in")
            assert second.chat.line.take() == "let me in"
            assert not second.chat.conversation.queued
            await second.chat.open(None)
            second.says("hello")
            await second.stage.writes("never asked")


async def test_what_was_left_open_elsewhere_stays_open_when_another_conversation_is_opened(
    tmp_path: Path,
) -> None:
    async with a_chat(tmp_path, [says("hello")]) as chatting:
        chatting.chat.reopening._open = "run_of_another"  # pyright: ignore[reportPrivateUsage]  what an offer that was declined leaves
        await chatting.chat.open(None)
        chatting.says("hi")
        await chatting.stage.writes("hello")
        assert await outcomes(chatting) == ["completed"]


async def test_a_mode_that_runs_everything_says_where_there_is_no_sandbox(tmp_path: Path) -> None:
    config = load(cwd=tmp_path, flags={"--no-sandbox": "off"})
    async with a_chat(tmp_path, [says("hello")], config=config) as chatting:
        await chatting.until(lambda: not chatting.chat.status.confined)
        shown = "".join(text for _, text, *_ in chatting.chat.status.line(80))
        assert " FULL NO SANDBOX " in shown
        chatting.chat.use_mode("ask")
        assert "SANDBOX" not in "".join(text for _, text, *_ in chatting.chat.status.line(80))


async def test_a_run_of_another_agent_is_left_to_it_until_the_next_message(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    script = [asks(call("note", "c", text="hi"))]
    other = Agent(name="other", model=ScriptedModel(script), tools=[note])
    async with Runtime.open(url) as runtime:
        left = await runtime.run(other, "Note it.", session="s", on_ask="wait")
    assert left.waiting
    async with a_chat(tmp_path, [says("Here I am.")], url=url, session="s") as chatting:
        await chatting.stage.writes("its agent is 'other'")
        chatting.says("Who are you?")
        await chatting.stage.writes("Here I am.")
        await chatting.is_idle()
        assert sorted(map(str, await outcomes(chatting))) == ["cancelled", "completed"]

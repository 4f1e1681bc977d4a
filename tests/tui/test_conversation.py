"""Runs of a conversation: how one that was cut goes on."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.doubles import agent
from tests.loop.test_recovery import ONE, Effects, lost_call
from treadle.messages.events import Event, TextDelta
from treadle.runtime.runtime import Runtime
from treadle.tools.approval import ApprovalRequest, Deny
from treadle.tui.conversation import DELTA_CHARS, ChatConversation, RunSetting

pytestmark = pytest.mark.anyio


async def test_a_call_that_may_have_happened_is_asked_about_and_not_run_again(
    tmp_path: Path,
) -> None:
    effects, asked = Effects(), list[str]()
    tool = effects.tool("send")
    runtime, run_id = await lost_call(tool)

    async def no(request: ApprovalRequest) -> Deny:
        asked.append(request.call_id)
        return Deny("look first")

    setting = RunSetting(agent=agent([*ONE], tool), cwd=tmp_path, mode="full")
    conversation = ChatConversation(
        runtime, setting, session_id=None, approver=no, show=lambda event: None
    )
    result = await conversation.go_on(run_id)
    assert (asked, effects.done) == (["c1"], [])
    assert result.outcome in ("completed", "approval_needed")
    assert not conversation.is_running


async def test_a_delta_of_many_lines_leaves_turns_to_the_keys(tmp_path: Path) -> None:
    """C12: one of 120,000 lines made the chat deaf for 22 s."""
    text = "\n".join(f"line{n}" for n in range(20_000))
    turns, shown = 0, list[tuple[int, str]]()

    async def keys() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async def no(request: ApprovalRequest) -> Deny:
        return Deny("")

    def show(event: Event) -> None:
        if isinstance(event, TextDelta):
            shown.append((turns, event.text))

    setting = RunSetting(agent=agent([{"text": text}]), cwd=tmp_path, mode="full")
    async with Runtime() as runtime, anyio.create_task_group() as group:
        group.start_soon(keys)
        conversation = ChatConversation(runtime, setting, session_id=None, approver=no, show=show)
        await conversation.say("count")
        group.cancel_scope.cancel()
    assert "".join(part for _, part in shown) == text
    assert max(len(part) for _, part in shown) <= DELTA_CHARS
    assert len({turn for turn, _ in shown}) == len(shown)

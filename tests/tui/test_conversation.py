"""Runs of a conversation: how one that was cut goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles import agent
from tests.loop.test_recovery import ONE, Effects, lost_call
from treadle.tools.approval import ApprovalRequest, Deny
from treadle.tui.conversation import ChatConversation, RunSetting

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

"""One error of the database in the middle of a request: what was done is told, and what was not can
be done again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.service.at_hand import PASSWORD, opened
from tests.service.chatting import ObedientModel
from treadle.apps.assistant.application import task_application
from treadle.errors import AgentError


async def test_a_password_that_is_changed_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database fails when the streams of other logins are looked up."""
    async with opened(tmp_path) as hand:
        ada, failed = await hand.registered(), list[bool]()

        async def fails(*_: Any) -> Any:
            failed.append(True)
            raise AgentError("network", "the database does not respond")

        change = hand.service.accounts.change_password

        async def changes(*what: Any, **more: Any) -> Any:
            changed = await change(*what, **more)
            monkeypatch.setattr(hand.service.database, "read_unscoped", fails)
            return changed

        monkeypatch.setattr(hand.service.accounts, "change_password", changes)
        with hand.service.open_streams.opened("a login", anyio.CancelScope()):
            words = {"old": PASSWORD, "new": "another password"}
            answer = await hand.http.post("/auth/password", headers=ada, json=words)
        assert (answer.status_code, failed) == (204, [True])


async def test_mcp_is_there_after_it_could_not_be_opened_once(tmp_path: Path) -> None:
    application, tries = task_application(ObedientModel()), list[bool]()
    opens = application.mcp
    assert opens is not None

    def mcp(*what: Any) -> Any:
        tries.append(True)
        if len(tries) == 1:
            raise AgentError("network", "the database does not respond")
        return opens(*what)

    async with opened(tmp_path, application=replace(application, mcp=mcp)) as hand:
        headers = {**await hand.registered(), "Accept": "application/json, text/event-stream"}
        about = {"name": "t", "version": "1"}
        asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}
        answers = [await hand.http.post("/mcp", headers=headers, json=hello) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [503, 200]

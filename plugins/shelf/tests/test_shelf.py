"""The shelf passes the contract of journals, and its runs outlive it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
from treadle.testing.contracts.journals import *  # noqa: F403  every test of the contract
from treadle.testing.contracts.journals import JournalKind
from treadle_shelf import Shelf

from treadle import Agent, AgentError, Runtime, tool
from treadle.journal.journal import Journal
from treadle.testing import ScriptedModel


@pytest.fixture
def kind() -> JournalKind:
    numbers = count()

    async def fresh(folder: Path) -> Journal:
        return Shelf(folder / f"shelf{next(numbers)}")

    return JournalKind(fresh, durable=False)


@pytest.fixture
async def journal(kind: JournalKind, tmp_path: Path) -> AsyncIterator[Journal]:
    shelf = await kind.open(tmp_path)
    yield shelf
    await shelf.aclose()


async def test_a_run_that_was_left_is_resumed_by_the_next_process(tmp_path: Path) -> None:
    @tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    calls = [{"tool_calls": [{"name": "pay", "arguments": {"amount": 3}}]}]
    agent = Agent(name="payer", model=ScriptedModel([*calls, {"text": "done"}]), tools=[pay])
    async with Runtime.open(f"shelf://{tmp_path}") as rt:
        waiting = await rt.run(agent, "Pay.")
        with pytest.raises(AgentError, match="another process uses the shelf"):
            Shelf(tmp_path)
    async with Runtime.open(f"shelf://{tmp_path}") as rt:
        (info,) = await rt.journal.runs()
        assert info.run_id == waiting.run_id
        entries = [record.entry.__class__.__name__ for record in await rt.journal.read(info.run_id)]
        assert entries[0] == "RunStarted"
        assert "ApprovalAsked" in entries

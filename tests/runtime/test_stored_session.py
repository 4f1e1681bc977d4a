"""Conversations in a store of the user's own: the table of examples/own_store.py."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import agent, open_runtime, says
from tests.stores import new_journal, open_again, postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import AgentError, Message, MessageStore, StoredSession
from treadle.apps.testing.contracts.message_stores import *  # noqa: F403  every test of the contract
from treadle.testing import ScriptedModel
from treadle.tools.function import tool

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_store.py"


@pytest.fixture
def message_store(tmp_path: Path) -> Iterator[MessageStore]:
    spec = importlib.util.spec_from_file_location("own_store", EXAMPLE)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table: Any = module.TableOfChats(tmp_path / "chats.db")
    yield table
    table.db.close()


class Failing:
    """A store in memory whose first append fails."""

    def __init__(self) -> None:
        self.is_down, self.runs = True, dict[str, Sequence[Message]]()

    async def load(self, session_id: str) -> Sequence[Message]:
        return [message for messages in self.runs.values() for message in messages]

    async def append(self, session_id: str, run_id: str, messages: Sequence[Message]) -> None:
        if self.is_down:
            self.is_down = False
            raise ConnectionError("the store is down")
        self.runs.setdefault(run_id, messages)


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


async def test_each_run_sees_the_messages_of_the_store(message_store: MessageStore) -> None:
    async with open_runtime() as rt:
        session = StoredSession(
            rt, "s", agent=agent([says("one"), says("two")]), store=message_store
        )
        await session.send("first")
        async with session.stream("second") as run:
            async for _ in run:
                pass
            result = run.result
    assert texts(result.messages) == ["first", "one", "second", "two"]
    assert texts(await message_store.load("s")) == ["first", "one", "second", "two"]


@pytest.mark.usefixtures("store")
async def test_messages_that_the_store_missed_are_delivered_before_the_next_run() -> None:
    journal, down = new_journal(), Failing()
    async with open_runtime(journal=journal) as rt:
        with pytest.raises(ConnectionError):
            await StoredSession(rt, "s", agent=agent([says("one")]), store=down).send("first")
        async with open_runtime(journal=open_again(journal)) as again:
            session = StoredSession(again, "s", agent=agent([says("two")]), store=down)
            result = await session.send("second")
    assert texts(result.messages) == ["first", "one", "second", "two"]


async def test_a_run_without_an_answer_does_not_block_the_session(
    message_store: MessageStore,
) -> None:
    model = ScriptedModel([{"error": {"kind": "auth"}}, says("two")])
    async with open_runtime() as rt:
        session = StoredSession(rt, "s", agent=agent(model), store=message_store)
        await session.send("first")
        result = await session.send("second")
    assert result.text == "two"


async def test_a_cleared_session_continues_if_the_store_still_knows_its_runs(
    message_store: Any,
) -> None:
    async with open_runtime() as rt:
        session = StoredSession(
            rt, "s", agent=agent([says("one"), says("two")]), store=message_store
        )
        await session.send("first")
        message_store.db.execute("DELETE FROM chats")
        result = await session.send("second")
    assert texts(result.messages) == ["second", "two"]


@pytest.mark.usefixtures("store")
async def test_a_waiting_run_is_resumed_before_the_next_prompt(
    message_store: MessageStore,
) -> None:
    @tool(effect="once", needs_approval=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel([{"tool_calls": [{"id": "c1", "name": "pay"}]}, says("done")])
    payer = agent(model, pay)
    async with open_runtime() as rt:
        session = StoredSession(rt, "s", agent=payer, store=message_store)
        waiting = await session.send("pay", on_ask="wait")
        assert waiting.waiting
        with pytest.raises(AgentError, match=f"run {waiting.run_id} .* has not ended"):
            await session.send("again")
        assert [*await message_store.load("s")] == []
        await rt.resume(waiting.run_id, agent=payer, approve=["c1"])
        await session.deliver()
    assert texts(await message_store.load("s"))[-1] == "done"

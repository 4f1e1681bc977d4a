"""Conversations keep what was said in them, whatever fails, ends or is forked meanwhile, and every
store tells the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Literal

import anyio
import pytest

from tests.doubles import Gate, agent, asks, call, check_history, hook, open_runtime, says
from tests.loop.test_late_results import TOLD, Slow
from tests.runtime.test_put_down import Failing, fails
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import Agent, Message, StoredSession, handoff
from treadle.errors import AgentError
from treadle.journal.entries import RunFinished, RunStarted, ToolLate
from treadle.journal.memory.journal import MemoryJournal
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.tools.function import tool

pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture
async def here(store: str) -> AsyncIterator[Runtime]:
    async with open_runtime() as runtime:
        yield runtime


@tool(effect="once", needs_approval=True)
def pay() -> str:
    """Pays."""
    return "paid"


class Chats:
    """A store of conversations, as an application has one."""

    def __init__(self) -> None:
        self.runs = dict[str, Sequence[Message]]()

    async def load(self, session_id: str) -> Sequence[Message]:
        return [message for messages in self.runs.values() for message in messages]

    async def append(self, session_id: str, run_id: str, messages: Sequence[Message]) -> None:
        self.runs.setdefault(run_id, messages)


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


async def said(runtime: Runtime, session_id: str | None = "s") -> list[str]:
    """The session's messages, of which its row counts as many."""
    assert session_id is not None
    messages, info = await runtime.messages(session_id), runtime.sessions.get(session_id)
    assert info is not None
    assert info.message_count == len(messages)
    return texts(messages)


async def begun_and_left(runtime: Runtime, one: Agent[Any, Any], reached: anyio.Event) -> None:
    """Begin a run "r", and release it when that has been reached."""

    async def drive() -> None:
        with suppress(AgentError):
            await runtime.run(one, "go", session="s", run_id="r")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(drive)
            await reached.wait()
            runtime.let_go("r")


# ---------------------------------------------------------------- forks


async def test_a_run_of_a_session_is_forked_wherever_the_fork_is_stored(here: Runtime) -> None:
    one = agent([says("one"), *[says("again")] * 6])
    first = await here.run(one, "go", session="s")
    for _ in range(6):  # over shards, by chance in another one
        forked = await here.fork(first.run_id, turn=1, text="more", agent=one)
        assert await said(here, forked.session_id) == ["go", "one", "more", "again"]
        info = here.sessions.get(forked.session_id or "")
        assert info is not None
        assert info.title == "go (fork)"


async def test_a_fork_that_cannot_begin_leaves_no_session(
    here: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = agent([says("one"), says("two")])
    first = await here.run(one, "go", session="s")
    with monkeypatch.context() as patch:
        patch.setattr(here.journal, "begin", fails)
        with pytest.raises(AgentError, match="not answer"):
            await here.fork(first.run_id, turn=1, text="more", agent=one)
    assert [session.id for session in here.sessions.list()] == ["s"]


async def test_a_fork_of_a_waiting_run_keeps_what_was_steered(here: Runtime) -> None:
    gate = Gate(effect="pure")
    script = [asks(call("pay", "c1"), call("gate", "c2")), says("done")]
    one = agent(script, gate.tool, pay)

    async def drive() -> None:
        await here.run(one, "go", session="s", run_id="r", on_ask="wait")

    async with anyio.create_task_group() as group:
        group.start_soon(drive)
        await gate.reached.wait()
        here.steer("s", "steered")
        gate.opened.set()
    forked = await here.fork("r", turn=1, agent=one)
    assert "steered" in texts(forked.messages)
    check_history(forked.messages)


async def test_a_fork_that_hands_over_without_its_past_keeps_it_in_its_session(
    here: Runtime,
) -> None:
    billing = Agent(name="billing", model=ScriptedModel([says("Paid.")]))
    script = [says("Hi."), asks(call("transfer_to_billing", "t", reason="r"))]
    handing = [handoff(billing, history="none")]
    triage = Agent(name="triage", model=ScriptedModel(script), handoffs=handing)
    first = await here.run(triage, "Hello", session="s")
    forked = await here.fork(first.run_id, turn=1, text="Where?", agent=triage)
    kept = await said(here, forked.session_id)
    assert kept == ["Hello", "Hi.", "Where?", "", "", "Paid."]


async def test_a_message_is_found_where_it_was_said_and_not_in_a_fork(here: Runtime) -> None:
    one = agent([says("one"), says("two")])
    first = await here.run(one, "hello", session="s")
    await here.fork(first.run_id, turn=1, text="more", agent=one)
    assert [hit.session_id for hit in here.sessions.search("hello")] == ["s"]


# ---------------------------------------------------------------- what people and calls say


async def test_what_was_steered_is_read_after_a_release_in_the_middle_of_its_hook(
    here: Runtime,
) -> None:
    reached = anyio.Event()

    async def before_input(run: Any, message: Message) -> None:
        if message.text == "steered" and not reached.is_set():
            reached.set()
            await anyio.sleep_forever()

    slow, gate = Slow(), Gate(effect="pure")
    script = [asks(call("send", "c1")), asks(call("gate", "c2")), says("done")]
    one = agent(script, slow.tool, gate.tool, hooks=[hook("Holds", before_input=before_input)])

    async def speak() -> None:
        await gate.reached.wait()
        await slow.finish("r")
        here.steer("s", "steered")
        gate.opened.set()

    async with anyio.create_task_group() as group:
        group.start_soon(speak)
        await begun_and_left(here, one, reached)
    resumed = texts((await here.resume("r", one)).messages)
    assert {"steered", TOLD} <= {*resumed}


async def test_a_late_result_that_could_not_be_stored_once_reaches_the_next_run(
    here: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, begin, writers = Slow(), here.journal.begin, list[Failing]()

    async def failing(started: RunStarted, **more: Any) -> Any:
        writers.append(Failing(await begin(started, **more), ToolLate))
        return writers[0]

    one = agent([asks(call("send", "c1")), says("could not"), says("2"), says("3")], slow.tool)
    with monkeypatch.context() as patch:
        patch.setattr(here.journal, "begin", failing)
        first = await here.run(one, "go", session="s")
    await slow.finish(first.run_id)
    await here.run(one, "second", session="s")
    writers[0].kind = RunStarted  # the disk has room again
    assert TOLD in texts((await here.run(one, "third", session="s")).messages)


# ---------------------------------------------------------------- runs that end in another way


async def test_the_messages_of_a_killed_run_are_in_its_session(here: Runtime) -> None:
    one = agent([says("hi"), asks(call("pay", "c1")), says("done")], pay)
    await here.run(one, "first", session="s")
    waiting = await here.run(one, "go", session="s", on_ask="wait")
    await here.kill(waiting.run_id)
    kept = await said(here)
    assert kept == texts((await here.replay(waiting.run_id)).messages)
    assert texts((await here.run(one, "more", session="s")).messages)[: len(kept)] == kept


async def test_a_run_that_was_taken_by_force_and_resumed_is_in_its_session_once(
    here: Runtime,
) -> None:
    gate = Gate(effect="pure")
    one = agent([says("hi"), asks(call("gate", "c1")), says("done")], gate.tool)
    await here.run(one, "first", session="s")

    async def drive() -> None:
        with suppress(AgentError):
            await here.run(one, "go", session="s", run_id="r")

    async with anyio.create_task_group() as group:
        group.start_soon(drive)
        await gate.reached.wait()
        writer = await here.journal.take_over("r", force=True)
        gate.opened.set()
    await writer.release()
    assert texts((await here.resume("r", one)).messages) == await said(here)


async def test_a_message_that_is_added_during_a_run_comes_after_it(here: Runtime) -> None:
    @tool(effect="pure")
    def add() -> str:
        """Adds."""
        here.sessions.add_message("s", Message.user("note"))
        return "added"

    await here.run(agent([asks(call("add")), says("done")], add), "go", session="s")
    assert await said(here) == ["go", "", "", "done", "note"]


async def test_a_run_of_a_deleted_session_has_nothing_of_a_new_one_with_its_id(
    here: Runtime,
) -> None:
    one = agent([says("1"), says("2"), says("x")])
    await here.run(one, "one", session="s")
    second = await here.run(one, "two", session="s")
    assert here.sessions.delete("s")
    await here.run(one, "other", session="s")
    with suppress(AgentError):  # on disk, it was deleted with its session
        assert "other" not in texts((await here.replay(second.run_id)).messages)


async def test_a_session_with_a_waiting_run_takes_no_second_one_also_after_an_import(
    here: Runtime,
) -> None:
    other = open_runtime(journal=MemoryJournal())
    await other.run(agent([says("x")]), "imported", session="s", run_id="i")
    one = agent([asks(call("pay", "c1"))], pay)
    assert (await here.run(one, "go", session="s", on_ask="wait")).waiting
    await here.journal.add_run(await other.journal.read_bytes("i"))
    with pytest.raises(AgentError, match="not finished"):
        await here.run(agent([says("second")]), "second", session="s")


async def test_a_run_does_not_choose_the_current_session(here: Runtime) -> None:
    await here.run(agent([says("x")]), "go", session="s")
    assert here.sessions.current().id != "s"


# ---------------------------------------------------------------- stores of applications


@pytest.mark.parametrize("history", ["none", "summary", "all"])
async def test_a_store_gets_all_messages_of_a_run_that_was_handed_over(
    here: Runtime, history: Literal["none", "summary", "all"]
) -> None:
    arguments = {"summary": "S"} if history == "summary" else {"reason": "r"}
    billing = Agent(name="billing", model=ScriptedModel([says("Paid.")]))
    script = [says("Hi."), asks(call("transfer_to_billing", "t", **arguments))]
    handing = [handoff(billing, history=history)]
    triage = Agent(name="triage", model=ScriptedModel(script), handoffs=handing)
    chats = Chats()
    session = StoredSession(here, "x", agent=triage, store=chats)
    await session.send("Hello")
    await session.send("Where?")
    assert texts(await chats.load("x")) == ["Hello", "Hi.", "Where?", "", "", "Paid."]


async def test_a_store_gets_a_run_once_it_has_ended(
    here: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, chats = here.journal.begin, Chats()

    async def failing(started: RunStarted, **more: Any) -> Any:
        return Failing(await begin(started, **more), RunFinished)

    one = agent([says("one"), says("one")])
    session = StoredSession(here, "x", agent=one, store=chats)
    with monkeypatch.context() as patch:
        patch.setattr(here.journal, "begin", failing)
        first = await session.send("first")
    assert first.outcome == "error"
    with pytest.raises(AgentError, match="has not ended"):
        await session.send("too early")
    done = await here.resume(first.run_id, one)
    await session.deliver()
    assert texts(await chats.load("x")) == texts(done.messages)

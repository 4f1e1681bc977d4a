"""What a sync tool gives after its call was cut: its thread runs on, and what it did is told to the
model as soon as there is one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doubles import (
    Gate,
    PlainTool,
    PlayedModel,
    WatchedJournal,
    agent,
    asks,
    call,
    check_history,
    gives,
    label,
    open_runtime,
    says,
    text,
    wishes,
)
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import ToolContext, ToolFailed
from treadle.config import load
from treadle.errors import AgentError
from treadle.journal.entries import Entry, ToolLate
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.tools.function.threads import abandoned_calls, run_in_thread, wait_for_abandoned

pytestmark = pytest.mark.usefixtures("store")

TOLD = "A result came late for the call c1, whose outcome was not known before: sent after all"


class Slow:
    """A tool that gives up as soon as its thread has begun; the thread goes on until it is let go."""

    def __init__(self, said: str = "sent after all") -> None:
        self._said = said
        self._leave = threading.Event()
        self.tool = PlainTool(name="send", does=self._does)

    async def _does(self, ctx: ToolContext[Any], arguments: object) -> str:
        began, tell = anyio.Event(), asyncio.get_running_loop().call_soon_threadsafe

        def send() -> str:
            tell(began.set)
            self._leave.wait(5)
            return self._said

        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(_when, began, scope.cancel)
                await run_in_thread("send", ctx, send, str)
        raise ToolFailed("No answer.", happened=None)

    def let_go(self) -> None:
        self._leave.set()

    async def finish(self, run_id: str) -> None:
        """Returns when the thread is over, and what it gave has come."""
        self.let_go()
        with anyio.fail_after(20):
            assert not await wait_for_abandoned(abandoned_calls(run_id), 5)
            await anyio.lowlevel.checkpoint()


async def _when(event: anyio.Event, what: Callable[[], object]) -> None:
    await event.wait()
    what()


async def entries_of(rt: Runtime, run_id: str) -> list[Entry]:
    return [record.entry for record in await rt.journal.read(run_id)]


async def test_in_its_own_run_the_model_is_told_at_its_next_turn() -> None:
    slow, gate, rt = Slow(), Gate(), open_runtime()
    model = PlayedModel(wishes(("c1", "send", "{}")), wishes(("c2", "gate", "{}")), text("done"))
    async with rt.stream(agent(model, slow.tool, gate.tool), "go") as stream:
        await gate.reached.wait()
        await slow.finish(stream.run_id)
        gate.opened.set()
        async for _ in stream:
            pass
    assert model.histories[2][-1].text == TOLD
    assert stream.result.messages[2].tool_results[0].unknown, "the result stays what it was"
    check_history(stream.result.messages)


async def test_known_secrets_are_taken_out_of_it_before_it_is_kept_or_told() -> None:
    secret = "sk-ant-api03-CANARY-0815-4711"
    slow, gate, rt = (
        Slow(f"sent with {secret}"),
        Gate(),
        open_runtime(config=load({"ANTHROPIC_API_KEY": secret}, files=False)),
    )
    model = PlayedModel(wishes(("c1", "send", "{}")), wishes(("c2", "gate", "{}")), text("done"))
    async with rt.stream(agent(model, slow.tool, gate.tool), "go") as stream:
        await gate.reached.wait()
        await slow.finish(stream.run_id)
        gate.opened.set()
        async for _ in stream:
            pass
    assert model.histories[2][-1].text.endswith("sent with [redacted]")
    assert secret not in repr(await entries_of(rt, stream.run_id))


async def test_a_run_that_was_about_to_end_goes_on_so_that_the_model_is_told() -> None:
    slow, gate, rt = Slow(), Gate(), open_runtime()
    model = PlayedModel(
        wishes(("c1", "send", "{}")),
        [gate.stop, *text("I could not send it.")],
        text("It was sent."),
    )
    async with rt.stream(agent(model, slow.tool), "go") as stream:
        await gate.reached.wait()
        await slow.finish(stream.run_id)
        gate.opened.set()
        async for _ in stream:
            pass
    assert (stream.result.text, stream.result.turn_count) == ("It was sent.", 3)
    assert model.histories[2][-1].text == TOLD


async def test_after_the_end_of_its_run_the_next_one_of_the_session_is_told() -> None:
    slow, rt = Slow(), open_runtime()
    session = rt.session(
        "s",
        agent=agent(
            ScriptedModel(
                [asks(call("send", "c1")), says("I could not send it."), says("It was sent.")]
            ),
            slow.tool,
        ),
    )
    first = await session.send("go")
    heard = rt.hub.agents.subscribe()
    await slow.finish(first.run_id)
    second = await session.send("and now?")
    assert [message.text for message in second.messages if message.role == "user"] == [
        "go",
        TOLD,
        "and now?",
    ]
    check_history(second.messages)
    assert [label(entry) for entry in await entries_of(rt, first.run_id)][-2:] == [
        "run.finished",
        "tool.late",
    ]
    assert await session.history() == second.messages
    await rt.aclose()
    assert {event.run_id async for event in heard} == {second.run_id}, (
        "of a run that is over nothing more is said"
    )


async def test_a_run_that_began_before_it_came_is_replayed_without_it(tmp_path: Path) -> None:
    slow, url = Slow(), f"sqlite:///{tmp_path / 'journal.db'}"
    async with Runtime.open(url) as rt:
        session = rt.session(
            "s",
            agent=agent(
                ScriptedModel(
                    [asks(call("send", "c1")), says("I could not."), says("second"), says("third")]
                ),
                slow.tool,
            ),
        )
        first, second = await session.send("go"), await session.send("again")
        await slow.finish(first.run_id)
        third = await session.send("and now?")
    assert TOLD in [message.text for message in third.messages]
    async with Runtime.open(url) as rt:
        assert [(await rt.replay(run.run_id)).messages for run in (second, third)] == [
            second.messages,
            third.messages,
        ]


async def test_a_run_that_began_elsewhere_before_it_was_stored_is_replayed_without_it(
    tmp_path: Path,
) -> None:
    slow, url = Slow(), f"sqlite:///{tmp_path / 'journal.db'}"
    async with Runtime.open(url) as rt, Runtime.open(url) as other:
        session = rt.session(
            "s",
            agent=agent([asks(call("send", "c1")), says("I could not."), says("third")], slow.tool),
        )
        first = await session.send("go")
        await slow.finish(first.run_id)
        second = await other.session("s", agent=agent([says("second")])).send("again")
        third = await session.send("and now?")
        assert TOLD in [message.text for message in third.messages]
        assert (await other.replay(second.run_id)).messages == second.messages


async def test_closing_the_runtime_still_stores_it() -> None:
    slow, journal = Slow(), WatchedJournal()
    async with open_runtime(journal=journal) as rt:
        result = await rt.run(
            agent([asks(call("send", "c1")), says("I could not send it.")], slow.tool), "go"
        )
        slow.let_go()
    assert result.success
    assert journal.log[-1] == "append tool.late"


async def test_while_a_run_waits_for_a_person_it_does_not_come_between_a_call_and_its_result() -> (
    None
):
    slow, rt = Slow(), open_runtime()
    one = agent(
        [asks(call("send", "c1")), asks(call("pay", "c2")), says("done")],
        slow.tool,
        gives("pay", needs_approval=True),
    )
    first = await rt.run(one, "go", on_ask="wait")
    await slow.finish(first.run_id)
    await rt.run(agent([says("hi")]), "something else")
    assert isinstance((await entries_of(rt, first.run_id))[-1], ToolLate)
    result = await rt.resume(first.run_id, one, approve="c2")
    check_history(result.messages)
    assert [message.text for message in result.messages if message.role == "user"] == ["go", TOLD]


@pytest.mark.parametrize("url", ["memory:", "sqlite"])
async def test_a_run_that_waits_is_taken_up_although_it_said_something_late(
    url: str, tmp_path: Path
) -> None:
    slow = Slow()
    async with Runtime.open(
        f"sqlite:///{tmp_path / 'journal.db'}" if url == "sqlite" else url
    ) as rt:
        first = await rt.run(
            agent([asks(call("send", "c1")), says("done")], slow.tool), "go", on_unknown="wait"
        )
        await slow.finish(first.run_id)
        result = await rt.resume(first.run_id)
    assert result.outcome == "completed"
    assert result.messages[2].tool_results[0].text == "sent after all"
    check_history(result.messages)


async def test_a_thread_tells_the_run_that_was_taken_up_again_here_meanwhile() -> None:
    slow, gate, rt = Slow(), Gate(), open_runtime()
    one = agent(
        [asks(call("send", "c1")), asks(call("gate", "c2")), says("done")], slow.tool, gate.tool
    )
    first = await rt.run(one, "go", on_unknown="wait")
    async with rt.resume_stream(first.run_id, one, deny={"c1": "no"}) as stream:
        await gate.reached.wait()
        await slow.finish(first.run_id)
        gate.opened.set()
        async for _ in stream:
            pass
    assert [message.text for message in stream.result.messages if message.role == "user"] == [
        "go",
        TOLD,
    ]


async def test_runs_that_begin_at_once_both_begin_while_it_is_stored(tmp_path: Path) -> None:
    slow = Slow()
    async with Runtime.open(f"sqlite:///{tmp_path / 'journal.db'}", durability="power") as rt:
        first = await rt.run(agent([asks(call("send", "c1")), says("done")], slow.tool), "go")
        await slow.finish(first.run_id)
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(rt.run, agent([says("hi")]), "something else")
        assert [label(entry) for entry in await entries_of(rt, first.run_id)].count(
            "tool.late"
        ) == 1


async def test_where_the_run_went_on_elsewhere_it_disturbs_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow, journal = Slow(), WatchedJournal()
    rt, other = open_runtime(journal=journal), open_runtime(journal=journal)
    one = agent(
        [asks(call("send", "c1")), asks(call("pay", "c2")), says("done")],
        slow.tool,
        gives("pay", needs_approval=True),
    )
    first = await rt.run(one, "go", on_ask="wait")
    await other.resume(first.run_id, one, deny={"c2": "no"})
    before = await journal.read(first.run_id)
    await slow.finish(first.run_id)
    with caplog.at_level(logging.WARNING, logger="treadle"):
        assert (await rt.run(agent([says("hi")]), "something else")).success
    assert "late results of run" in caplog.text
    assert await journal.read(first.run_id) == before


async def test_a_journal_that_refuses_it_keeps_no_other_run_from_beginning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(entries: Sequence[Entry]) -> None:
        if any(isinstance(entry, ToolLate) for entry in entries):
            raise AgentError("agent", "the disk is full")

    slow, rt = Slow(), open_runtime(journal=WatchedJournal(at=refuse))
    session = rt.session(
        "s",
        agent=agent(
            ScriptedModel([asks(call("send", "c1")), says("I could not send it."), says("hi")]),
            slow.tool,
        ),
    )
    first = await session.send("go")
    await slow.finish(first.run_id)
    with caplog.at_level(logging.WARNING, logger="treadle"):
        assert (await session.send("and now?")).text == "hi"
    assert "the disk is full" in caplog.text


async def test_what_a_call_that_was_closed_otherwise_gives_late_is_for_nobody() -> None:
    """The person had said what it gave."""
    slow, rt = Slow(), open_runtime()
    one = agent([asks(call("send", "c1")), says("done")], slow.tool)
    first = await rt.run(one, "go", on_unknown="wait")
    result = await rt.resume(first.run_id, one, results={"c1": "Ada has it."})
    await slow.finish(first.run_id)
    again = await rt.run(agent([says("hi")]), "something else")
    assert (result.outcome, again.success) == ("completed", True)
    assert not any(isinstance(entry, ToolLate) for entry in await entries_of(rt, first.run_id))


async def test_what_is_said_late_of_a_call_with_a_known_result_is_for_nobody() -> None:
    kept: list[ToolContext[Any]] = []

    async def keeps(ctx: ToolContext[Any], arguments: object) -> str:
        kept.append(ctx)
        return "ok"

    async def speaks(ctx: ToolContext[Any], arguments: object) -> str:
        assert kept[0].late is not None
        kept[0].late("and another thing")
        return "ok"

    both = [
        PlainTool(name="keep", does=keeps),
        PlainTool(name="speak", does=speaks, parallel=False),
    ]
    result = await open_runtime().run(
        agent([asks(call("keep"), call("speak")), says("done")], *both), "go"
    )
    assert [message.role for message in result.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]

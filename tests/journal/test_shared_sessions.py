"""A run begins on the view of its session that it was planned on, whoever else writes to that
session: in memory, SQLite and PostgreSQL.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.doubles import agent, call, check_history, gives, says
from tests.doubles import asks as asked
from tests.journal.conftest import Kind
from tests.journal.runs import answers, asks, at, finished, late, message, refuses, started
from tests.journal.runs import says as said
from tests.loop.test_late_results import Slow
from treadle import AgentError, Runtime
from treadle.config import Config
from treadle.journal.entries import RunStarted, ToolFinished
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.queue import QueuePlace
from treadle.journal.sessions import NO_MARK, SessionChanged
from treadle.messages.message import Message, ToolResult

Change = Callable[[Journal], Awaitable[Any]]


async def _adds_a_message(journal: Journal) -> None:
    journal.sessions.add_message("s", message("by hand"))


async def _clears(journal: Journal) -> None:
    journal.sessions.clear_messages("s")


async def _runs(journal: Journal) -> None:
    await said(journal, "run_other", "meanwhile", "done", session="s")


async def _deletes(journal: Journal) -> None:
    journal.sessions.delete("s")


CHANGES: list[Change] = [_adds_a_message, _clears, _runs, _deletes]


async def test_a_run_that_waits_while_its_session_is_cleared_is_not_in_view_afterwards(
    journal: Journal,
) -> None:
    one = agent([asked(call("pay", "c1")), says("done")], gives("pay", needs_approval=True))
    rt = Runtime(config=Config(), journal=journal)
    first = await rt.run(one, "go", session="s", on_ask="wait")
    await rt.clear("s")
    result = await rt.resume(first.run_id, one, approve="c1")
    assert result.outcome == "completed"
    assert (await rt.replay(first.run_id)).messages == result.messages
    assert [*await rt.messages("s")] == []
    assert _count(rt) == 0
    second = await rt.run(agent([says("hello")]), "and now?", session="s")
    assert [message.text for message in second.messages] == ["and now?", "hello"]
    assert _count(rt) == 2


@pytest.mark.parametrize("made_again", [False, True])
async def test_a_late_result_of_a_run_that_was_cleared_is_not_in_view(
    journal: Journal, made_again: bool
) -> None:
    slow, rt = Slow(), Runtime(config=Config(), journal=journal)
    one = agent([asked(call("send", "c1")), says("I could not.")], slow.tool)
    first = await rt.run(one, "go", session="s")
    if made_again:
        rt.sessions.delete("s")
        rt.sessions.create(session_id="s")
    else:
        await rt.clear("s")
    await slow.finish(first.run_id)
    second = await rt.run(agent([says("hello")]), "and now?", session="s")
    assert [message.text for message in second.messages] == ["and now?", "hello"]
    assert _count(rt) == 2


def _count(rt: Runtime) -> int:
    info = rt.sessions.get("s")
    assert info is not None
    return info.message_count


@pytest.mark.parametrize("change", CHANGES)
async def test_a_run_planned_on_a_view_that_changed_does_not_begin(
    journal: Journal, change: Change
) -> None:
    await said(journal, "run_0", "hello", "hi", session="s")
    view = await journal.view("s")
    await change(journal)
    with pytest.raises(SessionChanged, match="has changed since it was read"):
        await journal.begin(started(session="s"), found=view.mark)
    with pytest.raises(SessionChanged):
        await journal.queue.add(
            [started("run_2", session="s")], QueuePlace(queue="default"), found=view.mark
        )
    with refuses("invalid", "unknown run"):
        await journal.info("run_1")
    again = await journal.view("s")
    await journal.begin(started(session="s"), found=again.mark)
    assert (await journal.load("run_1")).context.history[:-1] == [*again.messages]


async def test_a_session_that_somebody_else_made_meanwhile_is_read_again(journal: Journal) -> None:
    view = await journal.view("s")
    assert (view.messages, view.mark) == ([], NO_MARK)
    await said(journal, "run_0", "hello", "hi", session="s")
    with pytest.raises(SessionChanged):
        await journal.begin(started(session="s"), found=view.mark)


async def test_a_session_that_nobody_changed_is_begun_in(journal: Journal) -> None:
    for n in range(3):
        view = await journal.view("s")
        writer = await journal.begin(started(f"run_{n}", session="s"), found=view.mark)
        await writer.append([*answers(f"run_{n}", "hi"), finished(turns=1)])
        await writer.release()
    assert len((await journal.load("run_2")).context.history) == (
        6 if await _keeps_its_own(journal) else 2
    )


async def _keeps_its_own(journal: Journal) -> bool:
    """In memory, a runtime tells the sessions what was said."""
    return len((await journal.view("s")).messages) == 6


async def test_taking_a_run_out_of_a_session_changes_it(journal: Journal) -> None:
    for n in range(3):
        await said(journal, f"run_{n}", f"hello {n}", "hi", session="s")
    view, order = await journal.view("s"), [info.id for info in journal.sessions.list()]
    await journal.remove(["run_0"])
    with pytest.raises(SessionChanged):
        await journal.begin(started("run_9", session="s"), found=view.mark)
    assert [info.id for info in journal.sessions.list()] == order


# ---------------------------------------------------------------- late results


async def _ends_unknown(journal: Journal, run_id: str) -> RunWriter:
    """A run whose call ends as unknown; its driver may still append what comes late."""
    writer = await journal.begin(started(run_id, session="s", minute=10))
    unknown = ToolResult(call_id="c", name="t", content="?", is_error=True, unknown=True)
    result = ToolFinished(at=at(10), status="unknown", result=unknown)
    await writer.append(
        [*asks(1, "c", minute=10), result, finished(turns=1, tool_calls=1, minute=10)]
    )
    return writer


@pytest.mark.parametrize("minute", [-60, 0])
async def test_a_late_result_stamped_by_a_slow_clock_is_not_in_the_past_of_a_run_that_had_begun(
    journal: Journal, minute: float
) -> None:
    """`late` is stamped at minute 0, before all that is said here."""
    writer = await _ends_unknown(journal, "run_0")
    first = await journal.view("s")
    assert first.late == {}
    begun = await journal.begin(
        _on(started("run_1", session="s", minute=20), first.late), found=first.mark
    )
    found = (await journal.load("run_1")).context.history[:]
    await writer.append([late("c")])
    assert (await journal.load("run_1")).context.history[:] == found
    await begun.append([*answers("run_1", "hi", minute=20), finished(turns=1, minute=20)])
    view = await journal.view("s")
    assert view.late == {"run_0": 7}
    begun = await journal.begin(
        _on(started("run_2", session="s", minute=minute), view.late), found=view.mark
    )
    assert (await journal.load("run_2")).context.history[:-1] == [*view.messages]


def _on(run: RunStarted, seen: Mapping[str, int]) -> RunStarted:
    return replace(run, late=dict(seen))


# ---------------------------------------------------------------- runtimes


@pytest.fixture
async def two(kind: Kind, tmp_path: Path) -> AsyncIterator[tuple[Runtime, Runtime]]:
    """Two runtimes over one store, as two processes have it; in memory they share the journal."""
    async with AsyncExitStack() as stack:
        one = await kind.open(tmp_path)
        other = await kind.open(tmp_path) if kind.durable else one
        yield (
            await stack.enter_async_context(Runtime(journal=one)),
            await stack.enter_async_context(Runtime(journal=other)),
        )


def _before_it_begins(runtime: Runtime, change: Callable[[], Awaitable[Any]]) -> list[str]:
    """Make `change` once, after the next run was planned and before it begins.

    Return the run id of each attempt to begin one.
    """
    journal, attempts = runtime.journal, list[str]()
    begin = journal.begin

    async def late(run: RunStarted, **more: Any) -> RunWriter:
        attempts.append(run.run_id)
        if len(attempts) == 1:
            await change()
        return await begin(run, **more)

    journal.begin = late  # type: ignore[method-assign]
    return attempts


async def _judge(runtime: Runtime, result: Any) -> None:
    check_history(result.messages)
    state = await runtime.journal.load(result.run_id)
    assert state.context.history[:] == result.messages
    info = runtime.sessions.get("s")
    view = await runtime.messages("s")
    assert info is not None
    assert (info.message_count, view) == (len(view), result.messages)


@pytest.mark.parametrize("before", [0, 4, 104], ids=["new", "short", "beyond the window"])
@pytest.mark.parametrize("what", ["run", "clear", "message"])
async def test_a_run_is_planned_again_where_the_session_changed_before_it_began(
    two: tuple[Runtime, Runtime], before: int, what: str
) -> None:
    mine, other = two
    mine.sessions.create(session_id="s")
    mine.sessions.add_messages(
        "s",
        [
            Message.user(f"q{n}") if n % 2 == 0 else Message.assistant(f"a{n}")
            for n in range(before)
        ],
    )

    async def change() -> None:
        match what:
            case "run":
                await other.run(agent([says("theirs")]), "meanwhile", session="s")
            case "clear":
                await other.clear("s")
            case _:
                other.sessions.add_messages(
                    "s", [Message.user("by hand"), Message.assistant("noted")]
                )

    attempts = _before_it_begins(mine, change)
    own = [Message.user("You are terse."), Message.assistant("Yes.")]
    result = await mine.run(agent([says("mine")], messages=own), "go", session="s")
    assert result.text == "mine"
    assert attempts.count(result.run_id) == 2
    assert [m.text for m in result.messages].count("You are terse.") == (what == "clear")
    await _judge(mine, result)
    await _judge(other, await other.run(agent([says("and then")]), "more", session="s"))


async def test_a_submitted_run_is_planned_again(two: tuple[Runtime, Runtime]) -> None:
    mine, other = two
    mine.sessions.create(session_id="s")
    queue = mine.journal.queue
    add, attempts = queue.add, list[int]()

    async def late(*run: Any, **more: Any) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            await other.run(agent([says("theirs")]), "meanwhile", session="s")
        await add(*run, **more)

    queue.add = late  # type: ignore[method-assign]
    run_id = await mine.submit(agent([says("mine")]), "go", session="s")
    assert len(attempts) == 2
    assert [m.text for m in (await mine.journal.load(run_id)).context.history] == [
        "meanwhile",
        "theirs",
        "go",
    ]


async def test_a_run_whose_session_got_another_open_run_meanwhile_is_busy(
    two: tuple[Runtime, Runtime],
) -> None:
    mine, other = two
    _before_it_begins(mine, lambda: other.journal.begin(started("run_9", session="s")))
    with pytest.raises(AgentError, match=r"run_9 of .*session") as caught:
        await mine.run(agent([says("mine")]), "go", session="s")
    assert caught.value.kind == "busy"

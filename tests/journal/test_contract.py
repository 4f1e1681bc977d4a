"""What every journal keeps, wherever it keeps it: one suite over all of them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import get_args

import anyio
import anyio.lowlevel
import msgspec
import pytest

from tests.journal.conftest import Kind
from tests.journal.runs import (
    AT,
    USED,
    answers,
    asks,
    at,
    entries_of,
    fact,
    finished,
    gives,
    late,
    message,
    refuses,
    resumed,
    says,
    started,
)
from tests.strategies import examples_of
from treadle._internal.json_text import encode_json
from treadle.budget.spending import Spending
from treadle.journal.entries import (
    ApprovalAsked,
    CancelAsked,
    Entry,
    Fork,
    ModelResponded,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
)
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.queue import QueuePlace
from treadle.journal.run_info import Holder
from treadle.messages.message import decode_message
from treadle.messages.metrics import RunTotals
from treadle.types import Outcome, Usage


@cache
def nasty() -> list[Entry]:
    """Some entries of every kind that may stand inside a run, with what is hard to store; no call
    has two results, or starts twice.
    """
    found: dict[object, Entry] = {}
    for kind in get_args(Entry):
        for entry in examples_of(kind, 8):
            match entry:
                case RunStarted() | RunFinished():
                    continue
                case ToolFinished():
                    key: object = entry.result.call_id
                case ToolStarted():
                    key = (entry.call_id, entry.attempt)
                case _:
                    key = len(found)
            found.setdefault((kind, key), entry)
    return list(found.values())


FINISHED = finished()


# ---------------------------------------------------------------- what is appended


async def test_a_run_begins_with_what_started_it(journal: Journal) -> None:
    writer = await journal.begin(started())
    assert (writer.run_id, writer.fence) == ("run_1", 1)
    (record,) = await journal.read("run_1")
    assert (record.seq, record.entry) == (1, started())


async def test_entries_stand_in_order_without_gaps(journal: Journal) -> None:
    writer = await journal.begin(started())
    assert await writer.append([fact("a"), fact("b")]) == 2
    assert await writer.append([fact("c")]) == 4
    assert await writer.append([FINISHED]) == 5
    records = await journal.read("run_1")
    assert [record.seq for record in records] == [1, 2, 3, 4, 5]
    assert [record.entry for record in records] == [
        started(),
        fact("a"),
        fact("b"),
        fact("c"),
        FINISHED,
    ]


async def test_every_kind_of_entry_is_read_as_it_was_written(journal: Journal) -> None:
    writer = await journal.begin(started())
    for first in range(0, len(nasty()), 7):
        await writer.append(nasty()[first : first + 7])
    assert await entries_of(journal, after=1) == nasty()


async def test_what_a_newer_version_wrote_into_a_message_is_still_there(journal: Journal) -> None:
    stored = b'{"id":"m", "role":"user","parts":[{"type":"hologram","x":1e400}],"created_at":"2026-11-20T10:00:00Z","mood":1.50}'
    begun = RunStarted(
        at=AT,
        run_id="run_1",
        agent="a",
        agent_hash="h",
        model="m",
        mode="full",
        cwd="/",
        input=decode_message(stored),
    )
    writer = await journal.begin(begun)
    await writer.append([FINISHED])
    await writer.release()
    (read, _) = await entries_of(journal)
    assert isinstance(read, RunStarted)
    assert read.input.to_json() == stored


async def test_an_ended_run_reads_as_it_did_before_it_was_let_go(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([*nasty(), FINISHED])
    before = await journal.read("run_1")
    await writer.release()
    assert await journal.read("run_1") == before
    assert await journal.read("run_1", after=len(nasty())) == before[len(nasty()) :]


async def test_what_was_read_is_the_readers_own(journal: Journal) -> None:
    writer = await journal.begin(started())
    records = await journal.read("run_1")
    await writer.append([fact("a")])
    assert len(records) == 1
    records.clear()
    assert len(await journal.read("run_1")) == 2


async def test_many_runs_are_appended_to_at_once(journal: Journal) -> None:
    async def drive(run_id: str) -> None:
        writer = await journal.begin(started(run_id))
        for n in range(5):
            await writer.append([fact(f"{run_id} {n} a"), fact(f"{run_id} {n} b")])
        await writer.append([FINISHED])
        await writer.release()

    names = [f"run_{n}" for n in range(20)]
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(drive, name)
    for name in names:
        records = await journal.read(name)
        assert [record.seq for record in records] == list(range(1, 13))
        assert [record.entry for record in records[1:-1]] == [
            fact(f"{name} {n} {half}") for n in range(5) for half in "ab"
        ]


# ---------------------------------------------------------------- cancelling


async def test_an_append_in_a_cancelled_scope_is_all_or_nothing(journal: Journal) -> None:
    writer = await journal.begin(started())
    returned = False
    with anyio.CancelScope() as scope:
        scope.cancel()
        await writer.append([fact("a"), fact("b")])
        returned = True
    left = await entries_of(journal, after=1)
    assert left == [fact("a"), fact("b")] or (left == [] and not returned)
    assert await writer.append([fact("c")]) == 2 + len(left)


@pytest.mark.parametrize("how", ["scope", "task", "task, many times"])
async def test_an_append_that_began_is_finished_and_then_the_cancellation_comes(
    journal: Journal, how: str
) -> None:
    writer = await journal.begin(started())
    tasks: list[asyncio.Task[object]] = []
    came: list[str] = []

    async def append() -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        came.append(f"appended as {await writer.append([fact('a')])}")
        await writer.append([fact("b")])
        try:
            await anyio.sleep_forever()
        finally:
            came.append("cancelled")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(append)
            await anyio.lowlevel.checkpoint()  # it has begun by now
            if how == "scope":
                group.cancel_scope.cancel()
            for _ in range(0 if how == "scope" else 1 if how == "task" else 5):
                tasks[0].cancel()
                if how != "task":
                    await anyio.lowlevel.checkpoint()
    assert came[0] == "appended as 2"
    words = await entries_of(journal, after=1)
    assert words in ([fact("a")], [fact("a"), fact("b")])
    assert await writer.append([fact("c")]) == len(words) + 2


# ---------------------------------------------------------------- one driver at a time


async def test_a_run_that_exists_cannot_begin_again(journal: Journal) -> None:
    writer = await journal.begin(started())
    with refuses("busy"):
        await journal.begin(started())
    await writer.append([FINISHED])
    await writer.release()
    with refuses("busy"):
        await journal.begin(started())
    assert await entries_of(journal) == [started(), FINISHED]


async def test_a_run_that_is_driven_cannot_be_taken_over(journal: Journal) -> None:
    writer = await journal.begin(started())
    with refuses("busy"):
        await journal.take_over("run_1")
    assert await writer.append([fact("a")]) == 2


async def test_who_takes_a_run_over_goes_on_where_it_was_left(journal: Journal) -> None:
    first = await journal.begin(started())
    await first.append([fact("a")])
    await first.release()
    second = await journal.take_over("run_1")
    assert (second.run_id, second.fence) == ("run_1", 2)
    assert await second.append([resumed(second.fence), fact("b")]) == 3
    with refuses("busy"):
        await journal.take_over("run_1")
    await second.release()
    third = await journal.take_over("run_1")
    assert await third.append([FINISHED]) == 5
    assert await entries_of(journal) == [started(), fact("a"), resumed(2), fact("b"), FINISHED]


async def test_a_run_whose_prompt_is_long_is_gone_on_with(journal: Journal) -> None:
    prompt = "warm " * 5_000
    await (await journal.begin(started(text=prompt))).release()
    writer = await journal.take_over("run_1")
    await writer.append([resumed(2), finished()])
    assert (await journal.info("run_1")).prompt.startswith("warm warm")
    assert (await entries_of(journal))[0] == started(text=prompt)


async def test_a_driver_can_verify_that_the_run_is_still_its_own(journal: Journal) -> None:
    first = await journal.begin(started())
    await first.verify()
    second = await journal.take_over("run_1", force=True)
    with refuses("busy", "run_1 is no longer held"):
        await first.verify()
    await second.verify()
    await second.release()
    with refuses("busy", "run_1 is no longer held"):
        await second.verify()
    assert await entries_of(journal) == [started()]


@pytest.mark.parametrize("force", [False, True])
async def test_the_driver_before_is_fenced_off(journal: Journal, force: bool) -> None:
    first = await journal.begin(started())
    if not force:
        await first.release()
    second = await journal.take_over("run_1", force=force)
    for entries in ([fact("too late")], [fact("too late"), FINISHED], [late("c")]):
        with refuses("busy"):
            await first.append(entries)
    assert await second.append([fact("b")]) == 2
    assert await entries_of(journal) == [started(), fact("b")]


async def test_the_forks_of_a_run_are_listed_by_themselves(journal: Journal) -> None:
    for run_id in ("run_1", "run_2"):
        await (await journal.begin(started(run_id))).append([FINISHED])
    for number, origin in enumerate(("run_1", "run_2", "run_1"), 3):
        await journal.begin(started(f"run_{number}", fork=Fork(run_id=origin, turn=0, seq=1)))
    assert [info.run_id for info in await journal.runs(forked_from="run_1")] == ["run_5", "run_3"]
    assert [info.run_id for info in await journal.runs(forked_from="run_1", limit=1)] == ["run_5"]
    assert await journal.runs(forked_from="unknown") == []


async def test_who_let_go_of_a_run_cannot_append_to_it(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    await writer.release()
    with refuses("busy"):
        await writer.append([fact("too late")])
    assert await entries_of(journal, after=1) == [fact("a")]


async def test_a_fenced_driver_cannot_let_go_of_anothers_run(journal: Journal) -> None:
    first = await journal.begin(started())
    await journal.take_over("run_1", force=True)
    await first.release()
    with refuses("busy"):
        await journal.take_over("run_1")


async def test_letting_go_twice_is_letting_go_once(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([FINISHED])
    for _ in range(3):
        await writer.release()
    assert await entries_of(journal) == [started(), FINISHED]


async def test_an_ended_run_is_over(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([FINISHED])
    await writer.release()
    with refuses("busy"):
        await writer.append([fact("too late")])
    with refuses("invalid", "run_1.*finished"):
        await journal.take_over("run_1")


async def test_what_comes_late_is_appended_after_the_end(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([*asks(1, "c"), FINISHED])
    await writer.release()
    assert await writer.append([late("c")]) == 6
    assert (await entries_of(journal, after=4)) == [FINISHED, late("c")]
    assert (await journal.info("run_1")).status == "finished"


# ---------------------------------------------------------------- one run of a session at a time


async def test_a_session_has_one_run_that_is_not_finished(journal: Journal) -> None:
    first = await journal.begin(started("run_1", session="ada"))
    with refuses("busy"):
        await journal.begin(started("run_2", session="ada"))
    await first.release()
    with refuses("busy"):
        await journal.begin(started("run_2", session="ada"))
    again = await journal.take_over("run_1")
    await again.append([FINISHED])
    await again.release()
    await journal.begin(started("run_2", session="ada"))
    with refuses("invalid", "'run_3'"):
        await journal.read("run_3")


async def test_who_holds_a_session_is_told(journal: Journal) -> None:
    assert await journal.holder("ada") is None
    writer = await journal.begin(started(session="ada"))
    held = await journal.holder("ada")
    assert held == Holder(
        run_id="run_1", pid=os.getpid(), host=socket.gethostname(), since=started().at
    )
    assert await journal.holder("bob") is None
    await writer.append([fact("a")])
    await writer.release(waiting=True)
    assert await journal.holder("ada") is None
    again = await journal.take_over("run_1")
    await again.append([back := msgspec.structs.replace(resumed(2), at=at(5)), fact("b")])
    held = await journal.holder("ada")
    assert held is not None
    assert (held.run_id, held.since) == ("run_1", back.at)
    await again.append([FINISHED])
    await again.release()
    assert await journal.holder("ada") is None


async def test_a_run_that_is_a_part_of_another_holds_no_session(journal: Journal) -> None:
    await journal.begin(started("run_1", session="ada"))
    await journal.begin(started("run_2", session="ada", parent="run_1"))
    held = await journal.holder("ada")
    assert held is not None
    assert held.run_id == "run_1"


async def test_parts_of_a_run_and_other_sessions_are_free(journal: Journal) -> None:
    await journal.begin(started("run_1", session="ada"))
    await journal.begin(started("run_2", session="ada", parent="run_1"))
    await journal.begin(started("run_3", session="eve"))
    await journal.begin(started("run_4"))
    await journal.begin(started("run_5"))
    assert {run.run_id for run in await journal.runs(session_id="ada")} == {"run_1", "run_2"}


async def test_a_part_that_its_driver_left_keeps_no_run_from_beginning(journal: Journal) -> None:
    part = await journal.begin(started("part", session="ada", parent="run_0"))
    await part.release()
    await journal.begin(started("run_1", session="ada"))


async def test_the_first_run_makes_its_session_and_names_it(journal: Journal) -> None:
    await says(journal, "run_1", "Where is it warm?\nTell me.", "Lisbon", session="ada")
    await says(journal, "run_2", "And tomorrow?", "Lisbon", session="ada")
    assert [(one.id, one.title) for one in journal.sessions.list()] == [
        ("ada", "Where is it warm?")
    ]


async def test_a_run_in_a_session_that_has_a_name_leaves_it(journal: Journal) -> None:
    journal.sessions.create("Trip", session_id="ada")
    await says(journal, "run_1", "Where is it warm?", "Lisbon", session="ada")
    assert [one.title for one in journal.sessions.list()] == ["Trip"]


# ---------------------------------------------------------------- asking to stop


async def test_who_drives_a_run_hears_that_it_shall_stop(journal: Journal) -> None:
    heard = anyio.Event()
    told: list[str] = []

    def hear(run_id: str) -> None:
        told.append(run_id)
        heard.set()

    journal.on_stop(hear)
    await journal.begin(started())
    await journal.begin(started("run_2"))
    assert await journal.ask_to_stop("run_1")
    with anyio.fail_after(20):
        await heard.wait()
    assert told == ["run_1"]


async def test_who_lets_go_twice_does_not_keep_the_next_driver_from_hearing(
    journal: Journal,
) -> None:
    heard = anyio.Event()
    journal.on_stop(lambda run_id: heard.set())
    first = await journal.begin(started())
    await first.release()
    await journal.take_over("run_1")
    await first.release()
    assert (await journal.info("run_1")).status == "running"
    assert await journal.ask_to_stop("run_1")
    with anyio.fail_after(20):
        await heard.wait()


async def test_nobody_is_asked_to_stop_what_nobody_drives(journal: Journal) -> None:
    journal.on_stop(lambda run_id: pytest.fail(f"{run_id} is driven by nobody"))
    writer = await journal.begin(started())
    await writer.release()
    assert not await journal.ask_to_stop("run_1")
    await says(journal, "run_2", "hello", "hello")
    assert not await journal.ask_to_stop("run_2")
    with refuses("invalid", "'run_x'"):
        await journal.ask_to_stop("run_x")


async def test_who_asks_a_run_to_stop_of_which_nobody_hears_is_told_so(journal: Journal) -> None:
    await journal.begin(started())
    assert await journal.ask_to_stop("run_1") is False


async def test_who_lost_a_run_is_not_told_to_stop_it(journal: Journal) -> None:
    heard: list[str] = []
    lost = await journal.begin(started())
    await journal.begin(started("run_2"))
    journal.on_stop(heard.append)
    again = await journal.take_over("run_1", force=True)
    with refuses("busy"):
        await lost.append([fact("a")])
    await again.release()
    assert await journal.ask_to_stop("run_1") is False
    assert await journal.ask_to_stop("run_2") is True
    with anyio.fail_after(20):
        while not heard:
            await anyio.lowlevel.checkpoint()
    assert heard == ["run_2"]


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize(("after", "left"), [(-5, 4), (0, 4), (1, 3), (3, 1), (4, 0), (99, 0)])
async def test_reading_on_gives_what_came_after(journal: Journal, after: int, left: int) -> None:
    writer = await journal.begin(started())
    await writer.append([fact("a"), fact("b"), CancelAsked(at=AT, by="user")])
    records = await journal.read("run_1", after=after)
    assert [record.seq for record in records] == list(range(5 - left, 5))


async def test_an_unknown_run_is_refused_with_those_that_may_be_meant(journal: Journal) -> None:
    await journal.begin(started("run_018f3a"))
    for ask in (journal.read, journal.take_over, journal.load, journal.read_bytes, journal.info):
        with refuses("invalid", r"'run_018'.*Did you mean run_018f3a\?"):
            await ask("run_018")
    with refuses("invalid", "'run_x'.*runs list"):
        await journal.read("run_x")


async def test_a_run_is_loaded_as_the_fold_of_its_entries(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append(asks(1, "c", "d"))
    await writer.append([gives("c")])
    state = await journal.load("run_1")
    assert [said.role for said in state.context.history] == ["user", "assistant"]
    assert [call.id for call in state.current.open_calls] == ["d"]
    assert (state.seq, state.turn) == (6, 1)


async def test_a_fork_goes_on_from_inside_another_run(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append(asks(1, "c"))
    await writer.append([gives("c"), *asks(2, "d", minute=1)])
    fork = Fork(run_id="run_1", turn=1, seq=5)
    fresh = await journal.load_fork(fork)
    assert [said.role for said in fresh.context.history] == ["user", "assistant", "tool"]
    await journal.begin(started("run_2", "and now?", fork=fork))
    state = await journal.load("run_2")
    assert [said.text for said in state.context.history] == ["hello", "turn 1", "", "and now?"]
    assert [record.seq for record in await journal.read("run_2")] == [1]


# ---------------------------------------------------------------- lists


async def test_runs_are_listed_newest_first(journal: Journal) -> None:
    assert await journal.runs() == []
    for minute, name in enumerate("abc"):
        await says(journal, name, "hello", "hello", minute=minute, session=f"session_{name}")
    assert [run.run_id for run in await journal.runs()] == ["c", "b", "a"]
    assert [run.run_id for run in await journal.runs(limit=2)] == ["c", "b"]
    assert len(await journal.runs(limit=10**30)) == 3
    assert [run.run_id for run in await journal.runs(session_id="session_b")] == ["b"]
    assert await journal.runs(session_id="session_x") == []


async def test_the_runs_of_one_session_are_listed_newest_first(journal: Journal) -> None:
    for n in range(4):
        await says(journal, f"run_{n}", "hello", "hi", session="ada" if n < 3 else "eve", minute=n)
    assert [run.run_id for run in await journal.runs(session_id="ada")] == [
        "run_2",
        "run_1",
        "run_0",
    ]
    assert [run.run_id for run in await journal.runs(session_id="ada", limit=2)] == [
        "run_2",
        "run_1",
    ]


async def test_a_list_says_how_each_run_stands(journal: Journal) -> None:
    for name in ("running", "waiting", "stopped", "again"):
        writer = await journal.begin(started(name))
        if name != "running":
            await writer.release(waiting=name == "waiting")
    await journal.take_over("again")
    await says(journal, "finished", "hello", "hello")
    found = {run.run_id: (run.status, run.outcome) for run in await journal.runs()}
    assert found == {
        "running": ("running", None),
        "waiting": ("waiting", None),
        "stopped": ("stopped", None),
        "again": ("running", None),
        "finished": ("finished", Outcome.COMPLETED),
    }


async def _halfway(writer: RunWriter) -> None:
    await writer.append(asks(1, "c", "d"))
    await writer.append([gives("c"), gives("d")])


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("again", [False, True])
async def test_what_a_list_shows_of_a_run_is_the_fold_of_its_entries(
    journal: Journal, ends: bool, again: bool
) -> None:
    writer = await journal.begin(started("run_1", "Where?\nTell me.", session="ada"))
    await _halfway(writer)
    if again:
        await writer.release()
        writer = await journal.take_over("run_1")
        await writer.append([resumed(2, model="other", mode="plan", cwd="/tmp")])
    await writer.append(
        [
            *answers("run_1", "Lisbon", minute=3),
            *([finished(turns=2, tool_calls=2, minute=4)] if ends else []),
        ]
    )
    if ends:
        await writer.release()
    info = await journal.info("run_1")
    assert info == (await journal.runs())[0]
    assert (info.session_id, info.agent, info.prompt) == ("ada", "a", "Where?")
    assert (info.model, info.mode, info.cwd) == (
        ("other", "plan", "/tmp") if again else ("m", "full", "/")
    )
    assert (info.turns, info.tool_calls, info.usage) == (
        2,
        2,
        Usage(input_tokens=20, output_tokens=10),
    )
    assert info.entries == len(await journal.read("run_1")) == 8 + again + ends
    assert (info.started_at, info.updated_at) == (AT, at(4 if ends else 3))
    assert info.status == ("finished" if ends else "running")


# ---------------------------------------------------------------- costs


async def test_what_runs_have_cost_is_counted_with_those_that_are_not_finished(
    journal: Journal,
) -> None:
    for run_id, session, parent, ends in (
        ("run_1", "ada", None, True),
        ("run_2", None, "run_1", True),
        ("run_3", "bob", None, False),
    ):
        writer = await journal.begin(started(run_id, session=session, parent=parent))
        turn = [
            msgspec.structs.replace(entry, cost_usd=0.5)
            if isinstance(entry, ModelResponded)
            else entry
            for entry in asks(1)
        ]
        spending = (Spending(model="m", day="2026-11-20", responses=1, usage=USED, cost_usd=0.5),)
        end = RunFinished(
            at=AT,
            outcome=Outcome.COMPLETED,
            turns=1,
            tool_calls=0,
            usage=USED,
            cost_usd=0.5,
            spending=spending,
            duration_s=0.5,
        )
        await writer.append([*turn, *([end] if ends else [])])
        assert (await journal.info(run_id)).cost_usd == 0.5
    by_session = await journal.costs("session")
    assert [(row.key, row.runs, row.cost_usd) for row in by_session.rows] == [
        ("ada", 2, 1.0),
        ("bob", 1, 0.5),
    ]
    by_model = await journal.costs("model")
    assert [(row.key, row.responses, row.unpriced, row.usage) for row in by_model.rows] == [
        ("m", 3, 0, USED + USED + USED)
    ]
    assert by_model.total == by_session.total == msgspec.structs.replace(by_model.rows[0], key=None)
    assert not (await journal.costs("day", since=date(2026, 11, 21))).rows
    assert [row.key for row in (await journal.costs("day", since=date(2026, 11, 20))).rows] == [
        "2026-11-20"
    ]


async def test_totals_count_every_run_below_whether_its_end_states_them_or_not(
    journal: Journal,
) -> None:
    """Three levels. Ends of an older version have no totals, and runs under way have no end."""
    for run_id, parent in (
        ("run_1", None),
        ("run_2", "run_1"),
        ("run_3", "run_2"),
        ("run_4", "run_1"),
    ):
        if run_id == "run_2":
            await journal.add_run(
                [
                    encode_json(entry)
                    for entry in (started(run_id, parent=parent), *asks(1), finished(turns=1))
                ]
            )
            continue
        writer = await journal.begin(started(run_id, parent=parent))
        end = msgspec.structs.replace(
            finished(turns=1), total=RunTotals(runs=5, turns=9, usage=USED)
        )
        await writer.append([*asks(1), *([end] if run_id == "run_4" else [])])
    listed = {info.run_id: info.total for info in await journal.runs()}
    assert {run_id: (total.runs, total.turns) for run_id, total in listed.items()} == {
        "run_1": (8, 12),
        "run_2": (2, 2),
        "run_3": (1, 1),
        "run_4": (5, 9),
    }
    assert listed["run_1"].unpriced == 3
    assert [info.total for info in await journal.children("run_1")] == [
        listed["run_2"],
        listed["run_4"],
    ]
    for run_id, total in listed.items():
        assert (await journal.info(run_id)).total == total


async def test_imported_runs_that_name_each_other_as_parents_are_counted_once(
    journal: Journal,
) -> None:
    for run_id, parent in (("run_1", "run_2"), ("run_2", "run_1"), ("run_3", "run_3")):
        await journal.add_run(
            [
                encode_json(entry)
                for entry in (started(run_id, parent=parent), *asks(1), finished(turns=1))
            ]
        )
    assert {info.run_id: info.total.runs for info in await journal.runs()} == {
        "run_1": 2,
        "run_2": 2,
        "run_3": 1,
    }


async def test_costs_are_summed_by_user_and_by_agent_and_by_nothing_that_there_is_not(
    journal: Journal,
) -> None:
    for run_id, user, agent in (
        ("run_1", "ada", "boss"),
        ("run_2", "ada", "helper"),
        ("run_3", None, "boss"),
    ):
        writer = await journal.begin(
            msgspec.structs.replace(started(run_id), user_id=user, agent=agent)
        )
        await writer.append([*asks(1), *([finished(turns=1)] if run_id != "run_2" else [])])
        assert (await journal.info(run_id)).user_id == user
    assert {row.key: row.responses for row in (await journal.costs("user")).rows} == {
        "ada": 2,
        None: 1,
    }
    assert {row.key: row.responses for row in (await journal.costs("agent")).rows} == {
        "boss": 2,
        "helper": 1,
    }
    with refuses("invalid", "'nonsense'"):
        await journal.costs("nonsense")  # type: ignore[arg-type]


async def test_a_run_whose_price_was_not_known_then_is_counted_without_one(
    journal: Journal,
) -> None:
    writer = await journal.begin(started())
    await writer.append([*asks(1), finished(turns=1)])
    (row,) = (await journal.costs("day")).rows
    assert (row.key, row.responses, row.unpriced, row.usage, row.cost_usd) == (
        "2026-11-20",
        1,
        1,
        USED,
        None,
    )


# ---------------------------------------------------------------- export and import


async def test_a_run_is_taken_in_elsewhere_as_it_is(
    kind: Kind, journal: Journal, tmp_path: Path
) -> None:
    writer = await journal.begin(started(session="ada"))
    await writer.append(
        [
            *asks(1, "c"),
            gives("c", "x" * 20_000),
            *answers("run_1", "done"),
            finished(turns=2, tool_calls=1),
        ]
    )
    await writer.release()
    await writer.append([late("c")])
    data = await journal.read_bytes("run_1")
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        assert await other.add_run(data) == await journal.info("run_1")
        assert await other.read_bytes("run_1") == data
        assert await other.read("run_1") == await journal.read("run_1")
        if kind.durable:
            assert [(one.id, one.message_count) for one in other.sessions.list()] == [("ada", 5)]
        with refuses("invalid", "run_1 is already in this journal"):
            await other.add_run(data)
    finally:
        await other.aclose()


async def test_a_run_that_is_not_finished_can_be_gone_on_with_elsewhere(
    kind: Kind, journal: Journal, tmp_path: Path
) -> None:
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        assert (await other.add_run(await journal.read_bytes("run_1"))).status == "stopped"
        assert await (await other.take_over("run_1")).append([fact("b")]) == 3
    finally:
        await other.aclose()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: [data[0], b'{"type":"tool.late","at":"2026', *data[2:]], "entry 2"),
        (
            lambda data: [data[0], data[1], b'{"type":"dream","at":"2026-11-20T10:00:00Z"}'],
            "entry 3.*'dream'",
        ),
        (lambda data: data[1:], "entry 1: a run must begin"),
        (lambda data: [data[0], data[0]], "entry 2: a run must begin"),
        (lambda data: [], "no entry"),
    ],
)
async def test_a_broken_import_is_refused_with_the_number_of_the_entry(
    kind: Kind,
    journal: Journal,
    tmp_path: Path,
    spoil: Callable[[list[bytes]], list[bytes]],
    said: str,
) -> None:
    await says(journal, "run_1", "hello", "hello")
    data = await journal.read_bytes("run_1")
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        with refuses("invalid", said):
            await other.add_run(spoil(data))
        assert await other.runs() == []
    finally:
        await other.aclose()


async def test_a_fork_is_taken_in_after_the_run_that_it_came_from(
    kind: Kind, journal: Journal, tmp_path: Path
) -> None:
    await says(journal, "run_1", "hello", "hello")
    await says(journal, "run_2", "and now?", "now", fork=Fork(run_id="run_1", turn=1, seq=2))
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        with refuses("invalid", "forked from run_1, which is not in this journal"):
            await other.add_run(await journal.read_bytes("run_2"))
        await other.add_run(await journal.read_bytes("run_1"))
        assert (await other.add_run(await journal.read_bytes("run_2"))).forked_from == "run_1"
        assert [said.text for said in (await other.load("run_2")).context.history] == [
            "hello",
            "hello",
            "and now?",
            "now",
        ]
    finally:
        await other.aclose()


async def test_runs_that_are_taken_in_found_what_their_session_had_said_before(
    kind: Kind, journal: Journal, tmp_path: Path
) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    await says(journal, "run_2", "and now?", "now", session="ada")
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        for run_id in ("run_1", "run_2"):
            await other.add_run(await journal.read_bytes(run_id))
        assert [said.text for said in (await other.load("run_1")).context.history] == [
            "hello",
            "hi",
        ]
        assert [said.text for said in (await other.load("run_2")).context.history] == [
            "hello",
            "hi",
            "and now?",
            "now",
        ]
    finally:
        await other.aclose()


async def test_a_run_is_taken_in_although_another_one_of_its_session_is_not_finished(
    kind: Kind, journal: Journal, tmp_path: Path
) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        await other.begin(started("run_2", "and now?", session="ada"))
        assert (await other.add_run(await journal.read_bytes("run_1"))).status == "finished"
    finally:
        await other.aclose()


async def test_a_fork_that_is_taken_in_brings_its_past_into_its_session(
    kind: Kind, journal: Journal, tmp_path: Path
) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    await says(
        journal,
        "fork",
        "rather this",
        "that",
        session="new",
        fork=Fork(run_id="run_1", turn=1, seq=2),
    )
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        for run_id in ("run_1", "fork"):
            await other.add_run(await journal.read_bytes(run_id))
        assert [said.text for said in (await other.view("ada")).messages] == ["hello", "hi"]
        assert [said.text for said in (await other.view("new")).messages] == [
            "hello",
            "hi",
            "rather this",
            "that",
        ]
    finally:
        await other.aclose()


async def test_a_part_that_is_taken_in_says_nothing_in_its_session(
    kind: Kind, journal: Journal, tmp_path: Path
) -> None:
    writer = await journal.begin(started(session="ada"))
    part = await journal.begin(started("part", "look there", session="ada", parent="run_1"))
    await part.append([*answers("part", "nothing there"), finished(turns=1)])
    await writer.append([*answers("run_1", "hi"), finished(turns=1)])
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        for run_id in ("run_1", "part"):
            await other.add_run(await journal.read_bytes(run_id))
        assert [said.text for said in (await other.view("ada")).messages] == ["hello", "hi"]
    finally:
        await other.aclose()


async def test_a_run_that_is_taken_in_keeps_its_times(
    kind: Kind, journal: Journal, tmp_path: Path
) -> None:
    writer = await journal.begin(started(session="ada", minute=1))
    await writer.append([*asks(1, minute=2), finished(turns=1, minute=3)])
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        info = await other.add_run(await journal.read_bytes("run_1"))
        assert (info.started_at, info.updated_at) == (at(1), at(3))
    finally:
        await other.aclose()


async def _unfinished(journal: Journal) -> list[bytes]:
    """A run of another session, which its driver left."""
    writer = await journal.begin(started("left", session="eve", minute=5))
    await writer.append(asks(1, minute=6))
    await writer.release()
    return await journal.read_bytes("left")


async def test_a_run_that_is_taken_in_and_not_finished_keeps_others_of_its_session_from_beginning(
    kind: Kind, journal: Journal, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        info = await other.add_run(await _unfinished(journal))
        assert (info.started_at, info.updated_at, info.status) == (at(5), at(6), "stopped")
        with refuses("busy", "left"):
            await other.begin(started("run_2", session="eve"))
        await other.begin(started("run_2", session="ada"))
    finally:
        await other.aclose()


@pytest.mark.parametrize(
    "first", [b"", b"\xff", b"{", b"[]", b'{"schema":"new"}', b'{"schema":[]}']
)
async def test_what_is_no_run_at_all_is_not_taken_in(journal: Journal, first: bytes) -> None:
    with refuses("invalid", "entry 1: "):
        await journal.add_run([first])
    assert await journal.runs() == []


# ---------------------------------------------------------------- pruning


async def test_pruning_takes_away_what_is_old_and_finished(journal: Journal) -> None:
    await says(journal, "old", "hello", "hello", minute=1)
    await journal.begin(started("old, but not finished", minute=1))
    await says(journal, "new", "hello", "hello", minute=5)
    would = await journal.prune(at(3), apply=False)
    assert (would.runs, would.kept) == (("old",), ())
    assert would.size_bytes > 100
    assert len(await journal.runs()) == 3
    assert await journal.prune(at(3), apply=True) == would
    assert {run.run_id for run in await journal.runs()} == {"old, but not finished", "new"}
    assert (await journal.prune(at(3), apply=True)).runs == ()


async def test_what_runs_that_stay_were_forked_from_stays(journal: Journal) -> None:
    await says(journal, "root", "hello", "hello", minute=1)
    await says(journal, "branch", "and?", "so", minute=1, fork=Fork(run_id="root", turn=1, seq=2))
    await says(journal, "other", "hello", "hello", minute=1)
    await says(journal, "leaf", "and?", "so", minute=5, fork=Fork(run_id="branch", turn=1, seq=2))
    freed = await journal.prune(at(3), apply=True)
    assert (freed.runs, set(freed.kept)) == (("other",), {"root", "branch"})
    assert [said.text for said in (await journal.load("leaf")).context.history] == [
        "hello",
        "hello",
        "and?",
        "so",
        "and?",
        "so",
    ]
    would = await journal.prune(at(9), apply=False)
    assert (set(would.runs), would.kept) == ({"root", "branch", "leaf"}, ())
    assert await journal.prune(at(9), apply=True) == would


async def test_what_is_just_as_old_as_that_stays(journal: Journal) -> None:
    await says(journal, "run_1", "hello", "hello", minute=1)
    await says(journal, "run_2", "hello", "hello", minute=3)
    assert (await journal.prune(at(3), apply=True)).runs == ("run_1",)
    assert [run.run_id for run in await journal.runs()] == ["run_2"]


async def test_a_run_goes_together_with_those_that_it_started(journal: Journal) -> None:
    await says(journal, "ended", "hello", "hello", minute=1)
    await says(journal, "its child", "hello", "hello", minute=1, parent="ended")
    await journal.begin(started("waits", minute=1))
    await says(journal, "the child of one that waits", "hello", "hello", minute=1, parent="waits")
    await says(
        journal, "below that", "hello", "hello", minute=1, parent="the child of one that waits"
    )
    freed = await journal.prune(at(3), apply=True)
    assert (set(freed.runs), set(freed.kept)) == (
        {"ended", "its child"},
        {"the child of one that waits", "below that"},
    )
    assert [info.run_id for info in await journal.children("waits")] == [
        "the child of one that waits"
    ]
    assert await journal.children("ended") == []


async def test_a_fork_is_counted_again_once_runs_before_the_one_it_was_forked_from_are_deleted(
    kind: Kind, journal: Journal
) -> None:
    """Its history is that run's, with what came before it in a session of its own."""
    if not kind.durable:
        pytest.skip("sessions in memory are told of messages by the loop")
    for minute in range(3):
        await says(journal, f"run_{minute}", "hello", "hello", session="bob", minute=minute)
    await says(
        journal,
        "fork",
        "hello",
        "hello",
        session="cleo",
        fork=Fork(run_id="run_2", turn=1, seq=2),
        minute=9,
    )
    before = {info.id: info.message_count for info in journal.sessions.list()}
    assert before == {"bob": 6, "cleo": len(journal.sessions.get_messages("cleo"))}
    assert (await journal.remove(["run_0", "run_1"])).runs == ("run_0", "run_1")
    for _ in range(2):  # counted, and kept
        counts = {info.id: info.message_count for info in journal.sessions.list()}
        assert counts == {
            session_id: len(journal.sessions.get_messages(session_id)) for session_id in before
        }
    assert all(counts[session_id] < before[session_id] for session_id in before)


# ---------------------------------------------------------------- closing


async def test_closing_twice_is_closing_once(kind: Kind, tmp_path: Path) -> None:
    opened = await kind.open(tmp_path)
    await opened.begin(started())
    await opened.aclose()
    await opened.aclose()


async def test_what_was_in_memory_is_gone_after_closing() -> None:
    journal = MemoryJournal()
    await says(journal, "run_1", "hello", "hello")
    await journal.aclose()
    assert await journal.runs() == []


async def test_what_is_durable_is_there_after_closing(kind: Kind, tmp_path: Path) -> None:
    first = await kind.open(tmp_path)
    writer = await first.begin(started())
    await writer.append([fact("a")])
    await first.aclose()
    second = await kind.open(tmp_path)
    try:
        if kind.durable:
            assert await entries_of(second) == [started(), fact("a")]
            assert (await second.info("run_1")).status == "stopped"
            assert await (await second.take_over("run_1")).append([fact("b")]) == 3
        else:
            assert await second.runs() == []
    finally:
        await second.aclose()


async def test_a_message_that_was_added_by_hand_is_in_view(journal: Journal) -> None:
    journal.sessions.create(session_id="ada")
    assert journal.sessions.add_message("ada", message("a note"))
    assert [said.text for said in journal.sessions.get_messages("ada")] == ["a note"]


# ---------------------------------------------------------------- removing


async def test_runs_that_are_named_go_with_those_that_they_started(journal: Journal) -> None:
    await says(journal, "run_1", "hello", "hello", minute=1)
    await says(journal, "its child", "hello", "hello", minute=1, parent="run_1")
    await says(journal, "run_2", "hello", "hello", minute=1)
    freed = await journal.remove(["run_1", "never was"])
    assert (set(freed.runs), freed.kept) == ({"run_1", "its child"}, ())
    assert freed.size_bytes > 100
    assert [run.run_id for run in await journal.runs()] == ["run_2"]
    assert (await journal.remove(["run_1"])).runs == ()


async def test_what_is_not_finished_is_not_removed_nor_anything_with_it(journal: Journal) -> None:
    await says(journal, "run_1", "hello", "hello", minute=1)
    await journal.begin(started("run_2", minute=1))
    with refuses("busy", "run_2"):
        await journal.remove(["run_1", "run_2"])
    assert len(await journal.runs()) == 2


async def test_what_a_fork_needs_is_kept_with_its_tree_unless_the_fork_goes_too(
    journal: Journal,
) -> None:
    await says(journal, "root", "hello", "hello", minute=1)
    await says(journal, "its child", "hello", "hello", minute=1, parent="root")
    await says(journal, "branch", "and?", "so", minute=1, fork=Fork(run_id="root", turn=1, seq=2))
    freed = await journal.remove(["root"])
    assert (freed.runs, set(freed.kept)) == ((), {"root", "its child"})
    freed = await journal.remove(["root", "branch"])
    assert (set(freed.runs), freed.kept) == ({"root", "its child", "branch"}, ())


async def test_a_run_that_is_taken_in_goes_on_under_higher_fences(
    kind: Kind, journal: Journal, tmp_path: Path
) -> None:
    await (await journal.begin(started())).release()
    for _ in range(2):
        writer = await journal.take_over("run_1")
        await writer.append([resumed(fence=writer.fence)])
        await writer.release()
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        await other.add_run(await journal.read_bytes("run_1"))
        assert (await other.take_over("run_1")).fence == 4
    finally:
        await other.aclose()


async def test_a_run_that_is_taken_in_with_a_late_result_waits_for_nobody(
    kind: Kind, journal: Journal, tmp_path: Path
) -> None:
    writer = await journal.begin(started())
    question = ApprovalAsked(at=AT, call_id="c1", name="t", arguments_json="{}", reason="asks")
    await writer.append([*asks(1, "c1"), question])
    await writer.append([ToolLate(at=AT, call_id="c1", text="sent", status="ok")])
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        info = await other.add_run(await journal.read_bytes("run_1"))
        assert info.status == "stopped"
        assert (await other.load("run_1")).asked == {}
    finally:
        await other.aclose()


@pytest.mark.parametrize("queued", [True, False])
async def test_a_late_result_that_wakes_a_run_is_all_that_it_waited_for(
    journal: Journal, *, queued: bool
) -> None:
    if queued:
        await journal.queue.add([started()], QueuePlace())
        writer = await journal.take_over("run_1")
    else:
        writer = await journal.begin(started())
    question = ApprovalAsked(at=AT, call_id="c1", name="t", arguments_json="{}", reason="asks")
    await writer.append([*asks(1, "c1"), question])
    await writer.release(waiting=True)
    await writer.append([late("c2", "another")])
    assert (await journal.info("run_1")).status == "waiting"
    await writer.append([ToolLate(at=AT, call_id="c1", text="sent", status="ok")], wakes=True)
    assert (await journal.info("run_1")).status == ("queued" if queued else "stopped")
    tickets = await journal.queue.claim(["default"], engine="local", most=1)
    assert [ticket.run_id for ticket in tickets] == (["run_1"] if queued else [])


@pytest.mark.parametrize("asked", [True, False])
async def test_a_run_that_is_taken_in_with_a_question_waits_for_its_person(
    kind: Kind, journal: Journal, tmp_path: Path, *, asked: bool
) -> None:
    writer = await journal.begin(started())
    await writer.append(asks(1, "c1"))
    if asked:
        await writer.append(
            [ApprovalAsked(at=AT, call_id="c1", name="t", arguments_json="{}", reason="asks")]
        )
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        info = await other.add_run(await journal.read_bytes("run_1"))
        assert info.status == ("waiting" if asked else "stopped")
        assert await other.left_behind(limit=10) == ([] if asked else ["run_1"])
    finally:
        await other.aclose()

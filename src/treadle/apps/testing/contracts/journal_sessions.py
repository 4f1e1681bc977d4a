"""Contract of every journal: sessions, stop requests, reading and lists."""

from __future__ import annotations

import os
import socket

import anyio
import anyio.lowlevel
import msgspec
import pytest

from treadle.apps.testing.contracts.runs import (
    AT,
    answers,
    asks,
    at,
    fact,
    finished,
    gives,
    refuses,
    resumed,
    says,
    started,
)
from treadle.journal.entries import (
    CancelAsked,
    Fork,
)
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.run_info import Holder
from treadle.types import Outcome, Usage

FINISHED = finished()


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

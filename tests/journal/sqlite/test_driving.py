"""What the file itself refuses, whoever asks."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import anyio
import anyio.lowlevel
import apsw
import msgspec
import pytest

from tests.journal.runs import (
    AT,
    asks,
    at,
    begun,
    entries_of,
    fact,
    finished,
    gives,
    late,
    refuses,
    resumed,
    says,
    started,
)
from tests.journal.sqlite.conftest import Look
from treadle.errors import AgentError
from treadle.journal.entries import Compaction
from treadle.journal.run_info import NEAR_MOST, UnknownRun
from treadle.journal.sqlite import SqliteJournal


async def test_a_call_has_one_result(journal: SqliteJournal) -> None:
    writer = await journal.begin(started())
    await writer.append([begun("c"), gives("c", "first")])
    with refuses("agent", "one_result|UNIQUE"):
        await writer.append([fact("a"), gives("c", "second")])
    assert await entries_of(journal, after=1) == [begun("c"), gives("c", "first")]
    assert await writer.append([fact("b")]) == 4


async def test_an_attempt_of_a_call_starts_once(journal: SqliteJournal) -> None:
    writer = await journal.begin(started())
    await writer.append([begun("c")])
    with refuses("agent", "UNIQUE"):
        await writer.append([begun("c")])
    await writer.append([begun("c", attempt=2)])
    other = await journal.begin(started("run_2"))
    await other.append([begun("c"), gives("c")])
    assert await entries_of(journal, after=1) == [begun("c"), begun("c", attempt=2)]


async def test_a_run_in_which_an_attempt_starts_twice_is_not_taken_in(
    journal: SqliteJournal,
) -> None:
    run = [started(), *asks(1, "c"), begun("c"), gives("c"), finished()]
    with refuses("invalid", "two results, or two starts"):
        await journal.add_run([entry.to_json() for entry in run])
    assert await journal.runs() == []


async def test_nobody_changes_or_deletes_an_entry(journal: SqliteJournal, look: Look) -> None:
    await says(journal, "run_1", "hello", "hello")
    for sql in (
        "update entries set body = x'00'",
        "update entries set place = place + 100",
        "delete from entries",
        "delete from entries where seq = 2",
    ):
        with pytest.raises(apsw.ConstraintError, match="an entry is never"):
            look(sql)
    assert len(await entries_of(journal)) == 3


async def test_a_driver_that_missed_an_entry_appends_nothing(
    journal: SqliteJournal, look: Look
) -> None:
    writer = await journal.begin(started())
    look(
        "insert into entries(place, type, body) select place + 1, 'model.switched', ? from entries",
        fact("x").to_json(),
    )
    look("update runs set head = 2")
    with refuses("busy", "Nothing was appended"):
        await writer.append([fact("a")])
    assert await entries_of(journal, after=1) == [fact("x")]


async def test_nothing_but_what_comes_late_follows_the_end(journal: SqliteJournal) -> None:
    writer = await journal.begin(started())
    with refuses("invalid", "only tool.late can follow"):
        await writer.append([finished(), fact("a")])
    assert await writer.append([*asks(1, "c"), finished(), late("c")]) == 2
    with refuses("busy"):
        await writer.append([late("d"), fact("a")])
    assert await writer.append([late("d")]) == 7


async def test_the_end_lets_go_of_the_run_in_its_own_transaction(
    journal: SqliteJournal, look: Look
) -> None:
    writer = await journal.begin(started())
    assert look("select owner is null, finished from runs") == [(0, None)]
    await writer.append([fact("a"), finished()])
    assert look("select owner is null, finished, head from runs") == [(1, 3, 3)]


async def test_whoever_ends_a_run_keeps_what_a_list_shows_of_it(
    journal: SqliteJournal, look: Look
) -> None:
    await says(journal, "run_1", "hello", "hello")
    await (await journal.begin(started("run_2"))).release()
    writer = await journal.take_over("run_2")
    await writer.append([resumed(2), finished()])
    assert look("select counted from runs") == [(1,), (1,)], "lists need not read their entries"


async def test_an_empty_append_appends_nothing(journal: SqliteJournal) -> None:
    writer = await journal.begin(started())
    assert await writer.append([]) == 2
    assert await writer.append([fact("a")]) == 2


async def test_call_ids_that_utf_8_cannot_hold_are_told_apart(journal: SqliteJournal) -> None:
    writer = await journal.begin(started())
    await writer.append([begun("\ud800"), begun("\ud801"), gives("\ud800"), gives("\ud801")])
    with refuses("agent", "UNIQUE"):
        await writer.append([gives("\ud800")])


async def test_a_run_id_that_utf_8_cannot_hold_is_refused(journal: SqliteJournal) -> None:
    with refuses("invalid", "is not a run id"):
        await journal.begin(started("\ud800"))
    with refuses("invalid", "unknown run"):
        await journal.read("\ud800")


async def test_a_second_run_of_a_session_is_told_what_to_do_about_the_first(
    journal: SqliteJournal,
) -> None:
    writer = await journal.begin(started(session="ada"))
    with refuses(
        "busy",
        f"run_1 of this session is running already, in process {os.getpid()}: wait for its end, or stop it with `treadle runs kill run_1`",
    ):
        await journal.begin(started("run_2", session="ada"))
    await writer.release(waiting=True)
    with refuses(
        "busy",
        "run_1 of this session is not finished: `treadle runs resume run_1` continues it, `treadle runs kill run_1` closes it",
    ):
        await journal.begin(started("run_2", session="ada"))
    with refuses("invalid", "'run_2'"):
        await journal.read("run_2")


async def test_a_list_goes_on_past_a_run_that_a_newer_version_wrote(
    journal: SqliteJournal, look: Look
) -> None:
    writer = await journal.begin(started())
    look(
        "insert into entries(place, type, body) select place + 1, 'dream', ? from entries",
        b'{"type":"dream","at":"2026-11-20T10:00:00Z"}',
    )
    await writer.release()
    await says(journal, "run_2", "hello", "hello")
    runs = await journal.runs()
    assert [(run.run_id, run.status, run.agent) for run in runs] == [
        ("run_2", "finished", "a"),
        ("run_1", "stopped", "a"),
    ]
    assert [(run.turns, run.tool_calls) for run in runs] == [(1, 0), (0, 0)]
    with refuses("invalid", "'dream'"):
        await journal.read("run_1")


async def test_what_is_durable_at_once_is_what_must_not_happen_twice(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treadle.journal.sqlite import writer as writing

    levels: list[int] = []

    def look() -> None:
        levels.append(journal._writer._db.execute("pragma synchronous").get)

    monkeypatch.setattr(writing, "boundary", look)
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    for effect in ("pure", "idempotent", "once"):
        await writer.append(asks(1, effect, effect=effect))
        await writer.append([gives(effect)])
    await journal.aclose()
    normal, full = 1, 2
    assert levels == [normal, normal] * 5 + [full, full] + [normal, normal]

    levels.clear()
    journal = SqliteJournal.open(path, durability="power")
    writer = await journal.take_over("run_1")
    await writer.append([resumed(2)])
    await journal.aclose()
    assert levels == [full, full]


async def test_a_list_goes_on_past_a_run_in_which_a_receipt_cannot_be_read(
    journal: SqliteJournal,
) -> None:
    writer = await journal.begin(started(session="ada"))
    await writer.append([Compaction(at=AT, receipt="from a newer version"), *asks(1)])
    await writer.release()
    await says(journal, "run_2", "hello", "hello")
    assert [(run.run_id, run.turns) for run in await journal.runs()] == [("run_2", 1), ("run_1", 0)]
    assert [row.runs for row in (await journal.costs("session")).rows] == [1]


async def test_among_many_runs_the_newest_is_the_one_that_was_probably_meant(
    journal: SqliteJournal, look: Look
) -> None:
    await says(journal, "run_old", "hello", "hello")
    columns = "session, parent, fork_of, schema, owner, fence, head, waiting, finished, indexed, started_at_us, updated_at_us, summary, counted"
    numbers = (
        "with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 1100)"
    )
    look(f"{numbers} insert into runs(id, {columns}) select 'x' || n, {columns} from numbers, runs")
    await says(journal, "run_new", "hello", "hello")
    with pytest.raises(UnknownRun) as caught:
        await journal.info("rum_new")
    assert caught.value.message == "unknown run 'rum_new'. Did you mean run_new?"
    assert len(caught.value.args[1]) == NEAR_MOST, "the read is bounded"
    with refuses("invalid", r"Did you mean run_old or run_new\?"):
        await journal.info("run_")


async def test_a_session_comes_first_when_a_run_begins_in_it_and_when_one_ends(
    journal: SqliteJournal,
) -> None:
    def listed() -> list[tuple[str, datetime]]:
        return [(one.id, one.updated_at) for one in journal.sessions.list()]

    first = await journal.begin(started("run_1", session="ada", minute=1))
    second = await journal.begin(started("run_2", session="eve", minute=2))
    assert listed() == [("eve", at(2)), ("ada", at(1))]
    await first.append([finished(minute=3)])
    assert listed() == [("ada", at(3)), ("eve", at(2))]
    await second.append([*asks(1, "c"), gives("c"), finished(minute=4)])
    await journal.begin(started("run_3", session="ada", minute=5))
    assert listed() == [("ada", at(5)), ("eve", at(4))]
    await second.append([msgspec.structs.replace(late("c"), at=at(6))])
    assert listed() == [("eve", at(6)), ("ada", at(5))]


async def test_who_was_fenced_off_takes_nobody_along_in_one_transaction(path: Path) -> None:
    journal, other = SqliteJournal.open(path, busy_timeout_s=20), SqliteJournal.open(path)
    writers = [await journal.begin(started(f"run_{n}")) for n in range(8)]
    await other.take_over("run_3", force=True)
    refused: list[int] = []

    async def append(number: int) -> None:
        try:
            await writers[number].append([fact("a")])
        except AgentError:
            refused.append(number)

    blocker = apsw.Connection(str(path))
    blocker.execute("begin immediate")
    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(append, number)
        await anyio.lowlevel.checkpoint()
        blocker.execute("commit")
    blocker.close()
    assert refused == [3]
    for number in range(8):
        assert len(await journal.read(f"run_{number}")) == (1 if number == 3 else 2)
    await other.aclose()
    await journal.aclose()

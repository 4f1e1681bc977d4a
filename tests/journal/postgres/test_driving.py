"""What the tables themselves refuse, whoever asks; and appends of many runs in one statement."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from tests.journal.postgres.conftest import Look
from tests.journal.runs import (
    asks,
    begun,
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
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.entries import Entry, InputAdded
from treadle.journal.journal import Journal, RunWriter
from treadle.types import now

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")

import psycopg

from treadle.journal.postgres import lane
from treadle.journal.postgres import writer as writing
from treadle.journal.tables.sealing import Seal

LONG = "long " * 4000


async def test_a_call_has_one_result(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([begun("c"), gives("c", "first")])
    with refuses("agent", "one_result.*nothing was appended"):
        await writer.append([fact("a"), gives("c", "second")])
    assert await entries_of(journal, after=1) == [begun("c"), gives("c", "first")]
    assert await writer.append([fact("b")]) == 4


async def test_an_attempt_of_a_call_starts_once(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([begun("c")])
    with refuses("agent", "one_start"):
        await writer.append([begun("c")])
    await writer.append([begun("c", attempt=2)])
    other = await journal.begin(started("run_2"))
    await other.append([begun("c"), gives("c")])
    assert await entries_of(journal, after=1) == [begun("c"), begun("c", attempt=2)]


async def test_the_end_is_refused_with_a_second_result_and_comes_without_it(
    journal: Journal,
) -> None:
    writer = await journal.begin(started(session="ada"))
    await writer.append([*asks(1, "c"), gives("c")])
    with refuses("agent", "one_result"):
        await writer.append([gives("c"), finished()])
    assert (await journal.info("run_1")).status == "running"
    await writer.append([finished()])
    assert (await journal.info("run_1")).status == "finished"
    assert [one.message_count for one in journal.sessions.list()] == [3]


async def test_a_driver_that_missed_an_entry_appends_nothing(journal: Journal, look: Look) -> None:
    writer = await journal.begin(started())
    look(
        "insert into treadle.entries(place, type, body) select place + 1, 'model.switched', %s from treadle.entries",
        fact("x").to_json(),
    )
    look("update treadle.runs set head = 2")
    for entries in ([fact("a")], [finished()], [late("c")]):
        with refuses("busy", "run_1 is no longer held by this driver.*Nothing was appended"):
            await writer.append(entries)
    assert await entries_of(journal, after=1) == [fact("x")]


async def test_a_driver_of_an_older_fence_appends_nothing(journal: Journal, look: Look) -> None:
    writer = await journal.begin(started())
    look("update treadle.runs set fence = 2")
    for entries in ([fact("a")], [finished()], [late("c")]):
        with refuses("busy"):
            await writer.append(entries)
    assert await entries_of(journal, after=1) == []


async def test_a_driver_that_owns_the_run_no_more_appends_nothing_but_what_comes_late(
    journal: Journal, look: Look
) -> None:
    writer = await journal.begin(started())
    look("update treadle.runs set owner = 'another'")
    for entries in ([fact("a")], [finished()]):
        with refuses("busy"):
            await writer.append(entries)
    assert await writer.append([late("c")]) == 2


async def test_nothing_but_what_comes_late_follows_the_end(journal: Journal) -> None:
    writer = await journal.begin(started())
    with refuses("invalid", "only tool.late can follow"):
        await writer.append([finished(), fact("a")])
    assert await writer.append([*asks(1, "c"), finished(), late("c")]) == 2
    with refuses("busy"):
        await writer.append([late("d"), fact("a")])
    assert await writer.append([late("d")]) == 7


async def test_the_end_lets_go_of_the_run_in_its_own_transaction(
    journal: Journal, look: Look
) -> None:
    writer = await journal.begin(started())
    assert look("select owner is null, finished from treadle.runs") == [(False, None)]
    await writer.append([fact("a"), finished()])
    assert look("select owner is null, finished, head from treadle.runs") == [(True, 3, 3)]


async def test_whoever_ends_a_run_keeps_what_a_list_shows_of_it(
    journal: Journal, look: Look
) -> None:
    await says(journal, "run_1", "hello", "hello")
    await (await journal.begin(started("run_2"))).release()
    writer = await journal.take_over("run_2")
    await writer.append([resumed(2), finished()])
    assert look("select counted from treadle.runs") == [(1,), (1,)], (
        "lists need not read their entries"
    )


async def test_an_empty_append_appends_nothing(journal: Journal) -> None:
    writer = await journal.begin(started())
    assert await writer.append([]) == 2
    assert await writer.append([fact("a")]) == 2


async def test_a_run_that_waited_in_a_queue_is_ready_again_when_it_is_let_go(
    journal: Journal, look: Look
) -> None:
    writer = await journal.begin(started())
    look("update treadle.runs set queue = 'default', sent_to = owner, waiting = 1")
    await writer.release()
    assert look(
        "select owner, sent_to, waiting, ready_at_us between 1 and treadle.now_us() from treadle.runs"
    ) == [(None, None, 0, True)]
    look("update treadle.runs set sent_to = 'engine:x'")
    await (await journal.take_over("run_1")).append([resumed(2), finished()])
    assert look("select sent_to, queue from treadle.runs") == [(None, "default")]


async def test_a_session_has_one_open_run_however_many_begin_at_once(
    journal: Journal, postgres_url: str
) -> None:
    other = open_journal(postgres_url)
    refused: list[str] = []

    async def begin(number: int) -> None:
        try:
            await (journal, other)[number % 2].begin(started(f"run_{number}", session="ada"))
        except AgentError as e:
            refused.append(e.kind)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(begin, number)
    assert refused == ["busy"] * 9
    assert len(await journal.runs()) == 1
    await other.aclose()


async def test_of_many_that_begin_one_run_one_does(journal: Journal, postgres_url: str) -> None:
    others = [open_journal(postgres_url) for _ in range(3)]
    begun_by: list[RunWriter] = []
    refused: list[str] = []

    async def begin(one: Journal) -> None:
        try:
            begun_by.append(await one.begin(started(session="ada")))
        except AgentError as e:
            refused.append(e.kind)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for one in (journal, *others):
                group.start_soon(begin, one)
    assert len(begun_by) == 1
    assert refused == ["busy"] * 3
    assert await begun_by[0].append([fact("a")]) == 2
    for one in others:
        await one.aclose()


# ---------------------------------------------------------------- many at once


class Statements:
    """How many appends stood in each statement."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        append_all = lane.append_all

        def counted(db: object, appends: list[object], seal: Seal | None) -> set[int]:
            self.sizes.append(len(appends))
            return append_all(db, appends, seal)  # pyright: ignore[reportArgumentType]  as they came

        monkeypatch.setattr(lane, "append_all", counted)


async def _at_once(url: str, appends: dict[RunWriter, list[Entry]]) -> dict[str, AgentError]:
    """Handed in while the server holds all of them up, so that many come into one statement."""
    failed: dict[str, AgentError] = {}

    async def append(writer: RunWriter, entries: list[Entry]) -> None:
        try:
            await writer.append(entries)
        except AgentError as e:
            failed[writer.run_id] = e

    with psycopg.connect(url) as blocker:
        blocker.execute("lock table treadle.entries in share mode")
        async with anyio.create_task_group() as group:
            for writer, entries in appends.items():
                group.start_soon(append, writer, entries)
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            blocker.commit()
    return failed


async def test_many_runs_are_appended_to_in_few_statements(
    journal: Journal, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = [await journal.begin(started(f"run_{n}")) for n in range(40)]
    statements = Statements(monkeypatch)
    assert (
        await _at_once(postgres_url, {writer: [fact("a"), begun("c")] for writer in writers}) == {}
    )
    assert sum(statements.sizes) == 40
    assert len(statements.sizes) < 10
    for writer in writers:
        assert await entries_of(journal, writer.run_id, after=1) == [fact("a"), begun("c")]


async def test_large_appends_do_not_go_together(
    journal: Journal, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "TOGETHER_BYTES", 100_000)
    writers = [await journal.begin(started(f"run_{n}")) for n in range(12)]
    entries: dict[RunWriter, list[Entry]] = {
        writer: [fact(f"{n} {LONG}" * (1 + n))] for n, writer in enumerate(writers)
    }
    statements = Statements(monkeypatch)
    assert await _at_once(postgres_url, entries) == {}
    assert (sum(statements.sizes), max(statements.sizes) <= 5) == (12, True)
    for writer, (entry,) in entries.items():
        assert await entries_of(journal, writer.run_id, after=1) == [entry]


async def test_what_goes_wrong_with_one_leaves_the_others(
    journal: Journal, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_journal(postgres_url)
    writers = [await journal.begin(started(f"run_{n}")) for n in range(12)]
    for writer in writers:
        await writer.append([begun("c"), gives("c")])
    await other.take_over("run_3", force=True)
    statements = Statements(monkeypatch)
    entries: dict[RunWriter, list[Entry]] = {writer: [fact("a")] for writer in writers}
    entries[writers[7]] = [fact("a"), gives("c")]
    failed = await _at_once(postgres_url, entries)
    assert {run_id: error.kind for run_id, error in failed.items()} == {
        "run_3": "busy",
        "run_7": "agent",
    }
    assert max(statements.sizes) > 4
    for number, writer in enumerate(writers):
        assert len(await journal.read(writer.run_id)) == (3 if number in (3, 7) else 4)
    for number in {*range(12)} - {3}:
        await writers[number].append([fact("b")])
    await other.aclose()


async def test_long_texts_that_many_runs_share_are_kept_once(
    journal: Journal, look: Look, postgres_url: str
) -> None:
    texts = [f"{LONG} {n}" for n in range(4)]
    writers = [await journal.begin(started(f"run_{n}")) for n in range(12)]
    shared: list[Entry] = [
        InputAdded(at=now(), message=message(text, message_id="m"), by="user") for text in texts
    ]
    failed = await _at_once(
        postgres_url,
        {
            writer: [*shared, fact("a")] if n % 2 else [*reversed(shared)]
            for n, writer in enumerate(writers)
        },
    )
    assert failed == {}
    assert look("select count(*) from treadle.blobs") == [(4,)]
    for number, writer in enumerate(writers):
        assert await entries_of(journal, writer.run_id, after=1) == (
            [*shared, fact("a")] if number % 2 else [*reversed(shared)]
        )


async def test_what_is_refused_leaves_no_long_text_behind(journal: Journal, look: Look) -> None:
    writer = await journal.begin(started())
    look("update treadle.runs set fence = 2")
    with refuses("busy"):
        await writer.append([InputAdded(at=now(), message=message(LONG), by="user")])
    assert look(
        "select (select count(*) from treadle.blobs), (select count(*) from treadle.cuts)"
    ) == [(0, 0)]


async def test_long_texts_that_a_prune_takes_meanwhile_are_kept(
    journal: Journal, look: Look, postgres_url: str
) -> None:
    """The run that held them goes in the moment in which another one comes to share them."""
    writer = await journal.begin(started("run_1"))
    said: Entry = InputAdded(at=now(), message=message(LONG, message_id="m"), by="user")
    await (await journal.begin(started("run_old"))).append([said, finished()])
    with psycopg.connect(postgres_url) as pruning:
        pruning.execute("delete from treadle.cuts")
        pruning.execute("delete from treadle.blobs")
        async with anyio.create_task_group() as group:
            group.start_soon(writer.append, [said])
            for _ in range(100):
                if look(
                    "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
                ):
                    break
                await anyio.lowlevel.checkpoint()
            pruning.commit()
    assert await entries_of(journal, after=1) == [said]


async def test_appends_of_one_run_keep_their_order(journal: Journal) -> None:
    writer = await journal.begin(started())
    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(writer.append, [fact(str(number))])
    assert await entries_of(journal, after=1) == [fact(str(number)) for number in range(30)]


async def test_what_holds_entries_is_synced_whatever_the_server_is_set_to(
    journal: Journal, look: Look
) -> None:
    assert look("show synchronous_commit") == [("off",)]
    look("create table public.levels(level text)")
    look(
        "create function public.noted() returns trigger language plpgsql as "
        "$$ begin insert into public.levels values(current_setting('synchronous_commit')); return null; end $$"
    )
    look(
        "create trigger noted after insert on treadle.entries for each statement execute function public.noted()"
    )
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    await writer.append([finished()])
    assert look("select level from public.levels") == [("on",)] * 3


async def test_an_append_goes_on_while_its_caller_is_cancelled(journal: Journal) -> None:
    writer = await journal.begin(started())
    async with anyio.create_task_group() as group:
        group.start_soon(writer.append, [fact("a")])
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert await entries_of(journal, after=1) == [fact("a")]
    assert await writer.append([fact("b")]) == 3


async def test_a_closed_journal_takes_nothing(journal: Journal) -> None:
    writer = await journal.begin(started())
    await journal.aclose()
    with refuses("invalid", "is closed: open it again"):
        await writer.append([fact("a")])
    with refuses("invalid", "is closed: open it again"):
        await journal.begin(started("run_2"))
    with refuses("invalid", "is closed: open it again"):
        await journal.read("run_1")
    await writer.release()

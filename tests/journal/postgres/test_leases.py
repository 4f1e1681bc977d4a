"""What a lease is worth: by the database's clock for others, by what was sent when for its own
process.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence

import anyio
import pytest

from tests.journal.postgres.conftest import Look
from tests.journal.runs import begun, entries_of, fact, finished, gives, refuses, resumed, started
from treadle.errors import AgentError

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")

import psycopg

from treadle.journal.postgres import PostgresJournal, lane, workers
from treadle.journal.postgres.appending import PendingEntries
from treadle.journal.postgres.connections import PostgresServer
from treadle.journal.postgres.readers import PostgresReaders
from treadle.journal.postgres.workers import PostgresWorkers
from treadle.journal.tables.sealing import Seal

EXPIRE = "update treadle.workers set lease_until_us = treadle.now_us() - 1"
ALIVE = "select lease_until_us > treadle.now_us() from treadle.workers"


class Clock:
    """Of this process; the database has its own."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self._real = workers.clock

    def __call__(self) -> float:
        return self._real() + self.ahead_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(workers, "clock", clock)
    return clock


@pytest.fixture
async def journal(postgres_url: str) -> AsyncIterator[PostgresJournal]:
    """Whose thread does not renew its lease while a test lasts."""
    opened = PostgresJournal.open(postgres_url, lease_s=3600)
    yield opened
    await opened.aclose()


@pytest.fixture
async def other(postgres_url: str) -> AsyncIterator[PostgresJournal]:
    opened = PostgresJournal.open(postgres_url, lease_s=3600)
    yield opened
    await opened.aclose()


async def test_a_once_call_begins_without_a_question_while_the_lease_surely_holds(
    journal: PostgresJournal, look: Look
) -> None:
    writer = await journal.begin(started())
    before = look("select seen_at_us from treadle.workers")
    await writer.append([begun("c")])
    assert look("select seen_at_us from treadle.workers") == before


async def test_a_journal_that_closes_while_calls_still_run_keeps_its_lease(
    journal: PostgresJournal, other: PostgresJournal
) -> None:
    await journal.begin(started())
    await journal.aclose(keep_runs=True)
    await journal.aclose()
    with refuses("busy", "is being driven"):
        await other.take_over("run_1")
    journal._driven.workers.leave()  # pyright: ignore[reportPrivateUsage]  as when the process ends
    await other.take_over("run_1")


async def test_a_lease_that_ran_out_is_renewed_before_a_once_call_begins(
    journal: PostgresJournal, look: Look, clock: Clock
) -> None:
    writer = await journal.begin(started())
    look(EXPIRE)
    clock.ahead_s = 3601
    await writer.append([begun("p", effect="pure"), begun("i", effect="idempotent")])
    assert look(ALIVE) == [(False,)], "what may be done twice asks nobody"
    assert await writer.append([begun("c")]) == 4
    assert look(ALIVE) == [(True,)]


async def test_no_once_call_begins_where_somebody_took_the_run_meanwhile(
    journal: PostgresJournal, other: PostgresJournal, look: Look, clock: Clock
) -> None:
    writer = await journal.begin(started())
    look(EXPIRE)
    taken = await other.take_over("run_1")
    await taken.append([resumed(2)])
    clock.ahead_s = 3601
    with refuses("busy"):
        await writer.append([begun("c")])
    assert await entries_of(journal, after=1) == [resumed(2)]


async def test_no_once_call_begins_where_the_run_is_taken_right_after_its_append(
    journal: PostgresJournal,
    other: PostgresJournal,
    look: Look,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its start stands, the process sleeps past its lease, and somebody takes the run over."""
    writer = await journal.begin(started())
    append = journal._writer.append  # pyright: ignore[reportPrivateUsage]

    async def slow(appended: object) -> int:
        first = await append(appended)  # pyright: ignore[reportArgumentType]  as it came
        clock.ahead_s = 3601
        look(EXPIRE)
        await (await other.take_over("run_1")).append([resumed(2)])
        return first

    monkeypatch.setattr(journal._writer, "append", slow)  # pyright: ignore[reportPrivateUsage]
    with refuses("busy", "no longer held by this driver"):
        await writer.append([begun("c")])
    assert await entries_of(journal, after=1) == [begun("c"), resumed(2)]


async def test_no_once_call_begins_where_the_lease_cannot_be_renewed(
    journal: PostgresJournal, look: Look, clock: Clock
) -> None:
    writer = await journal.begin(started())
    clock.ahead_s = 3601
    look("alter table treadle.workers add constraint full_up check (seen_at_us < 0) not valid")
    with refuses(
        "busy",
        "its lease|lease of this process has expired and cannot be renewed, so another process may drive run run_1: its call does not begin",
    ):
        await writer.append([begun("c")])
    assert await entries_of(journal, after=1) == []
    look("alter table treadle.workers drop constraint full_up")


async def test_no_once_call_begins_where_the_run_was_taken_before_a_lease_that_ran_out_was_renewed(
    journal: PostgresJournal,
    other: PostgresJournal,
    look: Look,
    clock: Clock,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The start stands, its answer comes late: meanwhile the lease ran out, the run was taken, and
    the lease was renewed.
    """
    writer, workers = await journal.begin(started()), journal._driven.workers  # pyright: ignore[reportPrivateUsage]
    append = journal._writer.append  # pyright: ignore[reportPrivateUsage]

    async def late(appended: object) -> int:
        first = await append(appended)  # pyright: ignore[reportArgumentType]  as it came
        clock.ahead_s = 3601
        look(EXPIRE)
        await (await other.take_over("run_1")).append([resumed(2)])
        with psycopg.connect(postgres_url, autocommit=True) as db:
            workers._renew(db, workers.register())  # pyright: ignore[reportPrivateUsage]  as its thread does
        assert workers.holds()
        return first

    monkeypatch.setattr(journal._writer, "append", late)  # pyright: ignore[reportPrivateUsage]
    with refuses("busy", "no longer held by this driver"):
        await writer.append([begun("c")])
    assert await entries_of(journal, after=1) == [begun("c"), resumed(2)]


async def test_no_once_call_begins_where_the_run_was_taken_by_force_while_the_answer_to_its_start_was_lost(
    journal: PostgresJournal, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, append_all, calls = await journal.begin(started()), lane.append_all, list[bool]()

    def lost(
        db: psycopg.Connection, appends: Sequence[PendingEntries], seal: Seal | None
    ) -> set[int]:
        stood = append_all(db, appends, seal)
        if not calls:
            calls.append(True)
            look("update treadle.runs set fence = fence + 1, owner = null")
            db.close()
            raise psycopg.OperationalError("the connection was lost")
        return stood

    monkeypatch.setattr(lane, "append_all", lost)
    with refuses("busy", "no longer held by this driver"):
        await writer.append([begun("c")])
    assert await entries_of(journal, after=1) == [begun("c")], "its start stands"


async def test_a_lease_that_lapsed_is_asked_about_once(
    journal: PostgresJournal, look: Look, clock: Clock
) -> None:
    writer = await journal.begin(started())
    clock.ahead_s = 3601
    await writer.append([begun("a")])
    before = look("select seen_at_us from treadle.workers")
    await writer.append([begun("b")])
    assert look("select seen_at_us from treadle.workers") == before


async def test_who_takes_a_run_over_keeps_its_driver_from_renewing_until_that_is_done(
    journal: PostgresJournal, look: Look, postgres_url: str
) -> None:
    """Else one that wakes up between the look and the commit has a lease that holds, and begins a
    call that another one answers for.
    """
    await journal.begin(started())
    (me,) = look("select id from treadle.workers")[0]
    with psycopg.connect(postgres_url) as taking:
        taking.execute("set search_path = treadle")
        with psycopg.connect(postgres_url, autocommit=True) as renewing:
            renewing.execute("set lock_timeout = 100")
            of = PostgresWorkers(PostgresServer(postgres_url))
            from treadle.journal.postgres.database import cursor_of

            of.hold_still(cursor_of(taking), me)
            with pytest.raises(psycopg.errors.LockNotAvailable):
                renewing.execute(
                    "update treadle.workers set lease_until_us = treadle.now_us() + 1000000"
                )


async def test_a_take_over_that_waits_for_a_renewal_sees_it(
    journal: PostgresJournal, other: PostgresJournal, look: Look, postgres_url: str
) -> None:
    await journal.begin(started())
    look(EXPIRE)
    refused: list[AgentError] = []

    async def take() -> None:
        try:
            await other.take_over("run_1")
        except AgentError as e:
            refused.append(e)

    await other.begin(started("run_2"))
    with psycopg.connect(postgres_url) as renewing:
        renewing.execute(
            "update treadle.workers set lease_until_us = treadle.now_us() + 60000000, seen_at_us = treadle.now_us()"
        )
        async with anyio.create_task_group() as group:
            group.start_soon(take)
            with anyio.fail_after(20):
                while not look("select 1 from pg_locks where not granted"):
                    await anyio.sleep(0.005)  # looked at again, not waited for
            renewing.commit()
    assert [error.kind for error in refused] == ["busy"]


async def test_a_lease_that_was_given_in_the_future_is_none(
    journal: PostgresJournal, other: PostgresJournal, look: Look
) -> None:
    """The clock of the database was put back, or that of the server that took its place is behind."""
    await journal.begin(started())
    look(
        "update treadle.workers set seen_at_us = seen_at_us + 7200000000, lease_until_us = lease_until_us + 7200000000"
    )
    assert (await other.info("run_1")).status == "stopped"
    assert (await other.take_over("run_1")).fence == 2


async def test_a_clock_of_the_database_that_jumps_ahead_costs_time_and_no_entry(
    journal: PostgresJournal, other: PostgresJournal, look: Look
) -> None:
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    look(
        "update treadle.workers set seen_at_us = seen_at_us - 7200000000, lease_until_us = lease_until_us - 7200000000"
    )
    taken = await other.take_over("run_1")
    await taken.append([resumed(2)])
    with refuses("busy"):
        await writer.append([fact("b")])
    assert await entries_of(journal, after=1) == [fact("a"), resumed(2)]


async def test_two_journals_of_one_process_are_two_workers(
    journal: PostgresJournal, other: PostgresJournal
) -> None:
    await journal.begin(started())
    with refuses("busy", "is being driven by process"):
        await other.take_over("run_1")
    await journal.aclose()
    assert (await other.take_over("run_1")).fence == 2


async def test_a_worker_registers_when_it_drives_and_goes_when_it_closes(
    postgres_url: str, look: Look
) -> None:
    journal = PostgresJournal.open(postgres_url)
    assert await journal.runs() == []
    assert look("select count(*) from treadle.workers") == [(0,)]
    await journal.begin(started())
    assert look("select count(*) from treadle.workers") == [(1,)]
    await journal.aclose()
    assert look("select count(*) from treadle.workers") == [(0,)]


async def test_workers_that_died_more_than_a_day_ago_are_forgotten(
    journal: PostgresJournal, postgres_url: str, look: Look
) -> None:
    for worker, age_s in (("old", 90_000), ("recent", 80_000)):
        values = "%s, 'here', 1, 0, treadle.now_us() - %s, treadle.now_us() - %s"
        look(
            f"insert into treadle.workers(id, host, pid, since_us, seen_at_us, lease_until_us) values({values})",
            worker,
            age_s * 10**6,
            age_s * 10**6,
        )
    of = PostgresWorkers(PostgresServer(postgres_url))
    me = of.register()
    assert of.register() == me
    assert look("select id from treadle.workers order by id") == [("recent",), (me,)]
    of.leave()
    of.leave()


async def test_a_worker_whose_row_went_is_there_again_at_its_next_renewal(
    journal: PostgresJournal, postgres_url: str, look: Look
) -> None:
    looked = threading.Event()

    def look_too(db: object) -> None:
        if look("select 1 from treadle.workers"):
            looked.set()

    of = PostgresWorkers(PostgresServer(postgres_url), lease_s=1, look=look_too)
    me = of.register()
    look("delete from treadle.workers")
    assert await anyio.to_thread.run_sync(looked.wait, 30)
    assert look("select id from treadle.workers") == [(me,)]
    of.leave()


async def test_a_lease_is_renewed_after_a_lack_of_memory(
    journal: PostgresJournal, postgres_url: str
) -> None:
    looks, again = list[object](), threading.Event()

    def look_too(db: object) -> None:
        looks.append(db)
        if len(looks) == 1:
            raise MemoryError
        again.set()

    of = PostgresWorkers(PostgresServer(postgres_url), lease_s=1, look=look_too)
    of.register()
    assert await anyio.to_thread.run_sync(again.wait, 30)
    of.leave()


async def test_renewals_that_fail_are_counted_and_the_lease_is_lost_and_found(
    journal: PostgresJournal, postgres_url: str, look: Look
) -> None:
    of = PostgresWorkers(PostgresServer(postgres_url), lease_s=1)
    of.register()
    assert of.holds()
    look("alter table treadle.workers add constraint full_up check (seen_at_us < 0) not valid")

    async def until(what: Callable[[], bool]) -> None:
        with anyio.fail_after(30):
            while not what():
                await anyio.sleep(0.02)  # looked at again, not waited for

    await until(lambda: not of.holds())
    assert of.renewals_missed > 0
    look("alter table treadle.workers drop constraint full_up")
    await until(of.holds)
    of.leave()
    assert not of.holds()


async def test_a_renewal_that_is_not_answered_is_given_up(
    postgres_url: str, journal: PostgresJournal
) -> None:
    of = PostgresWorkers(PostgresServer(postgres_url), lease_s=1)
    of.register()
    with psycopg.connect(postgres_url) as silent, anyio.fail_after(30):
        silent.execute("lock table treadle.workers in exclusive mode")
        while of.renewals_missed < 2:
            await anyio.sleep(0.02)  # looked at again, not waited for
        silent.commit()
        while not of.holds():
            await anyio.sleep(0.02)
        silent.execute("lock table treadle.workers in exclusive mode")
        await anyio.to_thread.run_sync(of.leave)


async def test_a_dead_worker_and_none_are_nobody(
    journal: PostgresJournal, postgres_url: str, look: Look
) -> None:
    await journal.begin(started())
    (me,) = look("select id from treadle.workers")[0]
    of = PostgresWorkers(PostgresServer(postgres_url))
    with PostgresReaders(PostgresServer(postgres_url)) as readers:
        assert readers.read_now(lambda db: (of.of(db, None), of.of(db, "nobody"))) == (None, None)
        assert readers.read_now(lambda db: of.of(db, me)) is not None
        assert readers.read_now(of.living) == [me]
        look(EXPIRE)
        assert readers.read_now(lambda db: of.of(db, me)) is None
        assert readers.read_now(of.living) == []


async def test_a_run_goes_on_to_its_end_on_leases_that_run_out(
    journal: PostgresJournal, look: Look, clock: Clock
) -> None:
    writer = await journal.begin(started())
    for number in range(5):
        look(EXPIRE)
        clock.ahead_s += 3601
        await writer.append([begun(f"c{number}")])
        await writer.append([gives(f"c{number}")])
    await writer.append([finished()])
    assert (await journal.info("run_1")).entries == 12

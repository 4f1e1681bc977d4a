"""What every journal's queue does, wherever it is kept: one suite over all of them."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import anyio
import msgspec
import pytest

from tests.journal.processes import Process
from tests.journal.runs import answers, entries_of, finished, keeps, refuses, resumed, started
from tests.service.database.postgres import postgres_server as postgres_server
from tests.stores import JournalUrls, reuse_connections, sharded
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.entries import SCHEMA, Entry
from treadle.journal.journal import Journal
from treadle.journal.notifier import QUEUE, run_topic
from treadle.journal.queue import BEGINNINGS, FRUITLESS_MOST, Backlog, QueuePlace, WorkerCard
from treadle.journal.shards import ShardedJournal
from treadle.journal.tables.database import Work, Writing
from treadle.journal.tables.queue import TableQueue
from treadle.types import now

LEASE_S = 2.0
HERE = (socket.gethostname(), os.getpid())


@dataclass
class Shared:
    """A place where several processes keep one journal."""

    url: str
    folder: Path

    def open(self) -> Journal:
        return open_journal(self.url, lease_s=LEASE_S)


@pytest.fixture
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Shared:
    return shared_by(request.param, request, tmp_path)


def shared_by(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> Shared:
    if store == "sqlite":
        return Shared(f"sqlite:///{tmp_path / 'journal.db'}", tmp_path)
    urls: JournalUrls = request.getfixturevalue("journal_urls")
    if store == "shards":
        names = {name: urls((tmp_path, name), shard=True) for name in ("a", "b")}
        return Shared(sharded(tmp_path / "shards.yaml", names), tmp_path)
    return Shared(urls(tmp_path), tmp_path)


@pytest.fixture(params=["memory", "sqlite", "postgres", "shards"])
async def journal(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Journal]:
    if request.param in ("postgres", "shards"):
        reuse_connections(monkeypatch)
    is_here = request.param == "memory"
    opened = open_journal("memory:" if is_here else shared_by(request.param, request, tmp_path).url)
    yield opened
    await opened.aclose()


@pytest.fixture
def start(shared: Shared) -> Iterator[Callable[[], Process]]:
    running: list[Process] = []

    def begin() -> Process:
        process = Process("tests.journal.claimant", shared.url, str(LEASE_S))
        running.append(process)
        process.ready()
        return process

    yield begin
    for process in running:
        process.close()


Start = Callable[[], Process]


@pytest.fixture
async def here(shared: Shared) -> AsyncIterator[Journal]:
    opened = shared.open()
    yield opened
    await opened.aclose()


async def until_claimed(journal: Journal, engine: str = "local") -> list[str]:
    """What a dead process had, once that it is dead is known."""
    with anyio.fail_after(20):
        while not (found := await claimed(journal, engine=engine)):
            await anyio.sleep(0.05)
    return sorted(found)


over_processes = pytest.mark.parametrize("shared", ["sqlite", "postgres", "shards"], indirect=True)


async def claimed(
    journal: Journal, *queues: str, engine: str = "local", most: int = 100
) -> list[str]:
    return [
        ticket.run_id
        for ticket in await journal.queue.claim(queues or ("default",), engine=engine, most=most)
    ]


async def queued(journal: Journal, *run_ids: str, place: QueuePlace | None = None) -> None:
    for run_id in run_ids:
        await journal.queue.add([started(run_id)], place or QueuePlace())


async def backlog(journal: Journal, queue: str = "default") -> dict[str, int]:
    """What of it is not nothing."""
    (found,) = [one for one in await journal.queue.backlogs() if one.queue == queue]
    return counts(found)


def counts(found: Backlog) -> dict[str, int]:
    every = {
        state: getattr(found, state)
        for state in ("ready", "later", "sent", "running", "waiting", "parked")
    }
    return {state: count for state, count in every.items() if count}


def card(name: str = "ada", queues: Sequence[str] = ("default",)) -> WorkerCard:
    return WorkerCard(
        name=name,
        host=HERE[0],
        pid=HERE[1],
        version="1",
        engine="local",
        queues=tuple(queues),
        slots=4,
    )


# ---------------------------------------------------------------- in


async def test_a_run_is_added_whole_and_nobody_drives_it(journal: Journal) -> None:
    entries = [started("run_1", session="ada"), keeps("msg_a", "msg_b", 1)]
    await journal.queue.add(entries, QueuePlace(queue="nightly", priority=3, tenant="t"))
    assert await entries_of(journal) == entries
    info = await journal.info("run_1")
    assert (info.status, info.queue, info.tenant, info.parked, info.entries) == (
        "queued",
        "nightly",
        "t",
        None,
        2,
    )
    assert await journal.holder("ada") is None
    place = await journal.queue.place("run_1")
    assert place is not None
    assert (place.queue, place.priority, place.tenant) == ("nightly", 3, "t")
    assert [run.run_id for run in await journal.runs(session_id="ada")] == ["run_1"]


async def test_an_id_is_taken_once(journal: Journal) -> None:
    await queued(journal, "run_1")
    with refuses("busy"):
        await queued(journal, "run_1")
    with refuses("busy"):
        await journal.begin(started("run_1"))
    assert await claimed(journal) == ["run_1"]


async def test_a_session_has_one_run_at_a_time_also_one_that_waits_for_a_worker(
    journal: Journal,
) -> None:
    await journal.queue.add([started("run_1", session="ada")], QueuePlace())
    with refuses("busy"):
        await journal.begin(started("run_2", session="ada"))
    with refuses("busy"):
        await journal.queue.add([started("run_2", session="ada")], QueuePlace())
    writer = await journal.take_over("run_1")
    await writer.append([resumed(1), *answers("run_1", "hi"), finished(turns=1)])
    await journal.queue.add([started("run_2", session="ada")], QueuePlace())
    assert [run.status for run in await journal.runs(session_id="ada")] == ["queued", "finished"]


async def test_the_first_driver_of_a_queued_run_has_the_first_fence(journal: Journal) -> None:
    await queued(journal, "run_1")
    writer = await journal.take_over("run_1")
    assert writer.fence == 1
    assert (await journal.info("run_1")).status == "running"
    assert await writer.append([resumed(1), finished()]) == 2
    assert (await journal.info("run_1")).status == "finished"
    assert await journal.queue.backlogs() == []


async def test_what_is_of_a_run_that_is_not_there_is_refused(journal: Journal) -> None:
    for what in (
        journal.queue.put_back("run_1"),
        journal.queue.park("run_1", "why"),
        journal.queue.place("run_1"),
    ):
        with refuses("invalid"):
            await what


# ---------------------------------------------------------------- out


async def test_the_higher_priority_goes_first_and_of_equals_the_older(journal: Journal) -> None:
    for n, priority in enumerate((0, 5, -5, 5, 0)):
        await queued(journal, f"run_{n}", place=QueuePlace(priority=priority))
    assert await claimed(journal, most=2) == ["run_1", "run_3"]
    assert await claimed(journal) == ["run_0", "run_4", "run_2"]
    assert await claimed(journal) == []


async def test_order_is_kept_over_queues_and_others_are_left(journal: Journal) -> None:
    for n, (queue, priority) in enumerate((("a", 0), ("b", 1), ("c", 9), ("a", 2))):
        await queued(journal, f"run_{n}", place=QueuePlace(queue=queue, priority=priority))
    assert await claimed(journal, "a", "b", "unknown") == ["run_3", "run_1", "run_0"]
    assert await claimed(journal, "a", "b") == []
    assert await journal.queue.claim((), engine="local", most=5) == []
    assert await journal.queue.claim(("c",), engine="local", most=0) == []
    assert [one.queue for one in await journal.queue.backlogs()] == ["a", "b", "c"]


async def test_a_ticket_says_all_that_an_engine_needs(journal: Journal) -> None:
    at = now() - timedelta(hours=1)
    await queued(journal, "run_1", place=QueuePlace(queue="q", priority=7, tenant="t", ready_at=at))
    (ticket,) = await journal.queue.claim(["q"], engine="local", most=1)
    assert (
        ticket.run_id,
        ticket.queue,
        ticket.priority,
        ticket.tenant,
        ticket.delivery,
        ticket.fruitless,
    ) == ("run_1", "q", 7, "t", 1, 1)
    assert ticket.queued_at == at
    await journal.queue.put_back("run_1")
    (again,) = await journal.queue.claim(["q"], engine="local", most=1)
    assert (again.delivery, again.fruitless) == (2, 2)
    assert again.queued_at > at


async def test_a_run_waits_for_its_time(journal: Journal) -> None:
    soon, past = now() + timedelta(hours=1), now() - timedelta(hours=1)
    await queued(journal, "run_1", place=QueuePlace(ready_at=soon))
    await queued(journal, "run_2", place=QueuePlace(ready_at=past))
    assert await backlog(journal) == {"later": 1, "ready": 1}
    (found,) = await journal.queue.backlogs()
    assert found.oldest_ready_at == past
    assert await claimed(journal) == ["run_2"]
    assert await journal.queue.put_back("run_2", at=soon)
    assert await claimed(journal) == []
    assert await journal.queue.put_back("run_1")
    assert await claimed(journal) == ["run_1"]


async def test_what_is_claimed_is_claimed_once(journal: Journal) -> None:
    await queued(journal, "run_1", "run_2")
    assert await claimed(journal, most=1) == ["run_1"]
    assert await backlog(journal) == {"sent": 1, "ready": 1}
    assert await claimed(journal) == ["run_2"]
    assert await claimed(journal) == []
    assert (await journal.info("run_1")).status == "queued"


async def test_a_claim_that_somebody_cancelled_is_given_to_the_next(journal: Journal) -> None:
    await queued(journal, *(f"run_{n}" for n in range(3)))
    found: list[str] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        found = await claimed(journal)
    assert sorted([*found, *await claimed(journal)]) == ["run_0", "run_1", "run_2"]
    assert await claimed(journal) == []


class Deaf:
    """Writes, and does not hear of it."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    async def write(self, work: Work[Any], /) -> Any:
        await self._writing.write(work)
        raise AgentError("agent", "the connection broke off")

    def write_now(self, work: Work[Any], /) -> Any:
        return self._writing.write_now(work)


def table_queues(journal: Journal) -> list[TableQueue]:
    """The queue of each database."""
    if isinstance(journal.queue, TableQueue):
        return [journal.queue]
    assert isinstance(journal, ShardedJournal)
    shards = journal._shards  # pyright: ignore[reportPrivateUsage]  likewise
    queues = [shard.journal.queue for shard in shards]
    return [queue for queue in queues if isinstance(queue, TableQueue)]


@over_processes
async def test_a_claim_that_nobody_heard_of_is_given_to_the_next(here: Journal) -> None:
    queue = here.queue
    await queued(here, "run_1", "run_2", "run_3")
    assert await claimed(here, most=1) == ["run_1"]
    hearing = [(one, one._writing) for one in table_queues(here)]  # pyright: ignore[reportPrivateUsage]  a database that breaks off just then
    for one, writing in hearing:
        one._writing = Deaf(writing)  # pyright: ignore[reportPrivateUsage]  likewise
    with refuses("agent", "broke off"):
        await claimed(here, most=1)
    for one, writing in hearing:
        one._writing = writing  # pyright: ignore[reportPrivateUsage]  likewise
    assert await backlog(here) == {"sent": 2, "ready": 1}
    found = await queue.claim(["default"], engine="local", most=5)
    assert [(ticket.run_id, ticket.delivery) for ticket in found] == [("run_2", 1), ("run_3", 1)]
    assert await claimed(here) == []


async def test_a_driver_that_lets_go_makes_its_run_ready_again(journal: Journal) -> None:
    await queued(journal, "run_1")
    await claimed(journal)
    writer = await journal.take_over("run_1")
    await writer.append([resumed(1)])
    assert await backlog(journal) == {"running": 1}
    assert await claimed(journal) == []
    await writer.release()
    assert (await journal.info("run_1")).status == "queued"
    assert await claimed(journal) == ["run_1"]


async def test_a_claim_that_is_given_up_can_be_made_again(journal: Journal) -> None:
    await queued(journal, "run_1", "run_2")
    assert await claimed(journal) == ["run_1", "run_2"]
    await journal.queue.drop("run_1")
    assert await claimed(journal) == ["run_1"]
    writer = await journal.take_over("run_2")
    await journal.queue.drop("run_2")
    assert await claimed(journal) == []
    await writer.release()
    assert await claimed(journal) == ["run_2"]


async def test_a_run_stops_waiting_with_the_first_append_of_its_driver(journal: Journal) -> None:
    await journal.queue.add([started("run_1")], QueuePlace())
    await (await journal.take_over("run_1")).release(waiting=True)
    await (await journal.take_over("run_1")).release(waiting=None)
    assert (await journal.info("run_1")).status == "waiting"
    writer = await journal.take_over("run_1")
    await writer.append([resumed(writer.fence)])
    await writer.release(waiting=None)
    assert (await journal.info("run_1")).status == "queued"


async def test_a_run_that_waits_for_a_person_is_given_to_nobody_until_it_is_put_back(
    journal: Journal,
) -> None:
    await queued(journal, "run_1")
    await claimed(journal)
    writer = await journal.take_over("run_1")
    await writer.append([resumed(1)])
    await writer.release(waiting=True)
    assert (await journal.info("run_1")).status == "waiting"
    assert await backlog(journal) == {"waiting": 1}
    assert await claimed(journal) == []
    assert await journal.queue.put_back("run_1")
    assert (await journal.info("run_1")).status == "queued"
    assert await claimed(journal) == ["run_1"]


async def test_a_driver_puts_its_run_back_with_what_it_appends(journal: Journal) -> None:
    await queued(journal, "run_1")
    assert await claimed(journal) == ["run_1"]
    writer = await journal.take_over("run_1")
    at = now() + timedelta(hours=1)
    await writer.append(
        [resumed(writer.fence)],
        put_back=QueuePlace(queue="night", priority=3, tenant="t", ready_at=at),
    )
    await writer.release(waiting=True)
    assert await journal.queue.place("run_1") == QueuePlace(
        queue="night", priority=3, tenant="t", ready_at=at
    )
    assert (await backlog(journal, "night"), await claimed(journal, "night")) == ({"later": 1}, [])
    with refuses("busy"):
        await writer.append([resumed(writer.fence)])
    assert [entry.__struct_config__.tag for entry in await entries_of(journal, "run_1")] == [
        "run.started",
        "run.resumed",
    ]


async def test_a_run_that_was_in_no_queue_is_put_into_one(journal: Journal) -> None:
    writer = await journal.begin(started("run_1"))
    assert await journal.queue.put_back("run_1", place=QueuePlace()) is False
    await writer.release()
    assert await journal.queue.place("run_1") is None
    with refuses("invalid", "in no queue"):
        await journal.queue.put_back("run_1")
    await journal.queue.park("run_1", "why")
    assert (await journal.info("run_1")).parked is None
    assert await journal.queue.put_back(
        "run_1", place=QueuePlace(queue="q", priority=2, tenant="t")
    )
    (ticket,) = await journal.queue.claim(["q"], engine="local", most=1)
    assert (ticket.priority, ticket.tenant) == (2, "t")


async def test_what_is_driven_or_finished_is_not_put_back(journal: Journal) -> None:
    await queued(journal, "run_1")
    await claimed(journal)
    writer = await journal.take_over("run_1")
    assert await journal.queue.put_back("run_1") is False
    await writer.append([resumed(1), finished()])
    assert await journal.queue.put_back("run_1", place=QueuePlace(queue="q")) is False
    await journal.queue.park("run_1", "why")
    info = await journal.info("run_1")
    assert (info.status, info.queue, info.parked) == ("finished", "default", None)
    assert await claimed(journal, "default", "q") == []


@over_processes
async def test_a_run_that_a_newer_version_wrote_is_claimed_by_none_of_this_one(
    here: Journal,
) -> None:
    journal = here
    await queued(journal, "run_1")
    await journal.queue.add(
        [msgspec.structs.replace(started("run_2"), schema=SCHEMA + 1)], QueuePlace(priority=9)
    )
    assert await claimed(journal) == ["run_1"]


# ---------------------------------------------------------------- with engines


async def test_what_an_engine_has_is_claimed_for_it_no_more(journal: Journal) -> None:
    await queued(journal, "run_1", "run_2")
    (ticket, _) = await journal.queue.claim(["default"], engine="far", most=2)
    await journal.queue.sent(["run_1", "run_unknown"], engine="far")
    assert await claimed(journal, engine="far") == []
    assert await backlog(journal) == {"sent": 2}
    assert await journal.queue.with_engine(engine="far", most=5) == [ticket]
    assert await journal.queue.with_engine(engine="other", most=5) == []


async def test_what_another_engine_has_is_ready(journal: Journal) -> None:
    await queued(journal, "run_1")
    await claimed(journal, engine="far")
    await journal.queue.sent(["run_1"], engine="far")
    assert await claimed(journal, engine="near") == ["run_1"]
    assert await journal.queue.with_engine(engine="far", most=5) == []


async def test_what_was_not_claimed_here_is_not_said_to_be_sent(journal: Journal) -> None:
    await queued(journal, "run_1")
    await journal.queue.sent(["run_1"], engine="far")
    assert await claimed(journal) == ["run_1"]
    writer = await journal.take_over("run_1")
    await writer.append([resumed(1)])
    await writer.release()
    await journal.queue.sent(["run_1"], engine="far")  # late: the delivery is over by then
    assert await claimed(journal, engine="far") == ["run_1"]


async def test_an_engine_is_asked_about_what_it_has_and_nobody_drives(journal: Journal) -> None:
    runs = [f"run_{n}" for n in range(5)]
    await queued(journal, *runs)
    await claimed(journal, engine="far")
    await journal.queue.sent(runs, engine="far")
    driven, ended, waiting = [await journal.take_over(run_id) for run_id in runs[1:4]]
    for writer in (driven, ended, waiting):
        await writer.append([resumed(1)])
    await ended.append([finished()])
    await waiting.release(waiting=True)
    assert [one.run_id for one in await journal.queue.with_engine(engine="far", most=5)] == [
        "run_0",
        "run_4",
    ]
    assert [
        one.run_id for one in await journal.queue.with_engine(engine="far", most=5, after="run_0")
    ] == ["run_4"]
    assert [one.run_id for one in await journal.queue.with_engine(engine="far", most=1)] == [
        "run_0"
    ]
    assert await journal.queue.put_back("run_0")
    assert await claimed(journal, engine="far") == ["run_0"]


# ---------------------------------------------------------------- what gets nowhere


async def deliver(journal: Journal, run_id: str, *, fruit: bool = False) -> None:
    """As a worker that cannot drive it, or (`fruit`) gets further with it and then cannot."""
    assert await claimed(journal, most=1) == [run_id]
    if fruit:
        writer = await journal.take_over(run_id)
        await writer.append([resumed(writer.fence), *answers(run_id, "so far")])
        await writer.release(waiting=True)
    await journal.queue.put_back(run_id)


async def test_a_run_that_gets_nowhere_is_parked_and_others_go_past_it(journal: Journal) -> None:
    await queued(journal, "run_1", place=QueuePlace(priority=1))
    for _ in range(FRUITLESS_MOST):
        await deliver(journal, "run_1")
    await queued(journal, "run_2")
    assert await claimed(journal, most=1) == ["run_2"]
    (parked,) = await journal.queue.parked()
    assert (parked.run_id, parked.queue) == ("run_1", "default")
    assert str(FRUITLESS_MOST) in parked.why
    info = await journal.info("run_1")
    assert (info.status, info.parked) == ("stopped", parked.why)
    assert await backlog(journal) == {"parked": 1, "sent": 1}
    assert await journal.queue.put_back("run_1")
    assert await journal.queue.parked() == []
    (ticket,) = await journal.queue.claim(["default"], engine="local", most=1)
    assert (ticket.delivery, ticket.fruitless) == (FRUITLESS_MOST + 1, 1)


async def test_a_run_that_got_further_begins_anew_to_count(journal: Journal) -> None:
    await queued(journal, "run_1")
    for _ in range(FRUITLESS_MOST - 1):
        await deliver(journal, "run_1")
    await deliver(journal, "run_1", fruit=True)
    (ticket,) = await journal.queue.claim(["default"], engine="local", most=1)
    assert (ticket.delivery, ticket.fruitless) == (FRUITLESS_MOST + 1, 1)


async def test_what_is_let_go_of_in_order_is_never_parked_for_it(journal: Journal) -> None:
    await queued(journal, "run_1")
    for n in range(FRUITLESS_MOST + 2):
        (ticket,) = await journal.queue.claim(["default"], engine="local", most=1)
        assert (ticket.delivery, ticket.fruitless) == (n + 1, 1)
        writer = await journal.take_over("run_1")
        await writer.append([resumed(writer.fence)])
        await writer.release()


@over_processes
async def test_a_run_that_its_drivers_die_over_is_parked(here: Journal, start: Start) -> None:
    await queued(here, "run_1")
    process = start()
    assert process.ask("claim 1") == "run_1/1"
    assert process.ask("drive run_1") == "fence 1"
    process.kill()
    assert await until_claimed(here) == ["run_1"]
    await here.queue.put_back("run_1")
    (ticket,) = await here.queue.claim(["default"], engine="local", most=1)
    assert (ticket.delivery, ticket.fruitless) == (3, 3)


async def test_holding_a_run_off_counts_on(journal: Journal) -> None:
    await queued(journal, "run_1")
    for n in range(FRUITLESS_MOST):
        (ticket,) = await journal.queue.claim(["default"], engine="local", most=1)
        assert ticket.fruitless == n + 1
        await journal.queue.put_back("run_1", at=now() - timedelta(seconds=1))
    assert await claimed(journal) == []
    assert [one.run_id for one in await journal.queue.parked()] == ["run_1"]


async def test_beginnings_are_types_of_entries() -> None:
    assert {str(kind.__struct_config__.tag) for kind in get_args(Entry)} > BEGINNINGS


async def test_somebody_may_park_a_run_and_wake_it(journal: Journal) -> None:
    await queued(journal, "run_1", "run_2", "run_3")
    await journal.queue.park("run_1", "nobody has its key")
    await journal.queue.park("run_3", "nor that one's")
    assert [(one.run_id, one.why) for one in await journal.queue.parked()] == [
        ("run_3", "nor that one's"),
        ("run_1", "nobody has its key"),
    ]
    assert [one.run_id for one in await journal.queue.parked(limit=1)] == ["run_3"]
    assert await claimed(journal) == ["run_2"]
    assert await journal.queue.put_back("run_1", place=QueuePlace(queue="q"))
    assert await claimed(journal, "q") == ["run_1"]


async def test_a_person_may_resume_what_is_parked(journal: Journal) -> None:
    await queued(journal, "run_1")
    await journal.queue.park("run_1", "why")
    writer = await journal.take_over("run_1")
    await writer.append([resumed(1), finished()])
    assert await journal.queue.parked() == []
    assert await journal.queue.backlogs() == []


# ---------------------------------------------------------------- workers


async def test_a_worker_is_in_the_list_with_what_it_says_of_itself(journal: Journal) -> None:
    assert await journal.queue.workers() == []
    worker = await journal.queue.register(card("ada", ("default", "nightly")))
    await queued(journal, "run_1")
    writer = await journal.take_over("run_1")
    (info,) = await journal.queue.workers()
    assert (info.worker, info.card, info.alive, info.draining, info.running) == (
        worker,
        card("ada", ("default", "nightly")),
        True,
        False,
        1,
    )
    assert info.since <= info.seen_at
    await writer.release()
    await journal.queue.drain()
    assert [(one.draining, one.running) for one in await journal.queue.workers()] == [(True, 0)]
    assert await journal.queue.register(card("bob")) == worker
    assert [(one.card.name, one.draining) for one in await journal.queue.workers()] == [
        ("bob", False)
    ]


async def test_who_listens_hears_of_runs_that_become_ready(journal: Journal) -> None:
    async with journal.notifier.listen(QUEUE, run_topic("run_1")) as listening:
        await queued(journal, "run_1")
        await listening.wait()
        assert await claimed(journal) == ["run_1"]


# ---------------------------------------------------------------- the rest of the journal


async def test_a_queued_run_is_exported_and_is_stopped_where_it_is_taken_in(
    journal: Journal, tmp_path: Path
) -> None:
    await queued(journal, "run_1")
    data = await journal.read_bytes("run_1")
    other = open_journal(f"sqlite:///{tmp_path / 'other.db'}")
    info = await other.add_run(data)
    assert (info.status, info.queue) == ("stopped", None)
    assert await claimed(other) == []
    await other.aclose()


async def test_pruning_leaves_what_waits(journal: Journal) -> None:
    await queued(journal, "run_1", "run_2")
    writer = await journal.take_over("run_1")
    await writer.append([resumed(1), finished()])
    assert (await journal.prune(now() + timedelta(days=1), apply=True)).runs == ("run_1",)
    assert await claimed(journal) == ["run_2"]


@over_processes
async def test_a_session_that_is_deleted_takes_its_queued_run_along(shared: Shared) -> None:
    journal = shared.open()
    await journal.queue.add([started("run_1", session="ada")], QueuePlace())
    assert journal.sessions.delete("ada")
    assert await claimed(journal) == []
    assert await journal.queue.backlogs() == []
    await journal.aclose()


# ---------------------------------------------------------------- several processes


@over_processes
async def test_two_processes_never_get_the_same_run(here: Journal, start: Start) -> None:
    runs = [f"run_{n:03}" for n in range(60)]
    await queued(here, *runs)
    both = [start(), start()]
    for process in both:
        process.say("sweep 3")
    found = [run_id for process in both for run_id in process.hear().split()]
    assert sorted(one for one in found if one != "none") == runs
    assert await backlog(here) == {"sent": 60}


@over_processes
async def test_what_a_dead_process_had_claimed_comes_back(here: Journal, start: Start) -> None:
    await queued(here, "run_1", "run_2")
    process = start()
    assert process.ask("claim 5") == "run_1/1 run_2/1"
    assert process.ask("drive run_2") == "fence 1"
    assert await claimed(here) == []
    assert await backlog(here) == {"sent": 1, "running": 1}
    process.kill()
    assert await until_claimed(here) == ["run_1", "run_2"]
    assert (await here.take_over("run_2")).fence == 2


@over_processes
async def test_what_somebody_took_from_a_living_worker_comes_back_when_that_process_dies(
    here: Journal, start: Start
) -> None:
    """The worker that had claimed it was told then that another one drives it, and will not deliver
    it again.
    """
    await queued(here, "run_1")
    assert await claimed(here) == ["run_1"]
    process = start()
    assert process.ask("drive run_1") == "fence 1"
    assert await claimed(here) == []
    process.kill()
    assert await until_claimed(here) == ["run_1"]


@over_processes
async def test_a_process_that_ends_in_order_leaves_its_runs_to_others_at_once(
    here: Journal, start: Start
) -> None:
    await queued(here, "run_1")
    process = start()
    assert process.ask("claim 5") == "run_1/1"
    assert process.ask("close") == "closed"
    assert await claimed(here) == ["run_1"]


@over_processes
async def test_what_an_engine_has_stays_with_it_when_the_process_that_sent_it_dies(
    here: Journal, start: Start
) -> None:
    await queued(here, "run_1")
    process = start()
    assert process.ask("claim 5 far") == "run_1/1"
    assert process.ask("sent run_1") == "sent"
    process.kill()
    assert await claimed(here, engine="far") == []
    assert [one.run_id for one in await here.queue.with_engine(engine="far", most=5)] == ["run_1"]
    assert await claimed(here, engine="near") == ["run_1"]


@over_processes
async def test_a_living_worker_has_its_name_alone(here: Journal, start: Start) -> None:
    process = start()
    worker = process.ask("register ada")
    with refuses("busy", rf"'ada'.*{process.pid} on {socket.gethostname()}"):
        await here.queue.register(card("ada"))
    mine = await here.queue.register(card("bob"))
    infos = await here.queue.workers()
    assert [(one.worker, one.card.name, one.alive) for one in infos] == [
        (worker, "ada", True),
        (mine, "bob", True),
    ]
    process.kill()
    with anyio.fail_after(20):
        while (infos := await here.queue.workers())[0].card.name == "ada":
            await anyio.sleep(0.05)
    assert [(one.worker, one.alive) for one in infos] == [(mine, True), (worker, False)]
    assert await here.queue.register(card("ada")) == mine


@over_processes
async def test_a_worker_that_ends_in_order_is_in_no_list(here: Journal, start: Start) -> None:
    process = start()
    process.ask("register ada")
    assert process.ask("close") == "closed"
    assert await here.queue.workers() == []


@over_processes
async def test_who_listens_hears_of_what_another_process_adds(
    here: Journal, shared: Shared
) -> None:
    other = shared.open()
    async with (
        here.notifier.listen(QUEUE) as ready,
        here.notifier.listen(run_topic("run_1")) as moved,
    ):
        await queued(other, "run_1")
        with anyio.fail_after(20):
            while not await claimed(here):
                await ready.wait()
            writer = await other.take_over("run_1")
            await writer.append([resumed(1)])
            while len(await here.read("run_1")) < 2:
                await moved.wait()
    await other.aclose()

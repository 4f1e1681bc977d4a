"""A list of shards that changes, or does not fit its databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import anyio
import psycopg
import pytest

from tests.journal.runs import answers, finished, refuses, says, started
from tests.journal.shards.conftest import Shards, ids_in, one_in
from tests.service.database.postgres import postgres_url  # noqa: F401  fixture
from treadle.journal import open_journal
from treadle.journal.entries import Fork
from treadle.journal.journal import Journal
from treadle.journal.postgres.schema import make_ready
from treadle.journal.queue import QueuePlace
from treadle.journal.shards.placement import Generation
from treadle.journal.shards.tables import ShardRecord, read_record, write_record


async def runs_of(journal: Journal) -> list[str]:
    return [info.run_id for info in await journal.runs()]


async def test_a_database_that_was_the_journal_is_the_first_shard(shards: Shards) -> None:
    """Its sessions belong elsewhere by their hash, and stay."""
    alone = shards.alone("a")
    there, theirs = one_in("b", prefix="session"), one_in("b")
    await says(alone, theirs, "hello", "hi", session=there)
    await alone.aclose()
    journal = shards.open("a", "b")
    assert [said.text for said in (await journal.view(there)).messages] == ["hello", "hi"]
    await says(journal, "run_more", "more", "yes", session=there)
    assert [info.session_id for info in await journal.runs()] == [there, there]
    with refuses("busy", theirs):
        await journal.begin(started(theirs))
    await journal.begin(started(one_in("b", prefix="new")))
    assert (await journal.info(theirs)).status == "finished"
    two = [await shard.journal.runs() for shard in journal._shards]  # pyright: ignore[reportPrivateUsage]  where they are
    assert [len(some) for some in two] == [2, 1]


async def test_a_new_shard_takes_its_share_and_old_conversations_stay(shards: Shards) -> None:
    old = shards.open("a", "b")
    moves = next(
        name for name in ids_in("c", "abc", prefix="session") if name in [*_some("a", "ab")]
    )
    await says(old, "run_old", "hello", "hi", session=moves)
    new = shards.open("a", "b", "c", version=2)
    assert [said.text for said in (await new.view(moves)).messages] == ["hello", "hi"]
    await says(new, "run_new", "more", "yes", session=moves)
    await new.begin(started(one_in("c", "abc")))
    counts = [len(await shard.journal.runs()) for shard in new._shards]  # pyright: ignore[reportPrivateUsage]  where they are
    assert counts == [2, 0, 1]


def _some(shard: str, names: str) -> list[str]:
    found = ids_in(shard, names, prefix="session")
    return [next(found) for _ in range(60)]


async def test_a_process_with_an_old_list_goes_on_but_creates_nothing_that_may_be_elsewhere(
    shards: Shards,
) -> None:
    old = shards.open("a", "b")
    writer = await old.begin(started("run_1", session="ada"))
    shards.open("a", "b", "c", version=2)
    await writer.append([*answers("run_1", "hi"), finished(turns=1)])
    await writer.release()
    await says(old, old_id := "run_00000000000000000000000001", "more", "yes", session="ada")
    assert (await old.info(old_id)).session_id == "ada"
    for create in (
        old.begin(started("run_2")),
        old.begin(started("run_00000000000000000000000002", session="eve")),
        old.queue.add([started("run_3")], QueuePlace()),
    ):
        with refuses("agent", "restart"):
            await create
    with refuses("agent", "restart"):
        old.sessions.create(session_id="eve")
    assert await runs_of(old) == [old_id, "run_1"]


async def test_a_process_without_a_list_creates_no_session_in_a_shard(shards: Shards) -> None:
    journal = shards.open("a", "b")
    alone = shards.alone("a")
    with refuses("agent", "it is shard a of a journal"):
        alone.sessions.create(session_id="ada")
    assert journal.sessions.list() == []


@pytest.mark.parametrize(
    ("names", "version", "draining", "reason"),
    [
        ("abc", 2, "", "differs from version 2"),
        ("ab", 2, "a", "differs from version 2"),
        ("ab", 1, "", "is version 1 of the list of shards, and the journal has version 2"),
        ("a", 3, "", "leaves out shard 'b', which still gets runs"),
    ],
)
async def test_a_list_that_does_not_fit_is_refused(
    shards: Shards, names: str, version: int, draining: str, reason: str
) -> None:
    shards.open("a", "b", version=2)
    with refuses("invalid", reason):
        shards.open(*names, version=version, draining=draining)


async def test_the_databases_of_a_list_belong_together(shards: Shards) -> None:
    journal = shards.open("a", "b")
    await journal.begin(started(one_in("a")))
    url_of, swapped = shards.url_of, {"a": "b", "b": "a"}
    shards.url_of = lambda name: url_of(swapped[name])
    with refuses("invalid", "is shard '[ab]' of its journal: correct the URLs"):
        shards.open("a", "b")
    shards.url_of = url_of
    shards.open("c", "d")
    with refuses("invalid", "'a' and 'c' belong to different journals"):
        shards.open("a", "c")


async def test_a_shard_of_a_newer_version_is_refused_and_left_as_it_is(shards: Shards) -> None:
    await says(shards.open("a", "b"), "run_1", "hello", "hi")
    with psycopg.connect(shards.url_of("b")) as connection:
        connection.execute("insert into treadle.versions(version, readable_by) values(99, 98)")
    with refuses("invalid", "was made by a newer Treadle .version 99, .*upgrade to use it"):
        shards.open()
    with psycopg.connect(shards.url_of("b")) as connection:
        connection.execute("delete from treadle.versions where version = 99")
    assert await runs_of(shards.open()) == ["run_1"]


async def test_a_new_shard_is_empty(shards: Shards) -> None:
    shards.open("a", "b")
    await says(shards.alone("c"), "run_1", "hello", "hi")
    with refuses("invalid", "new shard 'c' already has runs"):
        shards.open("a", "b", "c", version=2)
    with refuses("invalid", "'c' and 'd' both have runs"):
        await says(shards.alone("d"), "run_1", "hello", "hi")
        shards.open("c", "d")


async def test_a_shard_that_drains_keeps_its_conversations_and_can_be_left_out(
    shards: Shards,
) -> None:
    session = one_in("b", prefix="session")
    await says(shards.open("a", "b"), "run_1", "hello", "hi", session=session)
    drains = shards.open("a", "b", version=2, draining="b")
    await says(drains, "run_2", "more", "yes", session=session)
    await drains.begin(started(one_in("b", prefix="new")))
    counts = [len(await shard.journal.runs()) for shard in drains._shards]  # pyright: ignore[reportPrivateUsage]  where they are
    assert counts == [1, 2]
    await says(drains, order := one_in("a", prefix="order"), "more", "yes", session=session)
    last = shards.open("a", version=3)
    with refuses("invalid", "shard 'b' is no longer in the list of shards: to reach its runs, add"):
        await last.info(order)
    with refuses("busy", f"run {order} already exists, in shard 'b': use another id"):
        await last.begin(started(order))
    assert await runs_of(last) == [one_in("b", prefix="new")]
    assert (await last.view(session)).messages == []


async def test_several_processes_may_open_a_new_list_at_once(shards: Shards) -> None:
    shards.write("a", "b", "c")
    with ThreadPoolExecutor(4) as pool:
        journals = [*pool.map(lambda _: shards.open(), range(4))]
    await journals[0].begin(started("run_1"))
    for journal in journals:
        assert await runs_of(journal) == ["run_1"]


def test_who_waits_for_another_that_makes_a_database_a_shard_finds_its_tables(
    postgres_url: str,  # noqa: F811  the fixture
) -> None:
    record = ShardRecord(name="a", journal="j", generations=(Generation(version=1, names=("a",)),))
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(postgres_url, autocommit=True) as other,
        psycopg.connect(postgres_url, autocommit=True) as watching,
        psycopg.connect(postgres_url) as one,
    ):
        make_ready(other, postgres_url)
        assert read_record(other) is None
        one.execute("select pg_advisory_xact_lock(hashtextextended('treadle ''shards''', 0))")
        waits = pool.submit(write_record, other, record)
        waiting = "select 1 from pg_locks where not granted and locktype = 'advisory'"
        while not watching.execute(waiting).fetchone():
            pass
        assert write_record(one, record)
        one.commit()
        assert waits.result(20)


# ---------------------------------------------------------------- ids


async def test_an_id_is_taken_once_over_all_shards(shards: Shards) -> None:
    journal, other = shards.open("a", "b"), shards.open()
    ada, eve = one_in("a", prefix="ada"), one_in("b", prefix="eve")
    await says(journal, "order-17", "hello", "hi", session=ada)
    for begin in (
        other.begin(started("order-17", session=eve)),
        other.begin(started("order-17")),
        other.queue.add([started("order-17", session=eve)], QueuePlace()),
    ):
        with refuses("busy", "order-17"):
            await begin
    assert (await runs_of(other), other.sessions.get(eve)) == (["order-17"], None)
    with refuses("invalid", "nothing was added"):
        await other.add_run(await journal.read_bytes("order-17"))


async def test_an_id_is_free_again_when_its_run_was_deleted(shards: Shards) -> None:
    journal = shards.open("a", "b")
    ada, eve = one_in("a", prefix="ada"), one_in("b", prefix="eve")
    await says(journal, "order-17", "hello", "hi", session=ada)
    assert (await journal.remove(["order-17"])).runs == ("order-17",)
    await says(journal, "order-17", "hello", "hi", session=eve)
    assert (await journal.info("order-17")).session_id == eve


async def test_a_fork_is_beside_its_origin_also_in_a_new_conversation(shards: Shards) -> None:
    journal = shards.open("a", "b")
    origin, elsewhere = one_in("a"), one_in("b", prefix="session")
    await says(journal, origin, "hello", "hi")
    fork = Fork(run_id=origin, turn=1, seq=2)
    await says(journal, "fork", "rather", "that", session=elsewhere, fork=fork)
    other = shards.open()
    assert [said.text for said in (await other.view(elsewhere)).messages][-1] == "that"
    await says(other, "run_more", "more", "yes", session=elsewhere)
    assert [info.run_id for info in await other.runs(session_id=elsewhere)] == ["run_more", "fork"]
    assert [info.run_id for info in await other.runs(forked_from=origin)] == ["fork"]
    await says(other, "taken", "hello", "hi", session=(taken := one_in("b", prefix="taken")))
    with refuses("invalid", "in a new session"):
        await other.begin(started("again", session=taken, fork=fork))
    assert other.sessions.delete(elsewhere)
    await says(shards.open(), "anew", "hello", "hi", session=elsewhere)
    assert [info.run_id for info in await journal.runs(session_id=elsewhere)] == ["anew"]


async def test_runs_of_several_shards_are_deleted_together_or_not_at_all(shards: Shards) -> None:
    journal = shards.open("a", "b")
    done, left = one_in("a"), one_in("b")
    await says(journal, done, "hello", "hi")
    writer = await journal.begin(started(left))
    with refuses("busy", left):
        await journal.remove([done, left])
    assert len(await journal.runs()) == 2
    await writer.append([finished()])
    assert {*(await journal.remove([done, left])).runs} == {done, left}


async def test_a_claim_takes_the_first_of_all_shards(shards: Shards) -> None:
    journal = shards.open("a", "b")
    a, b = ids_in("a", "ab"), ids_in("b", "ab")
    wanted = [next(b), next(a), next(a), next(b), next(a)]
    for priority, run_id in zip((9, 7, 5, 3, 1), wanted, strict=True):
        await journal.queue.add([started(run_id)], QueuePlace(priority=priority))
    found = [
        [ticket.run_id for ticket in await journal.queue.claim(["default"], engine="local", most=2)]
        for _ in range(3)
    ]
    assert found == [wanted[:2], wanted[2:4], wanted[4:]]


def _connected(db: psycopg.Connection, shards: Shards) -> list[int]:
    """Server processes of those who are connected to shards `a` and `b`."""
    names = [shards.url_of(name).partition("?")[0].rpartition("/")[2] for name in "ab"]
    asked = "select pid from pg_stat_activity where datname = any(%s) order by pid"
    return [pid for (pid,) in db.execute(asked, (names,))]


async def _all_end(db: psycopg.Connection, shards: Shards) -> None:
    with anyio.fail_after(20):  # the server notices the end of a connection a moment later
        while _connected(db, shards):
            await anyio.sleep(0.01)


async def test_the_connections_of_opening_are_used_on_and_closed_in_the_end(
    shards: Shards,
) -> None:
    with psycopg.connect(shards.url_of("else"), autocommit=True) as db:
        journal = shards.open("a", "b")
        opened = _connected(db, shards)
        assert len(opened) == 2
        assert await journal.runs() == []
        assert _connected(db, shards) == opened
        await journal.aclose()
        await _all_end(db, shards)


async def test_shards_that_are_not_opened_in_the_end_keep_no_connection(shards: Shards) -> None:
    shards.write("a", "b")
    with psycopg.connect(shards.url_of("else"), autocommit=True) as db:
        with refuses("invalid", "lease") as refused:
            open_journal(f"postgresql+shards:///{shards.file}", lease_s=0.001)
        await _all_end(db, shards)
    del refused  # its traceback has the journals

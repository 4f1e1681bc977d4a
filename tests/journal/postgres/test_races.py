"""Several processes change the same tables at once: one begins what may begin once, nothing is
taken away under another, and nobody waits for ever.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack

import anyio
import anyio.to_thread
import psycopg
import pytest

from tests.journal.postgres.conftest import Look
from tests.journal.runs import answers, asks, at, finished, gives, message, says, started
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.entries import Fork, RunStarted
from treadle.journal.journal import Journal
from treadle.journal.queue import QueuePlace

JOURNALS = 4
ORPHANS = """
select id from treadle.runs as fork
where fork_of is not null and not exists (select 1 from treadle.runs where id = fork.fork_of)
"""
ROUNDS = 12


@pytest.fixture
async def journals(postgres_url: str) -> AsyncIterator[Sequence[Journal]]:
    """Of one database, each with connections, threads and a worker of its own."""
    opened = [open_journal(postgres_url) for _ in range(JOURNALS)]
    yield opened
    for journal in opened:
        await journal.aclose()


async def at_once(
    journals: Sequence[Journal], act: Callable[[Journal, int], Awaitable[object]]
) -> list[str]:
    """What each came to: the kind of its error, or `done`."""
    came: list[str] = []

    async def one(journal: Journal, number: int) -> None:
        try:
            await act(journal, number)
        except AgentError as e:
            came.append(e.kind)
        else:
            came.append("done")

    async with anyio.create_task_group() as group:
        for number, journal in enumerate(journals):
            group.start_soon(one, journal, number)
    return sorted(came)


@pytest.mark.parametrize("kind", ["new", "there"])
async def test_one_run_of_a_session_begins(journals: Sequence[Journal], kind: str) -> None:
    for number in range(ROUNDS):
        session = f"session_{number}"
        if kind == "there":
            journals[0].sessions.create(session_id=session)

        async def begin(journal: Journal, n: int, session: str = session) -> None:
            await journal.begin(started(f"{session}_{n}", session=session))

        assert await at_once(journals, begin) == ["busy"] * (JOURNALS - 1) + ["done"]
    assert len(await journals[0].runs()) == len(journals[0].sessions.list()) == ROUNDS


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_transactions_see_what_they_waited_for_whatever_the_database_is_set_to(
    look: Look, postgres_url: str, isolation: str
) -> None:
    ((name,),) = look("select current_database()")
    look(f"alter database {name} set default_transaction_isolation = '{isolation}'")
    async with AsyncExitStack() as stack:
        journals = [open_journal(postgres_url) for _ in range(JOURNALS)]
        for journal in journals:
            stack.push_async_callback(journal.aclose)
        journals[0].sessions.create(session_id="ada")

        async def act(journal: Journal, n: int) -> None:
            for number in range(2 * ROUNDS):
                await anyio.to_thread.run_sync(
                    journal.sessions.add_message, "ada", message(f"{n} {number}")
                )

        assert await at_once(journals, act) == ["done"] * JOURNALS
        assert len(journals[0].sessions.get_messages("ada")) == 2 * ROUNDS * JOURNALS


async def test_a_run_begins_once(journals: Sequence[Journal]) -> None:
    for number in range(ROUNDS):

        async def begin(journal: Journal, n: int, number: int = number) -> None:
            if n % 2:
                await journal.queue.add([started(f"run_{number}")], QueuePlace())
            else:
                await journal.begin(started(f"run_{number}"))

        assert await at_once(journals, begin) == ["busy"] * (JOURNALS - 1) + ["done"]
    assert [info.entries for info in await journals[0].runs()] == [1] * ROUNDS


async def test_a_session_is_made_once(journals: Sequence[Journal]) -> None:
    for number in range(ROUNDS):

        async def create(journal: Journal, n: int, number: int = number) -> None:
            await anyio.to_thread.run_sync(
                lambda: journal.sessions.create(session_id=f"session_{number}")
            )

        assert await at_once(journals, create) == ["done"] + ["invalid"] * (JOURNALS - 1)


async def test_a_run_is_taken_over_once(journals: Sequence[Journal]) -> None:
    for number in range(ROUNDS):
        writer = await journals[0].begin(started(f"run_{number}"))
        await writer.release()

        async def take_over(journal: Journal, n: int, number: int = number) -> None:
            await journal.take_over(f"run_{number}")

        assert await at_once(journals, take_over) == ["busy"] * (JOURNALS - 1) + ["done"]


async def test_what_is_forked_from_stays_or_the_fork_does_not_begin(
    journals: Sequence[Journal], look: Look
) -> None:
    for number in range(ROUNDS):
        await says(journals[0], f"run_{number}", "hello", "hello", session="ada", minute=number)
        fork = Fork(run_id=f"run_{number}", turn=1, seq=2)

        async def act(journal: Journal, n: int, number: int = number, fork: Fork = fork) -> None:
            if n == 0:
                await journal.prune(at(number + 1), apply=True)
            else:
                await journal.begin(started(f"fork_{number}_{n}", fork=fork, minute=number))

        await at_once(journals, act)
    assert look(ORPHANS) == []


async def test_a_fork_waits_for_a_prune_that_takes_away_its_past(
    journals: Sequence[Journal], postgres_url: str, look: Look
) -> None:
    await says(journals[0], "run_1", "hello", "hello", minute=1)
    came: list[str] = []

    async def act(journal: Journal, n: int) -> None:
        if n == 0:
            await journal.prune(at(2), apply=True)
        else:
            with contextlib.suppress(AgentError):
                fork = Fork(run_id="run_1", turn=1, seq=2)
                await journal.begin(started("fork_1", fork=fork, minute=1))
        came.append("done")

    async def until_waiting(count: int) -> None:
        while len(came) + len(look("select 1 from pg_locks where not granted")) < count:
            await anyio.sleep(0.01)

    with psycopg.connect(postgres_url) as holding:
        holding.execute("select from treadle.runs where id = 'run_1' for update")
        async with anyio.create_task_group() as group:
            for n in range(2):
                group.start_soon(act, journals[n], n)
                await until_waiting(n + 1)
            holding.rollback()
    assert came == ["done", "done"]
    assert look("select id from treadle.runs") == []
    assert look(ORPHANS) == []


async def test_positions_in_a_session_have_no_gap_and_no_double(
    journals: Sequence[Journal], look: Look
) -> None:
    journals[0].sessions.create(session_id="ada")

    async def act(journal: Journal, n: int) -> None:
        for number in range(ROUNDS):
            await anyio.to_thread.run_sync(
                journal.sessions.add_message, "ada", message(f"{n} {number}")
            )

    assert await at_once(journals, act) == ["done"] * JOURNALS
    count = JOURNALS * ROUNDS
    assert look("select pos from treadle.session_entries order by pos") == [
        (pos,) for pos in range(1, count + 1)
    ]
    assert [info.message_count for info in journals[1].sessions.list()] == [count]
    assert len(journals[2].sessions.get_messages("ada")) == count


async def test_a_message_is_indexed_once_however_many_search(
    journals: Sequence[Journal], look: Look
) -> None:
    for number in range(3 * ROUNDS):
        await says(
            journals[0], f"run_{number}", f"needle {number}", "hay", session="ada", minute=number
        )

    async def search(journal: Journal, n: int) -> None:
        found = await anyio.to_thread.run_sync(lambda: journal.sessions.search("needle", limit=100))
        assert len(found) == 3 * ROUNDS

    assert await at_once(journals, search) == ["done"] * JOURNALS
    assert look("select count(*) from treadle.said") == [(6 * ROUNDS,)]
    assert look("select count(*) from treadle.runs where indexed = 0") == [(0,)]


# ---------------------------------------------------------------- what is taken away under somebody


@contextlib.contextmanager
def held(url: str, statement: str) -> Generator[None]:
    """What the statement locks, or changed, until the block is over."""
    with psycopg.connect(url) as db:
        db.execute(statement.encode())
        yield


async def until_wait(look: Look, count: int) -> None:
    while look(
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    ) != [(count,)]:
        await anyio.sleep(0.005)


@pytest.mark.parametrize("away", ["prune", "delete"])
async def test_a_message_for_a_session_that_goes_meanwhile_is_not_taken(
    journals: Sequence[Journal], look: Look, postgres_url: str, away: str
) -> None:
    await says(journals[0], "run_1", "hello", "you", session="ada")
    taken: list[bool] = []

    async def go() -> None:
        if away == "prune":
            await journals[0].prune(at(5), apply=True)
        else:
            await anyio.to_thread.run_sync(journals[0].sessions.delete, "ada")

    async def add() -> None:
        taken.append(
            await anyio.to_thread.run_sync(journals[1].sessions.add_message, "ada", message("more"))
        )

    async with anyio.create_task_group() as group:
        with held(postgres_url, "select 1 from treadle.sessions for update"):
            group.start_soon(go)
            await until_wait(look, 1)
            group.start_soon(add)
            await until_wait(look, 2)
    assert (taken, journals[2].sessions.get("ada")) == ([False], None)
    assert (
        look("select count(*) from treadle.session_entries")
        == look("select count(*) from treadle.said")
        == [(0,)]
    )


async def test_an_entry_that_comes_while_its_run_is_pruned_goes_with_it(
    journals: Sequence[Journal], look: Look, postgres_url: str
) -> None:
    await says(journals[0], "run_1", "hello", "you", session="ada")
    late = "insert into treadle.entries(place, type, body) select (num << 32) + head, 'tool.late', '{}' from changed"
    async with anyio.create_task_group() as group:
        with held(
            postgres_url,
            f"with changed as (update treadle.runs set head = head + 1 returning num, head) {late}",
        ):
            group.start_soon(lambda: journals[0].prune(at(5), apply=True))
            await until_wait(look, 1)
    assert (
        look("select count(*) from treadle.entries")
        == look("select count(*) from treadle.runs")
        == [(0,)]
    )


async def test_messages_that_are_counted_while_a_run_is_pruned_are_counted_again(
    journals: Sequence[Journal], look: Look, postgres_url: str
) -> None:
    journals[0].sessions.create(session_id="ada")
    journals[0].sessions.add_message("ada", message("stays"))
    for minute in range(2):
        await says(journals[0], f"run_{minute}", "hello", "you", session="ada", minute=minute)
    await journals[0].prune(at(1), apply=True)
    assert look("select messages from treadle.sessions") == [(None,)]
    async with anyio.create_task_group() as group:
        with held(postgres_url, "select 1 from treadle.sessions for update"):
            group.start_soon(lambda: journals[0].prune(at(5), apply=True))
            await until_wait(look, 1)
            group.start_soon(anyio.to_thread.run_sync, journals[1].sessions.list)
            await until_wait(look, 2)
    assert (
        [info.message_count for info in journals[2].sessions.list()]
        == [len(journals[2].sessions.get_messages("ada"))]
        == [1]
    )


# ---------------------------------------------------------------- everything at once


class _Somebody:
    """Does what comes to its mind, and takes a refusal for an answer."""

    def __init__(self, journal: Journal, number: int) -> None:
        self._journal = journal
        self._number = number
        self._chance = random.Random(number)
        self._count = 0

    async def act(self) -> None:
        often = [self._talk] * 6 + [self._fork] * 3 + [self._hand] * 2 + [self._search] * 2
        for _ in range(40):
            deed = self._chance.choice([*often, self._clear, self._delete, self._prune, self._list])
            try:
                await deed()
            except AgentError as e:
                if e.kind not in ("busy", "invalid"):
                    raise

    @property
    def _session(self) -> str:
        return self._chance.choice(["ada", "bob", "cleo"])

    async def _talk(self) -> None:
        await self._run(
            started(self._id(), "hello there", session=self._session, minute=self._count)
        )

    async def _fork(self) -> None:
        known = [
            info.run_id for info in await self._journal.runs(limit=5) if info.status == "finished"
        ]
        if known:
            await self._run(
                started(
                    self._id(),
                    "or this",
                    session=self._session,
                    fork=Fork(run_id=self._chance.choice(known), turn=1, seq=2),
                    minute=self._count,
                )
            )

    async def _run(self, begun: RunStarted) -> None:
        writer = await self._journal.begin(begun)
        minute = self._count
        await writer.append(
            [
                *asks(1, "call_a", "call_b", minute=minute),
                gives("call_a", "long " * 3_000),
                gives("call_b", f"{self._id()} " * 2_000),
            ]
        )
        await writer.append(
            [*answers(begun.run_id, "well then", minute=minute), finished(turns=1, minute=minute)]
        )

    def _id(self) -> str:
        self._count += 1
        return f"run_{self._number}_{self._count}"

    async def _hand(self) -> None:
        await self._threaded(
            lambda: self._journal.sessions.add_messages(
                self._session, [message("by hand"), message("twice")]
            )
        )

    async def _clear(self) -> None:
        await self._threaded(lambda: self._journal.sessions.clear_messages(self._session))

    async def _delete(self) -> None:
        await self._threaded(lambda: self._journal.sessions.delete(self._session))

    async def _search(self) -> None:
        await self._threaded(lambda: self._journal.sessions.search("hello"))

    async def _list(self) -> None:
        await self._threaded(lambda: self._journal.sessions.list())

    async def _prune(self) -> None:
        await self._journal.prune(at(self._count - 8), apply=True)

    async def _threaded(self, act: Callable[[], object]) -> None:
        await anyio.to_thread.run_sync(act)


WHOLE = {
    "entries of no run": "select count(*) from treadle.entries where not exists (select 1 from treadle.runs where num = place >> 32)",
    "gaps": "select count(*) from treadle.runs where head <> (select count(*) from treadle.entries where place >> 32 = num)",
    "cuts of no entry": "select count(*) from treadle.cuts where not exists (select 1 from treadle.entries where entries.place = cuts.place)",
    "texts that nothing holds": "select count(*) from treadle.blobs where not exists (select 1 from treadle.cuts where blob = num)",
    "places of no run": "select count(*) from treadle.session_entries where kind = 'run' and not exists (select 1 from treadle.runs where num = run)",
    "runs of no session": "select count(*) from treadle.runs where session is not null and not exists (select 1 from treadle.sessions where num = session)",
    "places of no session": "select count(*) from treadle.session_entries where not exists (select 1 from treadle.sessions where num = session)",
    "words of nothing": "select count(*) from treadle.said where (session, pos) not in (select session, pos from treadle.session_entries)",
    "forks of nothing": "select count(*) from treadle.runs as f where fork_of is not null and not exists (select 1 from treadle.runs where id = f.fork_of)",
    "left on the way": "select count(*) from treadle.leaving",
}


async def test_all_of_it_at_once_leaves_everything_whole(
    journals: Sequence[Journal], look: Look
) -> None:
    async with anyio.create_task_group() as group:
        for number, journal in enumerate(journals):
            group.start_soon(_Somebody(journal, number).act)
    assert {what: look(statement) for what, statement in WHOLE.items()} == {
        what: [(0,)] for what in WHOLE
    }
    await says(journals[0], "run_last", "hello", "hello", session="ada")
    runs = await journals[0].runs()
    assert {info.status for info in runs} == {"finished"}
    for info in runs:
        assert len(await journals[0].read(info.run_id)) == info.entries
    for info in journals[0].sessions.list():
        assert info.message_count == len(journals[1].sessions.get_messages(info.id))

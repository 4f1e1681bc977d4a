"""What pruning takes out of the file, and what it leaves."""

from __future__ import annotations

from pathlib import Path

from tests.journal.runs import at, begun, fact, finished, gives, message, refuses, says, started
from tests.journal.sqlite.conftest import Look
from treadle.journal.entries import Fork
from treadle.journal.sqlite import SqliteJournal

TABLES = (
    "runs",
    "entries",
    "blobs",
    "cuts",
    "session_entries",
    "sessions",
    "said",
    "stops",
    "leaving",
)


def rows(look: Look) -> dict[str, int]:
    return {table: look(f"select count(*) from {table}")[0][0] for table in TABLES}


async def test_nothing_is_left_of_what_is_pruned(journal: SqliteJournal, look: Look) -> None:
    before = rows(look)
    for n in range(50):
        writer = await journal.begin(started(f"run_{n}", "needle " * 3_000, session=f"s{n % 7}"))
        await writer.append([begun("c"), gives("c", f"{n}" * 9_000), finished(minute=1)])
    assert len(journal.sessions.search("needle", limit=100)) == 50
    freed = await journal.prune(at(5), apply=True)
    assert len(freed.runs) == 50
    assert rows(look) == before
    assert look("select count(*) from words where words match 'needle'") == [(0,)]
    assert look("pragma integrity_check") == [("ok",)]


async def test_the_file_shrinks(journal: SqliteJournal, path: Path) -> None:
    for n in range(20):
        writer = await journal.begin(started(f"run_{n}"))
        await writer.append([gives("c", f"{n}-" * 50_000), finished(minute=1)])
    await says(journal, "new", "hello", "hello", minute=9)
    await journal.aclose()
    large = path.stat().st_size
    journal = SqliteJournal.open(path)
    freed = await journal.prune(at(5), apply=True)
    await journal.aclose()
    assert freed.size_bytes > 2_000_000
    assert path.stat().st_size < large - freed.size_bytes * 0.9


async def test_a_text_that_others_hold_is_not_counted_and_stays(
    journal: SqliteJournal, look: Look
) -> None:
    shared = "shared " * 3_000
    for name, minute in (("old", 1), ("older", 1), ("new", 9)):
        writer = await journal.begin(started(name))
        await writer.append([gives("c", shared), finished(minute=minute)])
    would = await journal.prune(at(5), apply=False)
    assert would.runs == ("old", "older")
    assert would.size_bytes < len(shared)
    freed = await journal.prune(at(5), apply=True)
    assert freed == would
    assert look("select count(*) from blobs") == [(1,)]
    assert (await journal.read("new"))[1].entry == gives("c", shared)


async def test_texts_that_only_the_pruned_hold_are_counted_once(journal: SqliteJournal) -> None:
    shared = "shared " * 3_000
    for name in ("old", "older"):
        writer = await journal.begin(started(name))
        await writer.append([gives("c", shared), gives("d", shared), finished(minute=1)])
    would = await journal.prune(at(5), apply=False)
    assert len(shared) < would.size_bytes < 2 * len(shared)
    assert await journal.prune(at(5), apply=True) == would


async def test_what_stays_of_a_session_goes_on(journal: SqliteJournal) -> None:
    await says(journal, "old", "ask old", "answer old", session="ada", minute=1)
    await says(journal, "gone", "hello", "hello", session="eve", minute=1)
    journal.sessions.create("Empty", session_id="empty")
    await says(journal, "new", "ask new", "answer new", session="ada", minute=9)
    await journal.prune(at(5), apply=True)
    assert {(one.id, one.message_count) for one in journal.sessions.list()} == {
        ("ada", 2),
        ("empty", 0),
    }
    assert [said.text for said in journal.sessions.get_messages("ada")] == ["ask new", "answer new"]
    assert journal.sessions.search("old") == []
    await says(journal, "next", "go on", "on", session="ada", minute=10)
    assert len(journal.sessions.get_messages("ada")) == 4


async def test_a_session_with_words_of_its_own_stays(journal: SqliteJournal) -> None:
    await says(journal, "old", "hello", "hello", session="ada", minute=1)
    journal.sessions.add_message("ada", message("a note"))
    await journal.prune(at(5), apply=True)
    assert [said.text for said in journal.sessions.get_messages("ada")] == ["a note"]


async def test_what_only_pruned_forks_needed_of_a_deleted_session_goes_too(
    journal: SqliteJournal,
) -> None:
    await says(journal, "run_1", "hello", "hello", session="ada", minute=1)
    await says(
        journal,
        "fork",
        "and?",
        "so",
        session="eve",
        minute=1,
        fork=Fork(run_id="run_1", turn=1, seq=2),
    )
    journal.sessions.delete("ada")
    assert len(await journal.runs()) == 2
    await journal.prune(at(5), apply=True)
    assert await journal.runs() == []


async def test_numbers_of_pruned_runs_are_not_used_again(journal: SqliteJournal) -> None:
    old = await says(journal, "old", "hello", "hello", minute=1)
    await journal.prune(at(5), apply=True)
    new = await journal.begin(started("new", minute=9))
    assert getattr(old, "num") < getattr(new, "num")  # noqa: B009  a late result of the old one must not reach it
    await new.append([fact("a"), fact("b")])
    assert len(await journal.read("new")) == 3


async def test_a_run_that_was_pruned_meanwhile_is_not_forked(journal: SqliteJournal) -> None:
    await says(journal, "old", "hello", "hello", minute=1)
    fork = Fork(run_id="old", turn=1, seq=2)
    await journal.load_fork(fork)
    await journal.prune(at(5), apply=True)
    with refuses("invalid", "unknown run 'old'"):
        await journal.begin(started("fork", "and?", fork=fork))
    assert await journal.runs() == []


async def test_a_run_that_was_forked_meanwhile_stays(journal: SqliteJournal) -> None:
    await says(journal, "old", "hello", "hello", minute=1)
    would = await journal.prune(at(5), apply=False)
    await journal.begin(started("fork", "and?", fork=Fork(run_id="old", turn=1, seq=2)))
    freed = await journal.prune(at(5), apply=True)
    assert would.runs == ("old",)
    assert (freed.runs, freed.kept) == ((), ("old",))

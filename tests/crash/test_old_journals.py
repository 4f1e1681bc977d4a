"""A journal that an older version wrote is read, listed, exported, replayed, resumed, forked and
gone on with, for ever.

How the files came to be stands in tests/fixtures/old_journals.py.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.crash.checker import check
from tests.crash.nursery import Nursery
from tests.fixtures.old_journals import LONG, agent_of, reading_of
from tests.service.database.postgres import PostgresServer, postgres_server
from treadle import Outcome, Runtime
from treadle.journal import open_journal
from treadle.journal.sqlite import SqliteJournal
from treadle.testing import ScriptedModel

__all__ = ["postgres_server"]
FIXTURES = Path(__file__).parents[1] / "fixtures"


class Stored(NamedTuple):
    store: str
    version: int

    @property
    def file(self) -> Path:
        return FIXTURES / (
            f"journal-v{self.version}.db"
            if self.store == "sqlite"
            else f"postgres-v{self.version}.sql"
        )


STORED = [
    Stored(store, int(path.stem.rpartition("-v")[2]))
    for store, pattern in (("sqlite", "journal-v*.db"), ("postgres", "postgres-v*.sql"))
    for path in sorted(FIXTURES.glob(pattern))
]


def version_of(store: str) -> int:
    """Of the tables that this code makes."""
    if store == "postgres":
        pytest.importorskip("psycopg")
    return importlib.import_module(f"treadle.journal.{store}.schema").VERSION


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_there_is_a_journal_of_each_version_before_this_one(store: str) -> None:
    """Before a migration is added: `python -m tests.fixtures.old_journals FOLDER [postgres]`."""
    assert {Stored(store, n) for n in range(1, version_of(store))} <= set(STORED)


@pytest.fixture(
    params=[
        pytest.param(one, marks=pytest.mark.postgres if one.store == "postgres" else ())
        for one in STORED
    ],
    ids=lambda one: f"{one.store}-{one.version}",
)
def stored(request: pytest.FixtureRequest) -> Stored:
    return request.param


@pytest.fixture
def reading(stored: Stored) -> dict[str, Any]:
    """What that version itself read in it."""
    return json.loads(stored.file.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.fixture
def run_of(reading: dict[str, Any]) -> Callable[[str], str]:
    """The oldest run of an agent."""
    return lambda agent: [
        run_id for run_id, read in reading.items() if read["row"]["agent"] == agent
    ][-1]


@pytest.fixture(scope="session")
def database_of(postgres_server: PostgresServer) -> Callable[[Stored], str]:
    """A database with what is stored, to be copied: that takes a third of the time of filling one."""

    @cache
    def made(stored: Stored) -> str:
        import psycopg

        name = f"old{stored.version}"
        postgres_server.sql(f"CREATE DATABASE {name}")
        with psycopg.connect(postgres_server.url(name), autocommit=True) as db:
            db.execute(stored.file.read_bytes())
        return name

    return made


@pytest.fixture
def journal(tmp_path: Path, stored: Stored, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a copy."""
    if stored.store == "sqlite":
        yield f"sqlite:///{shutil.copy(stored.file, tmp_path / 'journal.db')}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    old, name = request.getfixturevalue("database_of")(stored), f"t{uuid4().hex}"
    server.sql(f"CREATE DATABASE {name} TEMPLATE {old}")
    yield server.url(name)
    server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def runtime(journal: str) -> AsyncIterator[Runtime]:
    async with Runtime(journal=open_journal(journal)) as opened:
        yield opened


def rows(journal: str, sqlite: str, postgres: str) -> list[tuple[Any, ...]]:
    """Read past Treadle."""
    if journal.startswith("sqlite"):
        with closing(sqlite3.connect(journal.removeprefix("sqlite:///"))) as db:
            return db.execute(sqlite).fetchall()
    import psycopg

    with psycopg.connect(journal) as connection:
        return connection.execute(postgres.encode()).fetchall()


def _known(read: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """`read` without the fields that are newer than `then`."""
    return {
        key: _known(value, then[key])
        if isinstance(then[key], dict) and value is not None
        else value
        for key, value in read.items()
        if key in then
    }


def _shown(read: dict[str, Any]) -> dict[str, Any]:
    """`read` of one run without the ends of refused calls, each after its warning: older versions
    had none.
    """
    kinds = read["events"]
    ends = [i for i in range(1, len(kinds)) if kinds[i - 1 : i + 1] == ["warning", "tool_call_end"]]
    return {**read, "events": [kind for i, kind in enumerate(kinds) if i not in ends]}


async def test_everything_in_it_reads_as_it_did(runtime: Runtime, reading: dict[str, Any]) -> None:
    read = _known(await reading_of(runtime), reading)
    assert {run: _shown(one) for run, one in read.items()} == {
        run: _shown(one) for run, one in reading.items()
    }


def test_it_holds_whatever_a_journal_can_hold(journal: str) -> None:
    types, cuts = "select distinct type from ", "select count(*) from "
    kinds = {kind for (kind,) in rows(journal, types + "entries", types + "treadle.entries")}
    assert rows(journal, cuts + "cuts", cuts + "treadle.cuts") != [(0,)]
    everything = {
        "run.started",
        "model.requested",
        "model.responded",
        "tool.started",
        "tool.finished",
        "tool.late",
        "approval.asked",
        "approval.answered",
    }
    assert kinds == everything | {
        "input.added",
        "compaction",
        "cancel.asked",
        "run.resumed",
        "run.finished",
    }


async def test_a_call_in_which_its_process_died_is_unknown_and_happens_once(
    runtime: Runtime, run_of: Callable[[str], str]
) -> None:
    result = await runtime.resume(run_of("killed"), agent_of("killed"))
    assert result.outcome is Outcome.COMPLETED
    assert result.text == "It may have happened."
    (look, die, stamp) = result.messages[2].tool_results
    assert [look.unknown, die.unknown, stamp.unknown] == [False, True, False]
    assert "It may or may not have taken effect" in die.text
    assert stamp.text == "tea: done", "idempotent calls are run again"


async def test_a_call_that_waits_for_approval_runs_once_it_is_given(
    runtime: Runtime, run_of: Callable[[str], str]
) -> None:
    state = await runtime.journal.load(run_of("waiting"))
    result = await runtime.resume(
        run_of("waiting"),
        agent_of("waiting"),
        approve=[call.id for call in state.current.open_calls],
    )
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "It was allowed.")
    assert result.messages[2].tool_results[0].text == "tea: done"


async def test_a_call_that_nobody_knows_about_waits_for_what_a_person_found_out(
    runtime: Runtime, run_of: Callable[[str], str]
) -> None:
    state = await runtime.journal.load(run_of("unknown"))
    (call,) = state.current.open_calls
    # from 47ad9b7 on, the result arrived before the process ended
    arrived = call.id not in state.approvals.asked
    results = {} if arrived else {call.id: "It did."}
    result = await runtime.resume(run_of("unknown"), agent_of("unknown"), results=results)
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "A person said what happened.")
    text = result.messages[2].tool_results[0].text
    assert text == ("tea: done after all" if arrived else "It did.")


@pytest.mark.parametrize("turn", [0, 1, 2, 3])
async def test_a_run_is_forked_at_any_turn(
    runtime: Runtime, turn: int, run_of: Callable[[str], str]
) -> None:
    parent = await runtime.replay(run_of("finished"))
    result = await runtime.fork(
        run_of("finished"), turn=turn, text="Once more.", agent=agent_of("forked")
    )
    assert result.text == "Otherwise, then."
    kept = len(result.messages) - 2
    assert result.messages[:kept] == parent.messages[:kept]
    assert kept == (0, 3, 5, 6)[turn]


async def test_a_conversation_goes_on_after_its_view_was_cut(runtime: Runtime) -> None:
    before = await runtime.messages("talk")
    result = await runtime.run(agent_of("talk", place=54), "One more?", session="talk")
    assert result.text == "Answer 14, about the loom."
    assert result.messages[: len(before)] == before
    assert before[0].text == "Question 0, about weaving."


async def test_what_came_after_the_end_of_a_run_is_told_in_the_next_one_of_its_conversation(
    runtime: Runtime,
) -> None:
    model = ScriptedModel([{"text": "I know it now."}])
    await runtime.run(
        replace(agent_of("late-after-the-end"), model=model), "And now?", session="late"
    )
    assert any("done after all" in message.text for message in model.requests[0].messages)


async def test_conversations_are_listed_and_searched(runtime: Runtime) -> None:
    titles = {info.id: info.title for info in runtime.sessions.list()}
    assert titles["talk"] == "Question 0, about weaving."
    assert {hit.session_id for hit in runtime.sessions.search("weaving")} == {"talk"}


async def test_long_results_are_whole(runtime: Runtime, run_of: Callable[[str], str]) -> None:
    result = await runtime.replay(run_of("finished"))
    assert LONG.strip() in [part.text.strip() for part in result.messages[2].tool_results]


async def test_each_run_is_exported_and_taken_in_elsewhere(
    runtime: Runtime, tmp_path: Path, reading: dict[str, Any]
) -> None:
    async with Runtime(journal=SqliteJournal.open(tmp_path / "other.db")) as other:
        for run_id in reversed(reading):
            await other.journal.add_run(await runtime.journal.read_bytes(run_id))
        read = await reading_of(other)
    for run_id, one in reading.items():
        assert {**_shown(_known(read[run_id], one)), "row": None} == {**_shown(one), "row": None}


def test_the_commands_work_on_it(
    nursery: Nursery, journal: str, tmp_path: Path, run_of: Callable[[str], str]
) -> None:
    where = {"TREADLE_JOURNAL": journal, "TREADLE_HOME": str(tmp_path / "home")}
    for arguments in (
        ["runs", "list"],
        ["sessions", "list"],
        *(["runs", command, run_of("finished")] for command in ("show", "replay", "export")),
    ):
        ended = nursery.treadle(*arguments, cwd=tmp_path, env=where)
        assert ended.code == 0, ended.said
    version = version_of(journal.partition(":")[0].removesuffix("ql"))
    assert rows(journal, "pragma user_version", "select max(version) from treadle.versions") == [
        (version,)
    ]


def test_the_checker_finds_nothing_in_it(journal: str, tmp_path: Path) -> None:
    place = Path(journal.removeprefix("sqlite:///")) if journal.startswith("sqlite") else journal
    assert not check(place, tmp_path / "no witness", open_runs=True).violations

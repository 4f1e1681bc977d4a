"""Journals of every version are read, and gone on with, for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journal.runs import answers, at, finished, gives, resumed, says
from tests.journal.sqlite.fixture import FOLDER, LONG, unpack
from treadle.journal.queue import QueuePlace, Ticket
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.sqlite.schema import VERSION
from treadle.types import Outcome

VERSIONS = sorted(int(one.name.split(".")[0]) for one in FOLDER.glob("*.db.gz"))


def test_there_is_a_journal_of_this_version() -> None:
    assert VERSION in VERSIONS


@pytest.fixture(params=VERSIONS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> SqliteJournal:
    return SqliteJournal.open(unpack(request.param, tmp_path / "journal.db"))


async def test_its_lists_are_what_they_were(old: SqliteJournal) -> None:
    runs = {
        run.run_id: (run.status, run.turns, run.tool_calls, run.entries, run.model)
        for run in await old.runs()
        if run.queue is None
    }
    assert runs == {
        "run_first": ("finished", 1, 0, 3, "m"),
        "run_tools": ("finished", 2, 2, 12, "m"),
        "run_window": ("finished", 1, 0, 4, "m"),
        "run_fork": ("finished", 1, 0, 3, "m"),
        "run_once": ("stopped", 1, 2, 6, "m"),
        "run_waiting": ("waiting", 1, 0, 4, "m"),
        "run_resumed": ("stopped", 0, 0, 3, "other"),
        "run_gone": ("finished", 1, 0, 3, "m"),
    }
    sessions = {(one.id, one.title, one.message_count) for one in old.sessions.list()}
    assert sessions == {
        ("ada", "Where is it warm in winter?", 9),
        ("eve", "Rather this.", 9),
        ("bob", "Charge it.", 0),
        ("cleo", "May I?", 0),
        ("empty", "Empty", 0),
        ("cleared", "Forget it.", 0),
    }
    await old.aclose()


async def test_its_runs_are_found_by_their_labels(old: SqliteJournal) -> None:
    await says(old, "run_new", "And?", "So.", minute=21)
    every = [run.run_id for run in await old.runs()]
    assert len(every) > 8
    assert [run.run_id for run in await old.runs(agent="a")] == every
    assert [run.run_id for run in await old.runs(agent="a", limit=2)] == every[:2]
    assert await old.runs(agent="b") == []
    assert await old.runs(tag="a") == []
    await old.aclose()


async def test_what_was_said_is_there(old: SqliteJournal) -> None:
    texts = [said.text for said in old.sessions.get_messages("ada")]
    assert texts[0] == "Where is it warm in winter?"
    assert texts[1:3] == ["Look there.", "turn 1"]
    assert texts[4:6] == ["Quick!", "Done. 🧵 \ud800"]
    assert "It had happened." in texts[6]
    assert texts[7:] == ["And now?", "Now."]
    (results,) = [
        said.tool_results for said in old.sessions.get_messages("ada") if said.role == "tool"
    ]
    assert results[0].content == LONG
    assert results[1].unknown
    assert [said.text for said in old.sessions.get_messages("eve")][-2:] == [
        "Rather this.",
        "That.",
    ]
    assert [hit.excerpt for hit in old.sessions.search("lisbon")] == ["In Lisbon."]
    assert old.sessions.search("forgotten") == []
    await old.aclose()


async def test_its_runs_go_on(old: SqliteJournal) -> None:
    state = await old.load("run_once")
    assert [call.id for call in state.current.open_calls] == ["call_open"]
    writer = await old.take_over("run_once")
    assert await writer.append([resumed(writer.fence), gives("call_open", "unknown")]) == 7
    await writer.append(
        [*answers("run_once", "Charged.", minute=20), finished(turns=2, tool_calls=2, minute=20)]
    )
    assert (await old.info("run_once")).outcome is Outcome.COMPLETED
    waiting = await old.load("run_waiting")
    assert list(waiting.approvals.asked) == ["call_ask"]
    assert (await old.take_over("run_waiting")).fence == 2
    assert (await old.take_over("run_resumed")).fence == 3
    await says(old, "run_new", "And?", "So.", session="ada", minute=21)
    assert [said.text for said in old.sessions.get_messages("ada")][-2:] == ["And?", "So."]
    await old.aclose()


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 3])
async def test_what_waits_for_a_worker_waits_for_ever(version: int, tmp_path: Path) -> None:
    old = SqliteJournal.open(unpack(version, tmp_path / "journal.db"))
    infos = {
        run.run_id: (run.status, run.queue, run.tenant, run.parked)
        for run in await old.runs(limit=2)
    }
    assert infos == {
        "run_queued": ("queued", "nightly", "ada", None),
        "run_parked": ("stopped", "default", None, "nobody can"),
    }
    (ticket,) = await old.queue.claim(["nightly", "default"], engine="local", most=5)
    assert ticket == Ticket(
        run_id="run_queued", queue="nightly", priority=3, tenant="ada", delivery=1, queued_at=at(11)
    )
    assert (await old.take_over("run_queued")).fence == 1
    await old.aclose()


async def test_a_journal_of_an_older_version_gets_its_queues(tmp_path: Path) -> None:
    old = SqliteJournal.open(unpack(2, tmp_path / "journal.db"))
    assert await old.queue.backlogs() == []
    assert await old.queue.put_back("run_once", place=QueuePlace(tenant="bob"))
    assert [
        ticket.run_id for ticket in await old.queue.claim(["default"], engine="local", most=5)
    ] == ["run_once"]
    await old.aclose()


async def test_its_runs_are_exported_and_taken_in_by_this_version(
    old: SqliteJournal, tmp_path: Path
) -> None:
    other = SqliteJournal.open(tmp_path / "other.db")
    for run in reversed(await old.runs()):
        data = await old.read_bytes(run.run_id)
        await other.add_run(data)
        assert await other.read_bytes(run.run_id) == data
    await other.aclose()
    await old.aclose()

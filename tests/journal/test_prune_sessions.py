"""Pruning leaves the past of a run that waits, and of a fork, whatever its age: in memory, SQLite
and PostgreSQL.
"""

from __future__ import annotations

from tests.journal.runs import answers, asks, at, finished, started
from tests.journal.test_removed_messages import converses
from treadle.journal.entries import ApprovalAsked, Fork
from treadle.journal.journal import Journal

WEEKS = 60 * 24 * 60


async def _waits(journal: Journal, run_id: str, *, minute: float) -> None:
    writer = await journal.begin(started(run_id, "May I?", session="ada", minute=minute))
    ask = ApprovalAsked(
        at=at(minute), call_id="c", name="t", arguments_json="{}", reason="it costs money"
    )
    await writer.append([*asks(1, "c", minute=minute)[:2], ask])
    await writer.release(waiting=True)


async def _texts(journal: Journal, run_id: str) -> list[str]:
    return [message.text for message in (await journal.load(run_id)).context.history]


async def test_a_run_that_waits_for_weeks_keeps_its_whole_past(journal: Journal) -> None:
    await converses(journal, "run_0", "hello", "hi", session="ada", minute=0)
    await converses(journal, "run_1", "and then?", "well", session="ada", minute=1)
    await _waits(journal, "run_2", minute=2)
    before = await _texts(journal, "run_2")
    freed = await journal.prune(at(WEEKS), apply=True)
    assert await _texts(journal, "run_2") == before
    writer = await journal.take_over("run_2")
    assert freed.runs == () or "run_2" not in freed.runs
    await writer.release()


async def test_a_fork_keeps_the_past_of_the_run_that_it_was_forked_from(journal: Journal) -> None:
    await converses(journal, "run_0", "hello", "hi", session="ada", minute=0)
    await converses(journal, "run_1", "and then?", "well", session="ada", minute=1)
    await converses(
        journal,
        "fork",
        "rather this",
        "that",
        session="new",
        fork=Fork(run_id="run_1", turn=1, seq=2),
        minute=WEEKS,
    )
    before = await _texts(journal, "fork")
    await journal.prune(at(WEEKS - 1), apply=True)
    assert await _texts(journal, "fork") == before


async def test_a_past_that_came_to_be_needed_after_the_plan_stays(journal: Journal) -> None:
    await converses(journal, "run_0", "hello", "hi", session="ada", minute=0)
    planned = await journal.prune(at(WEEKS), apply=False)
    assert planned.runs == ("run_0",)
    await _waits(journal, "run_2", minute=2)
    before = await _texts(journal, "run_2")
    await journal.prune(at(WEEKS), apply=True)
    assert await _texts(journal, "run_2") == before


async def test_a_past_that_nobody_goes_on_from_goes(journal: Journal) -> None:
    await converses(journal, "run_0", "hello", "hi", session="ada", minute=0)
    journal.sessions.clear_messages("ada")
    await converses(journal, "run_1", "and then?", "well", session="ada", minute=1)
    await _waits(journal, "run_2", minute=2)
    assert "run_0" in (await journal.prune(at(WEEKS), apply=True)).runs


async def test_what_was_kept_goes_with_the_run_that_needed_it(journal: Journal) -> None:
    await converses(journal, "run_0", "hello", "hi", session="ada", minute=0)
    await _waits(journal, "run_2", minute=2)
    assert (await journal.prune(at(WEEKS), apply=True)).kept == ("run_0",)
    writer = await journal.take_over("run_2")
    await writer.append([*answers("run_2", "done", minute=3), finished(turns=2, minute=3)])
    assert sorted((await journal.prune(at(WEEKS), apply=True)).runs) == ["run_0", "run_2"]

"""A run whose times lie far ahead, written under a wrong clock, changes nothing of other runs: order
follows the journal and not the clock.
"""

from __future__ import annotations

from datetime import date

import pytest

from tests.journal.conftest import Kind
from tests.journal.runs import AT, at, says, started
from treadle.journal.journal import Journal

FAR = 60 * 24 * 365 * 1000
"""Minutes of a thousand years."""


async def _three(journal: Journal) -> None:
    await says(journal, "far", "hello", "hi", session="ada", minute=FAR)
    await says(journal, "next", "and?", "so", session="ada", minute=5)
    await says(journal, "other", "good day", "yes?", session="bob", minute=1)


async def test_lists_keep_their_order(journal: Journal) -> None:
    await _three(journal)
    assert [run.run_id for run in await journal.runs()] == ["other", "next", "far"]
    assert [session.id for session in journal.sessions.list()] == ["bob", "ada"]


async def test_messages_keep_their_order(kind: Kind, journal: Journal) -> None:
    if not kind.durable:
        pytest.skip("in memory a session has the messages that the runtime gives it")
    await _three(journal)
    texts = ["hello", "hi", "and?", "so"]
    assert [message.text for message in (await journal.view("ada")).messages] == texts
    assert [message.text for message in (await journal.load("next")).context.history] == texts


async def test_pruning_takes_the_others_at_their_own_age(journal: Journal) -> None:
    await _three(journal)
    freed = await journal.prune(at(3), apply=True)
    assert (freed.runs, freed.kept) == (("other",), ())
    assert {run.run_id for run in await journal.runs()} == {"next", "far"}


async def test_the_costs_of_a_day_leave_it_out(journal: Journal) -> None:
    writer = await journal.begin(started("far", minute=FAR))
    before = (await journal.costs("day", since=date(2026, 1, 1))).rows
    await says(journal, "now", "hello", "hi")
    rows = (await journal.costs("day", since=date(2026, 1, 1))).rows
    assert [row for row in rows if row.key != AT.date().isoformat()] == [*before]
    await writer.release()


async def test_a_session_goes_on_after_it_and_its_run_can_be_taken_over(journal: Journal) -> None:
    writer = await journal.begin(started("far", session="ada", minute=FAR))
    assert (held := await journal.holder("ada")) is not None
    assert held.run_id == "far"
    await writer.release()
    assert await journal.holder("ada") is None
    assert await journal.left_behind(limit=9) == ["far"]
    await (await journal.take_over("far")).release()

"""A run whose times lie far ahead, written under a wrong clock, changes nothing of other runs: order
follows the journal and not the clock.
"""

from __future__ import annotations

from datetime import date

import pytest
from msgspec import structs

from tests.journal.conftest import Kind
from tests.journal.runs import AT, answers, at, finished, says, started
from treadle._internal.json_text import encode_json
from treadle.journal.journal import Journal
from treadle.journal.shards.journal import ShardedJournal

FAR = 60 * 24 * 365 * 1000
"""Minutes of a thousand years."""


@pytest.fixture
def one_journal(journal: Journal) -> Journal:
    """A journal that is not spread: each shard knows the order of its own runs only."""
    if isinstance(journal, ShardedJournal):
        pytest.skip("each shard judges the age of its own runs")
    return journal


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


async def test_a_run_counts_as_old_where_one_that_began_later_is_old(one_journal: Journal) -> None:
    await _three(one_journal)
    await says(one_journal, "last", "hello", "hi", minute=FAR)
    would = await one_journal.prune(at(3), apply=False)
    assert (set(would.runs), would.kept) == ({"far", "other"}, ())
    assert await one_journal.prune(at(3), apply=True) == would
    assert {run.run_id for run in await one_journal.runs()} == {"next", "last"}


async def test_its_age_is_not_known_where_none_that_began_later_is_old(
    one_journal: Journal,
) -> None:
    await says(one_journal, "old", "hello", "hi", minute=1)
    await says(one_journal, "far", "hello", "hi", minute=FAR)
    await says(one_journal, "new", "hello", "hi", minute=5)
    assert (await one_journal.prune(at(3), apply=True)).runs == ("old",)
    assert (await one_journal.prune(at(9), apply=True)).runs == ("far", "new")


async def test_an_imported_run_shows_no_age_of_others(journal: Journal) -> None:
    await says(journal, "far", "hello", "hi", minute=FAR)
    began = structs.replace(started("copy", minute=1), imported=at(1))
    await journal.add_run(
        [encode_json(one) for one in [began, *answers("copy", "hi"), finished(minute=1)]]
    )
    assert (await journal.prune(at(3), apply=True)).runs == ("copy",)


async def test_a_run_that_is_not_finished_shows_no_age_of_others(journal: Journal) -> None:
    await says(journal, "far", "hello", "hi", minute=FAR)
    await (await journal.begin(started("open", minute=1))).release()
    assert (await journal.prune(at(3), apply=True)).runs == ()


async def test_it_stays_for_a_run_that_goes_on_from_it(one_journal: Journal) -> None:
    await says(one_journal, "far", "hello", "hi", session="ada", minute=FAR)
    await (await one_journal.begin(started("open", session="ada", minute=1))).release()
    await says(one_journal, "other", "good day", "yes?", minute=1)
    before = [message.text for message in (await one_journal.load("open")).context.history]
    would = await one_journal.prune(at(3), apply=False)
    if "far" in would.runs:  # in memory a run has what it found
        assert (would.runs, would.kept) == (("far", "other"), ())
    else:
        assert (would.runs, would.kept) == (("other",), ("far",))
    assert await one_journal.prune(at(3), apply=True) == would
    after = [message.text for message in (await one_journal.load("open")).context.history]
    assert after == before


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

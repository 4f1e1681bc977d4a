"""Contract of every journal: costs, pruning and closing."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec
import pytest

from treadle._internal.json_text import encode_json
from treadle.apps.testing.contracts.kinds import JournalKind
from treadle.apps.testing.contracts.runs import (
    AT,
    USED,
    asks,
    at,
    entries_of,
    fact,
    finished,
    message,
    refuses,
    says,
    started,
)
from treadle.budget.spending import Spending
from treadle.journal.entries import (
    Fork,
    ModelResponded,
    RunFinished,
)
from treadle.journal.journal import Journal
from treadle.journal.memory.journal import MemoryJournal
from treadle.messages.metrics import RunTotals
from treadle.types import Outcome

# ---------------------------------------------------------------- costs


async def test_what_runs_have_cost_is_counted_with_those_that_are_not_finished(
    journal: Journal,
) -> None:
    for run_id, session, parent, ends in (
        ("run_1", "ada", None, True),
        ("run_2", None, "run_1", True),
        ("run_3", "bob", None, False),
    ):
        writer = await journal.begin(started(run_id, session=session, parent=parent))
        turn = [
            msgspec.structs.replace(entry, cost_usd=0.5)
            if isinstance(entry, ModelResponded)
            else entry
            for entry in asks(1)
        ]
        spending = (Spending(model="m", day="2026-11-20", responses=1, usage=USED, cost_usd=0.5),)
        end = RunFinished(
            at=AT,
            outcome=Outcome.COMPLETED,
            turns=1,
            tool_calls=0,
            usage=USED,
            cost_usd=0.5,
            spending=spending,
            duration_s=0.5,
        )
        await writer.append([*turn, *([end] if ends else [])])
        assert (await journal.info(run_id)).cost_usd == 0.5
    by_session = await journal.costs("session")
    assert [(row.key, row.runs, row.cost_usd) for row in by_session.rows] == [
        ("ada", 2, 1.0),
        ("bob", 1, 0.5),
    ]
    by_model = await journal.costs("model")
    assert [(row.key, row.responses, row.unpriced, row.usage) for row in by_model.rows] == [
        ("m", 3, 0, USED + USED + USED)
    ]
    assert by_model.total == by_session.total == msgspec.structs.replace(by_model.rows[0], key=None)
    assert not (await journal.costs("day", since=date(2026, 11, 21))).rows
    assert [row.key for row in (await journal.costs("day", since=date(2026, 11, 20))).rows] == [
        "2026-11-20"
    ]


async def test_totals_count_every_run_below_whether_its_end_states_them_or_not(
    journal: Journal,
) -> None:
    """Three levels. Ends of an older version have no totals, and runs under way have no end."""
    for run_id, parent in (
        ("run_1", None),
        ("run_2", "run_1"),
        ("run_3", "run_2"),
        ("run_4", "run_1"),
    ):
        if run_id == "run_2":
            await journal.add_run(
                [
                    encode_json(entry)
                    for entry in (started(run_id, parent=parent), *asks(1), finished(turns=1))
                ]
            )
            continue
        writer = await journal.begin(started(run_id, parent=parent))
        end = msgspec.structs.replace(
            finished(turns=1), total=RunTotals(runs=5, turns=9, usage=USED)
        )
        await writer.append([*asks(1), *([end] if run_id == "run_4" else [])])
    listed = {info.run_id: info.total for info in await journal.runs()}
    assert {run_id: (total.runs, total.turns) for run_id, total in listed.items()} == {
        "run_1": (8, 12),
        "run_2": (2, 2),
        "run_3": (1, 1),
        "run_4": (5, 9),
    }
    assert listed["run_1"].unpriced == 3
    assert [info.total for info in await journal.children("run_1")] == [
        listed["run_2"],
        listed["run_4"],
    ]
    for run_id, total in listed.items():
        assert (await journal.info(run_id)).total == total


async def test_imported_runs_that_name_each_other_as_parents_are_counted_once(
    journal: Journal,
) -> None:
    for run_id, parent in (("run_1", "run_2"), ("run_2", "run_1"), ("run_3", "run_3")):
        await journal.add_run(
            [
                encode_json(entry)
                for entry in (started(run_id, parent=parent), *asks(1), finished(turns=1))
            ]
        )
    assert {info.run_id: info.total.runs for info in await journal.runs()} == {
        "run_1": 2,
        "run_2": 2,
        "run_3": 1,
    }


async def test_costs_are_summed_by_user_and_by_agent_and_by_nothing_that_there_is_not(
    journal: Journal,
) -> None:
    for run_id, user, agent in (
        ("run_1", "ada", "boss"),
        ("run_2", "ada", "helper"),
        ("run_3", None, "boss"),
    ):
        writer = await journal.begin(
            msgspec.structs.replace(started(run_id), user_id=user, agent=agent)
        )
        await writer.append([*asks(1), *([finished(turns=1)] if run_id != "run_2" else [])])
        assert (await journal.info(run_id)).user_id == user
    assert {row.key: row.responses for row in (await journal.costs("user")).rows} == {
        "ada": 2,
        None: 1,
    }
    assert {row.key: row.responses for row in (await journal.costs("agent")).rows} == {
        "boss": 2,
        "helper": 1,
    }
    with refuses("invalid", "'nonsense'"):
        await journal.costs("nonsense")  # pyright: ignore[reportArgumentType]  the refusal


async def test_a_run_whose_price_was_not_known_then_is_counted_without_one(
    journal: Journal,
) -> None:
    writer = await journal.begin(started())
    await writer.append([*asks(1), finished(turns=1)])
    (row,) = (await journal.costs("day")).rows
    assert (row.key, row.responses, row.unpriced, row.usage, row.cost_usd) == (
        "2026-11-20",
        1,
        1,
        USED,
        None,
    )


# ---------------------------------------------------------------- pruning


async def test_pruning_takes_away_what_is_old_and_finished(journal: Journal) -> None:
    await says(journal, "old", "hello", "hello", minute=1)
    await journal.begin(started("old, but not finished", minute=1))
    await says(journal, "new", "hello", "hello", minute=5)
    would = await journal.prune(at(3), apply=False)
    assert (would.runs, would.kept) == (("old",), ())
    assert would.size_bytes > 100
    assert len(await journal.runs()) == 3
    assert await journal.prune(at(3), apply=True) == would
    assert {run.run_id for run in await journal.runs()} == {"old, but not finished", "new"}
    assert (await journal.prune(at(3), apply=True)).runs == ()


async def test_what_runs_that_stay_were_forked_from_stays(journal: Journal) -> None:
    await says(journal, "root", "hello", "hello", minute=1)
    await says(journal, "branch", "and?", "so", minute=1, fork=Fork(run_id="root", turn=1, seq=2))
    await says(journal, "other", "hello", "hello", minute=1)
    await says(journal, "leaf", "and?", "so", minute=5, fork=Fork(run_id="branch", turn=1, seq=2))
    freed = await journal.prune(at(3), apply=True)
    assert (freed.runs, set(freed.kept)) == (("other",), {"root", "branch"})
    assert [said.text for said in (await journal.load("leaf")).context.history] == [
        "hello",
        "hello",
        "and?",
        "so",
        "and?",
        "so",
    ]
    would = await journal.prune(at(9), apply=False)
    assert (set(would.runs), would.kept) == ({"root", "branch", "leaf"}, ())
    assert await journal.prune(at(9), apply=True) == would


async def test_what_is_just_as_old_as_that_stays(journal: Journal) -> None:
    await says(journal, "run_1", "hello", "hello", minute=1)
    await says(journal, "run_2", "hello", "hello", minute=3)
    assert (await journal.prune(at(3), apply=True)).runs == ("run_1",)
    assert [run.run_id for run in await journal.runs()] == ["run_2"]


async def test_a_run_goes_together_with_those_that_it_started(journal: Journal) -> None:
    await says(journal, "ended", "hello", "hello", minute=1)
    await says(journal, "its child", "hello", "hello", minute=1, parent="ended")
    await journal.begin(started("waits", minute=1))
    await says(journal, "the child of one that waits", "hello", "hello", minute=1, parent="waits")
    await says(
        journal, "below that", "hello", "hello", minute=1, parent="the child of one that waits"
    )
    freed = await journal.prune(at(3), apply=True)
    assert (set(freed.runs), set(freed.kept)) == (
        {"ended", "its child"},
        {"the child of one that waits", "below that"},
    )
    assert [info.run_id for info in await journal.children("waits")] == [
        "the child of one that waits"
    ]
    assert await journal.children("ended") == []


async def test_a_fork_is_counted_again_once_runs_before_the_one_it_was_forked_from_are_deleted(
    kind: JournalKind, journal: Journal
) -> None:
    """Its history is that run's, with earlier messages of its session."""
    if not kind.durable:
        pytest.skip("the loop informs in-memory sessions of messages")
    for minute in range(3):
        await says(journal, f"run_{minute}", "hello", "hello", session="bob", minute=minute)
    await says(
        journal,
        "fork",
        "hello",
        "hello",
        session="cleo",
        fork=Fork(run_id="run_2", turn=1, seq=2),
        minute=9,
    )
    before = {info.id: info.message_count for info in journal.sessions.list()}
    assert before == {"bob": 6, "cleo": len(journal.sessions.get_messages("cleo"))}
    assert (await journal.remove(["run_0", "run_1"])).runs == ("run_0", "run_1")
    counts: dict[str, int] = {}
    for _ in range(2):  # counted, and kept
        counts = {info.id: info.message_count for info in journal.sessions.list()}
        assert counts == {
            session_id: len(journal.sessions.get_messages(session_id)) for session_id in before
        }
    assert all(counts[session_id] < before[session_id] for session_id in before)


# ---------------------------------------------------------------- closing


async def test_closing_twice_is_closing_once(kind: JournalKind, tmp_path: Path) -> None:
    opened = await kind.open(tmp_path)
    await opened.begin(started())
    await opened.aclose()
    await opened.aclose()


async def test_what_was_in_memory_is_gone_after_closing() -> None:
    journal = MemoryJournal()
    await says(journal, "run_1", "hello", "hello")
    await journal.aclose()
    assert await journal.runs() == []


async def test_what_is_durable_is_there_after_closing(kind: JournalKind, tmp_path: Path) -> None:
    first = await kind.open(tmp_path)
    writer = await first.begin(started())
    await writer.append([fact("a")])
    await first.aclose()
    second = await kind.open(tmp_path)
    try:
        if kind.durable:
            assert await entries_of(second) == [started(), fact("a")]
            assert (await second.info("run_1")).status == "stopped"
            assert await (await second.take_over("run_1")).append([fact("b")]) == 3
        else:
            assert await second.runs() == []
    finally:
        await second.aclose()


async def test_a_message_that_was_added_by_hand_is_in_view(journal: Journal) -> None:
    journal.sessions.create(session_id="ada")
    assert journal.sessions.add_message("ada", message("a note"))
    assert [said.text for said in journal.sessions.get_messages("ada")] == ["a note"]

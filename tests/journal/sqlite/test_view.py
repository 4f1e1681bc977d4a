"""What is in view of a session: a fold of the journal, read from its end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.journal.runs import (
    answers,
    asks,
    at,
    finished,
    gives,
    keeps,
    late,
    message,
    refuses,
    says,
    started,
    steers,
)
from tests.journal.sqlite.conftest import Look
from tests.profiles import BY_CHANCE
from treadle.journal.entries import Entry, Fork
from treadle.journal.run_state import RunState
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.sqlite.readers import KEPT_MAX
from treadle.journal.tables import view
from treadle.journal.window import window
from treadle.messages.message import Message


def texts(journal: SqliteJournal, session: str = "ada", *, before: str | None = None) -> list[str]:
    return [said.text for said in journal.sessions.get_messages(session, before=before)]


async def test_the_runs_of_a_session_are_in_view_in_their_order(journal: SqliteJournal) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    await says(journal, "run_x", "hello", "hi", session="eve")
    await says(journal, "run_2", "and now?", "now", session="ada")
    assert texts(journal) == ["hello", "hi", "and now?", "now"]
    assert texts(journal, before="run_2") == ["hello", "hi"]
    assert texts(journal, before="run_1") == []
    assert [(one.id, one.message_count) for one in journal.sessions.list()] == [
        ("ada", 4),
        ("eve", 2),
    ]


async def test_all_that_a_run_says_is_in_view_once_it_is_finished(journal: SqliteJournal) -> None:
    writer = await journal.begin(
        msgspec.structs.replace(started(session="ada"), messages=(message("be kind"),))
    )
    await writer.append(
        [*asks(1, "c", "d", text="I look"), gives("c"), gives("d"), steers("quick!")]
    )
    assert texts(journal) == []
    await writer.append([*answers("run_1", "done"), finished(turns=2, tool_calls=2)])
    assert texts(journal) == ["be kind", "hello", "I look", "", "quick!", "done"]
    assert journal.sessions.list()[0].message_count == 6
    await writer.append([late("d", "it did")])
    assert len(texts(journal)) == 7
    assert "it did" in texts(journal)[-1]
    history = (await journal.load("run_1")).context.history
    assert [*history] == journal.sessions.get_messages("ada")


async def test_what_is_added_and_cleared_by_hand_has_its_place(journal: SqliteJournal) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    journal.sessions.add_messages("ada", [message("a note"), message("an answer", "assistant")])
    await says(journal, "run_2", "and now?", "now", session="ada")
    assert texts(journal) == ["hello", "hi", "a note", "an answer", "and now?", "now"]
    assert texts(journal, before="run_2") == ["hello", "hi", "a note", "an answer"]
    journal.sessions.clear_messages("ada")
    assert texts(journal) == []
    await says(journal, "run_3", "again", "so", session="ada")
    assert texts(journal) == ["again", "so"]
    assert texts(journal, before="run_2") == ["hello", "hi", "a note", "an answer"]
    assert [said.text for said in (await journal.load("run_2")).context.history][:2] == [
        "hello",
        "hi",
    ]
    assert journal.sessions.list()[0].message_count == 2


async def test_parts_of_a_run_say_nothing_in_its_session(journal: SqliteJournal) -> None:
    writer = await journal.begin(started(session="ada"))
    part = await journal.begin(started("part", "look there", session="ada", parent="run_1"))
    await part.append([*answers("part", "nothing there"), finished(turns=1)])
    assert texts(journal, before="part") == []
    await writer.append([*answers("run_1", "hi"), finished(turns=1)])
    assert texts(journal) == ["hello", "hi"]


async def test_a_fork_brings_the_past_that_it_goes_on_from(
    journal: SqliteJournal, look: Look
) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    await says(journal, "run_2", "and now?", "now", session="ada")
    fork = Fork(run_id="run_2", turn=0, seq=1)
    writer = await journal.begin(started("fork", "rather this", session="new", fork=fork))
    assert texts(journal, "new") == []
    await writer.append([*answers("fork", "that"), finished(turns=1)])
    assert texts(journal, "new") == ["hello", "hi", "rather this", "that"]
    await says(journal, "run_3", "go on", "on", session="new")
    assert texts(journal, "new") == ["hello", "hi", "rather this", "that", "go on", "on"]
    for _ in range(2):
        assert {one.id: one.message_count for one in journal.sessions.list()} == {
            "ada": 4,
            "new": 6,
        }
    assert look("select count(*) from sessions where messages is null") == [(0,)]


async def test_what_came_late_was_not_there_for_a_run_that_had_begun(
    journal: SqliteJournal,
) -> None:
    writer = await journal.begin(started(session="ada"))
    await writer.append(
        [
            *asks(1, "c", text="I look"),
            gives("c"),
            *answers("run_1", "done"),
            finished(turns=2, tool_calls=1),
        ]
    )
    journal.sessions.add_message("ada", message("a note"))
    await journal.begin(started("run_2", "and now?", session="ada", minute=1))
    assert [one.message_count for one in journal.sessions.list()] == [5]
    await writer.append([msgspec.structs.replace(late("c"), at=at(2))])
    assert [one.message_count for one in journal.sessions.list()] == [6]
    assert texts(journal, before="run_2") == ["hello", "I look", "", "done", "a note"]
    assert ["it happened" in said for said in texts(journal)] == [
        False,
        False,
        False,
        False,
        True,
        False,
    ]


async def test_what_came_late_to_a_fork_was_not_there_either(journal: SqliteJournal) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    writer = await journal.begin(
        started("fork", "rather this", session="new", fork=Fork(run_id="run_1", turn=1, seq=2))
    )
    await writer.append(
        [
            *asks(1, "c", text="I look"),
            gives("c"),
            *answers("fork", "that"),
            finished(turns=2, tool_calls=1),
        ]
    )
    journal.sessions.add_message("new", message("a note"))
    await journal.begin(started("run_2", "and now?", session="new", minute=1))
    await writer.append([msgspec.structs.replace(late("c"), at=at(2))])
    assert texts(journal, "new", before="run_2") == [
        "hello",
        "hi",
        "rather this",
        "I look",
        "",
        "that",
        "a note",
    ]
    assert ["it happened" in said for said in texts(journal, "new")] == [False] * 6 + [True, False]


async def test_a_window_leaves_what_it_kept_in_view(journal: SqliteJournal) -> None:
    for n in range(4):
        await says(journal, f"run_{n}", f"ask {n}", f"answer {n}", session="ada", minute=n)
    writer = await journal.begin(started("run_4", "ask 4", session="ada"))
    await writer.append(
        [keeps("msg_run_0", "msg_run_3", 5), *answers("run_4", "answer 4"), finished(turns=1)]
    )
    assert texts(journal) == ["ask 0", "ask 3", "answer 3", "ask 4", "answer 4"]
    assert len(texts(journal, before="run_4")) == 8
    assert [*(await journal.load("run_4")).context.history] == journal.sessions.get_messages("ada")
    assert journal.sessions.list()[0].message_count == 5


def _reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The runs whose entries are read from here on."""
    read: list[int] = []
    real = view.bodies
    monkeypatch.setattr(view, "bodies", lambda db, run: (read.append(run), real(db, run))[1])
    return read


async def test_what_was_cleared_is_not_read(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        await says(journal, f"run_{n}", f"ask {n}", f"answer {n}", session="ada", minute=n)
        if n == 1:
            journal.sessions.clear_messages("ada")
    read = _reads(monkeypatch)
    assert texts(journal) == ["ask 2", "answer 2"]
    assert len(read) == 1


async def test_a_long_session_is_read_no_further_back_than_its_view_reaches(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(120):
        past = journal.sessions.get_messages("ada")
        kept = window(past, 20)
        writer = await journal.begin(started(f"run_{n}", f"ask {n}", session="ada", minute=n))
        await writer.append(
            [
                *([keeps(kept.pinned, kept.kept_from, kept.dropped)] if kept else []),
                *answers(f"run_{n}", f"answer {n}", minute=n),
                finished(turns=1),
            ]
        )
    read = _reads(monkeypatch)
    seen = texts(journal)
    assert len(read) < 25
    assert (seen[0], seen[-1]) == ("ask 0", "answer 119")
    assert 10 <= len(seen) <= 22
    assert journal.sessions.list()[0].message_count == len(seen)


# ---------------------------------------------------------------- any session

STEP = st.sampled_from(
    [
        "run",
        "run",
        "run",
        "long run",
        "window",
        "note",
        "clear",
        "unfinished and closed",
        "late",
        "fork",
        "wrong window",
        "wrong pin",
    ]
)


def _fold(events: Sequence[Any]) -> list[Message]:
    """Every entry of a session from its beginning, as a run after the other would have seen it."""
    seen: list[Message] = []
    for what in events:
        match what:
            case "clear":
                seen = []
            case Message():
                seen.append(what)
            case (past, entries):
                state = RunState(seen if past is None else past)
                for entry in entries:
                    state.apply(entry)
                seen = [*state.context.history]
    return seen


async def test_more_may_read_at_once_than_connections_are_kept(tmp_path: Path) -> None:
    journal = SqliteJournal.open(tmp_path / "journal.db")
    await journal.begin(started("run_1"))
    readers = journal._readers  # pyright: ignore[reportPrivateUsage]
    with ExitStack() as reading:
        for _ in range(2 * KEPT_MAX):
            # without asking whether there is another row
            found = reading.enter_context(readers.snapshot()).execute("select id from runs")
            assert found.fetchone() == ("run_1",)
    await journal.aclose()


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture],
)
@given(st.lists(STEP, max_size=25))
@example(["run", "fork"] * 6)  # a reading in a reading for each fork
def test_any_session_is_what_its_runs_saw_one_after_the_other(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    anyio.run(_check_any_session, tmp_path_factory.mktemp("any"), steps)


async def _check_any_session(folder: Path, steps: list[str]) -> None:
    journal = SqliteJournal.open(folder / "journal.db")
    events: list[Any] = []
    for n, step in enumerate(steps):
        now = _fold(events)
        assert journal.sessions.get_messages("ada") == now
        name = f"run_{n}"
        match step:
            case "note":
                note = message(f"note {n}", minute=n)
                if journal.sessions.add_message("ada", note):
                    events.append(note)
            case "clear":
                if journal.sessions.clear_messages("ada"):
                    events.append("clear")
            case _:
                begun = started(name, f"ask {n}", session="ada", minute=n)
                past: list[Message] | None = None
                if step == "fork" and (
                    other := next((run for run in await journal.runs() if run.outcome), None)
                ):
                    fork = Fork(run_id=other.run_id, turn=other.turns, seq=other.entries)
                    past = [*(await journal.load_fork(fork)).context.history]
                    begun = started(name, f"ask {n}", session="ada", minute=n, fork=fork)
                entries = await _drive(journal, begun, step, now, n)
                events.append((past, [begun, *entries]))
    assert journal.sessions.get_messages("ada") == _fold(events)
    if events:
        assert journal.sessions.list()[0].message_count == len(_fold(events))
    await journal.aclose()


async def _drive(
    journal: SqliteJournal, begun: Any, step: str, now: list[Message], n: int
) -> list[Entry]:
    entries: list[Entry] = []
    kept = window(now, 4) if step == "window" else None
    if kept is not None:
        entries.append(keeps(kept.pinned, kept.kept_from, kept.dropped))
    if step == "wrong pin" and (kept := window(now, 4)) is not None:
        entries.append(keeps("nobody", kept.kept_from, 0))
    if step == "wrong window":
        entries.append(keeps("nobody", "nothing", 0))
    if step in ("long run", "late"):
        entries += [*asks(1, f"c_{n}", minute=n), gives(f"c_{n}")]
    if step == "unfinished and closed":
        entries += asks(1, f"c_{n}", minute=n)
    else:
        entries += answers(f"run_{n}", f"answer {n}", minute=n)
    entries.append(finished(turns=1, minute=n))
    writer = await journal.begin(begun)
    await writer.append(entries)
    if step == "late":
        entries.append(late(f"c_{n}"))
        await writer.append([entries[-1]])
    return entries


async def test_a_deleted_session_is_gone_with_its_runs(journal: SqliteJournal, look: Look) -> None:
    await says(journal, "run_1", "hello", "hi" * 9_000, session="ada")
    await says(journal, "run_2", "hello", "hi", session="eve")
    assert journal.sessions.delete("ada")
    assert not journal.sessions.delete("ada")
    assert [run.run_id for run in await journal.runs()] == ["run_2"]
    assert [one.id for one in journal.sessions.list()] == ["eve"]
    assert texts(journal) == []
    assert look("select count(*) from blobs") == look("select count(*) from cuts") == [(0,)]
    await says(journal, "run_1", "afresh", "yes", session="ada")
    assert texts(journal) == ["afresh", "yes"]


async def test_what_other_sessions_were_forked_from_stays_until_they_go(
    journal: SqliteJournal, look: Look
) -> None:
    for n in range(3):
        await says(journal, f"run_{n}", f"ask {n}", f"answer {n}", session="ada")
    await says(
        journal,
        "fork",
        "rather this",
        "that",
        session="new",
        fork=Fork(run_id="run_1", turn=1, seq=2),
    )
    await says(
        journal,
        "fork_2",
        "or this",
        "that",
        session="newer",
        fork=Fork(run_id="fork", turn=1, seq=2),
    )
    expected = ["ask 0", "answer 0", "ask 1", "answer 1", "rather this", "that"]
    assert journal.sessions.delete("ada")
    assert texts(journal, "new") == expected
    assert {run.run_id for run in await journal.runs()} == {"run_0", "run_1", "fork", "fork_2"}
    assert journal.sessions.search("answer") == []
    assert [one.id for one in journal.sessions.list()] == ["newer", "new"]
    assert journal.sessions.delete("new")
    assert texts(journal, "newer") == [*expected, "or this", "that"]
    assert journal.sessions.delete("newer")
    assert await journal.runs() == []
    assert (
        look("select count(*) from entries")
        == look("select count(*) from sessions")
        == look("select count(*) from session_entries")
        == [(0,)]
    )


async def test_a_session_that_a_dead_driver_left_can_be_deleted(journal: SqliteJournal) -> None:
    writer = await journal.begin(started(session="ada"))
    await writer.release(waiting=True)
    assert journal.sessions.delete("ada")
    assert await journal.runs() == []


async def test_the_journal_folds_what_was_taken_over_elsewhere(journal: SqliteJournal) -> None:
    writer = await journal.begin(started(session="ada"))
    await writer.append(asks(1, "c"))
    await writer.release()
    again = await journal.take_over("run_1")
    await again.append(
        [gives("c"), *answers("run_1", "done", minute=1), finished(turns=2, tool_calls=1, minute=2)]
    )
    info = await journal.info("run_1")
    assert (info.status, info.turns, info.updated_at) == ("finished", 2, at(2))
    assert journal.sessions.list()[0].message_count == 4


async def test_a_session_is_deleted_and_cleared_while_runs_of_others_go_on(
    journal: SqliteJournal,
) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    await journal.begin(started("run_2", session="eve"))
    assert journal.sessions.clear_messages("ada")
    assert journal.sessions.delete("ada")
    with refuses(
        "busy",
        "run run_2 of session 'eve' is running: wait for its end, or stop it with `treadle runs kill run_2`",
    ):
        journal.sessions.delete("eve")
    assert [one.id for one in journal.sessions.list()] == ["eve"]


async def test_a_window_that_was_made_for_another_beginning_pins_nothing(
    journal: SqliteJournal,
) -> None:
    for n in range(4):
        await says(journal, f"run_{n}", f"ask {n}", f"answer {n}", session="ada", minute=n)
    writer = await journal.begin(started("run_4", "ask 4", session="ada"))
    await writer.append(
        [keeps("nobody", "msg_run_3", 6), *answers("run_4", "answer 4"), finished(turns=1)]
    )
    assert [*(await journal.load("run_4")).context.history] == journal.sessions.get_messages("ada")
    assert texts(journal)[-4:] == ["ask 3", "answer 3", "ask 4", "answer 4"]


async def test_the_last_of_several_windows_counts(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        writer = await journal.begin(started(f"run_{n}", f"ask {n}", session="ada", minute=n))
        kept = [keeps("msg_run_0", f"msg_run_{n - 1}", 2)] if n > 2 else []
        await writer.append(
            [*kept, *answers(f"run_{n}", f"answer {n}", minute=n), finished(turns=1)]
        )
    read = _reads(monkeypatch)
    assert texts(journal) == ["ask 0", "ask 4", "answer 4", "ask 5", "answer 5"]
    assert len(read) == 3, "the two last ones, and the first of all, which is pinned"


async def test_what_a_run_was_told_late_before_its_end_was_there_although_the_clock_was_set_back(
    journal: SqliteJournal,
) -> None:
    writer = await journal.begin(started(session="ada", minute=5))
    told = msgspec.structs.replace(late("c"), at=at(6))
    await writer.append(
        [
            *asks(1, "c", text="I look", minute=5),
            gives("c"),
            told,
            *answers("run_1", "done"),
            finished(turns=2, tool_calls=1, minute=6),
        ]
    )
    await journal.begin(started("run_2", "and now?", session="ada", minute=1))
    assert ["it happened" in said for said in texts(journal, before="run_2")] == [
        False,
        False,
        False,
        True,
        False,
    ]


async def test_a_reader_cannot_write(journal: SqliteJournal) -> None:
    await says(journal, "run_1", "hello", "hi")
    with (
        refuses("agent", "cannot be written: nothing was changed"),
        journal._readers.snapshot() as db,
    ):  # pyright: ignore[reportPrivateUsage]
        db.execute("delete from runs")
    assert len(await journal.runs()) == 1


async def test_a_fork_knows_how_much_of_its_past_belongs_to_runs_that_have_ended(
    journal: SqliteJournal,
) -> None:
    await says(journal, "run_1", "hello", "hi", session="ada")
    await says(journal, "run_2", "and now?", "now", session="ada")
    inside, anew = (
        await journal.load_fork(Fork(run_id="run_2", turn=1, seq=2)),
        await journal.load_fork(Fork(run_id="run_2", turn=0, seq=1)),
    )
    assert [said.text for said in inside.context.history] == ["hello", "hi", "and now?", "now"]
    assert (
        len(anew.context.history),
        anew.context.history.settled,
        inside.context.history.settled,
    ) == (2, 2, 2)


async def test_parts_of_what_a_fork_needs_of_a_deleted_session_go_with_it(
    journal: SqliteJournal, look: Look
) -> None:
    writer = await journal.begin(started(session="ada"))
    part = await journal.begin(started("part", "look there", session="ada", parent="run_1"))
    await part.append([*answers("part", "nothing there"), finished(turns=1)])
    await writer.append([*answers("run_1", "hi"), finished(turns=1)])
    await says(journal, "run_2", "and now?", "now", session="ada")
    await says(
        journal,
        "fork",
        "rather this",
        "that",
        session="new",
        fork=Fork(run_id="run_1", turn=1, seq=2),
    )
    assert journal.sessions.delete("ada")
    assert texts(journal, "new") == ["hello", "hi", "rather this", "that"]
    assert {run.run_id for run in await journal.runs()} == {"run_1", "part", "fork"}
    assert journal.sessions.delete("new")
    assert (
        look("select count(*) from runs")
        == look("select count(*) from sessions")
        == look("select count(*) from entries")
        == [(0,)]
    )

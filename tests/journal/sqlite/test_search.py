"""Finding what was said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.journal.runs import (
    answers,
    asks,
    at,
    finished,
    gives,
    keeps,
    message,
    says,
    started,
    steers,
)
from tests.journal.sqlite.conftest import Look
from tests.profiles import BY_CHANCE
from tests.strategies import nasty_text
from treadle.journal.sqlite import SqliteJournal


def found(journal: SqliteJournal, words: str, *, limit: int = 20) -> list[str]:
    return [hit.excerpt for hit in journal.sessions.search(words, limit=limit)]


async def test_what_people_and_models_said_is_found_newest_first(journal: SqliteJournal) -> None:
    await says(
        journal, "run_1", "Where is it warm in winter?", "In Lisbon.", session="ada", minute=1
    )
    await says(journal, "run_2", "And is it warm in Oslo?", "No.", session="eve", minute=2)
    hits = journal.sessions.search("warm")
    assert [(hit.session_id, hit.title, hit.role, hit.excerpt) for hit in hits] == [
        ("eve", "And is it warm in Oslo?", "user", "And is it warm in Oslo?"),
        ("ada", "Where is it warm in winter?", "user", "Where is it warm in winter?"),
    ]
    assert hits[0].at > hits[1].at
    assert found(journal, "warm winter") == ["Where is it warm in winter?"]
    assert found(journal, "LISB") == ["In Lisbon."]
    assert found(journal, "warm", limit=1) == ["And is it warm in Oslo?"]
    assert found(journal, "warm snow") == []
    assert found(journal, "warm", limit=0) == []


async def test_an_entry_of_a_newer_version_hides_no_other_words(
    journal: SqliteJournal, look: Look
) -> None:
    await says(journal, "run_1", "old needle", "yes", session="ada", minute=1)
    await journal.aclose()
    strange = b'{"type":"new","at":"2026-11-20T10:00:00Z"}'
    look("insert into entries(place, type, body) select num << 32 | 9, 'new', ? from runs", strange)
    look("update runs set indexed = 0")
    look("delete from words")
    again = SqliteJournal.open(journal.path)
    await says(again, "run_2", "new needle", "yes", session="eve", minute=2)
    assert found(again, "needle") == ["new needle", "old needle"]
    await again.aclose()


async def test_words_inside_a_long_text_are_found(journal: SqliteJournal) -> None:
    await says(journal, "run_1", "hello", "straw " * 4_000 + "needle", session="ada")
    (hit,) = found(journal, "needle")
    assert "straw needle" in hit


async def test_only_words_of_ended_runs_in_sessions_are_found(journal: SqliteJournal) -> None:
    await says(journal, "alone", "needle alone", "needle")
    writer = await journal.begin(
        msgspec.structs.replace(
            started(text="needle one", session="ada"), messages=(message("needle zero"),)
        )
    )
    await writer.append(
        [*asks(1, "c", text="needle two"), gives("c", "needle in a result"), steers("needle three")]
    )
    assert found(journal, "needle") == []
    await writer.append([*answers("run_1", "needle four"), finished(turns=2, tool_calls=1)])
    assert sorted(found(journal, "needle")) == [
        "needle four",
        "needle one",
        "needle three",
        "needle two",
        "needle zero",
    ]


async def test_messages_that_were_added_by_hand_are_found(journal: SqliteJournal) -> None:
    journal.sessions.create("Notes", session_id="ada")
    journal.sessions.add_messages(
        "ada", [message("a needle"), message("needle", "system"), message("needle!", "assistant")]
    )
    assert sorted(found(journal, "needle")) == ["a needle", "needle!"]


async def test_what_was_cleared_or_deleted_is_not_found(journal: SqliteJournal, look: Look) -> None:
    await says(journal, "run_1", "needle one", "yes", session="ada")
    await says(journal, "run_2", "needle two", "yes", session="eve")
    assert len(found(journal, "needle")) == 2
    journal.sessions.clear_messages("ada")
    assert found(journal, "needle") == ["needle two"]
    await says(journal, "run_3", "needle three", "yes", session="ada", minute=3)
    assert found(journal, "needle") == ["needle three", "needle two"]
    journal.sessions.delete("eve")
    assert found(journal, "needle") == ["needle three"]
    journal.sessions.delete("ada")
    assert (
        look("select count(*) from said")
        == look("select count(*) from words where words match 'needle'")
        == [(0,)]
    )


async def test_what_goes_with_one_run_leaves_the_words_of_the_others(
    journal: SqliteJournal,
) -> None:
    await says(journal, "run_1", "needle one", "yes", session="ada", minute=1)
    await says(journal, "run_2", "needle two", "yes", session="ada", minute=5)
    await says(journal, "run_3", "needle three", "yes", session="eve", minute=6)
    assert len(found(journal, "needle")) == 3
    assert (await journal.prune(at(3), apply=True)).runs == ("run_1",)
    assert found(journal, "needle") == ["needle three", "needle two"]


async def test_what_has_left_the_view_is_found(journal: SqliteJournal) -> None:
    for n in range(3):
        await says(journal, f"run_{n}", f"needle {n}", "yes", session="ada", minute=n)
    writer = await journal.begin(started("run_3", "hello", session="ada"))
    await writer.append(
        [keeps("msg_run_0", "msg_run_2", 3), *answers("run_3", "hi"), finished(turns=1)]
    )
    assert found(journal, "needle") == ["needle 2", "needle 1", "needle 0"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Müller wohnt hier", "muller"),
        ("the café", "CAFE"),
        ("snake_case names", "snake_case"),
        ("see foo.bar(baz)", "foo.bar"),
        ('C++ and "quotes"', 'C++ "quotes"'),
        ("今日は東京に行きました", "東京"),
        ("東京タワー", "タワー"),
        ("ไปเที่ยวทะเล", "ทะเล"),
        ("a b NEAR OR AND NOT c", "NEAR OR AND NOT"),
        ("well-known", "well-known"),
        ("it's", "it's"),
    ],
)
async def test_words_are_found_as_people_type_them(
    journal: SqliteJournal, text: str, words: str
) -> None:
    await says(journal, "run_1", text, "yes", session="ada")
    assert [hit.role for hit in journal.sessions.search(words)] == ["user"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteJournal]:
    journal = SqliteJournal.open(tmp_path_factory.mktemp("search") / "journal.db")
    anyio.run(says, journal, "run_1", "a b c text near", "9 8 7")
    journal.sessions.create(session_id="ada")
    journal.sessions.add_message("ada", message("a b 9 text near \u00e9"))
    yield journal
    anyio.run(journal.aclose)


@settings(max_examples=80, suppress_health_check=[*BY_CHANCE, HealthCheck.function_scoped_fixture])
@given(nasty_text)
@example('"')
@example("*")
@example('a" OR "b')
@example("text : ^ ( ) {a b} : NEAR(a b, 2)")
def test_whatever_is_typed_is_words(store: SqliteJournal, words: str) -> None:
    for hit in store.sessions.search(words):
        assert "\n" not in hit.excerpt


async def test_a_text_with_anything_in_it_is_indexed(journal: SqliteJournal) -> None:
    await says(
        journal, "run_1", "needle \ud800 \x00 \x1b[31m \u2028 🧵", "needle\0needle", session="ada"
    )
    assert len(found(journal, "needle")) == 2


async def test_closing_indexes_what_ran(path: Path, look: Look) -> None:
    journal = SqliteJournal.open(path)
    await says(journal, "run_1", "needle", "yes", session="ada")
    await says(journal, "run_2", "no session", "yes")
    await journal.aclose()
    assert look("select count(*) from said") == [(2,)]
    assert look("select count(*) from runs where indexed = 0") == [(0,)]


async def test_many_runs_are_indexed_at_the_first_search(journal: SqliteJournal) -> None:
    for n in range(120):
        await says(journal, f"run_{n}", f"needle {n}", "yes", session=f"s{n}", minute=n)
    assert found(journal, "needle", limit=200) == [f"needle {n}" for n in reversed(range(120))]

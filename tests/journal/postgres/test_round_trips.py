"""What is hard to keep in PostgreSQL:

NUL and lone surrogates, large bodies, old journals of SQLite, many runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journal.postgres.conftest import Look
from tests.journal.runs import (
    asks,
    entries_of,
    finished,
    gives,
    late,
    message,
    refuses,
    says,
    started,
)
from tests.journal.sqlite.fixture import FOLDER, unpack
from treadle._internal.json_text import encode_json
from treadle.journal import open_journal
from treadle.journal.entries import Fork
from treadle.journal.journal import Journal

IDS = [
    "call\0zero",
    "call\ud800",
    "call\ud801",
    "\0",
    "\\x00",
    "call'quote\"%s ? {a,b}",
    "Ünïcode🧵",
    "null",
    "NULL",
    "",
    " ",
    "x" * 3000,
]


# ---------------------------------------------------------------- what texts of PostgreSQL cannot hold


async def test_ids_of_calls_come_from_models_and_are_kept_as_they_are(journal: Journal) -> None:
    writer = await journal.begin(started())
    written = [
        *asks(1, *IDS),
        *[gives(call, f"of {call!r}") for call in IDS],
        finished(turns=1),
        late(IDS[0], "once \0 more"),
    ]
    for entry in written:
        await writer.append([entry])
    assert await entries_of(journal, after=1) == written


@pytest.mark.parametrize("call", IDS)
async def test_a_call_has_one_result_whatever_its_id(journal: Journal, call: str) -> None:
    writer = await journal.begin(started())
    await writer.append([*asks(1, *IDS), *[gives(one) for one in IDS]])
    with refuses("agent", "rejected the operation.*nothing was appended"):
        await writer.append([gives(call)])
    await writer.append([finished(turns=1)])


async def test_two_results_of_two_calls_in_one_append_are_none_where_one_is_refused(
    journal: Journal,
) -> None:
    writer = await journal.begin(started())
    await writer.append([*asks(1, "call_a", "call_b"), gives("call_a")])
    with refuses("agent", "rejected the operation"):
        await writer.append([gives("call_b"), gives("call_a")])
    assert await writer.append([gives("call_b")]) == len(await entries_of(journal))


@pytest.mark.parametrize("run_id", ["run\0", "\ud800", "\0"])
async def test_a_run_has_an_id_that_the_tables_can_hold(journal: Journal, run_id: str) -> None:
    with refuses("invalid", "is not a run id"):
        await journal.begin(started(run_id))
    with refuses("invalid", "unknown run"):
        await journal.read(run_id)
    assert journal.sessions.get(run_id) is None
    assert await journal.runs(session_id=run_id) == []


async def test_what_is_said_is_read_found_and_named_with_whatever_is_in_it(
    journal: Journal,
) -> None:
    text = "needle \ud800 \0 \x1b[31m \u2028 🧵 %s ? ' \\ :* & | !"
    await says(journal, "run_1", text, "an\0swer", session="ada")
    journal.sessions.add_message("ada", message("by\0hand \ud800"))
    journal.sessions.update_title("ada", "ti\0tle \ud800")
    assert [one.text for one in (await journal.view("ada")).messages] == [
        text,
        "an\0swer",
        "by\0hand \ud800",
    ]
    assert "\0" not in journal.sessions.list()[0].title


SAID = """
Where is it warm in Winter?
In LISBON, or on Crète: l'été y est long.
Ça fait 3.14 €, e-mail to ada@example.com
straßen und Äpfel, ÄPFEL, apfelbaum
東京は夏です
日本語 and English
Ελλάδα ΟΔΟΣ οδός
Привет, мир; привёз
naïve café cafe\u0301
snake_case camelCase kebab-case
हिन्दी में
🧵 thread
ﬁne ²
a b a c
needle \ud800 \0 \x1b[31m % ? ' \\ :* & | !
foo.bar(baz, 12_000)
한국어 문장
ไทย ภาษา
don't can't
"""
SOUGHT = """
warm|WARM winter|winter warm|win|inter|lisbon|crete|Crète|été|ete|l'été|ca|3.14|3 14|14 3|14.3|@|ada@example.com|ada@exam|apfel|ÄPF|東京|京東|夏|日本|本日
Ελλάδα|οδος|ΟΔΌΣ|прив|ПРИВЕТ мир|cafe|café|naive|snake|snake_case|case_snake|case|kebab-case|kebab-c|हिन्दी|🧵|thread|²|a|a b|b a|b-a|a-b|a.c|c.a
\0|a\0b|\ud800|' & !|needle'); drop|%s|?|:*|needle:*|foo.bar|bar.baz|foo.baz|bar(baz|12_000|12,000|문장|문|ไทย|ภาษา|don't|dont|t|NOT|OR AND|-warm|"warm
"""


async def test_a_search_finds_what_it_finds_in_sqlite(journal: Journal, tmp_path: Path) -> None:
    beside = open_journal(f"sqlite:///{tmp_path / 'journal.db'}")
    for kept in (journal, beside):
        kept.sessions.create(session_id="ada")
        for number, text in enumerate(SAID.strip().splitlines()):
            kept.sessions.add_message(
                "ada", message(text, "assistant" if number % 2 else "user", minute=number)
            )
    for words in SOUGHT.strip().replace("\n", "|").split("|"):
        assert journal.sessions.search(words) == beside.sessions.search(words), words
        assert journal.sessions.search(words, limit=1) == beside.sessions.search(words, limit=1), (
            words
        )
    assert len(journal.sessions.search("ελλαδα")) == 1, "of Greek, SQLite keeps the accents"
    await beside.aclose()


async def test_a_message_of_many_and_long_words_is_indexed_as_far_as_there_is_room(
    journal: Journal,
) -> None:
    many = " ".join([f"word{n:06}" for n in range(80_000)])
    await says(journal, "run_1", "first " + many, "short " + "x" * 3_000_000, session="ada")
    assert len(journal.sessions.search("first word000007")) == 1
    assert len(journal.sessions.search("x" * 5_000)) == 1


# ---------------------------------------------------------------- long texts


async def test_long_texts_are_kept_once_and_go_with_the_last_that_holds_them(
    journal: Journal, look: Look
) -> None:
    long = 'line "one" \0 \ud800\n' * 3_000
    for number in range(3):
        writer = await journal.begin(started(f"run_{number}", minute=number))
        await writer.append(
            [
                *asks(1, "call_a", "call_b"),
                gives("call_a", long),
                gives("call_b", long),
                finished(turns=1, minute=number),
            ]
        )
    assert look("select count(*) from treadle.blobs") == [(1,)]
    assert look("select count(*) from treadle.cuts") == [(6,)]
    data = encode_json(gives("call_a", long))
    for number in range(3):
        assert (await journal.read_bytes(f"run_{number}"))[5] == data
    (last,) = [info for info in await journal.runs() if info.run_id == "run_2"]
    assert (await journal.prune(last.updated_at, apply=True)).runs == ("run_0", "run_1")
    assert look("select count(*) from treadle.blobs") == [(1,)]
    assert (await entries_of(journal, "run_2"))[5] == gives("call_a", long)


async def test_nobody_changes_or_deletes_an_entry(journal: Journal, look: Look) -> None:
    import psycopg

    await says(journal, "run_1", "hello", "hello")
    for statement in (
        "update treadle.entries set body = ''",
        "delete from treadle.entries",
        "truncate treadle.entries",
    ):
        with pytest.raises(psycopg.Error, match="an entry is never"):
            look(statement)
    assert len(await entries_of(journal)) == 3


async def test_who_drives_a_run_on_another_machine_is_named_with_it(
    journal: Journal, postgres_url: str, look: Look
) -> None:
    writer = await journal.begin(started(session="ada"))
    other = open_journal(postgres_url)
    look("update treadle.workers set host = 'loom-2', pid = 77")
    with refuses("busy", "is being driven by process 77 on loom-2: wait"):
        await other.take_over("run_1")
    with refuses("busy", "running already, in process 77 on loom-2: wait"):
        await other.begin(started("run_2", session="ada"))
    assert (holder := await other.holder("ada")) is not None
    assert (holder.pid, holder.host) == (77, "loom-2")
    await writer.append([finished()])
    assert await other.holder("ada") is None
    await other.aclose()


# ---------------------------------------------------------------- from elsewhere, and much of it


@pytest.mark.parametrize(
    "version", sorted(int(path.name.split(".")[0]) for path in FOLDER.glob("*.db.gz"))
)
async def test_a_journal_of_sqlite_comes_over_byte_for_byte(
    journal: Journal, version: int, tmp_path: Path
) -> None:
    before = open_journal(f"sqlite:///{unpack(version, tmp_path / 'journal.db')}")
    beside = open_journal(f"sqlite:///{tmp_path / 'beside.db'}")
    runs = {
        info.run_id: await before.read_bytes(info.run_id) for info in reversed(await before.runs())
    }
    for taking in (journal, beside):
        for entries in runs.values():
            await taking.add_run(entries)
    for run_id, entries in runs.items():
        assert await journal.read_bytes(run_id) == entries
        assert await journal.info(run_id) == await beside.info(run_id)
        assert (await journal.load(run_id)).context.history[:] == (
            await beside.load(run_id)
        ).context.history[:]
    assert [(await journal.view(one)).messages for one in ("ada", "eve")] == [
        (await beside.view(one)).messages for one in ("ada", "eve")
    ]
    writer = await journal.take_over("run_resumed")
    await writer.append([finished()])
    await before.aclose()
    await beside.aclose()


async def test_many_runs_are_folded_as_in_sqlite(journal: Journal, tmp_path: Path) -> None:
    beside = open_journal(f"sqlite:///{tmp_path / 'journal.db'}")
    for kept in (journal, beside):
        for number in range(150):
            await says(
                kept,
                f"run_{number}",
                f"question {number}",
                f"answer {number}",
                session="ada",
                minute=number,
            )
        await says(
            kept,
            "fork",
            "Rather this.",
            "That.",
            session="eve",
            fork=Fork(run_id="run_100", turn=1, seq=3),
            minute=200,
        )
    assert list((await journal.view("ada")).messages) == list((await beside.view("ada")).messages)
    assert list((await journal.view("eve")).messages) == list((await beside.view("eve")).messages)
    assert [journal.sessions.everything("eve")[:], len((await journal.view("ada")).messages)] == [
        beside.sessions.everything("eve")[:],
        300,
    ]
    assert await journal.costs("model") == await beside.costs("model")
    assert [info.run_id for info in await journal.runs(limit=3)] == ["fork", "run_149", "run_148"]
    assert await journal.runs() == await beside.runs()
    await beside.aclose()

"""An encrypted journal: nothing that a user wrote can be read without the key, nothing can be changed
or moved unnoticed, and keys can be changed.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.journal.confidant import LONG, MARK, conclude, confide, forms, stored
from tests.journal.runs import asks, entries_of, finished, gives, refuses, says, started
from tests.journal.sqlite.fixture import unpack
from tests.service.database.postgres import postgres_server as postgres_server
from tests.service.database.postgres import postgres_urls as postgres_urls
from tests.stores import reuse_connections, sharded
from treadle.apps.testing.contracts import journal_drivers, journal_removal, journal_sessions
from treadle.errors import AgentError
from treadle.journal import encrypt_journal, open_journal
from treadle.journal.journal import Journal
from treadle.journal.queue import QueuePlace
from treadle.journal.tables.sealing import KEY, OLD_KEYS

ROOT = Path(__file__).parents[2]
ONE, TWO = bytes(range(32)), bytes(range(32, 64))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/journal.db"
    reuse_connections(monkeypatch)
    urls: Callable[[object], str] = request.getfixturevalue("postgres_urls")
    return urls(tmp_path)


@pytest.fixture
async def journal(url: str) -> AsyncIterator[Journal]:
    opened = open_journal(url, keys=[ONE])
    yield opened
    await opened.aclose()


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/journal.db"


def found(url: str, folder: Path) -> bool:
    data = stored(url, folder)
    return any(form in data for form in forms())


# ---------------------------------------------------------------- confidentiality


async def test_no_text_of_a_user_is_stored_readably_even_if_processes_are_killed(
    url: str, tmp_path: Path
) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tests.journal.confidant", url],
        cwd=ROOT,
        env={**os.environ, KEY: ONE.hex()},
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert not found(url, tmp_path)
    journal = open_journal(url, keys=[ONE])
    await conclude(journal)
    assert not found(url, tmp_path)
    texts = [one.text for one in journal.sessions.get_messages("ada")]
    assert texts[:3] == [f"{MARK}?", f"{MARK}!", f"By hand: {MARK}"]
    assert LONG in texts
    assert {one.title for one in journal.sessions.list()} >= {f"About {MARK}", f"{MARK}?"}
    by_id = {one.run_id: one for one in await journal.runs()}
    assert by_id["run_parked"].parked == f"it failed: {MARK}"
    assert by_id["run_tools"].metadata == {"who": MARK}
    await journal.aclose()
    assert not found(url, tmp_path)


async def test_the_search_for_texts_finds_them_without_a_key(url: str, tmp_path: Path) -> None:
    journal = open_journal(url, keys=[])
    await confide(journal)
    await journal.aclose()
    assert found(url, tmp_path)


async def test_an_encrypted_journal_has_no_index_and_refuses_a_search(journal: Journal) -> None:
    await says(journal, "run_1", "hello", "world", session="ada")
    with refuses("invalid", "is encrypted, so its text is not indexed"):
        journal.sessions.search("hello")


async def test_deltas_are_notified_encrypted(postgres_urls: Callable[[object], str]) -> None:
    import psycopg

    from treadle.journal.postgres.channels import ChannelKey

    url = postgres_urls("one")
    sender, receiver = open_journal(url, keys=[ONE]), open_journal(url, keys=[ONE])
    with psycopg.connect(url, autocommit=True) as spy:
        ((key,),) = spy.execute("select key from treadle.notify_key").fetchall()
        spy.execute(f"listen {ChannelKey(key).channel_of('delta:r')}".encode())
        async with receiver.notifier.listen("delta:r") as ear:
            sender.notifier.tell("delta:r", f"{MARK} \u00fc".encode())
            told = b""
            while not told:
                told = b"".join(await ear.wait())
        assert told.decode() == f"{MARK} \u00fc"
        (heard,) = [one.payload.encode() for one in spy.notifies(timeout=5, stop_after=1)]
    assert not any(form in heard for form in forms())
    await sender.aclose()
    await receiver.aclose()


# ---------------------------------------------------------------- the contract


@pytest.mark.parametrize(
    "check",
    [
        journal_drivers.test_entries_stand_in_order_without_gaps,
        journal_drivers.test_many_runs_are_appended_to_at_once,
        journal_drivers.test_a_run_whose_prompt_is_long_is_gone_on_with,
        journal_drivers.test_what_comes_late_is_appended_after_the_end,
        journal_sessions.test_the_first_run_makes_its_session_and_names_it,
        journal_sessions.test_a_fork_goes_on_from_inside_another_run,
        journal_sessions.test_a_list_says_how_each_run_stands,
        journal_removal.test_what_a_fork_needs_is_kept_with_its_tree_unless_the_fork_goes_too,
    ],
)
async def test_the_contract_of_journals_holds(
    journal: Journal, check: Callable[[Journal], Awaitable[None]]
) -> None:
    await check(journal)


async def test_one_call_has_one_result_across_a_change_of_keys(url: str) -> None:
    journal = open_journal(url, keys=[ONE])
    writer = await journal.begin(started())
    await writer.append([*asks(1, "call_a", "call_b"), gives("call_a")])
    await writer.release()
    await journal.aclose()
    journal = open_journal(url, keys=[TWO, ONE])
    writer = await journal.take_over("run_1")
    with pytest.raises(AgentError):
        await writer.append([gives("call_a")])
    await journal.aclose()


# ---------------------------------------------------------------- tampering

SWAP = """
update entries set body = (select body from entries as other where other.place = {0})
where place = {1}
"""
TAMPERED = {
    "a bit is flipped": "update entries set body = cast(substr(body, 1, 40) || x'ff' || substr(body, 42) as blob) where place & 4294967295 = 3",
    "the end is cut off": "update entries set body = substr(body, 1, length(body) - 1) where place & 4294967295 = 3",
    "nothing is left": "update entries set body = x'01' where place & 4294967295 = 3",
    "plain text is stored": 'update entries set body = cast(\'{"type":"run.finished"}\' as blob) where place & 4294967295 = 3',
    "an entry is moved": SWAP.format(1 << 32 | 2, 1 << 32 | 3),
    "an entry of another run is moved": SWAP.format(2 << 32 | 2, 1 << 32 | 2),
    "a run gets the name of another": "update runs set id = 'x' where num = 1; update runs set id = 'run_1' where num = 2",
    "a long text is replaced": "update cuts set blob = (select max(num) from blobs) where place >> 32 = 1",
    "long texts change places": "update cuts set at = at + 1",
    "a long text is exchanged": "update blobs set body = (select body from blobs as other where other.num <> blobs.num)",
}


@pytest.mark.parametrize("statement", TAMPERED.values(), ids=TAMPERED)
async def test_an_entry_that_was_changed_or_moved_is_not_read(
    file: str, tmp_path: Path, statement: str
) -> None:
    journal = open_journal(file, keys=[ONE])
    for run_id in ("run_1", "run_2"):
        writer = await journal.begin(started(run_id, f"{run_id} {LONG}"))
        await writer.append([*asks(1, "call"), gives("call")])
        await writer.release()
    await journal.aclose()
    _tamper(tmp_path, statement)
    journal = open_journal(file, keys=[ONE])
    with refuses("agent", "is damaged .*: restore a copy"):
        await journal.read("run_1")
    await journal.aclose()


@pytest.mark.parametrize(
    "statement",
    [
        "update runs set summary = (select summary from runs as other where other.num = 3 - runs.num)",
        "update sessions set title = (select title from sessions as other where other.num = 3 - sessions.num)",
        "update session_entries set pos = 9 where kind = 'message'",
    ],
)
async def test_summaries_titles_and_messages_are_bound_to_their_rows(
    file: str, tmp_path: Path, statement: str
) -> None:
    journal = open_journal(file, keys=[ONE])
    await says(journal, "run_1", "hello", "world", session="ada")
    await says(journal, "run_2", "good", "bye", session="eve")
    journal.sessions.add_messages("ada", [started().input])
    await journal.aclose()
    _tamper(tmp_path, statement)
    journal = open_journal(file, keys=[ONE])
    with refuses("agent", "is damaged"):
        await journal.runs()
        journal.sessions.list()
        journal.sessions.get_messages("ada")
    await journal.aclose()


def _tamper(folder: Path, statement: str) -> None:
    db = sqlite3.connect(folder / "journal.db")
    # an attacker is not held up by the triggers of the tables
    triggers = "select name from sqlite_schema where type = 'trigger'"
    for (trigger,) in db.execute(triggers).fetchall():
        db.execute(f"drop trigger {trigger}")
    db.executescript(statement)
    db.close()


# ---------------------------------------------------------------- keys


async def test_only_the_key_of_a_journal_opens_it(url: str) -> None:
    await open_journal(url, keys=[ONE]).aclose()
    with refuses("invalid", f"is encrypted: set {KEY} to its key"):
        open_journal(url, keys=[])
    with refuses("invalid", f"{KEY} is not the key of the journal"):
        open_journal(url, keys=[TWO])
    with refuses("invalid", f"{KEY} is not the key of the journal"):
        encrypt_journal(url, keys=[TWO])


async def test_a_journal_in_plain_text_is_not_opened_with_a_key(url: str) -> None:
    journal = open_journal(url, keys=[])
    await says(journal, "run_1", "hello", "world")
    await journal.aclose()
    with refuses("invalid", "holds runs in plain text: `treadle runs encrypt` converts it"):
        open_journal(url, keys=[ONE])


@pytest.mark.parametrize("text", ["", "abc", "g" * 64, "A" * 42])
def test_a_malformed_key_is_refused_without_showing_it(
    file: str, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(KEY, text)
    monkeypatch.setenv(OLD_KEYS, ONE.hex())
    with refuses("invalid", f"{KEY} is not a key of 32 bytes|{OLD_KEYS} is set without {KEY}") as e:
        open_journal(file)
    assert not text or text not in str(e)


@pytest.mark.parametrize("form", ["hex", "base64", "urlsafe"])
async def test_keys_come_from_the_environment(
    file: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    import base64

    key = bytes([251, 255] * 16)
    encode = {"hex": lambda: key.hex(), "base64": lambda: base64.b64encode(key).decode()}
    monkeypatch.setenv(
        KEY, encode.get(form, lambda: base64.urlsafe_b64encode(key).decode().rstrip("="))()
    )
    await open_journal(file).aclose()
    await open_journal(file, keys=[key]).aclose()


def test_what_cannot_encrypt_says_so(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    with refuses("invalid", "'memory:' does not encrypt"):
        encrypt_journal("memory:", keys=[ONE])
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with refuses("invalid", r"needs cryptography: pip install 'treadle\[encryption\]'"):
        open_journal(file, keys=[ONE])


def test_without_a_key_cryptography_is_not_imported(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom treadle.journal import open_journal\n"
        f"open_journal('sqlite:///{tmp_path}/journal.db')\nprint('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"False"]


async def test_a_journal_gets_a_new_key_while_it_is_used(url: str, tmp_path: Path) -> None:
    old = open_journal(url, keys=[ONE, TWO])  # a process that knows the next key
    await confide(old)
    await old.aclose() if url.startswith("sqlite") else None
    new = open_journal(url, keys=[TWO, ONE])
    await conclude(new)
    texts = [one.text for one in new.sessions.get_messages("eve")]
    await new.aclose() if url.startswith("sqlite") else None
    with refuses("invalid", f"texts under another key .* too: add it to {OLD_KEYS}"):
        open_journal(url, keys=[TWO])
    assert encrypt_journal(url, keys=[TWO, ONE]) > 10
    assert encrypt_journal(url, keys=[TWO]) == 0
    last = open_journal(url, keys=[TWO])
    assert [one.text for one in last.sessions.get_messages("eve")] == texts
    assert (await last.info("run_parked")).parked == f"it failed: {MARK}"
    assert f"About {MARK}" in {one.title for one in last.sessions.list()}
    for journal in (last, old, new):
        await journal.aclose()
    with refuses("invalid", "is not the key"):
        open_journal(url, keys=[ONE])


# ---------------------------------------------------------------- conversion, versions


async def test_a_journal_in_plain_text_is_converted_without_a_trace(
    url: str, tmp_path: Path
) -> None:
    plain = open_journal(url, keys=[])
    await confide(plain)
    await conclude(plain)
    # the index of a search, too
    assert plain.sessions.search(MARK)
    entries = {one.run_id: await entries_of(plain, one.run_id) for one in await plain.runs()}
    infos, sessions = await plain.runs(), plain.sessions.list()
    with refuses("busy", "end it, then try again"):
        encrypt_journal(url, keys=[ONE])
    await plain.aclose()
    assert encrypt_journal(url, keys=[ONE]) > 20
    assert not found(url, tmp_path)
    journal = open_journal(url, keys=[ONE])
    assert await journal.runs() == infos
    assert journal.sessions.list() == sessions
    assert {run: await entries_of(journal, run) for run in entries} == entries
    await says(journal, "run_new", MARK, MARK, session="ada", minute=9)
    await journal.aclose()
    assert not found(url, tmp_path)


async def test_a_process_that_opened_a_journal_before_it_was_encrypted_cannot_write_to_it(
    url: str, tmp_path: Path
) -> None:
    early = open_journal(url, keys=[])
    await open_journal(url, keys=[ONE]).aclose()
    with pytest.raises(AgentError):
        await early.begin(started("run_1", MARK, session="ada"))
    with pytest.raises(AgentError):
        early.sessions.create(MARK)
    assert not found(url, tmp_path)
    await early.aclose()


async def test_the_tables_of_an_encrypted_journal_take_no_plain_text(
    journal: Journal, url: str, tmp_path: Path
) -> None:
    await says(journal, "run_1", "hello", "world", session="ada")
    await journal.queue.add([started("run_2")], QueuePlace())
    statements = (
        "insert into blobs(hash, body) values({plain}, {plain})",
        "insert into entries(place, type, body) values(7, 'x', {plain})",
        "insert into session_entries(session, pos, kind, body) values(1, 9, 'message', {plain})",
        "insert into said(session, pos, nth, at_us) values(1, 1, 1, 1)",
        "insert into sessions(id, title, created_at_us, updated_at_us, changed) values('x', 'x', 1, 1, 99)",
        "update runs set summary = {plain}",
        "update runs set parked = 'plain'",
        "update sessions set title = 'plain'",
    )
    for statement in statements:
        with pytest.raises(Exception, match=r"is encrypted|_sealed"):
            _store(url, tmp_path, statement)


def _store(url: str, folder: Path, statement: str) -> None:
    """Past the journal."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(folder / "journal.db")) as db, db:
            db.execute(statement.format(plain="x'7b7d'"))
    else:
        import psycopg

        with psycopg.connect(url) as server:
            server.execute("set search_path = treadle")
            server.execute(statement.format(plain=r"'\x7b7d'::bytea").encode())


async def test_a_journal_of_the_first_version_is_upgraded_and_converted(tmp_path: Path) -> None:
    unpack(1, tmp_path / "journal.db")
    url = f"sqlite:///{tmp_path}/journal.db"
    assert encrypt_journal(url, keys=[ONE]) > 20
    journal = open_journal(url, keys=[ONE])
    assert len(await journal.runs()) == 8
    assert (await journal.info("run_tools")).prompt == "Look there."
    await journal.aclose()
    assert b"Lisbon" not in stored(url, tmp_path)


async def test_older_versions_refuse_an_encrypted_journal_even_after_an_upgrade(
    postgres_urls: Callable[[object], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    from treadle.journal.postgres import schema

    url = postgres_urls("one")
    await open_journal(url, keys=[ONE]).aclose()
    later = (*schema.MIGRATIONS, schema.Migration("create table treadle.later(num integer)", 1))
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    monkeypatch.setattr(schema, "VERSION", len(later))
    await open_journal(url, keys=[ONE]).aclose()
    with psycopg.connect(url) as db:
        rows = db.execute("select readable_by from treadle.versions order by version").fetchall()
    assert [row[0] for row in rows[-2:]] == [len(later) - 1] * 2


async def test_each_shard_is_encrypted(
    postgres_urls: Callable[[object], str], tmp_path: Path
) -> None:
    urls = {name: postgres_urls(name) for name in ("a", "b")}
    url = sharded(tmp_path / "shards.yaml", urls)
    journal = open_journal(url, keys=[ONE])
    for number in range(6):
        await says(journal, f"run_{number}", MARK, MARK, session=f"session_{number}", minute=number)
    assert len(await journal.runs()) == 6
    await journal.aclose()
    assert not any(found(one, tmp_path) for one in urls.values())
    assert encrypt_journal(url, keys=[TWO, ONE]) > 20
    journal = open_journal(url, keys=[TWO])
    assert {one.title for one in journal.sessions.list()} == {MARK}
    await journal.aclose()
    with refuses("invalid", "is encrypted"):
        open_journal(url, keys=[])


async def test_a_pruned_run_takes_its_long_texts_with_it(journal: Journal) -> None:
    writer = await journal.begin(started("run_1", LONG))
    await writer.append([finished(turns=1)])
    assert (await journal.remove(["run_1"])).size_bytes > len(LONG)

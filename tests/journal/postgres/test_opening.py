"""Which databases are journals, how one becomes a journal, and that no error shows a password."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from tests.journal.postgres.conftest import Look
from tests.journal.processes import make_at_once
from tests.journal.runs import entries_of, refuses, says
from tests.service.database.postgres import PostgresServer
from tests.service.database.postgres import postgres_url as postgres_url
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.journal import Journal

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")

from treadle.journal.postgres import schema

SECRET = "geheim/42"
QUOTED = "geheim%2F42"


# ---------------------------------------------------------------- what cannot be opened


@pytest.mark.parametrize("query", ["", "?connect_timeout=2", f"?password={QUOTED}"])
def test_where_no_server_answers_nothing_is_opened(query: str) -> None:
    user = "ada" if "password" in query else f"ada:{QUOTED}"
    with pytest.raises(
        AgentError,
        match=r"no PostgreSQL server responds at 'postgresql://ada@127\.0\.0\.1:1/runs'.*see that the server runs",
    ) as caught:
        open_journal(f"postgresql://{user}@127.0.0.1:1/runs{query}")
    assert caught.value.kind == "invalid"
    assert SECRET not in (said := f"{caught.value!r} {caught.value.__cause__!r}")
    assert QUOTED not in said


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{QUOTED}@h:port/runs",
        f"postgresql://ada:{QUOTED}@h/runs?colour=red",
        f"postgresql://ada:{SECRET}@h:x/d",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(AgentError) as caught:
        open_journal(url)
    assert caught.value.kind == "invalid"
    assert "geheim" not in f"{caught.value!r}"


@pytest.mark.parametrize(
    "url",
    [
        f"postgres:ada:{QUOTED}@h/d",
        f"postgresql+psycopg://ada:{SECRET}@h/d",
        f"mysql://ada:{QUOTED}@h/d?password={QUOTED}",
    ],
)
def test_another_kind_of_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(AgentError, match=r"is not a journal URL: use .*postgresql://") as caught:
        open_journal(url)
    assert "geheim" not in f"{caught.value!r}"


def test_a_database_that_is_not_there_is_told(postgres_server: PostgresServer) -> None:
    with refuses("invalid", "there is no database 'postgresql://postgres@/nowhere.*createdb"):
        open_journal(postgres_server.url("nowhere"))


@pytest.fixture
def guarded_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database whose owner needs a password, which is SECRET."""
    name = f"t{uuid4().hex}"
    postgres_server.sql(f"create role {name} login password '{SECRET}'")
    postgres_server.sql(f"create database {name} owner {name}")
    ((file,),) = postgres_server.sql("show hba_file")
    rules = Path(str(file))
    before = rules.read_text()
    rules.write_text(f"local {name} {name} scram-sha-256\n{before}")
    postgres_server.sql("select pg_reload_conf()")
    ((count,),) = postgres_server.sql(
        f"select count(*) from pg_hba_file_rules where user_name = array['{name}']"
    )
    assert count == 1
    yield postgres_server.url(name, user=name)
    rules.write_text(before)
    postgres_server.sql("select pg_reload_conf()")
    postgres_server.sql(f"drop database {name} with (force)")
    postgres_server.sql(f"drop role {name}")


async def test_a_wrong_password_is_told_and_not_shown(guarded_url: str) -> None:
    user = guarded_url.split("//")[1].split("@")[0]
    with pytest.raises(AgentError, match="rejects this user and password: check both") as caught:
        open_journal(guarded_url.replace(f"{user}@", f"{user}:falsch@"))
    assert caught.value.kind == "invalid"
    assert "falsch" not in f"{caught.value!r} {caught.value.__cause__!r}"
    journal = open_journal(guarded_url.replace(f"{user}@", f"{user}:{QUOTED}@"))
    assert await journal.runs() == []
    assert "geheim" not in repr(journal)
    await journal.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:se%zzcret@host/db",
        "postgresql://ada:secret@host/db?nothing=secret",
        "postgresql://[secret",
    ],
)
def test_no_part_of_a_url_that_is_none_is_told(url: str) -> None:
    with pytest.raises(AgentError) as raised:
        open_journal(url)
    told = "".join(traceback.format_exception(raised.value, limit=0))
    assert "se%zzcret" not in told
    assert "secret" not in told


async def test_tables_of_another_program_are_left_alone(postgres_url: str, look: Look) -> None:
    look("create schema treadle")
    look("create table treadle.looms(a integer)")
    with refuses(
        "invalid",
        "the schema treadle of .* contains 'looms' but no journal: give the journal its own database",
    ):
        open_journal(postgres_url)
    assert look("select count(*) from pg_tables where schemaname = 'treadle'") == [(1,)]


async def test_a_database_that_keeps_no_unicode_is_refused(postgres_server: PostgresServer) -> None:
    name = f"t{uuid4().hex}"
    postgres_server.sql(f"create database {name} encoding 'LATIN1' locale 'C' template template0")
    with refuses("invalid", "stores text as LATIN1"):
        open_journal(postgres_server.url(name))
    postgres_server.sql(f"drop database {name} with (force)")


async def test_a_role_that_may_not_make_tables_is_told_so(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    role = f"t{uuid4().hex}"
    postgres_server.sql(f"create role {role} login")
    with refuses("invalid", "may not use or create the tables of a journal.*grant create"):
        open_journal(postgres_url.replace("postgres@", f"{role}@"))
    postgres_server.sql(f"drop role {role}")


def test_psycopg_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("treadle.journal.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with refuses("invalid", r"needs psycopg: pip install 'treadle\[postgres\]'"):
        open_journal("postgresql://h/d")


@pytest.mark.parametrize("lease_s", [0.5, 0, -1, float("nan")])
def test_a_lease_lasts_a_second_at_least(postgres_url: str, lease_s: float) -> None:
    with refuses("invalid", "a lease lasts at least 1 seconds"):
        open_journal(postgres_url, lease_s=lease_s)


# ---------------------------------------------------------------- how a database becomes a journal


async def test_a_plain_role_that_owns_its_database_is_enough(plain_postgres_url: str) -> None:
    journal = open_journal(plain_postgres_url)
    await says(journal, "run_1", "hello", "hello", session="ada")
    assert [info.run_id for info in await journal.runs()] == ["run_1"]
    await journal.aclose()


CREATE = """
import sys
import traceback
import anyio
from treadle.journal import open_journal
sys.stdin.readline()
journal = open_journal(sys.argv[1])
print(len(journal.sessions.list()))
journal.sessions.create(session_id=sys.argv[2])
anyio.run(journal.aclose)
"""


async def test_any_number_may_open_an_empty_database_at_once(postgres_url: str) -> None:
    make_at_once(CREATE, postgres_url, 3)
    journal = open_journal(postgres_url)
    assert {info.id for info in journal.sessions.list()} == {"s0", "s1", "s2"}
    await journal.aclose()


async def test_older_tables_are_brought_to_this_version_while_the_older_one_works_on(
    postgres_url: str, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = open_journal(postgres_url)
    await says(older, "run_1", "hello", "hello")
    with monkeypatch.context() as patch:
        patch.setattr(
            schema,
            "MIGRATIONS",
            (
                *schema.MIGRATIONS,
                schema.Migration("alter table treadle.runs add column mood text", schema.VERSION),
            ),
        )
        patch.setattr(schema, "VERSION", schema.VERSION + 1)
        newer = open_journal(postgres_url)
        assert len(await entries_of(newer)) == 3
        await says(newer, "run_2", "hello", "hello")
        await newer.aclose()
    assert look("select version, readable_by from treadle.versions order by version") == [
        (
            n,
            schema.MIGRATIONS[min(n, schema.VERSION) - 1].readable_by
            if n <= schema.VERSION
            else schema.VERSION,
        )
        for n in range(1, schema.VERSION + 2)
    ]
    await says(older, "run_3", "hello", "hello")
    await older.aclose()
    older = open_journal(postgres_url)
    assert len(await older.runs()) == 3
    await older.aclose()


def test_a_server_of_an_old_version_is_refused(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "SERVER_OLDEST", 990000)
    with refuses(
        "invalid", r"is PostgreSQL \d+\.\d+: a journal needs 99 or newer: upgrade the ser"
    ):
        open_journal(postgres_url)


async def test_tables_that_this_version_cannot_use_are_refused_and_left_as_they_are(
    postgres_url: str, look: Look
) -> None:
    await open_journal(postgres_url).aclose()
    look("insert into treadle.versions(version, readable_by) values(99, 98)")
    with refuses(
        "invalid",
        "was made by a newer Treadle .version 99, for version 98 and newer; this one knows .*: upgrade",
    ):
        open_journal(postgres_url)
    assert look("select max(version) from treadle.versions") == [(99,)]


# ---------------------------------------------------------------- its connection

CONNECTED = (
    "select pid from pg_stat_activity where datname = current_database()"
    " and pid <> pg_backend_pid() and backend_type = 'client backend'"
)


async def test_the_connection_of_opening_is_used_on_and_closed_in_the_end(
    postgres_url: str, look: Look
) -> None:
    async with contextlib.aclosing(open_journal(postgres_url)) as journal:
        opened = look(CONNECTED)
        assert await journal.runs() == []
        assert look(CONNECTED) == opened
    async with contextlib.aclosing(open_journal(postgres_url)):
        pass  # it is not used
    with anyio.fail_after(20):  # the server notices the end of a connection a moment later
        while look(CONNECTED):
            await anyio.sleep(0.01)


async def test_a_connection_of_opening_that_the_server_has_ended_is_replaced(
    journal: Journal, look: Look
) -> None:
    look(f"select pg_terminate_backend(pid, 5000) from ({CONNECTED}) as connected")
    assert await journal.runs() == []

"""What is told when the server refuses, and that nothing is lost by it."""

from __future__ import annotations

import anyio
import pytest

from tests.journal.postgres.conftest import Look
from tests.journal.runs import entries_of, fact, finished, refuses, started
from tests.service.database.postgres import PostgresServer
from treadle.journal.journal import Journal

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")

import psycopg
from psycopg import errors

from treadle.journal.postgres import PostgresJournal
from treadle.journal.postgres.failures import place_of, translated, unusable

PLACE = "postgresql://ada@db/treadle"
RAISES = "create trigger fails before {} on treadle.{} for each row execute function public.fails()"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            errors.DiskFull("no space left on device"),
            "no space left .*: nothing was appended. Free some space there",
        ),
        (
            errors.TooManyConnections("sorry, too many clients already"),
            "accepts no more connections: .*max_connections",
        ),
        (
            errors.ReadOnlySqlTransaction("cannot execute INSERT"),
            "does not accept writes .*URL of the primary server",
        ),
        (
            errors.AdminShutdown("terminating connection"),
            "is stopping or starting .*Wait until it is up",
        ),
        (errors.CannotConnectNow("the database system is starting up"), "is stopping or starting"),
        (
            errors.QueryCanceled("canceling statement due to statement timeout"),
            "took too long .*See what holds it up",
        ),
        (
            errors.SerializationFailure("could not serialize"),
            "others changed the same rows .*Try again",
        ),
        (errors.DeadlockDetected("deadlock detected"), "others changed the same rows"),
        (
            errors.InsufficientPrivilege("permission denied for table runs"),
            "this user lacks a privilege .*the journal's owner",
        ),
        (
            errors.UndefinedTable('relation "treadle.runs" does not exist'),
            "tables of the journal are missing",
        ),
        (
            errors.UniqueViolation("duplicate key"),
            "rejected the operation .duplicate key.: nothing was appended",
        ),
        (psycopg.DataError("text fields cannot contain NUL"), "rejected the operation"),
        (
            psycopg.OperationalError("server closed the connection unexpectedly\n\tThis probably"),
            "the connection to .* failed .server closed",
        ),
        (
            errors.ProtocolViolation("query_wait_timeout"),
            "the pooler of .* has no connection to its server .*its pool large enough",
        ),
        (
            errors.ProtocolViolation("server login has been failing, try again later"),
            "the pooler of .* has no connection to its server",
        ),
        (
            errors.ProtocolViolation("no more connections allowed (max_client_conn)"),
            "the pooler of .* accepts no more connections: nothing was appended",
        ),
        (psycopg.InternalError("cache lookup failed"), "failed .cache lookup failed"),
    ],
    ids=str,
)
def test_what_the_server_says_is_told_with_what_to_do(error: psycopg.Error, told: str) -> None:
    with refuses("agent", told):
        raise translated(error, PLACE)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (
            psycopg.OperationalError('FATAL:  password authentication failed for user "ada"'),
            "invalid",
            "rejects this user and password",
        ),
        (
            psycopg.OperationalError("fe_sendauth: no password supplied"),
            "invalid",
            "rejects this user and password",
        ),
        (
            psycopg.OperationalError('FATAL:  no pg_hba.conf entry for host "::1"'),
            "invalid",
            "denies this user access",
        ),
        (
            psycopg.OperationalError('FATAL:  role "ada" does not exist'),
            "invalid",
            "denies this user access",
        ),
        (
            psycopg.OperationalError('FATAL:  database "treadle" does not exist'),
            "invalid",
            "there is no database .*createdb",
        ),
        (
            errors.InsufficientPrivilege("permission denied for database"),
            "invalid",
            "grant create on database",
        ),
        (
            errors.ReadOnlySqlTransaction("cannot execute CREATE SCHEMA"),
            "invalid",
            "standby.*URL of the primary",
        ),
        (
            psycopg.OperationalError("connection refused\nIs the server running on that host?"),
            "invalid",
            "no PostgreSQL server responds .*connection refused",
        ),
        (
            errors.TooManyConnections("too many clients"),
            "agent",
            "accepts no more connections: it is not used",
        ),
        (
            psycopg.OperationalError("FATAL:  sorry, too many clients already"),
            "agent",
            "it is not used",
        ),
        (
            psycopg.OperationalError("FATAL:  query_wait_timeout"),
            "agent",
            "the pooler of .* has no connection to its server .*it is not used",
        ),
        (
            psycopg.OperationalError("FATAL:  no more connections allowed (max_client_conn)"),
            "agent",
            "accepts no more connections: it is not used",
        ),
        (
            psycopg.OperationalError("FATAL:  unsupported startup parameter: options"),
            "invalid",
            "refuses 'options': take it out of the URL",
        ),
        (
            psycopg.OperationalError("server does not support SSL, but SSL was required"),
            "invalid",
            "no encrypted connection .*sslmode",
        ),
        (
            psycopg.OperationalError('root certificate file "/x/root.crt" does not exist'),
            "invalid",
            "no encrypted connection .*sslrootcert",
        ),
    ],
)
def test_why_a_database_is_no_journal_is_told_with_what_to_do(
    error: psycopg.Error, kind: str, told: str
) -> None:
    with refuses(kind, told):
        raise unusable(error, PLACE)


def test_what_libpq_repeats_is_told_once_and_a_password_never() -> None:
    said = psycopg.OperationalError(
        "connection to ::1 failed: geheim\nconnection to ::1 failed: geheim\n"
    )
    for told in (
        unusable(said, PLACE, secrets=("geheim",)),
        translated(said, PLACE, secrets=("geheim",)),
    ):
        assert "geheim" not in told.message
        assert told.message.count("::1") == 1
    assert "geheim" not in place_of(
        "postgresql://ada:geheim@db:5433/treadle?sslmode=require&sslpassword=geheim"
    )
    assert (
        place_of("postgresql://ada:geheim@db:5433/treadle?sslmode=require")
        == "postgresql://ada@db:5433/treadle"
    )
    assert (
        place_of("postgresql://ada@/treadle?host=/run&port=6432")
        == "postgresql://ada@/treadle?host=/run&port=6432"
    )
    assert place_of("postgresql://ada@/treadle?host=/run") == "postgresql://ada@/treadle?host=/run"


@pytest.fixture
def fails(look: Look) -> None:
    """A function for triggers that says what a full disk says."""
    look(
        "create function public.fails() returns trigger language plpgsql as $$ begin raise 'no space left on device' using errcode = '53100'; end $$"
    )


@pytest.mark.usefixtures("fails")
async def test_a_full_disk_takes_nothing_and_the_run_goes_on_once_there_is_space(
    journal: Journal, look: Look
) -> None:
    writer = await journal.begin(started())
    look(RAISES.format("insert", "entries"))
    for entries in ([fact("a")], [finished()]):
        with refuses("agent", "no space left .*: nothing was appended. Free some space"):
            await writer.append(entries)
    with refuses("agent", "no space left"):
        await journal.begin(started("run_2"))
    look("drop trigger fails on treadle.entries")
    assert await writer.append([fact("a"), finished()]) == 2
    assert len(await entries_of(journal)) == 3


@pytest.mark.usefixtures("fails")
async def test_a_run_that_could_not_be_let_go_of_is_let_go_of_later(
    journal: Journal, look: Look
) -> None:
    writer = await journal.begin(started(session="ada"))
    look(RAISES.format("update", "runs"))
    await writer.release()
    assert (await journal.info("run_1")).status == "running"
    look("drop trigger fails on treadle.runs")
    assert (await journal.take_over("run_1")).fence == 2


async def test_a_server_that_became_a_standby_takes_nothing(
    journal: Journal, look: Look, postgres_server: PostgresServer
) -> None:
    writer = await journal.begin(started())
    (name,) = look("select current_database()")[0]
    postgres_server.sql(f"alter database {name} set default_transaction_read_only = on")
    while look(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'treadle'"
    ):
        await anyio.sleep(0.01)  # until all are gone
    with refuses(
        "agent", "does not accept writes .*nothing was appended. Give the URL of the primary"
    ):
        await writer.append([fact("a")])
    assert len(await journal.read("run_1")) == 1
    postgres_server.sql(f"alter database {name} reset default_transaction_read_only")
    assert await writer.append([fact("a")]) == 2


async def test_a_statement_that_waits_too_long_appends_nothing(
    journal: Journal, look: Look, postgres_url: str, postgres_server: PostgresServer
) -> None:
    (name,) = look("select current_database()")[0]
    await journal.aclose()
    postgres_server.sql(f"alter database {name} set statement_timeout = '200ms'")
    opened = PostgresJournal.open(postgres_url)
    writer = await opened.begin(started())
    with psycopg.connect(postgres_url) as blocker:
        blocker.execute("lock table treadle.entries in share mode")
        with refuses("agent", "took too long .*: nothing was appended"):
            await writer.append([fact("a")])
    assert await writer.append([fact("a")]) == 2
    await opened.aclose()

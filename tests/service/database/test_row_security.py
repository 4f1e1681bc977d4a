"""The second lock: in PostgreSQL itself a transaction has one user's rows, whatever is asked of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError, ProgrammingError
from sqlmodel import Session, select

from tests.service.database.people import ADA, BOB, TABLES, furnished, key_of, row_of
from tests.service.database.postgres import PostgresServer
from treadle.errors import AgentError
from treadle.service.database.database import Database
from treadle.service.database.guard import connection_of
from treadle.service.database.statements import owned_names
from treadle.service.database.tables import ChatMessage, Owned, ServedRun


@pytest.fixture(params=["postgres_url", "plain_postgres_url"], ids=["superuser", "plain role"])
async def locked(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    async with Database.open(request.getfixturevalue(request.param)) as database:
        await furnished(database)
        yield database


async def raw(
    database: Database, sql: str, scoped: bool = True, **values: object
) -> list[tuple[object, ...]]:
    """Past the first lock, as ada or as nobody."""

    def work(session: object) -> list[tuple[object, ...]]:
        result = connection_of(session).execute(text(sql), values)  # type: ignore[arg-type]
        return [tuple(row) for row in result] if result.returns_rows else [(result.rowcount,)]

    return await (database.run(ADA, work) if scoped else database.run_unscoped(work))


@pytest.mark.parametrize("table", owned_names())
async def test_raw_sql_reaches_the_rows_of_its_user_only(locked: Database, table: str) -> None:
    assert await raw(locked, f"SELECT user_id FROM {table}") == [("ada",)]
    assert await raw(locked, f"SELECT user_id FROM {table}", scoped=False) == []
    assert await raw(locked, f"UPDATE {table} SET user_id = user_id WHERE user_id = 'bob'") == [
        (0,)
    ]
    assert await raw(locked, f"DELETE FROM {table} WHERE user_id = 'bob'") == [(0,)]
    with pytest.raises(ProgrammingError, match="row-level security"):
        await raw(locked, f"UPDATE {table} SET user_id = 'bob'")
    assert await raw(locked, f"DELETE FROM {table}") == [(1,)]


@pytest.mark.parametrize("table", TABLES)
async def test_raw_sql_writes_no_row_of_another(locked: Database, table: type[Owned]) -> None:
    row = row_of(table, "bob")
    setattr(row, key_of(table), "another")

    def work(connection: Connection) -> None:
        connection.execute(table.__table__.insert().values(row.model_dump()))  # type: ignore[attr-defined]

    with pytest.raises(ProgrammingError, match="row-level security"):
        await locked.run(ADA, lambda session: work(connection_of(session)))


async def test_every_owned_table_has_a_forced_policy(locked: Database) -> None:
    rows = await raw(
        locked,
        "SELECT relname FROM pg_class JOIN pg_policy ON polrelid = pg_class.oid WHERE relrowsecurity AND relforcerowsecurity AND polcmd = '*'",
    )
    assert sorted(str(name) for (name,) in rows) == sorted(owned_names())


async def test_nothing_of_a_transaction_stays_on_its_connection(locked: Database) -> None:
    assert locked._engines is not None
    await raw(locked, "SELECT 1")
    with locked._engines.writing.connect() as connection:
        assert connection.execute(
            text("SELECT current_setting('treadle.user_id', true), current_user = session_user")
        ).one() in [("", True), (None, True)]


async def test_a_database_whose_policies_are_off_is_not_opened(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with Database.open(postgres_url):
        pass
    name = postgres_url.split("/")[3].split("?")[0]
    for act in ("ALTER TABLE task NO FORCE ROW LEVEL SECURITY", "DROP POLICY own_rows ON change"):
        postgres_server.sql(act, name)
        with pytest.raises(AgentError, match="row-level security is off") as caught:
            await Database.open(postgres_url)
        assert caught.value.kind == "invalid"
        postgres_server.sql("ALTER TABLE task FORCE ROW LEVEL SECURITY", name)


@pytest.mark.parametrize(
    "act",
    [
        "CREATE POLICY another ON task USING (true)",
        "ALTER POLICY own_rows ON task USING (true)",
        "ALTER POLICY own_rows ON task WITH CHECK (true)",
    ],
)
async def test_a_database_with_a_policy_of_somebody_else_is_not_opened(
    postgres_server: PostgresServer, postgres_url: str, act: str
) -> None:
    """C6: one that was there counted as ours, whatever it allowed."""
    async with Database.open(postgres_url):
        pass
    postgres_server.sql(act, postgres_url.split("/")[3].split("?")[0])
    with pytest.raises(AgentError, match="other policies than Treadle's"):
        await Database.open(postgres_url)


async def test_tables_that_a_plain_role_made_are_locked_for_a_superuser_too(
    postgres_server: PostgresServer, plain_postgres_url: str
) -> None:
    async with Database.open(plain_postgres_url) as database:
        await furnished(database)
    name = plain_postgres_url.split("/")[3].split("?")[0]
    async with Database.open(postgres_server.url(name)) as database:
        assert await raw(database, "SELECT user_id FROM task") == [("ada",)]


async def test_no_message_is_in_a_conversation_of_somebody_else(
    furnished_database: Database,
) -> None:
    """C6: SQL past the application put a row of bob's into ada's conversation."""
    forged = ChatMessage(
        id="forged",
        user_id="bob",
        conversation_id="Conversation-ada",
        number=2,
        role="user",
        content="x",
    )

    def work(session: Session) -> None:
        values = forged.model_dump()
        connection_of(session).execute(ChatMessage.__table__.insert().values(values))  # type: ignore[attr-defined]

    with pytest.raises(IntegrityError):
        await furnished_database.run(BOB, work)


async def test_no_run_is_in_a_conversation_of_somebody_else(furnished_database: Database) -> None:

    def add(session: Session, run_id: str, conversation_id: str | None) -> None:
        forged = ServedRun(user_id="bob", run_id=run_id, agent="x", conversation_id=conversation_id)
        connection_of(session).execute(ServedRun.__table__.insert().values(forged.model_dump()))  # type: ignore[attr-defined]

    for foreign in ("Conversation-ada", "none"):
        with pytest.raises(IntegrityError):
            await furnished_database.run(
                BOB, partial(add, run_id="forged", conversation_id=foreign)
            )
    for number, own in enumerate(("Conversation-bob", None)):
        await furnished_database.run(BOB, partial(add, run_id=f"own {number}", conversation_id=own))


async def test_with_a_conversation_its_runs_and_messages_go(furnished_database: Database) -> None:
    """Also where SQL past the application deletes it; those of another user stay."""
    for scope in (ADA, BOB):
        run = ServedRun(
            user_id=scope.user_id,
            run_id=f"run of {scope.user_id}",
            agent="x",
            conversation_id=f"Conversation-{scope.user_id}",
        )
        await furnished_database.run(scope, lambda session, run=run: session.add(run))
    sql = text("DELETE FROM conversation WHERE id = 'Conversation-ada' AND user_id = 'ada'")
    await furnished_database.run(ADA, lambda session: connection_of(session).execute(sql) and None)

    def left(session: Session, user_id: str) -> list[str]:
        runs = session.exec(select(ServedRun.run_id).where(ServedRun.user_id == user_id))
        said = session.exec(select(ChatMessage.id).where(ChatMessage.user_id == user_id))
        return sorted([*runs, *said])

    assert await furnished_database.read(ADA, partial(left, user_id="ada")) == ["ServedRun-ada"]
    assert await furnished_database.read(BOB, partial(left, user_id="bob")) == [
        "ChatMessage-bob",
        "ServedRun-bob",
        "run of bob",
    ]


@pytest.mark.parametrize("power", ["SUPERUSER", "BYPASSRLS", "LOGIN", "CREATEROLE"])
async def test_a_role_of_our_name_with_powers_of_its_own_is_refused(
    postgres_url: str, power: str
) -> None:
    """C6: it was made before, by somebody who wants to see all rows."""

    def alter(sql: str) -> None:
        assert database._engines is not None
        with database._engines.writing.begin() as connection:
            connection.execute(text(f"ALTER ROLE treadle_rows {sql}"))

    async with Database.open(postgres_url) as database:
        alter(power)
        try:
            with pytest.raises(AgentError, match="treadle_rows") as raised:
                async with Database.open(postgres_url):
                    pass
        finally:
            alter(f"NO{power}")
    assert raised.value.kind == "invalid"
    async with Database.open(postgres_url):
        pass


async def test_a_role_of_our_name_that_others_may_assume_is_refused(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    """C6: in PostgreSQL 16, a role with CREATEROLE may assume the roles that it made."""
    async with Database.open(postgres_url):
        pass
    postgres_server.sql("DROP ROLE IF EXISTS borrower")
    postgres_server.sql("CREATE ROLE borrower NOLOGIN")
    postgres_server.sql("GRANT treadle_rows TO borrower")
    try:
        with pytest.raises(AgentError, match="has members"):
            await Database.open(postgres_url)
    finally:
        postgres_server.sql("REVOKE treadle_rows FROM borrower")
        postgres_server.sql("DROP ROLE borrower")

"""Roles, policies and rows that others put into the database of a service: it does not start on
those that let one user see another's rows, and no row may belong to two users (C6).
"""

from __future__ import annotations

from random import Random

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.attacks import SEEDS, chance
from tests.service.database.people import ADA, BOB, TABLES, furnished, key_of, row_of
from tests.service.database.postgres import PostgresServer, postgres_server, postgres_url
from treadle.errors import AgentError
from treadle.service.database.database import Database
from treadle.service.database.guard import connection_of
from treadle.service.database.tables import Owned

__all__ = ["postgres_server", "postgres_url"]

ROLE, OTHER = "treadle_rows", "intruder"


def intrusion(random: Random) -> tuple[list[str], list[str]]:
    """Statements that widen what a user or a role sees, and those that take them back."""
    table = random.choice([one.__table__.name for one in TABLES])  # type: ignore[attr-defined]
    of = random.choice(
        ["", "AS PERMISSIVE ", f"AS PERMISSIVE FOR {random.choice(['ALL', 'SELECT'])} "]
    )
    to = random.choice(["", f"TO {ROLE} ", "TO PUBLIC "])
    condition = random.choice(["true", "user_id IS NOT NULL", "user_id >= ''", "1 = 1"])
    power = random.choice(["SUPERUSER", "BYPASSRLS", "LOGIN", "CREATEROLE"])
    own = "(user_id = current_setting('treadle.user_id', true))"
    return random.choice(
        [
            ([f"CREATE POLICY another ON {table} {of}{to}USING ({condition})"],) * 2,
            ([f"ALTER POLICY own_rows ON {table} USING ({condition})"],) * 2,
            ([f"ALTER POLICY own_rows ON {table} USING {own} WITH CHECK ({condition})"],) * 2,
            ([f"DROP POLICY own_rows ON {table}"],) * 2,
            ([f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY"],) * 2,
            ([f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"],) * 2,
            ([f"GRANT {ROLE} TO {OTHER}"], [f"REVOKE {ROLE} FROM {OTHER}"]),
            ([f"GRANT {ROLE} TO {OTHER} WITH ADMIN OPTION"], [f"REVOKE {ROLE} FROM {OTHER}"]),
            ([f"GRANT {OTHER} TO {ROLE}"], [f"REVOKE {OTHER} FROM {ROLE}"]),
            ([f"GRANT pg_read_all_data TO {ROLE}"], [f"REVOKE pg_read_all_data FROM {ROLE}"]),
            ([f"ALTER ROLE {ROLE} {power}"], [f"ALTER ROLE {ROLE} NO{power}"]),
        ]
    )


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_service_does_not_start_where_a_user_could_see_the_rows_of_another(
    postgres_server: PostgresServer, postgres_url: str, seed: int
) -> None:
    name = postgres_url.split("/")[3].split("?")[0]
    async with Database.open(postgres_url):
        pass
    postgres_server.sql(f"DROP ROLE IF EXISTS {OTHER}")
    postgres_server.sql(f"CREATE ROLE {OTHER} NOLOGIN")
    act, back = intrusion(chance(seed, "rows"))
    for statement in act:
        postgres_server.sql(statement, name)
    try:
        with pytest.raises(AgentError) as refused:
            async with Database.open(postgres_url):
                pass
        assert refused.value.kind == "invalid"
        assert "row" in refused.value.message
    finally:
        if back is not act:
            for statement in back:
                postgres_server.sql(statement, name)


def stolen(random: Random) -> list[str]:
    """SQL of bob's that would give him a row of ada's, or put one of his where she reads it."""
    table = random.choice(TABLES)
    name = table.__table__.name  # type: ignore[attr-defined]
    key = key_of(table)
    return [
        f"UPDATE {name} SET user_id = 'bob' WHERE {key} = '{table.__name__}-ada'",
        f"UPDATE {name} SET user_id = 'ada' WHERE user_id = 'bob'",
        *(
            f"UPDATE {name} SET {column.name} = '{target}' WHERE user_id = 'bob'"
            for column in table.__table__.columns  # type: ignore[attr-defined]
            if column.foreign_keys and column.name != "user_id"
            for target in (f"{one.__name__}-ada" for one in TABLES)
        ),
    ]


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_statement_moves_a_row_between_two_users(postgres_url: str, seed: int) -> None:
    random = chance(seed, "stolen")
    async with Database.open(postgres_url) as database:
        await furnished(database)

        def rows(table: type[Owned], scope_name: str) -> object:
            return lambda session: [
                tuple(row)
                for row in connection_of(session).execute(
                    text(f"SELECT * FROM {table.__table__.name}")  # type: ignore[attr-defined]
                )
            ]

        before = [await database.read(ADA, rows(table, "ada")) for table in TABLES]  # type: ignore[arg-type]
        for sql in stolen(random):
            try:
                await database.run(
                    BOB, lambda session, sql=sql: connection_of(session).execute(text(sql)) and None
                )
            except DBAPIError:
                continue
        after = [await database.read(ADA, rows(table, "ada")) for table in TABLES]  # type: ignore[arg-type]
    assert after == before
    assert all(after), [row_of(table, "ada") for table in TABLES]

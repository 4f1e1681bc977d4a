"""The schema: how it comes to be, that it is what the tables say, and who may not use it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from inspect import isfunction
from pathlib import Path

import anyio
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text
from sqlmodel import Session, select

from tests.service.database.people import ADA, BOB
from treadle.apps.assistant.tables import Task
from treadle.errors import AgentError
from treadle.service.database.database import Database
from treadle.service.database.engines import connected
from treadle.service.database.migrating import MIGRATIONS, VERSION_TABLE, VERSIONS
from treadle.service.database.tables import METADATA, ChatMessage, Row, ServedRun

OPENS = """
import sys, anyio
from treadle.service.database.database import Database

async def main():
    await (await Database.open(sys.argv[1])).aclose()

anyio.run(main)
print("alembic" in sys.modules)
"""


async def test_the_migrated_schema_is_what_the_tables_say(database_url: str) -> None:
    async with Database.open(database_url) as database:
        assert database._engines is not None
        with database._engines.writing.connect() as connection:
            context = MigrationContext.configure(
                connection,
                opts={
                    "compare_type": True,
                    "compare_server_default": True,
                    "version_table": VERSION_TABLE,
                },
            )
            assert compare_metadata(context, METADATA) == []


def test_the_versions_that_the_first_look_knows_are_the_files_there_are() -> None:
    scripts = ScriptDirectory(str(MIGRATIONS))
    assert [script.revision for script in reversed([*scripts.walk_revisions()])] == list(VERSIONS)


async def test_two_that_start_at_once_make_the_schema_once(database_url: str) -> None:
    if database_url == "sqlite://":
        pytest.skip("nobody else reaches a database in memory")

    async def start() -> None:
        async with Database.open(database_url) as database:
            await database.ping()

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(start)


async def test_a_database_of_a_newer_version_is_refused(database_url: str) -> None:
    async with Database.open(database_url) as database:
        assert database._engines is not None
        with database._engines.writing.begin() as connection:
            connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
        if database_url != "sqlite://":
            with pytest.raises(AgentError, match="newer version of Treadle") as caught:
                await Database.open(database_url)
            assert caught.value.kind == "invalid"


async def test_tables_of_somebody_else_are_left_as_they_are(database_url: str) -> None:
    if database_url == "sqlite://":
        pytest.skip("nobody else reaches a database in memory")
    engine = connected(database_url).writing
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE task (mine integer)"))
    with pytest.raises(AgentError, match="another application") as caught:
        await Database.open(database_url)
    assert caught.value.kind == "invalid"
    with engine.begin() as connection:
        assert connection.execute(text("SELECT mine FROM task")).all() == []
    engine.dispose()


def test_create_all_refuses_a_table_of_another_application(tmp_path: Path) -> None:
    """The way of docs/tasks.md: without this, it changes nothing, and every call of the assistant
    fails.
    """
    engine = connected(f"sqlite:///{tmp_path / 'rows.db'}").writing
    METADATA.create_all(engine)
    METADATA.create_all(engine)  # our own are no foreign ones
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE task"))
        connection.execute(text("CREATE TABLE task (id text, title text)"))
    with pytest.raises(
        AgentError,
        match=r"the table 'task' of this database belongs to another application \(it has no completed, .*user_id",
    ):
        METADATA.create_all(engine)
    engine.dispose()


@pytest.mark.parametrize("who", ["postgres", "plain_postgres"])
async def test_a_schema_of_their_own_keeps_our_tables_apart(
    who: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{who}_url")
    engine = connected(url).writing
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE task (mine integer)"))
    for _ in range(2):
        async with Database.open(f"{url}{'&' if '?' in url else '?'}schema=treadle") as database:
            await database.ping()
            await database.run(
                ADA, lambda session: session.add(Task(user_id=ADA.user_id, title="pay rent"))
            )
    with engine.begin() as connection:
        assert connection.execute(text("SELECT mine FROM task")).all() == []
        assert inspect(connection).get_table_names() == ["task"]
    engine.dispose()
    with pytest.raises(AgentError, match="not a valid name"):
        Database.open("postgresql://host/name?schema=Tre%22adle")


async def test_the_messages_of_an_older_database_stay(database_url: str) -> None:
    """Its foreign key is replaced, for which SQLite copies the table."""
    if database_url == "sqlite://":
        pytest.skip("it is gone when it is closed")
    engine = connected(database_url).writing
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.upgrade(config, "0003")
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT set_config('treadle.user_id', 'ada', true)"))
        at = "'2026-11-20 00:00:00'"
        connection.execute(
            text(f"INSERT INTO conversation VALUES ('ada', 'c', 'milk', {at}, {at})")
        )
        connection.execute(
            text(
                "INSERT INTO chatmessage VALUES "
                f"('ada', 'm', 'c', 1, 'user', 'buy milk', '[]', NULL, {at})"
            )
        )
    engine.dispose()
    async with Database.open(database_url) as database:

        def said(session: Session) -> list[str]:
            return [*session.exec(select(ChatMessage.content).where(ChatMessage.user_id == "ada"))]

        assert await database.read(ADA, said) == ["buy milk"]


async def test_the_runs_of_an_older_database_stay_with_their_conversations(
    database_url: str,
) -> None:
    """A run of a conversation that is gone, or of another user, goes."""
    if database_url == "sqlite://":
        pytest.skip("it is gone when it is closed")
    engine = connected(database_url).writing
    at = "'2026-11-20 00:00:00'"
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.upgrade(config, "0005")
        for user in ("ada", "bob"):
            if connection.dialect.name == "postgresql":
                connection.execute(text(f"SELECT set_config('treadle.user_id', '{user}', true)"))
            connection.execute(
                text(f"INSERT INTO conversation VALUES ('{user}', 'of {user}', 'x', {at}, {at})")
            )
            for where in ("'of ada'", "'gone'", "NULL"):
                run = f"{user} in {where.strip(chr(39))}"
                connection.execute(
                    text(
                        f"INSERT INTO servedrun VALUES ('{user}', '{run}', 'a', {where}, '', {at}, NULL)"
                    )
                )
    engine.dispose()
    async with Database.open(database_url) as database:

        def runs(session: Session, user: str) -> list[str]:
            return sorted(session.exec(select(ServedRun.run_id).where(ServedRun.user_id == user)))

        assert await database.read(ADA, partial(runs, user="ada")) == [
            "ada in NULL",
            "ada in of ada",
        ]
        assert await database.read(BOB, partial(runs, user="bob")) == ["bob in NULL"]


async def test_what_is_newest_already_is_opened_without_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rows.db'}"
    async with Database.open(url):
        pass
    done = await anyio.run_process([sys.executable, "-c", OPENS, url])
    assert done.stdout.decode().strip() == "False"


async def test_an_empty_database_in_memory_is_made_and_gone() -> None:
    for _ in range(2):
        async with Database.open("sqlite://") as database:
            await database.ping()


def test_the_defaults_of_a_row_are_quick_to_inspect() -> None:
    """Pydantic inspects their signatures for each row: those of built-in functions take longer than
    to store the row.
    """
    slow = [
        (row.__name__, name)
        for row in _tables()
        for name, field in row.model_fields.items()
        if field.default_factory not in (None, dict) and not isfunction(field.default_factory)
    ]
    assert slow == []


def _tables(of: type[Row] = Row) -> Iterator[type[Row]]:
    for row in of.__subclasses__():
        yield row
        yield from _tables(row)

"""Upgrade to the newest schema, once, by the first process that opens the database. Entry point:
`newest`.

Alembic is imported only if there is something to do. See also: the migrations themselves
(migrations/versions).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from treadle.errors import AgentError
from treadle.service.database.row_security import first_come, make_role
from treadle.service.database.tables import ANOTHER

VERSIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007")
"""Versions, oldest first; a test compares them with the files."""
VERSION_TABLE: Final = "treadle_version"
"""Name of the version table. An application may use Alembic's default name in the same database."""
FOREIGN: Final = f"another application has tables with our names in this database: {ANOTHER}"
MIGRATIONS: Final = Path(__file__).parent / "migrations"


def newest(engine: Engine) -> None:
    """Upgrade the schema; takes a single query if it is the newest.

    Raises AgentError(invalid) for a database of a newer Treadle, and for tables of another
    application.
    """
    with engine.connect() as connection:
        if _is_newest(_version(connection)):
            return
    _migrate(engine)


def _is_newest(version: str | None) -> bool:
    if version is not None and version not in VERSIONS:
        raise AgentError(
            "invalid",
            (
                "the database was written by a newer version of Treadle: install that version, or "
                "give another database"
            ),
        )
    return version == VERSIONS[-1]


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _migrate(engine: Engine) -> None:
    from alembic import command  # noqa: PLC0415  only where something changes
    from alembic.config import Config  # noqa: PLC0415  only needed for a migration

    with engine.begin() as connection:  # takes the lock on SQLite
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL statement_timeout = '60s'"))
            first_come(connection)
        if _is_newest(_version(connection)):  # another process upgraded first
            return
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        try:
            command.upgrade(config, "head")
        except (OperationalError, ProgrammingError) as e:
            if "already exists" in str(e.orig) or getattr(e.orig, "sqlstate", "") == "42P07":
                raise AgentError("invalid", FOREIGN) from e
            raise
        if connection.dialect.name == "postgresql":
            make_role(connection)

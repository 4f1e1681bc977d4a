"""SQLite files of the service and of DBOS while another process is about to write them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.workers.engines.needs import need_dbos
from treadle._internal.write_ahead import use_write_ahead_log
from treadle.service.database.engines import connected


def _of_service(path: Path) -> Engine:
    return connected(f"sqlite:///{path}").writing


def _of_dbos(path: Path) -> Engine:
    journal_url = f"sqlite:///{path.with_suffix('')}"
    need_dbos(journal_url)
    from treadle.workers.engines.dbos.store import Store, database_of

    return Store(database_of(journal_url)).database


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "new.dbos"


@pytest.fixture
def writer(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def release_at_second_try(connection: Any, writer: sqlite3.Connection) -> None:
    tries: list[str] = []

    def saw(statement: str) -> None:
        if "journal_mode" in statement:
            tries.append(statement)
            if len(tries) == 2:
                writer.execute("ROLLBACK")

    connection.set_trace_callback(saw)


@pytest.mark.parametrize("database", [_of_service, _of_dbos])
def test_a_database_is_opened_while_another_process_is_about_to_write_its_new_file(
    file: Path, writer: sqlite3.Connection, database: Callable[[Path], Engine]
) -> None:
    engine = database(file)
    event.listen(engine, "connect", lambda c, _: release_at_second_try(c, writer), insert=True)
    with engine.connect() as connection:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
    engine.dispose()
    assert mode == "wal"


def test_a_writer_that_stays_is_not_waited_for_for_ever(
    file: Path, writer: sqlite3.Connection
) -> None:
    with (
        closing(sqlite3.connect(file)) as connection,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        use_write_ahead_log(connection, wait_s=0.01)
    assert writer.in_transaction

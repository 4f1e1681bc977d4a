"""Drivers of runs: each open journal that drives is a worker, alive as long as its lease, which it
renews in a thread, by the database's clock. A process that another one on its host finds gone is
dead immediately.

A worker knows locally how long its lease is certainly valid, counted from the time at which the
renewal was sent. Entry point: `PostgresWorkers`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, LiteralString, TypeAlias

import psycopg

from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.postgres.connections import Patience, PostgresServer, within
from treadle.journal.postgres.failures import is_lost
from treadle.journal.postgres.readers import abandoned
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.liveness import Process
from treadle.journal.threads import start
from treadle.types import new_id

Fate: TypeAlias = Literal["alive", "gone", "unknown"]
"""unknown: the process runs on another host, or the system does not report it."""

_PROC = Path("/proc")


def identity() -> str | None:
    """Return host, namespaces, id and start time of this process; None if the system does not
    report them, as on macOS and Windows.
    """
    host, pid = _host(), os.getpid()
    started = _started(pid)
    return None if host is None or started is None else f"{host} {pid} {started}"


def fate(known: str | None) -> Fate:
    """Look up the process with this `identity`.

    "gone" is certain: a stopped process is alive, and so is one that is not reaped yet.
    """
    host, pid, started = (
        (known or "").rsplit(" ", 2) if known and known.count(" ") > 1 else ("", "", "")
    )
    if not host or host != _host():
        return "unknown"
    try:
        os.kill(int(pid), 0)  # also finds processes that /proc may hide
    except ProcessLookupError:
        return "gone"
    except OSError:
        pass
    return "alive" if _started(int(pid)) in (None, started) else "gone"


def _started(pid: int) -> str | None:
    """Return field 22 of proc_pid_stat(5): the start time, in clock ticks since boot.

    The second field may hold spaces and parentheses.
    """
    try:
        return (
            (_PROC / str(pid) / "stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()[19]
        )
    except (OSError, IndexError):
        return None


def _host() -> str | None:
    """Return the identity of this boot, machine and container. The host name distinguishes copies
    of a running virtual machine. None if /proc shows the processes of another container, whose ids
    differ.
    """
    try:
        if os.readlink(_PROC / "self") != str(os.getpid()):
            return None
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespaces = [os.readlink(_PROC / "self/ns" / kind) for kind in ("pid", "time")]
    except (OSError, ValueError):
        return None
    return " ".join((socket.gethostname(), boot, *namespaces))


LEASE_S: Final = 15.0
LEASE_S_LEAST: Final = 1.0
LOOK_S: Final = 1.0
"""Seconds between checks of a driving worker for stop requests."""
_KEPT_US: Final = 86_400_000_000
"""Time for which lists show a dead worker, in microseconds."""

_RENEW: Final[LiteralString] = """
insert into treadle.workers(id, host, pid, identity, since_us, seen_at_us, lease_until_us)
values(%s, %s, %s, %s, treadle.now_us(), treadle.now_us(), treadle.now_us() + %s)
on conflict(id) do update set seen_at_us = excluded.seen_at_us, lease_until_us = excluded.lease_until_us
"""
_LIVES: Final = (
    "lease_until_us > now_us() and seen_at_us <= now_us() + (lease_until_us - seen_at_us)"
)
"""Condition for a valid lease. A lease from the future is invalid: the clock has been set back
since, or another server's clock is behind.
"""


def clock() -> float:
    """Return the seconds of a clock that continues during suspend, if available."""
    return (
        time.clock_gettime(time.CLOCK_BOOTTIME)
        if hasattr(time, "CLOCK_BOOTTIME")
        else time.monotonic()
    )


class PostgresWorkers:
    """Workers of one journal, including this process once it has registered. Thread-safe."""

    needs_lease = True

    def __init__(
        self,
        server: PostgresServer,
        *,
        lease_s: float = LEASE_S,
        look: Callable[[psycopg.Connection], None] | None = None,
    ) -> None:
        """Create the registration of this worker. `look`: further periodic work on the connection
        that renews the lease. Raises AgentError(invalid) for a lease that is too short.
        """
        if not lease_s >= LEASE_S_LEAST:
            raise AgentError(
                "invalid", f"a lease lasts at least {LEASE_S_LEAST:g} seconds, not {lease_s!r}"
            )
        self.me: str | None = None
        self.lease_s = lease_s
        self.renewals_missed = 0
        """Failed or late renewals since it registered."""
        self.lapses = 0
        """Number of renewals of a lease that may have expired, so that another worker may have
        taken over runs in between.
        """
        self._server = server
        self._look = look
        self._lock = threading.Lock()
        """Guards registration, so that two threads that start their first runs at the same time
        register one worker.
        """
        self._counting = threading.Lock()
        """Guards `_until` and `lapses` while both change."""
        self._until = 0.0
        self._gone = threading.Event()
        self._thread: threading.Thread | None = None
        self._db: psycopg.Connection | None = None
        abandon_in_children(self)

    # ------------------------------------------------------------ this worker

    def register(self) -> str:
        """Return this worker's id; the first call registers it. Blocks. Raises AgentError."""
        with self._lock:
            if self.me is None:
                if self._gone.is_set():
                    raise AgentError(
                        "invalid", f"the journal {self._server.place!r} is closed: open it again"
                    )
                shard = self._server.shard
                self.me = self._register(new_id("worker") if shard is None else shard.worker)
            return self.me

    def _register(self, me: str) -> str:
        patience = self._server.patience(self._gone)
        while not self._is_registered(me, patience):
            pass
        thread = threading.Thread(target=self._live, args=(me,), name="treadle-lease", daemon=True)
        start(thread)
        self._thread = thread
        return me

    def _is_registered(self, me: str, patience: Patience) -> bool:
        """Register. Returns False if the connection was lost and there is time for another attempt.
        Raises AgentError.
        """
        try:
            self._db = self._server.connect_patiently(patience)
            with self._server.silence.over(self._db):
                self._renew(self._db, me)
                self._db.execute(
                    "delete from treadle.workers where lease_until_us < treadle.now_us() - %s",
                    (_KEPT_US,),
                )
        except psycopg.Error as e:
            is_over = not is_lost(e, self._db) or not patience.wait()
            self._drop()
            if is_over:
                raise self._server.error(e, "nothing was begun") from e
            return False
        return True

    def holds(self) -> bool:
        """Return True if the lease is certainly valid now."""
        return clock() < self._until

    def renew(self, db: Cursor) -> Callable[[], bool]:
        """Renew the lease in the caller's transaction. The caller calls the returned function after
        the commit, which returns True if the lease had lapsed. Raises psycopg.Error.
        """
        assert self.me is not None, "it is registered"
        sent = clock()
        db.execute(_RENEW.replace("%s", "?"), self._row(self.me))
        return lambda: self._renewed(sent)

    def leave(self) -> None:
        """Release everything that this worker holds. Idempotent."""
        self._gone.set()
        with self._lock:
            me, thread = self.me, self._thread
            self.me = self._thread = None
            self._until = 0.0
        if thread is not None:
            thread.join()
        db, self._db = self._db, None
        if db is not None:
            # otherwise the lease expires by itself
            with contextlib.suppress(psycopg.Error), within(db, self.lease_s / 3):
                db.execute("delete from treadle.workers where id = %s", (me,))
            db.close()

    # ------------------------------------------------------------ other workers

    def of(self, db: Cursor, worker: str | None) -> Process | None:
        """Return the process of a worker; None for a dead one, whose lease has expired or whose
        process on this host is gone.
        """
        if worker is None:
            return None
        row = db.execute(
            (
                "select pid, host, identity, lease_until_us - now_us() from workers where id = ? "
                f"and {_LIVES}"
            ),
            (worker,),
        ).fetchone()
        if row is None:
            return None
        pid, host, known, left_us = row
        became = fate(known)
        return (
            None
            if became == "gone"
            else Process(pid, host, lease_s=left_us / 1_000_000 if became == "unknown" else None)
        )

    def living(self, db: Cursor) -> list[str]:
        return [
            worker
            for worker, known in db.execute(
                f"select id, identity from workers where {_LIVES}"
            ).fetchall()
            if fate(known) != "gone"
        ]

    def hold_still(self, db: Cursor, worker: str | None) -> None:
        """Prevent a worker from renewing its lease until the transaction ends, so that the result
        of `of` stays true.
        """
        if worker is not None:
            db.execute("select 1 from workers where id = ? for share", (worker,))

    # ------------------------------------------------------------ the thread

    def _live(self, me: str) -> None:
        pause_s = min(self.lease_s / 3, LOOK_S)
        due = clock() + self.lease_s / 3
        while not self._gone.wait(pause_s):
            try:
                db = self._connection()
                with within(db, self.lease_s / 3):
                    if clock() >= due:
                        self.renewals_missed += clock() >= due + self.lease_s / 3
                        self._renew(db, me)
                        due = clock() + self.lease_s / 3
                    if self._look is not None:
                        self._look(db)
            except Exception:  # noqa: BLE001  also MemoryError: without this thread the lease would end
                self.renewals_missed += clock() >= due
                self._drop()

    def _connection(self) -> psycopg.Connection:
        """Return the connection, opening it if needed. Raises psycopg.Error."""
        db = self._db
        if db is None or db.closed or db.broken:
            self._db = db = self._server.connect(within_s=self.lease_s / 3)
        return db

    def _drop(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _renew(self, db: psycopg.Connection, me: str) -> None:
        sent = clock()
        db.execute(_RENEW, self._row(me))
        self._renewed(sent)

    def _renewed(self, sent: float) -> bool:
        """Return True if the lease had lapsed. Called by the thread that renews it and by those
        that write.
        """
        with self._counting:
            lapsed = clock() >= self._until
            self.lapses += lapsed
            self._until = max(self._until, sent + self.lease_s)
            return lapsed

    def _row(self, me: str) -> tuple[object, ...]:
        return (me, socket.gethostname(), os.getpid(), identity(), int(self.lease_s * 1_000_000))

    def abandon(self) -> None:
        """Detach in a forked child, where the lease is the parent's, and its thread does not
        exist.
        """
        self._lock, self._counting, self._gone = (
            threading.Lock(),
            threading.Lock(),
            threading.Event(),
        )
        self._gone.set()
        abandoned(self._db)
        self.me = self._thread = self._db = None
        self._until = 0.0

"""A thread's connection and its work: appends of many runs in one statement, or a whole
transaction.

A lost connection is replaced, and the work in progress is repeated. Results that may already be
stored are looked up, never assumed. writer.py assigns work, pending_work.py defines it. Entry
point: `WriterLane`.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, LiteralString, TypeVar, cast

import psycopg
from psycopg import errors

from treadle._internal.crash import boundary
from treadle.errors import AgentError
from treadle.journal.postgres.appending import append_all
from treadle.journal.postgres.connections import Patience, PostgresServer, begin, end, is_stale
from treadle.journal.postgres.failures import is_lost
from treadle.journal.postgres.pending_work import (
    PendingAppend,
    PendingTransaction,
    TriedTransaction,
)
from treadle.journal.tables.database import Work
from treadle.journal.tables.sealing import Seal

T = TypeVar("T")

TRIES_MAX: Final = 6
"""Maximum number of attempts at a transaction that conflicts with others."""

_DISTURBED = (errors.SerializationFailure, errors.DeadlockDetected, errors.ForeignKeyViolation)
_AWAY = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)
"""Error codes of a server that is shutting down. A connection that is lost has no error code."""
_NUMBER: Final[LiteralString] = (
    "select pg_current_xact_id_if_assigned()::text, pg_postmaster_start_time()::text"
)
_STATUS: Final[LiteralString] = (
    "select pg_postmaster_start_time()::text, case when pg_postmaster_start_time()::text = %s "
    "then pg_xact_status(%s::xid8) end"
)
_LOOK: Final = "Check the journal once the server is back"
_UNKNOWN: Final = "it is unknown whether the operation in progress was committed"


def _was_demoted(
    error: psycopg.Error, batch: Sequence[PendingAppend] | Sequence[PendingTransaction[Any]]
) -> bool:
    """Return True if a read-only server responds in place of the one that received the statement,
    which may come back.
    """
    return isinstance(error, errors.ReadOnlySqlTransaction) and any(
        pending.maybe for pending in batch
    )


class WriterLane:
    """Connection and work of one thread."""

    def __init__(
        self,
        server: PostgresServer,
        gone: threading.Event,
        connections: set[psycopg.Connection],
        seal: Seal | None,
    ) -> None:
        self._server = server
        self._seal = seal
        self._gone = gone
        self._connections = connections
        self._db: psycopg.Connection | None = None
        self.batch: deque[PendingAppend | PendingTransaction[Any]] = deque()
        """Work taken from the queue whose outcome was not delivered yet."""

    @property
    def is_connected(self) -> bool:
        return self._db is not None

    def connect(self) -> bool:
        """Try once to connect. Returns False if that fails."""
        try:
            self._db = self._server.connect()
        except psycopg.Error:
            return False
        self._connections.add(self._db)
        return True

    def do(self) -> None:
        """Process everything in the batch. After an exception, another call continues with the
        rest.
        """
        patience = self._server.patience(self._gone)
        left = [pending for pending in self.batch if not pending.done and pending.error is None]
        appends = [pending for pending in left if isinstance(pending, PendingAppend)]
        if appends:
            self._guarded(appends, partial(self._append, appends, patience))
        for transaction in left:
            if isinstance(transaction, PendingTransaction):
                self._guarded([transaction], partial(self._transact, transaction, patience))
        if self._db is not None:
            self._server.silence.end(self._db)

    def _guarded(
        self,
        batch: Sequence[PendingAppend] | Sequence[PendingTransaction[Any]],
        act: Callable[[], None],
    ) -> None:
        try:
            act()
        except BaseException as e:  # noqa: BLE001  the edge of the thread: the waiter gets the error, and the thread goes on
            for pending in batch:
                if not pending.done and pending.error is None:
                    self._fail(pending, e)

    def give_up(self, error: BaseException) -> None:
        """Fail everything without an outcome, because of an error outside the work: it may be
        stored.
        """
        for pending in self.batch:
            if not pending.done and pending.error is None:
                pending.cannot_go_on()
                pending.error = error

    def close(self) -> None:
        db, self._db = self._db, None  # not used again, whatever fails below
        if db is not None:
            self._connections.discard(db)
            self._server.silence.end(db)
            db.close()

    def _end(self) -> None:
        """Roll back an open transaction, or close the connection. Never raises, because the work
        may be committed.
        """
        try:
            if self._db is not None:
                end(self._db)
        except Exception:  # noqa: BLE001  no memory, or what CPython raises in its place
            with contextlib.suppress(Exception):
                self.close()

    # ------------------------------------------------------------ appends

    def _append(self, batch: Sequence[PendingAppend], patience: Patience) -> None:
        """Append a batch. Raises the error that they all share."""
        for pending in batch:
            if pending.append.mark.lost:
                pending.error = self._cannot_go_on()
        while ready := [one for one in batch if not one.done and one.error is None]:
            db = None
            try:
                db = self._connection(patience)
                boundary()
                stood = append_all(db, [pending.append for pending in ready], self._seal)
                boundary()
                for pending in ready:
                    self._settle(pending, done=pending.append.mark.num in stood)
            except psycopg.Error as e:
                if db is None:
                    raise
                if self._may_go_on(e, db, ready, patience):
                    continue
                if len(ready) == 1 or is_lost(e, db):
                    raise
                for pending in ready:  # the failure of one does not affect the others
                    self._guarded([pending], partial(self._append, [pending], patience))
                return
            except BaseException:
                if not self._may_be_asked(ready):
                    raise
            else:
                refused = [one for one in ready if not one.done and one.error is None]
                self._look_up(refused, patience)

    def _may_go_on(
        self,
        error: psycopg.Error,
        db: psycopg.Connection,
        batch: Sequence[PendingAppend],
        patience: Patience,
    ) -> bool:
        """Return True if another attempt may succeed, and there is time for it."""
        if is_lost(error, db):
            for pending in batch:
                pending.maybe = True
        if is_lost(error, db) or _was_demoted(error, batch):
            self.close()
            return patience.wait()
        return len(batch) == 1 and isinstance(error, _DISTURBED) and patience.wait()

    def _may_be_asked(self, batch: Sequence[PendingAppend]) -> bool:
        """Treat work that ran out of memory like work whose response was lost: it may be stored.
        Returns True once, because another connection can look it up.
        """
        is_first = True
        for pending in batch:
            is_first, pending.maybe = is_first and not pending.maybe, True
        self.close()
        return is_first

    def _settle(self, pending: PendingAppend, *, done: bool) -> None:
        if done:
            pending.stands()
        elif not pending.maybe:
            pending.error = pending.append.mark.not_held()

    def _look_up(self, refused: Sequence[PendingAppend], patience: Patience) -> None:
        """Look up whether the checks rejected entries that an earlier, lost attempt had already
        appended. Raises psycopg.Error.
        """
        for pending in refused:
            stands = self._again(pending.append.stands, patience)
            pending.append.mark.doubtful = True
            self._settle(pending, done=stands)
            if not stands:
                pending.error = pending.append.mark.not_held()

    def _again(self, look: Work[T], patience: Patience) -> T:
        """Run a read, and repeat it whenever the connection is lost."""
        while True:
            db = None
            try:
                db = self._connection(patience)
                end(db)  # the error that it raised before
                return look(begin(db, self._seal, reading=True))
            except psycopg.Error as e:
                if db is None or not is_lost(e, db):
                    raise
                self.close()
                if not patience.wait():
                    raise
            except BaseException:
                self.close()
                raise
            finally:
                self._end()

    # ------------------------------------------------------------ transactions

    def _transact(self, pending: PendingTransaction[T], patience: Patience) -> None:
        """Run a transaction. Raises its error."""
        if pending.adds is not None and pending.adds.mark.lost:
            raise self._cannot_go_on()
        for tries_left in reversed(range(TRIES_MAX)):
            while not self._is_disturbed(pending, patience, tries_left):
                if pending.done:
                    return

    def _is_disturbed(
        self, pending: PendingTransaction[T], patience: Patience, tries_left: int
    ) -> bool:
        """Try the transaction. Returns True if it conflicted with others; False if it is done, or
        if the connection was lost and there is time for another one.
        """
        db = None
        try:
            db = self._connection(patience)
            pending.stands(self._try(db, pending, patience))
        except AgentError:
            if (
                not pending.maybe
                or pending.stood is None
                or (found := self._again(pending.stood, patience)) is None
            ):
                raise
            # it was still in transit when it was looked up
            pending.stands(found)
        except psycopg.Error as e:
            if db is not None and (is_lost(e, db) or _was_demoted(e, (pending,))):
                pending.maybe = pending.maybe or (pending.committing and is_lost(e, db))
                self.close()
                if not patience.wait():
                    raise
                return False
            if not isinstance(e, (*_DISTURBED, errors.UniqueViolation)) or not tries_left:
                raise
            return True
        except BaseException:
            was_tried, pending.maybe = pending.maybe, pending.maybe or pending.committing
            self.close()
            if was_tried or not pending.maybe:
                raise
        finally:
            self._end()
        return False

    def _try(self, db: psycopg.Connection, pending: PendingTransaction[T], patience: Patience) -> T:
        tried, pending.committing = pending.tried, False
        if pending.maybe and tried is not None:
            if self._was_committed(db, tried, patience):
                return tried.result
            pending.maybe = False
        cursor = begin(db, self._seal)
        if (
            pending.maybe
            and pending.stood is not None
            and (found := pending.stood(cursor)) is not None
        ):
            return found
        result = pending.work(cursor)
        if pending.stood is None:
            number, server = cast("tuple[str | None, str]", db.execute(_NUMBER).fetchone())
            pending.tried = TriedTransaction(number, server, result)
        if pending.adds is not None:
            boundary()
        pending.committing = True
        db.execute("commit", prepare=False)
        if pending.adds is not None:
            boundary()
        return result

    def _was_committed(
        self, db: psycopg.Connection, tried: TriedTransaction[Any], patience: Patience
    ) -> bool:
        """Return True if the transaction was committed. Raises AgentError if that cannot be
        determined.
        """
        while tried.number is not None:
            server, status = cast(
                "tuple[str, str | None]",
                db.execute(_STATUS, (tried.server, tried.number)).fetchone(),
            )
            if server != tried.server or status is None:
                raise AgentError(
                    "agent",
                    (
                        f"the server of {self._server.place!r} ended in a commit, and {_UNKNOWN}. "
                        "Check the journal, then try again"
                    ),
                )
            if status != "in progress":
                return status == "committed"
            if not patience.wait():
                raise AgentError(
                    "agent",
                    (
                        f"the connection to {self._server.place!r} was lost in a commit, and "
                        f"{_UNKNOWN}. Check the journal, then try again"
                    ),
                )
        return False

    # ------------------------------------------------------------ errors

    def _connection(self, patience: Patience) -> psycopg.Connection:
        """Return the connection. Raises psycopg.Error if none can be established in time."""
        if self._db is not None and is_stale(self._db):
            self.close()
        if self._db is None:
            self._db = self._server.connect_patiently(patience)
            self._connections.add(self._db)
        self._server.silence.begin(self._db)
        return self._db

    def _fail(self, pending: PendingAppend | PendingTransaction[Any], error: BaseException) -> None:
        if not isinstance(error, psycopg.Error | AgentError):
            pending.maybe = pending.maybe or pending.committing
        if isinstance(error, AgentError) or not (
            pending.maybe or isinstance(error, psycopg.Error | MemoryError)
        ):
            pending.error = error
        elif pending.maybe:
            pending.cannot_go_on()
            look = f". {_LOOK}" if isinstance(error, psycopg.Error) else ""
            done = f"{_UNKNOWN}: nothing more is appended from here{look}"
            pending.error = self._server.error(error, done)
        else:
            assert isinstance(error, psycopg.Error | MemoryError), (
                "other errors are passed on unchanged"
            )
            done = (
                "nothing was changed"
                if isinstance(pending, PendingTransaction) and pending.adds is None
                else "nothing was appended"
            )
            pending.error = self._server.error(error, done)
            if isinstance(error, _AWAY) or (
                isinstance(error, psycopg.OperationalError) and error.sqlstate is None
            ):
                # otherwise a server that recovers would receive the end of a run that its own
                # absence caused
                pending.cannot_go_on()
        # the next connection may lead to its replacement
        if isinstance(error, errors.ReadOnlySqlTransaction):
            self.close()

    def _cannot_go_on(self) -> AgentError:
        text = (
            f"the connection to {self._server.place!r} was lost in an append: nothing more is "
            "appended from here. Resume the run"
        )
        return AgentError("agent", text)

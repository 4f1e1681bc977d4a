"""Writes to the server: a few threads with a connection each take appends of many runs, and whole
transactions, in parallel.

Writes of one run keep their order. lane.py does the work of a thread. Entry points:
`PostgresWriter.append`, `PostgresWriter.write`, `PostgresWriter.write_now`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Final, TypeVar

import psycopg

from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.pending import outcome_of, settle_all
from treadle.journal.postgres.appending import PendingEntries
from treadle.journal.postgres.connections import PostgresServer
from treadle.journal.postgres.lane import WriterLane
from treadle.journal.postgres.pending_work import PendingAppend, PendingTransaction
from treadle.journal.postgres.readers import abandoned
from treadle.journal.tables.database import Work
from treadle.journal.threads import start

T = TypeVar("T")

THREADS_MAX: Final = 3
TOGETHER_MAX: Final = 64
"""Maximum number of appends in one statement."""
TOGETHER_BYTES: Final = 16 << 20
"""Bound on the entries of one statement, unless it is a single append: the server refuses a
statement of a gigabyte, and others wait for a long one.
"""


class PostgresWriter:
    """Writer of a journal. Starts its threads on the first write. Safe from any thread and any
    event loop.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._turn = threading.Condition()
        """Guards all below."""
        self._queue: deque[PendingAppend | PendingTransaction[Any]] = deque()
        self._behind: dict[Hashable, deque[PendingAppend | PendingTransaction[Any]]] = {}
        """Writes that wait for another write of the same run."""
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False
        self._gone = threading.Event()
        self._connections: set[psycopg.Connection] = set()
        abandon_in_children(self)

    # ------------------------------------------------------------ handing in

    async def append(self, append: PendingEntries) -> int:
        """The sequence of the first, once all are durable. Finished also while the caller is
        cancelled.

        Raises AgentError: busy where the run is not its driver's any more, agent where they cannot
        be stored; then nothing was appended, or the driver is `lost`, which says so.
        """
        pending = PendingAppend(append)
        pending.awaited()
        self._hand_in(pending)
        return await outcome_of(pending)

    async def write(
        self,
        work: Work[T],
        *,
        key: Hashable = None,
        stood: Work[T | None] | None = None,
        adds: PendingEntries | None = None,
    ) -> T:
        """Run a transaction and return its result once it is durable, even while the caller is
        cancelled. It may run again.

        `adds`: entries that it appends. `key`: transactions of one key run in order. `stood`:
        returns the result of an earlier attempt whose commit was lost, or None if it did nothing.
        Without it the server is asked, and if that crashed, the outcome is unknown and raises.
        Raises AgentError.
        """
        pending = PendingTransaction(work, key=key, stood=stood, adds=adds)
        pending.awaited()
        self._hand_in(pending)
        return await outcome_of(pending)

    def write_now(self, work: Work[T], *, stood: Work[T | None] | None = None) -> T:
        """Run a transaction like `write`, but block the calling thread."""
        pending = PendingTransaction(work, stood=stood)
        future = pending.waited_for()
        self._hand_in(pending)
        return future.result()

    def _hand_in(self, pending: PendingAppend | PendingTransaction[Any]) -> None:
        with self._turn:
            if self._closed:
                raise AgentError(
                    "invalid", f"the journal {self._server.place!r} is closed: open it again"
                )
            if pending.key is not None:
                if (behind := self._behind.get(pending.key)) is not None:
                    behind.append(pending)
                    return
                self._behind[pending.key] = deque()
            self._queue.append(pending)
            # else those that are idle were woken for what was handed in just before
            if self._idle >= len(self._queue):
                self._turn.notify()
            elif len(self._threads) < THREADS_MAX:
                thread = threading.Thread(target=self._run, name="treadle-journal", daemon=True)
                try:
                    start(thread)
                except AgentError:
                    if not self._threads:
                        self._queue.remove(pending)
                        if pending.key is not None:
                            del self._behind[pending.key]
                        raise
                else:
                    self._threads.append(thread)

    def abandon(self) -> None:
        """Abandon in a forked child: the threads do not exist there, and the connections are the
        parent's.
        """
        self._turn, self._gone = threading.Condition(), threading.Event()
        self._closed, self._threads = True, []
        for db in self._connections:
            abandoned(db)
        self._connections = set()

    def close(self) -> None:
        """Write everything submitted, without waiting for an unreachable server. Idempotent."""
        self._gone.set()
        with self._turn:
            self._closed = True
            threads, self._threads = self._threads, []
            self._turn.notify_all()
        for thread in threads:
            thread.join()

    # ------------------------------------------------------------ a thread

    def _run(self) -> None:
        lane = WriterLane(self._server, self._gone, self._connections)
        while batch := self._next():
            lane.do(batch)
            self._done(batch)
            settle_all(batch)
        lane.close()

    def _next(self) -> Sequence[PendingAppend] | Sequence[PendingTransaction[Any]]:
        """Return the next appends of many runs, or one transaction; nothing if it is closed."""
        with self._turn:
            while not self._queue:
                if self._closed and not self._behind:
                    return []
                self._idle += 1
                self._turn.wait()
                self._idle -= 1
            first = self._queue.popleft()
            if isinstance(first, PendingTransaction):
                return [first]
            batch, left = [first], deque[PendingAppend | PendingTransaction[Any]]()
            room = TOGETHER_BYTES - first.append.size
            while self._queue and len(batch) < TOGETHER_MAX:
                following = self._queue.popleft()
                if isinstance(following, PendingAppend) and (size := following.append.size) <= room:
                    batch.append(following)
                    room -= size
                else:
                    left.append(following)
            self._queue.extendleft(reversed(left))
            if self._queue and self._idle:
                self._turn.notify()
            return batch

    def _done(self, batch: Sequence[PendingAppend | PendingTransaction[Any]]) -> None:
        with self._turn:
            for pending in batch:
                if pending.key is None:
                    continue
                if behind := self._behind[pending.key]:
                    self._queue.append(behind.popleft())
                    self._turn.notify()
                else:
                    del self._behind[pending.key]
            if self._closed:
                self._turn.notify_all()

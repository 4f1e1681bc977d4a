"""Writes to the server: a few threads with a connection each process appends of many runs, and
whole transactions, in parallel.

Writes of one run keep their order. lane.py does the work of a thread. Entry points:
`PostgresWriter.append`, `PostgresWriter.write`, `PostgresWriter.write_now`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Hashable
from itertools import islice
from typing import Any, Final, TypeVar

import psycopg

from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.pending import MEMORY_WAIT_S, settle_all
from treadle.journal.postgres.appending import PendingEntries
from treadle.journal.postgres.connections import PostgresServer
from treadle.journal.postgres.lane import WriterLane
from treadle.journal.postgres.pending_work import PendingAppend, PendingTransaction
from treadle.journal.postgres.readers import abandoned
from treadle.journal.tables.database import Work
from treadle.journal.tables.sealing import Seal
from treadle.journal.threads import start

T = TypeVar("T")
logger = logging.getLogger("treadle")

THREADS_MAX: Final = 3
TOGETHER_MAX: Final = 64
"""Maximum number of appends in one statement."""
TOGETHER_BYTES: Final = 16 << 20
"""Maximum size of the entries in one statement, unless it is a single append: the server rejects a
statement of a gigabyte, and a long one delays others.
"""


class PostgresWriter:
    """Writer of a journal. Starts its threads on the first write. Safe from any thread and any
    event loop.
    """

    def __init__(self, server: PostgresServer, seal: Seal | None = None) -> None:
        self._server = server
        self._seal = seal
        self._turn = threading.Condition()
        """Guards all attributes below."""
        self._queue: deque[PendingAppend | PendingTransaction[Any]] = deque()
        self._behind: dict[Hashable, deque[PendingAppend | PendingTransaction[Any]]] = {}
        """Writes that wait for an earlier write of the same run."""
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False
        self._gone = threading.Event()
        self._connections: set[psycopg.Connection] = set()
        abandon_in_children(self)

    # ------------------------------------------------------------ submitting

    async def append(self, append: PendingEntries) -> int:
        """Append entries, and return the sequence number of the first once all are durable.
        Cancellation does not interrupt it.

        Raises AgentError: busy if the run no longer belongs to this driver, agent if the entries
        cannot be stored; then nothing was appended, or the driver is marked as `lost`.
        """
        try:
            outcome = PendingAppend(append).awaited(self._hand_in)
        except MemoryError as e:
            raise self._server.error(e, "nothing was appended") from e
        return await outcome

    async def write(
        self,
        work: Work[T],
        *,
        key: Hashable = None,
        stood: Work[T | None] | None = None,
        adds: PendingEntries | None = None,
    ) -> T:
        """Run a transaction and return its result once it is durable. It may run again;
        cancellation does not interrupt it. Raises AgentError.

        `adds`: entries that it appends. `key`: transactions with the same key run in order.
        `stood`: returns the result of an earlier attempt whose commit was lost, or None if it did
        nothing. Without it, the server is asked; if the server crashed, the outcome is unknown,
        which raises.
        """
        try:
            pending = PendingTransaction(work, key=key, stood=stood, adds=adds)
            outcome = pending.awaited(self._hand_in)
        except MemoryError as e:
            raise self._server.error(e, "nothing was changed") from e
        return await outcome

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
            key = pending.key
            if key is not None and (behind := self._behind.get(key)) is not None:
                behind.append(pending)
                return
            # otherwise the idle threads were just woken for earlier submissions
            if self._idle > len(self._queue):
                self._turn.notify()
            elif len(self._threads) < THREADS_MAX:
                self._start_thread()
            # last, because nothing may fail after the submission
            self._queue.append(pending)
            if key is not None:
                try:
                    self._behind[key] = deque()
                except BaseException:
                    self._queue.pop()
                    raise

    def _start_thread(self) -> None:
        """Start a thread. Raises AgentError if none exists and none can be started."""
        lane = WriterLane(self._server, self._gone, self._connections, self._seal)
        thread = threading.Thread(
            target=self._run, args=(lane,), name="treadle-journal", daemon=True
        )
        try:
            start(thread)
        except AgentError:
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def abandon(self) -> None:
        """Detach in a forked child, where the threads do not exist and the connections are the
        parent's.
        """
        self._turn, self._gone = threading.Condition(), threading.Event()
        self._closed, self._threads = True, []
        for db in self._connections:
            abandoned(db)
        self._connections = set()

    def close(self) -> None:
        """Complete all submitted writes, without waiting for an unreachable server. Idempotent."""
        self._gone.set()
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        for thread in self._threads:
            thread.join()

    # ------------------------------------------------------------ a thread

    def _run(self, lane: WriterLane) -> None:
        """Work until closed. Nothing else ends the thread, because its waiters, and all later ones,
        would wait forever. Each step can be repeated.
        """
        error: BaseException | None = None
        while True:
            try:
                if error is not None:
                    self._go_on(lane, error)
                    error = None
                if not self._take(lane.batch) or self._handed_back(lane):
                    break
                lane.do()
                settle_all(lane.batch)
                self._done(lane.batch)
            except BaseException as e:  # noqa: BLE001  the edge of the thread
                error = e
        lane.close()

    def _go_on(self, lane: WriterLane, error: BaseException) -> None:
        """Continue after an error outside the work."""
        time.sleep(MEMORY_WAIT_S)
        with self._turn:
            self._turn.notify_all()  # a failed wait may have consumed a notification
        if not isinstance(error, MemoryError):
            logger.error("a writer of the journal %s failed", self._server.place, exc_info=error)
            lane.give_up(error)

    def _take(self, batch: deque[PendingAppend | PendingTransaction[Any]]) -> bool:
        """Fill the batch, unless it still has work, with the next appends of many runs, or one
        transaction. Returns False if closed.
        """
        with self._turn:
            while not (batch or self._queue):
                if self._closed and not self._behind:
                    return False
                self._idle += 1
                try:
                    self._turn.wait()
                finally:
                    self._idle -= 1
            if not batch:
                self._fill(batch)
            if self._queue and self._idle:
                self._turn.notify()
            return True

    def _handed_back(self, lane: WriterLane) -> bool:
        """Put the batch back if this thread cannot connect, but others are connected: the process
        may have no descriptors left, or the server no room. Returns True if so, and the thread ends.
        """
        if lane.is_connected or not self._connections or lane.connect():
            return False
        with self._turn:
            if self._closed or not self._connections:  # the others may have ended
                return False
            while lane.batch:
                self._queue.appendleft(lane.batch[-1])
                lane.batch.pop()
            self._turn.notify()
            self._threads.remove(threading.current_thread())
            return True

    def _fill(self, batch: deque[PendingAppend | PendingTransaction[Any]]) -> None:
        room = TOGETHER_BYTES
        for pending in [*islice(self._queue, TOGETHER_MAX)]:
            if isinstance(pending, PendingTransaction):
                if pending is self._queue[0]:
                    batch.append(pending)
                    self._queue.popleft()
                    return
            elif not batch or pending.append.size <= room:
                room -= pending.append.size
                batch.append(pending)
                self._queue.remove(pending)

    def _done(self, batch: deque[PendingAppend | PendingTransaction[Any]]) -> None:
        """Empty the batch, and queue the writes that waited for it."""
        with self._turn:
            if self._closed:
                self._turn.notify_all()
            while batch:
                key = batch[0].key
                if key is not None:
                    if behind := self._behind[key]:
                        self._turn.notify()
                        self._queue.append(behind[0])
                        behind.popleft()
                    else:
                        del self._behind[key]
                batch.popleft()

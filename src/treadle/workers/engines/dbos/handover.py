"""Bridge that passes tickets from DBOS's event loop, in a thread, to ours. Entry point:
`Handover`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Final

import anyio
from anyio.abc import TaskGroup

from treadle.journal.engine import Deliver
from treadle.journal.queue import Ticket

WAIT_S: Final = 1.0


class Handover:
    """Bridge that passes tickets to our event loop. Create it there, within `group`."""

    def __init__(
        self,
        group: TaskGroup,
        deliver: Deliver,
        *,
        slots: int,
        give_back: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._group, self._deliver, self._give_back = group, deliver, give_back
        self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()
        self._slots = anyio.Semaphore(slots)
        """Limits deliveries over all queues of the worker, because DBOS limits each queue
        separately.
        """
        self._waiting: set[anyio.CancelScope] = set()
        self._taken: Counter[str] = Counter()
        self.left = 0
        """Number of tickets that were neither delivered nor returned at the end."""
        self._idle = anyio.Event()
        self._closed = self._gone = False

    def has(self, name: str) -> bool:
        return name in self._taken

    async def close(self) -> None:
        """Return runs that have not begun, wait for those that have, and leave later ones to a
        rescue.
        """
        self._closed = True
        for scope in self._waiting:
            scope.cancel()
        if self._taken:
            await self._idle.wait()
        self._gone = True

    async def take(self, name: str, ticket: Ticket) -> None:
        """Deliver a ticket. Called in DBOS's event loop. Returns once it is delivered, which marks
        it as done; otherwise waits until cancelled.
        """
        done: Future[None] = Future()
        # rather than in DBOS's task
        self._loop.call_soon_threadsafe(self._begin, name, ticket, done, context=self._context)
        await asyncio.wrap_future(done)

    def _begin(self, name: str, ticket: Ticket, done: Future[None]) -> None:
        if not self._gone:
            self._taken[name] += 1
            self._group.start_soon(self._drive, name, ticket, done)

    async def _drive(self, name: str, ticket: Ticket, done: Future[None]) -> None:
        self.left += 1
        try:
            if await self._slot():
                try:
                    await self._deliver(ticket)
                finally:
                    self._slots.release()
                if done.set_running_or_notify_cancel():
                    done.set_result(None)
            else:
                await self._give_back(name, ticket.queue)
                done.cancel()
            self.left -= 1
        finally:
            self._taken -= Counter([name])
            if self._closed and not self._taken:
                self._idle.set()

    async def _slot(self) -> bool:
        """Wait for a slot, for a bounded time, because another worker may have a free one."""
        if self._closed:
            return False
        with anyio.move_on_after(WAIT_S) as scope:
            self._waiting.add(scope)
            try:
                await self._slots.acquire()
            finally:
                self._waiting.discard(scope)
        return not scope.cancelled_caught

"""Work that a thread does for waiting coroutines or threads, completed even if they are cancelled.

Each journal defines its own work and threads. Entry points: `Pending`, `outcome_of`, `settle_all`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

from treadle._internal.uninterrupted import cancel_again, uninterrupted

T = TypeVar("T")

MEMORY_WAIT_S = 0.01
"""Seconds between attempts at a step that needs memory and must not be skipped."""


class Pending(Generic[T]):
    """Work and its waiter."""

    __slots__ = ("done", "error", "future", "loop", "result", "settled")

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """Event loop of the waiting coroutine. None: a thread waits, or there is no waiter."""
        self.future: asyncio.Future[T] | concurrent.futures.Future[T] | None = None
        self.result: T | None = None
        self.error: BaseException | None = None
        self.done = False
        """True once the result is durable: from then on, it cannot fail."""
        self.settled = False

    def awaited(self, hand_in: Callable[[Any], None]) -> Coroutine[Any, Any, T]:
        """Mark the calling coroutine as the waiter, submit the work, and return `outcome_of` it.
        Raises the error of `hand_in`, after whose return nothing else can fail.
        """
        self.loop = asyncio.get_running_loop()
        self.future = self.loop.create_future()
        outcome = outcome_of(self)
        try:
            hand_in(self)
        except BaseException:
            outcome.close()
            raise
        return outcome

    def waited_for(self) -> concurrent.futures.Future[T]:
        """Mark the calling thread as the waiter."""
        self.future = future = concurrent.futures.Future[T]()
        return future

    def settle(self) -> None:
        """Deliver the outcome in the waiter's event loop, or in the working thread for a waiting
        thread.
        """
        self.settled = True
        if self.future is None or self.future.done():  # the waiter was cancelled, or there is none
            return
        if isinstance(self.error, StopIteration):  # asyncio futures do not accept it
            self.error = RuntimeError(f"the work raised {self.error!r}")
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(cast("T", self.result))


async def outcome_of(pending: Pending[T]) -> T:
    """Return the outcome of submitted work that is `awaited`. Raises its exception."""
    try:
        return await cast("asyncio.Future[T]", pending.future)
    except asyncio.CancelledError:
        return await _although_cancelled(pending)


async def _although_cancelled(pending: Pending[T]) -> T:
    """Wait again after an actual cancellation, as `uninterrupted` does. Other writes avoid its
    cost.
    """
    assert pending.loop is not None, "it awaits in the loop of its work"
    assert pending.future is not None, "and has its future from there"
    if pending.future.cancelled():
        pending.future = pending.loop.create_future()
        # the result arrived after the cancellation, before this task was scheduled
        if pending.settled:
            pending.settle()
    try:
        return await uninterrupted(cast("asyncio.Future[T]", pending.future))
    finally:
        cancel_again()


def settle_all(batch: Iterable[Pending[Any]]) -> None:
    """Deliver the outcomes of a batch, waking each event loop once. Repeated until it succeeds,
    because the waiters would otherwise wait forever.
    """
    while True:
        try:
            waiting: dict[asyncio.AbstractEventLoop, list[Pending[Any]]] = {}
            for pending in batch:
                if pending.loop is None:
                    pending.settle()
                else:
                    waiting.setdefault(pending.loop, []).append(pending)
            for loop, some in waiting.items():
                _wake(loop, some)
            return
        except (MemoryError, RuntimeError):
            time.sleep(MEMORY_WAIT_S)


def _wake(loop: asyncio.AbstractEventLoop, batch: Sequence[Pending[Any]]) -> None:
    try:
        loop.call_soon_threadsafe(_settle, batch)
    except RuntimeError:
        if not loop.is_closed():  # otherwise it has no waiters
            raise


def _settle(batch: Sequence[Pending[Any]]) -> None:
    for pending in batch:
        pending.settle()

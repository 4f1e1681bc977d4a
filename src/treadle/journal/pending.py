"""What a thread does for coroutines, or for other threads, that wait for it: finished also while
they are being cancelled.

What is done, and by which thread, is each journal's own business. Entry: `Pending`, `outcome_of`,
`settle_all`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

import anyio

from treadle._internal.uninterrupted import uninterrupted

T = TypeVar("T")


class Pending(Generic[T]):
    """One piece of work, and who waits for it."""

    __slots__ = ("error", "future", "loop", "result", "settled")

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """None: a thread waits, or nobody."""
        self.future: asyncio.Future[T] | concurrent.futures.Future[T] | None = None
        self.result: T | None = None
        self.error: BaseException | None = None
        self.settled = False

    def awaited(self) -> None:
        """By the coroutine that calls this."""
        self.loop = asyncio.get_running_loop()
        self.future = self.loop.create_future()

    def waited_for(self) -> concurrent.futures.Future[T]:
        """By the thread that calls this."""
        self.future = future = concurrent.futures.Future[T]()
        return future

    def settle(self) -> None:
        """In the event loop that waits for it, or in the working thread where a thread waits."""
        self.settled = True
        if self.future is None or self.future.done():  # it was cancelled, or nobody waits
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(cast("T", self.result))


async def outcome_of(pending: Pending[T]) -> T:
    """Of what was handed in and is `awaited`. Raises what it raised."""
    try:
        return await cast("asyncio.Future[T]", pending.future)
    except asyncio.CancelledError:
        return await _although_cancelled(pending)


async def _although_cancelled(pending: Pending[T]) -> T:
    """What `uninterrupted` does, where a cancellation really came: nearly every write is spared its
    price.
    """
    task = asyncio.current_task()
    assert task is not None, "there is a task that awaits"
    assert pending.loop is not None, "it awaits in the loop of its work"
    assert pending.future is not None, "and has its future from there"
    if pending.future.cancelled():
        pending.future = pending.loop.create_future()
        if pending.settled:  # the result came between the cancellation and this task's turn
            pending.settle()
    try:
        return await uninterrupted(cast("asyncio.Future[T]", pending.future))
    finally:
        # a cancelled scope goes on cancelling by itself
        if anyio.current_effective_deadline() != -math.inf:
            task.uncancel()
            task.cancel()


def settle_all(batch: Iterable[Pending[Any]]) -> None:
    """Each event loop is woken once."""
    waiting: dict[asyncio.AbstractEventLoop, list[Pending[Any]]] = {}
    for pending in batch:
        if pending.loop is None:
            pending.settle()
        else:
            waiting.setdefault(pending.loop, []).append(pending)
    for loop, some in waiting.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
            loop.call_soon_threadsafe(_settle, some)


def _settle(batch: Sequence[Pending[Any]]) -> None:
    for pending in batch:
        pending.settle()

"""Completion of work even if its task is cancelled. Entry points: `uninterrupted`,
`cancel_again`.
"""

from __future__ import annotations

import asyncio
import math
from typing import TypeVar

import anyio

T = TypeVar("T")


async def uninterrupted(future: asyncio.Future[T]) -> T:
    """Return the result of `future`.

    A cancellation of the awaiting task is deferred to its next await.
    """
    task, cancels = asyncio.current_task(), 0
    assert task is not None, "there is a task that awaits"
    with anyio.CancelScope(shield=True):
        while not future.done():
            try:
                await asyncio.wait((future,))
            except asyncio.CancelledError:
                cancels += 1
    for _ in range(cancels):
        task.uncancel()
        task.cancel()
    return future.result()


def cancel_again() -> None:
    """Defer a cancellation that the caller has caught to its task's next await."""
    task = asyncio.current_task()
    assert task is not None, "there is a task that was cancelled"
    # a cancelled scope goes on cancelling by itself
    if anyio.current_effective_deadline() != -math.inf:
        task.uncancel()
        task.cancel()

"""Await a future whose work must not be abandoned when its task is cancelled. Entry:

`uninterrupted`.
"""

from __future__ import annotations

import asyncio
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

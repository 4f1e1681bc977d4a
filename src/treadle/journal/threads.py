"""Threads of a journal, with an explicit AgentError if the system has none left.

Entry points: `start`, `run_in_thread`, `none_left`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

from treadle.errors import AgentError

T = TypeVar("T")


def start(thread: threading.Thread) -> None:
    """Start a thread. Raises AgentError(agent) if the system has none left."""
    try:
        thread.start()
    except RuntimeError as e:  # "can't start new thread"
        raise none_left(e) from e


async def run_in_thread(
    work: Callable[[], T], *, or_here: bool = False, abandon: bool = False
) -> T:
    """Run `work` in its own thread, because tools may occupy all others.

    If the system has none left, `or_here` runs it in the event loop; otherwise raises
    AgentError(agent). `abandon`: cancellation does not wait for the thread.
    """
    begun = False

    def run() -> T:
        nonlocal begun
        begun = True
        return work()

    try:
        return await anyio.to_thread.run_sync(
            run, limiter=anyio.CapacityLimiter(1), abandon_on_cancel=abandon
        )
    except RuntimeError as e:
        if begun:
            raise
        if or_here:
            return work()
        raise none_left(e) from e


def none_left(error: RuntimeError) -> AgentError:
    """Return the error for a thread that could not be started."""
    return AgentError(
        "agent",
        f"the journal cannot start a thread ({error}): nothing was done. End other processes, or "
        "raise the limits of threads and memory (`ulimit -u`, pids.max), then resume",
    )

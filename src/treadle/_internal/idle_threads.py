"""Worker threads that an interrupted event loop leaves idle. Entry point: `end_at_exit`."""

from __future__ import annotations

import contextlib
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def end_at_exit() -> None:
    """End idle worker threads when the main thread ends; otherwise the interpreter waits for them
    forever.

    anyio's worker threads are not daemons, and it ends them when the loop's first task is done. A
    Ctrl-C inside the cleanup of `asyncio.run` leaves that task unfinished. Unnecessary once anyio
    ends the threads of a closed loop.
    """
    # `concurrent.futures` uses it for the same purpose; `atexit` would be too late
    register: Callable[[Callable[[], None]], None] | None
    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        with contextlib.suppress(RuntimeError):  # the interpreter is ending
            register(_end)


def _end() -> None:
    for thread in threading.enumerate():
        worker: Any = thread
        loop, stop = getattr(worker, "loop", None), getattr(worker, "stop", None)
        if (
            thread.name == "AnyIO worker thread"
            and isinstance(loop, AbstractEventLoop)
            and not loop.is_running()
            and callable(stop)
        ):
            with contextlib.suppress(Exception):  # the request to stop is already in its queue
                stop()

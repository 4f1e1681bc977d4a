"""`treadle chat` with a clock in it: what drawing takes of the main thread. Only tui.py starts it.

`chat_timed.py FILE ARGUMENTS…`; each SIGUSR1 writes a line to FILE: seconds spent so far on frames,
how many there were, and seconds spent on events.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import Any


def timed(owner: type, name: str) -> list[float]:
    """Seconds and calls, counted from now on."""
    spent, inner = [0.0, 0.0], getattr(owner, name)

    def outer(*arguments: Any) -> Any:
        before = time.thread_time()
        try:
            return inner(*arguments)
        finally:
            spent[0] += time.thread_time() - before
            spent[1] += 1

    setattr(owner, name, outer)
    return spent


def tell(path: str, frames: list[float], events: list[float]) -> Callable[..., None]:
    def write(*signalled: object) -> None:
        with open(path, "a", encoding="utf-8") as file:
            print(*frames, events[0], file=file)

    return write


if __name__ == "__main__":
    from prompt_toolkit.application import Application

    from treadle.cli import main
    from treadle.tui.chat import Chat

    path = sys.argv.pop(1)
    signal.signal(
        signal.SIGUSR1, tell(path, timed(Application, "_redraw"), timed(Chat, "_happened"))
    )
    sys.argv[0] = "treadle"
    sys.exit(main())

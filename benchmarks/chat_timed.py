"""Run `treadle chat` and measure how much of the main thread drawing takes. Started only by tui.py.

`chat_timed.py FILE ARGUMENTS…`. Each SIGUSR1 writes a line to FILE: the seconds spent on frames so
far, the number of frames, and the seconds spent on events.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import Any


def timed(owner: type, name: str) -> list[float]:
    """Wrap a function to count its seconds and calls from now on."""
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

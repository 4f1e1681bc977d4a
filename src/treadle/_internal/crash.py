"""Deliberate crashes for your tests: `TREADLE_CRASH_AT=N` kills the process at the N-th durable
boundary. Entry point: `boundary`.

There is a boundary before and after the commit of each append, and before and after each execution
of a tool. Each process counts them from 1.
"""

from __future__ import annotations

import os
import signal
import threading

_wish = os.environ.get("TREADLE_CRASH_AT", "")
_at = int(_wish) if _wish.isdecimal() else 0
_lock = threading.Lock()
"""Invariant: each boundary has its own number. The writer's thread passes boundaries too."""
_passed = 0


def boundary() -> None:
    """Pass a boundary. Does nothing unless `TREADLE_CRASH_AT` is set."""
    if _at:
        _pass()


def _pass() -> None:
    global _passed
    with _lock:
        _passed += 1
        if _passed == _at:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
            signal.pause()  # another thread may receive the signal first: do nothing more here

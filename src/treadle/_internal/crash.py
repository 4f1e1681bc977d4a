"""Dying at a chosen point, for crash tests by anyone: `TREADLE_CRASH_AT=N` kills the process at the
N-th durable boundary. Entry: `boundary`.

Boundaries are passed before and after the commit of each append, and before and after each
execution of a tool; they are counted for each process from 1.
"""

from __future__ import annotations

import os
import signal
import threading

_wish = os.environ.get("TREADLE_CRASH_AT", "")
_at = int(_wish) if _wish.isdecimal() else 0
_lock = threading.Lock()
"""Boundaries are passed in the writer's thread too, and no two may have one number."""
_passed = 0


def boundary() -> None:
    """Costs nothing where nobody asked to die."""
    if _at:
        _pass()


def _pass() -> None:
    global _passed
    with _lock:
        _passed += 1
        if _passed == _at:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
            signal.pause()  # the signal may reach another thread first: nothing more is done here

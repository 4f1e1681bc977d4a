"""Ends what a process that died had started for a batch: commands of git, and gates. Entry:

`LEFT_BY`, `end_leftovers`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import anyio
import anyio.to_thread

LEFT_BY = "TREADLE_WORK"
"""The variable that says in the environment of a program which batch started it."""
_DEATH_S = 2.0
"""A killed process that is still there after this hangs in the kernel."""
_POLL_S = 0.01


async def end_leftovers(batch_id: str) -> None:
    """Kills them, and waits until they are gone. Call it where nobody else works on the batch.

    Without /proc none are found.
    """
    with anyio.move_on_after(_DEATH_S):
        while pids := await anyio.to_thread.run_sync(lambda: list(_started_by(batch_id))):
            for pid in pids:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await anyio.sleep(_POLL_S)


def _started_by(batch_id: str) -> Iterator[int]:
    """Zombies have no environment any more."""
    mark = f"{LEFT_BY}={batch_id}".encode()
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        yield int(name)

"""Termination of processes that a dead process had started for a batch: git commands and gates.
Entry points: `LEFT_BY`, `end_leftovers`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import anyio
import anyio.to_thread

LEFT_BY = "TREADLE_WORK"
"""Environment variable with the id of the batch that started a program."""
_DEATH_S = 2.0
"""Seconds after which a killed process is considered stuck in the kernel."""
_POLL_S = 0.01


async def end_leftovers(batch_id: str) -> None:
    """Kill the processes, and wait until they are gone. The caller must hold the batch.

    Finds none on a system without /proc.
    """
    with anyio.move_on_after(_DEATH_S):
        while pids := await anyio.to_thread.run_sync(lambda: list(_started_by(batch_id))):
            for pid in pids:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await anyio.sleep(_POLL_S)


def _started_by(batch_id: str) -> Iterator[int]:
    """Yield the ids of the batch's processes. Zombies no longer have an environment."""
    mark = f"{LEFT_BY}={batch_id}".encode()
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        yield int(name)

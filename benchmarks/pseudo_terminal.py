"""Run a process in a pseudo-terminal: record each byte that it writes with its time, send it keys,
and read its CPU time and memory. Entry point: `Terminal`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from processes import Failed


class Terminal:
    """A context manager that ends the process on exit.

    The terminal is read only inside `wait` and the methods that call it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: dict[str, str],
        cwd: Path,
        columns: int = 100,
        rows: int = 30,
    ) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.started, self.cwd = time.monotonic(), cwd
        self._process = subprocess.Popen(
            argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        os.close(theirs)
        self.written = bytearray()
        self.arrived = self.started
        """When the last byte came."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._ours)
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def type(self, text: str) -> float:
        """Send keys. Return the time at which they were sent."""
        now = time.monotonic()
        os.write(self._ours, text.encode())
        return now

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, until: Callable[[], bool], *, what: str, seconds: float = 60.0) -> None:
        """Read until the condition holds. Raises Failed if it never does."""
        end = time.monotonic() + seconds
        while not until():
            if not self._read(end - time.monotonic()):
                raise Failed(
                    f"{what} never came; the last that was written: {bytes(self.written[-300:])!r}"
                )

    def see(self, text: str, *, after: int = 0, seconds: float = 60.0) -> float:
        """Return the seconds from the start until the text appeared in the output after `after`."""
        wanted = text.encode()
        self.wait(lambda: wanted in self.written[after:], what=repr(text), seconds=seconds)
        return self.arrived - self.started

    def pass_time(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._read(left)

    def calm(self, seconds: float = 0.3) -> None:
        """Read until nothing has been written for the given time."""
        while self._read(seconds):
            pass

    def _read(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            self.written += os.read(self._ours, 65536)
        except OSError:
            raise Failed(
                f"the process has ended; the last that was written: {bytes(self.written[-300:])!r}"
            ) from None
        self.arrived = time.monotonic()
        return True

    def cpu_s(self) -> float:
        """Return the CPU seconds of the process and all its threads, to the microsecond (Linux: the
        clock of another process).
        """
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def memory_mb(self, what: str = "VmRSS") -> float:
        """Return memory in MB. `what` is VmRSS, the current size, or VmHWM, the largest so far."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return (
            next(int(line.split()[1]) for line in status.splitlines() if line.startswith(what))
            / 1024
        )

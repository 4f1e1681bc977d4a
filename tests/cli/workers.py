"""`treadle worker` as a process beside a command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tests.cli.conftest import Cli
from tests.fork_server import command


class WorkerProcess:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.said = process, ""

    def until(self, said: str) -> str:
        """Reads what it says until that stands in a line, which is given."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if said in line:
                return line
        raise AssertionError(f"it never said {said!r}, but: {self.said}")

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def ended(self) -> int:
        """Its exit code; what is left of its words is in `said`."""
        _, rest = self.process.communicate(timeout=200)
        self.said += rest
        return self.process.returncode

    def drained(self) -> int:
        self.send(signal.SIGTERM)
        return self.ended()


@contextmanager
def a_worker(
    cli: Cli, *arguments: str, said: str = "-v", started: bool = False, **environment: str
) -> Generator[WorkerProcess]:
    """One that has begun to take runs. `started`: a process of its own, for the sake of its id."""
    words = ["worker", *said.split(), *arguments]
    process = subprocess.Popen(
        [sys.executable, "-m", "treadle", *words] if started else command("treadle", *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cli.workspace,
        env=cli.environment(**environment),
    )
    worker = WorkerProcess(process)
    try:
        worker.until("treadle worker ")
        yield worker
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()

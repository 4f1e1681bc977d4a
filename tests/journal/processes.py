"""A process that is told one command a line and answers each with one. Entry: `Process`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Process:
    """Runs a module that says `ready` first."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        self.pid = self._child.pid

    def ready(self) -> None:
        assert self.hear() == "ready"

    def say(self, words: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(words + "\n")
        self._child.stdin.flush()

    def hear(self) -> str:
        assert self._child.stdout is not None
        return self._child.stdout.readline().strip()

    def ask(self, words: str) -> str:
        self.say(words)
        return self.hear()

    def send(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def kill(self) -> None:
        self._child.kill()
        self._child.wait(20)

    def close(self) -> None:
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGCONT)
            self._child.kill()
        self._child.communicate(timeout=20)

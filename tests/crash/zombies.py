"""A driver that is stopped, whose run another one takes away, and that wakes up when it is all
over. Entry: `zombie`, `Sleeper`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tests.crash.accounts import Bounds
from tests.crash.checker import Verdict
from tests.crash.drive import Task, text_of
from tests.crash.nursery import ROOT, Nursery
from tests.crash.postgres import ChaosServer
from tests.crash.sabotage import Guard
from tests.crash.sweep import Stage


def zombie(
    nursery: Nursery,
    folder: Path,
    stop_at: str,
    *,
    without: tuple[Guard, ...] = (),
    server: ChaosServer | None = None,
) -> tuple[Verdict, str]:
    """What the checker says, and what the one that woke up says.

    `server`: over PostgreSQL, where its lease is over while it sleeps.
    """
    stage = Stage(nursery, folder, "zombie", without, server)
    stage.bounds = Bounds(cut_off=True)
    with Sleeper(msgspec.structs.replace(stage.task, stop_at=stop_at)) as sleeper:
        while said := stage.go_on(force=server is None).said:
            assert said == "completed\n", said
        said = sleeper.wake()
    return stage.judge_open(), said


class Sleeper:
    """A context: a process that works on a task until it stops itself where the task says so."""

    def __init__(self, task: Task) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.drive", text_of(task)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            raise AssertionError(f"it ended instead: {self._process.communicate()[0]}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def wake(self) -> str:
        """What it printed until its end."""
        self._process.send_signal(signal.SIGCONT)
        return self._process.communicate(timeout=120)[0]

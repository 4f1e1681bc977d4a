"""A driver that is stopped, whose run another one takes away, and that wakes up when it is all
over. Entry: `zombie`, `Sleeper`.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tests.crash.accounts import Bounds
from tests.crash.checker import Verdict
from tests.crash.drive import Task
from tests.crash.nursery import Ended, Nursery
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
    with Sleeper(nursery, msgspec.structs.replace(stage.task, stop_at=stop_at)) as sleeper:
        while said := stage.go_on(force=server is None).said:
            assert said == "completed\n", said
        said = sleeper.wake()
    return stage.judge_open(), said


class Sleeper:
    """A context: a process that works on a task until it stops itself where the task says so."""

    def __init__(self, nursery: Nursery, task: Task) -> None:
        self._nursery, self._task = nursery, task

    def __enter__(self) -> Self:
        self._asleep: Ended | None = self._nursery.fall_asleep(self._task)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._asleep is not None:
            os.kill(self._asleep.pid, signal.SIGKILL)
            self.wake()

    def wake(self) -> str:
        """What it printed until its end."""
        assert self._asleep is not None, "once"
        asleep, self._asleep = self._asleep, None
        return self._nursery.wake(asleep).said

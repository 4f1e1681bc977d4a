"""A driver that is stopped, whose run another one takes away, and that wakes up when it is all over. Entry: `zombie`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.crash.checker import Verdict, check
from tests.crash.drive import Task, text_of
from tests.crash.nursery import ROOT, Nursery
from tests.crash.sabotage import Guard


def zombie(nursery: Nursery, folder: Path, stop_at: str, *, without: tuple[Guard, ...] = ()) -> tuple[Verdict, str]:
    """What the checker says, and what the one that woke up says."""
    folder.mkdir()
    task = Task(journal=folder / "journal.db", witness=folder / "witness", story="zombie", without=without)
    sleeper = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.drive", text_of(msgspec.structs.replace(task, stop_at=stop_at))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _, status = os.waitpid(sleeper.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it ended instead: {sleeper.communicate()[0]}"
        while said := nursery.drive(msgspec.structs.replace(task, do="go on", force=True)).said:
            assert said in ("completed\n",), said
        sleeper.send_signal(signal.SIGCONT)
        said, _ = sleeper.communicate(timeout=30)
    finally:
        if sleeper.poll() is None:
            sleeper.kill()
            sleeper.communicate()
    return check(task.journal, task.witness), said

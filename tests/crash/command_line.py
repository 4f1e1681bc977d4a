"""The same through the command line:

`TREADLE_CRASH_AT=N treadle run …`, then `treadle runs resume`, and the checker judges. Entry:
`sweep_commands`.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash.checker import check
from tests.crash.model_server import Call, ModelServer
from tests.crash.nursery import Ended, Nursery
from tests.crash.stories import THE_END, World
from tests.crash.sweep import MOST, STEPS_MOST, Swept


def bash(mark: str, *, then: str = "", **arguments: Any) -> Call:
    """A once-call that leaves its mark."""
    return {
        "name": "bash",
        "arguments": {"command": f"echo did mark-{mark} >> witness{then}", **arguments},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """What is typed, and what the model answers."""

    turns: Sequence[Sequence[Call]]
    options: Sequence[str] = ("--mode", "full")
    fork: bool = False
    """After the first turn, with another script; what is killed is the fork."""
    by_wire: bool = False
    """The model is a server on loopback, not a script."""
    confined: bool = True
    """In a sandbox no process outside can be sent a signal."""


COMMANDS = {
    "one": Commands(turns=[[bash("a")], [bash("b")]]),
    "parallel": Commands(
        turns=[
            [bash("a"), bash("b"), bash("c"), {"name": "read", "arguments": {"path": "note.txt"}}]
        ]
    ),
    "wire": Commands(turns=[[bash("a"), bash("b")], [bash("c")]], by_wire=True),
    "approval": Commands(
        turns=[[bash("a"), bash("b")]], options=("--mode", "ask", "--on-ask", "wait")
    ),
    "person": Commands(
        turns=[[bash("a")], [bash("b")]], options=("--mode", "full", "--on-unknown", "wait")
    ),
    "cancel": Commands(
        turns=[[bash("a", then="; kill -INT $PPID; sleep 30"), bash("b")]], confined=False
    ),
    "timeout": Commands(turns=[[bash("a", then="; sleep 30", timeout_s=0.1)], [bash("b")]]),
    "fork": Commands(turns=[[bash("a")], [bash("b"), bash("c")]], fork=True),
}


def sweep_commands(
    nursery: Nursery | None,
    folder: Path,
    story: str,
    *,
    at: Iterable[int] | None = None,
    again: Iterable[int] = (0,),
    afterwards: Nursery | None = None,
) -> Swept:
    """One crash each, at the boundaries `at`, and where `again` says so one more of the command
    that goes on; 0 is nowhere.

    `nursery`: None for processes of their own, as a person starts them. `afterwards`: takes the last
    step, over a run that has ended.
    """
    swept, seconds = Swept(), list(again)
    for number in at if at is not None else range(1, MOST):
        for second in seconds:
            with ExitStack() as stack:
                stage = _Stage(nursery, folder / f"{number}-{second}", story, stack)
                killed = [stage.play(crash_at=number)]
                if second:
                    killed.append(stage.go_on(crash_at=second).killed)
                stage.judge(swept, afterwards)
            swept.points += sum(killed)
            if number and not killed[0]:
                return swept
            if second and not killed[1]:
                break
    return swept


class _Stage:
    def __init__(self, nursery: Nursery | None, folder: Path, story: str, stack: ExitStack) -> None:
        self._nursery, self._story, self._folder = nursery, COMMANDS[story], folder
        self._journal, self._witness = folder / "journal.db", folder / "witness"
        folder.mkdir(parents=True)
        (folder / "note.txt").write_text("a note\n")
        (folder / "home").mkdir()
        if not self._story.confined:
            (folder / "home/config.yaml").write_text("defaults: {sandbox: off}\n")
        self._environment = {
            "TREADLE_HOME": str(folder / "home"),
            "TREADLE_JOURNAL": f"sqlite:///{self._journal}",
        }
        self._model = self._script("script.json", self._story.turns)
        if self._story.by_wire:
            server = stack.enter_context(ModelServer(self._story.turns, World(self._witness)))
            self._environment |= server.environment
            self._model = "anthropic:claude-haiku-4-5"

    def _script(self, name: str, turns: Sequence[Sequence[Call]]) -> str:
        (self._folder / name).write_text(
            json.dumps([*({"tool_calls": list(calls)} for calls in turns), {"text": THE_END}])
        )
        return f"script:{self._folder / name}"

    def _treadle(self, *arguments: str, crash_at: int = 0) -> Ended:
        if self._nursery is not None:
            return self._nursery.treadle(
                *arguments, cwd=self._folder, env=self._environment, crash_at=crash_at
            )
        ours = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")}
        environment = {
            **ours,
            "HOME": str(self._folder),
            "NO_PROXY": "*",
            "TREADLE_CRASH_AT": str(crash_at),
            **self._environment,
        }
        done = subprocess.run(
            [sys.executable, "-m", "treadle", *arguments],
            cwd=self._folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
        )
        return Ended(done.returncode, done.stdout)

    def play(self, *, crash_at: int) -> bool:
        """Whether it was killed."""
        if not self._story.fork:
            return self._treadle(
                "run", "--model", self._model, *self._story.options, "go", crash_at=crash_at
            ).killed
        self._treadle("run", "--model", self._model, *self._story.options, "go")
        self._fork = self._script("fork.json", [[bash("fork-a"), bash("fork-b")], [bash("fork-c")]])
        return self._treadle(*self._to_fork(), crash_at=crash_at).killed

    def _to_fork(self) -> list[str]:
        parent = self._rows("select id from runs where fork_of is null")[0][0]
        return ["runs", "fork", parent, "--turn", "1", "--text", "otherwise", "--model", self._fork]

    def go_on(self, *, crash_at: int = 0) -> Ended:
        """One step, as a person would take it who looks at the world before saying what happened."""
        if not self._rows("select 1 from sqlite_schema where name = 'runs'") or not self._rows(
            "select 1 from runs"
        ):
            return self._treadle(
                "run", "--model", self._model, *self._story.options, "go", crash_at=crash_at
            )
        if self._story.fork and not self._rows("select 1 from runs where fork_of is not null"):
            return self._treadle(*self._to_fork(), crash_at=crash_at)
        (run,) = self._rows("select id from runs order by num desc limit 1")[0]
        return self._treadle("runs", "resume", run, *self._answers(run), crash_at=crash_at)

    def _answers(self, run: str) -> list[str]:
        asked: dict[str, str] = {}
        for kind, call, body in self._rows(
            "select type, call, body from entries where run = (select num from runs where id = ?) and type like 'approval.%' order by place",
            run,
        ):
            asked[call] = body.decode() if kind == "approval.asked" else ""
        world, answers = World(self._witness), list[str]()
        for call, body in asked.items():
            if body:
                mark = next(
                    word
                    for word in json.loads(json.loads(body)["arguments_json"])["command"].split()
                    if word.startswith("mark-")
                )
                answers += (
                    ["--result", f"{call}=it did"] if world.happened(mark) else ["--approve", call]
                )
        return answers

    def _rows(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        if not self._journal.exists():
            return []
        db = sqlite3.connect(f"{self._journal.as_uri()}?mode=ro", uri=True)
        try:
            return db.execute(statement, values).fetchall()
        finally:
            db.close()

    def judge(self, swept: Swept, afterwards: Nursery | None = None) -> None:
        place, before = self._folder.name, -1
        ended = Ended(-signal.SIGKILL, "")
        for _ in range(STEPS_MOST):
            verdict = (
                check(self._journal, self._witness, open_runs=True)
                if self._rows("select 1 from sqlite_schema where name = 'runs'")
                else None
            )
            over = verdict is not None and verdict.finished == verdict.runs == 1 + self._story.fork
            if over and verdict is not None and before == verdict.effects:
                break
            # once more, over a run that is over: nothing happens
            self._nursery = afterwards if over and afterwards is not None else self._nursery
            before = verdict.effects if verdict is not None and over else -1
            ended = self.go_on()
            if ended.killed or "Traceback" in ended.said:
                swept.wrong(place, "end", f"{ended.code}: {ended.said}")
        else:
            swept.wrong(place, "end", f"it does not come to its end: {ended.code}: {ended.said}")
        swept.add(place, check(self._journal, self._witness))

"""A process that has loaded everything, and lets a child of itself do each piece of work: a hundred
crashes in the time of ten.

`python -m tests.crash.nursery` reads tasks, a JSON line each, and answers each with a line that
says how its child ended. What a child does is drive.py's business, or the command line's. Entry:
`Nursery`.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import anyio
import msgspec

from tests.crash.drive import Task, drive, finish, task_of, text_of
from tests.crash.exhausted import payer
from tests.huge_pages import collapse
from treadle import Runtime
from treadle.config import Config

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 120
PRELOADED = """
anyio._backends._asyncio anyio._core._signals anyio._core._subprocesses asyncio encodings.ascii
encodings.utf_8_sig jsonschema_rs secrets treadle.agents.coding.agent
treadle.agents.coding.guidance treadle.agents.coding.skills treadle.agents.coding.vain_rules
treadle.cli.app treadle.cli.run treadle.cli.runs.export treadle.cli.runs.fork
treadle.cli.runs.group treadle.cli.runs.listing treadle.cli.runs.replay treadle.cli.runs.resume
treadle.cli.runs.show treadle.cli.sessions treadle.config.document treadle.journal.postgres
treadle.journal.sqlite treadle.models.providers.anthropic.model treadle.models.providers.http
treadle.models.providers.http_pool treadle.models.providers.known_models
treadle.models.providers.scripted treadle.models.providers.tape
treadle.models.providers.told_models treadle.models.providers.wires
treadle.policy.sandboxes.bubblewrap treadle.policy.shell.judge treadle.tools.builtin.coding
treadle.tools.function.schema treadle.tools.schemas.structs tree_sitter tree_sitter_bash
urllib.request yaml
"""
"""Modules that children import at some time."""
NEXT = "\0"
"""Stands in the output of a process that has several tasks, after each."""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    """Negative: the signal that ended it."""
    said: str
    """What it printed, errors too."""
    pid: int = 0
    at_s: float = 0.0
    """When, by the wall clock."""
    file: str = ""
    """What it prints into."""

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Stops:
    """Boundaries at which a child stops, all its threads with it, until `copy` returns: what its
    files hold by then is what a kill would leave. `copy` is given the number of the boundary, and
    how the child would have ended.
    """

    at: Sequence[int]
    copy: Callable[[int, Ended], None]


NOWHERE = Stops((), lambda number, ended: None)


class Nursery:
    """A context. One child at a time."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TREADLE_", "ANTHROPIC_"))
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, "HOME": self._folder.name, "NO_COLOR": "1", "NO_PROXY": "*"},
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process:
            assert self._process.stdin is not None, "it is a pipe"
            self._process.stdin.close()
        self._folder.cleanup()

    def drive(self, task: Task, *, crash_at: int = 0, stops: Stops = NOWHERE) -> Ended:
        return self._ask({"task": text_of(task), "crash_at": crash_at}, stops)

    def finish(self, tasks: Sequence[Task]) -> list[Ended]:
        """Each is gone on with until nothing is left, and examined; one child for as many as it
        survives.
        """
        ended: list[Ended] = []
        while len(ended) < len(tasks):
            last = self._ask({"tasks": [text_of(task) for task in tasks[len(ended) :]]})
            *over, rest = last.said.split(NEXT)
            ended += [replace(last, code=0, said=said) for said in over]
            if last.code:
                ended.append(replace(last, said=rest))
        return ended

    def fall_asleep(self, task: Task) -> Ended:
        """The process stops itself where the task says so. Then others may be driven, until `wake`
        is given what this returns.
        """
        asleep = self._ask({"task": text_of(task), "crash_at": 0}, said=uuid4().hex)
        assert asleep.code == -signal.SIGSTOP, f"it ended instead: {asleep.said}"
        return asleep

    def wake(self, asleep: Ended) -> Ended:
        """It goes on to its end."""
        return self._ended(*self._tell({"continue": asleep.pid}), asleep.file)

    def call(
        self, module: str, *arguments: str, crash_at: int = 0, stops: Stops = NOWHERE
    ) -> Ended:
        """What this module's `drive` does."""
        return self._ask({"call": module, "arguments": arguments, "crash_at": crash_at}, stops)

    def treadle(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], crash_at: int = 0
    ) -> Ended:
        """The command line, as another process would run it."""
        return self._ask(
            {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "crash_at": crash_at}
        )

    def _ask(
        self, what: Mapping[str, object], stops: Stops = NOWHERE, *, said: str = "said"
    ) -> Ended:
        """`said`: name of a file for what it prints."""
        file = f"{self._folder.name}/{said}"
        code, pid, at_s = self._tell({**what, "said": file, "stops": [*stops.at]})
        for number in stops.at:
            if code != -signal.SIGSTOP:
                break
            try:
                stops.copy(number, Ended(-signal.SIGKILL, "", pid, at_s))
            finally:
                code, pid, at_s = self._tell({"continue": pid})
        return self._ended(code, pid, at_s, file)

    def _ended(self, code: int, pid: int, at_s: float, file: str) -> Ended:
        said = Path(file).read_text(encoding="utf-8", errors="replace")
        return Ended(code, said, pid, at_s, file)

    def _tell(self, what: Mapping[str, object]) -> tuple[int, int, float]:
        """How a child ended, or that it stopped; its process id, and when."""
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        code, pid, at_s = self._process.stdout.readline().split()
        return int(code), int(pid), float(at_s)


# ---------------------------------------------------------------- in the process itself


def _serve() -> None:
    for line in sys.stdin:
        what: dict[str, Any] = json.loads(line)
        if what.get("call", __name__) not in sys.modules:
            import_module(what["call"])
            gc.freeze()
        if child := what.get("continue", 0):
            os.kill(child, signal.SIGCONT)
        else:
            child = os.fork()
            if child == 0:
                _be_born(what)
        _, status = os.waitpid(child, os.WUNTRACED)
        code = -signal.SIGSTOP if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
        print(int(code), child, f"{time.time():.3f}", flush=True)


def _be_born(what: dict[str, Any]) -> None:
    """In the child; does not return."""
    code = 70
    try:
        signal.alarm(WITHIN_S)
        out = os.open(what["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for to, source in ((0, nothing), (1, out), (2, out)):
            os.dup2(source, to)
        code = _work(what)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:  # the edge of a process
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _work(what: dict[str, Any]) -> int:
    if "tasks" in what:
        for text in what["tasks"]:
            signal.alarm(WITHIN_S)
            finish(task_of(text))
            print(end=NEXT, flush=True)
        return 0
    _crash_at(what["crash_at"])
    _stop_at(what["stops"])
    if "task" in what:
        drive(task_of(what["task"]))
        return 0
    if "call" in what:
        import_module(what["call"]).drive(*what["arguments"])
        return 0
    from treadle.cli import main

    os.chdir(what["cwd"])
    os.environ.update(what["env"])
    sys.argv = ["treadle", *what["arguments"]]
    main()
    return 0


def _crash_at(number: int) -> None:
    """As `TREADLE_CRASH_AT=N` does when a process begins."""
    from treadle._internal import crash

    crash._at = number  # pyright: ignore[reportPrivateUsage]  it was read before this process was there


def _stop_at(numbers: Sequence[int]) -> None:
    """This thread goes no further, and the others are stopped as a kill would end them."""
    from treadle._internal import crash

    if not numbers:
        return
    left = set(numbers)
    passed = 0
    lock = threading.Lock()

    def stop() -> None:
        nonlocal passed
        with lock:
            passed += 1
            if passed in left:
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    crash._at, crash._pass = -1, stop  # pyright: ignore[reportPrivateUsage]


def _load(modules: Sequence[str]) -> None:
    """What is not installed here is not needed either."""
    for module in modules:
        with contextlib.suppress(ImportError):
            import_module(module)


async def _run_bash(folder: str) -> None:
    async with Runtime.open(f"sqlite:///{folder}/bash.db", config=Config()) as runtime:
        await runtime.run(payer("", os.devnull), "go", mode="full", cwd=Path(folder))


def _warm() -> None:
    """Run two stories and a command of `bash` to their ends, so that no child has to build what
    Treadle builds at its first use: the decoders of values, the schemas of tools and the patterns
    of the policy.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        for story in ("mixed", "delegation"):
            place = Path(folder) / story
            place.mkdir()
            task = Task(journal=place / "journal.db", witness=place / "witness", story=story)
            for do in ("start", "go on", "examine"):
                drive(msgspec.structs.replace(task, do=do))
        anyio.run(_run_bash, folder)
    # anyio asks its worker threads to stop when a loop ends, and does not wait for them
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(20)
    assert threading.active_count() == 1, "a fork would lose them"


if __name__ == "__main__":
    _load(PRELOADED.split())
    _warm()
    gc.collect()
    gc.freeze()  # a child's collector would copy every page that it writes its marks on
    collapse()
    _serve()

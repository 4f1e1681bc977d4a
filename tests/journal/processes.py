"""A process that is told one command a line and answers each with one, and the commands of one that
drives runs of a journal. Entries: `Process`, `Driver`, `make_at_once`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread

from tests.journal.runs import fact, finished, resumed, started
from treadle.errors import AgentError
from treadle.journal.journal import Journal, RunWriter

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
        self._child.communicate(timeout=200)


class Driver:
    """Commands by name. A subclass may have more."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.journal.on_stop(lambda run_id: print(f"stop {run_id}", flush=True))
        self.writers: dict[str, RunWriter] = {}

    async def begin(self, run_id: str, session: str = "") -> str:
        self.writers[run_id] = await self.journal.begin(started(run_id, session=session or None))
        return "begun"

    async def take(self, run_id: str, force: str = "") -> str:
        self.writers[run_id] = await self.journal.take_over(run_id, force=bool(force))
        return f"fence {self.writers[run_id].fence}"

    async def append(self, run_id: str, word: str) -> str:
        return str(await self.writers[run_id].append([fact(word)]))

    async def resume(self, run_id: str) -> str:
        return str(await self.writers[run_id].append([resumed(self.writers[run_id].fence)]))

    async def finish(self, run_id: str) -> str:
        return str(await self.writers[run_id].append([finished()]))

    async def release(self, run_id: str) -> str:
        await self.writers[run_id].release()
        return "released"

    async def flood(self, run_id: str) -> str:
        """Appends until it is killed; each number is told once it is durable."""
        number = 0
        while True:
            await self.writers[run_id].append([fact(str(number)), fact(f"{number} again")])
            print(number, flush=True)
            number += 1

    async def serve(self) -> None:
        """Answers the commands on standard input until its end."""
        print("ready", flush=True)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            name, *words = line.split()
            command: Callable[..., Awaitable[str]] = getattr(self, name)
            try:
                print(await command(*words), flush=True)
            except AgentError as e:
                print(f"{e.kind}: {e.message}", flush=True)
        await self.journal.aclose()


def make_at_once(program: str, place: str, count: int) -> None:
    """Runs a program that waits for a line, then makes the session `sN` in the journal at `place`,
    in several processes at once.
    """
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", program, place, f"s{n}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(count)
    ]
    for maker in makers:  # each waits for its line, so that they begin together
        assert maker.stdin is not None
        maker.stdin.write("go\n")
        maker.stdin.flush()
    for maker in makers:
        _, said = maker.communicate(timeout=200)
        assert (maker.returncode, said) == (0, "")

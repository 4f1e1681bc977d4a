"""Several workers on one journal, killed and stopped at random while they run, and the checker at
the end. Entry: `random_kills`.

A worker begins its share of the runs and takes over what dead ones left, until every run has ended.
Where one is stopped, another takes its runs away by force; then it wakes up.
"""

from __future__ import annotations

import gc
import os
import random
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import msgspec

from tests.crash.accounts import Bounds
from tests.crash.checker import Verdict, check
from tests.crash.examine import examine
from tests.crash.nursery import ROOT
from tests.crash.stories import Story, StoryModel, World, tools_of
from tests.crash.turns import turns_of
from tests.fork_server import command
from treadle import Agent, AgentError, Runtime
from treadle.journal.run_info import RunInfo
from treadle.journal.sqlite import SqliteJournal
from treadle.types import Limits

AT_ONCE = 4
"""Runs that a worker drives side by side."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    runs: int
    turns: int
    workers: int
    seconds: float
    """Of killing."""
    stops: bool = False
    """Workers are also stopped, their runs taken away, and woken up again."""
    pause_s: float = 0.02
    seed: int = 1


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is told."""

    journal: Path
    witness: Path
    taken: Path
    """A file that names workers, a process id a line, whose runs are to be taken by force."""
    plan: Plan


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    kills: int
    stops: int
    seconds: float

    def table(self) -> str:
        v = self.verdict
        cells = {
            "runs": v.runs,
            "calls": v.calls,
            "kills": self.kills,
            "stops": self.stops,
            "taken over": v.drivers,
            "unknown": v.unknown,
            "of which had happened": v.had_happened,
            "idempotent ones again": v.again,
            "seconds": round(self.seconds),
            "violations": len(v.violations),
        }
        return f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}\n| {' | '.join(f'{value:,}' for value in cells.values())} |"


def random_kills(folder: Path, plan: Plan) -> Outcome:
    """Kills, and where the plan says so stops, until every run has ended or the seconds are over;
    then the rest is run to its end in peace.
    """
    share = Share(
        journal=folder / "journal.db", witness=folder / "witness", taken=folder / "taken", plan=plan
    )
    text = msgspec.json.encode(share, enc_hook=str).decode()
    done = subprocess.run(
        command("tests.crash.random_kills", text),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    kills, stops, seconds = done.stdout.split()
    verdict = check(share.journal, share.witness, bounds=Bounds(cut_off=plan.stops))
    return Outcome(verdict, int(kills), int(stops), float(seconds))


# ---------------------------------------------------------------- the process that kills


class Crew:
    """The workers: children of this process, which has loaded everything that they need."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._chance = random.Random(share.plan.seed)
        self.kills = self.stops = 0
        self._workers = {number: self._born(number) for number in range(share.plan.workers)}
        """Process id by number; of those that have not ended by themselves."""

    def work(self) -> None:
        begun = time.monotonic()
        try:
            while time.monotonic() - begun < self._share.plan.seconds and self._workers:
                time.sleep(self._chance.uniform(0.02, 0.3))
                self._disturb(self._chance.choice(sorted(self._workers)))
            for number in sorted(self._workers):
                self._ended(number)
        finally:
            for pid in self._workers.values():
                os.kill(pid, signal.SIGKILL)
        self._workers[-1] = self._child(
            lambda: anyio.run(examine, f"sqlite:///{self._share.journal}", self._share.witness)
        )
        assert self._ended(-1) == 0, "a run cannot be replayed"
        print(self.kills, self.stops, time.monotonic() - begun)

    def _disturb(self, number: int) -> None:
        if self._share.plan.stops and self._chance.random() < 0.5:
            self._stop_for_a_while(self._workers[number])
            return
        World(self._share.witness).saw("ending", str(self._workers[number]), f"{time.time():.3f}")
        os.kill(self._workers[number], signal.SIGKILL)
        if self._ended(number) == -signal.SIGKILL:
            self.kills += 1
            self._workers[number] = self._born(number)

    def _born(self, number: int) -> int:
        return self._child(lambda: anyio.run(work, self._share, number))

    def _child(self, does: Callable[[], None]) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                does()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        return pid

    def _ended(self, number: int) -> int:
        """How; waits for it."""
        code = os.waitstatus_to_exitcode(os.waitpid(self._workers.pop(number), 0)[1])
        assert code in (0, -signal.SIGKILL), f"worker {number} ended with {code}"
        return code

    def _stop_for_a_while(self, pid: int) -> None:
        """Long enough that another one takes its runs away."""
        os.kill(pid, signal.SIGSTOP)
        self.stops += 1
        with self._share.taken.open("a") as file:
            file.write(f"{pid}\n")
        time.sleep(self._chance.uniform(0.1, 0.6))
        os.kill(pid, signal.SIGCONT)


# ---------------------------------------------------------------- in a worker


async def work(share: Share, number: int) -> None:
    plan, world = share.plan, World(share.witness)
    story = Story(turns=turns_of(plan.turns, probes=not plan.stops), pause_s=plan.pause_s)
    agent = Agent(
        name="story",
        model=StoryModel(story, world),
        tools=tools_of(world, plan.pause_s),
        limits=Limits(turns=10_000),
    )
    async with Runtime(journal=SqliteJournal.open(share.journal)) as runtime:
        await _Worker(share, number, runtime, agent).work()


class _Worker:
    def __init__(
        self, share: Share, number: int, runtime: Runtime, agent: Agent[object, str]
    ) -> None:
        self._share, self._number, self._runtime, self._agent = share, number, runtime, agent
        self._chance = random.Random()
        self._driven: set[str] = set()
        self._seen: set[str] = set()
        """Processes whose runs were taken away from here."""

    async def work(self) -> None:
        """Drives what is left, and what nobody has begun, until every run has ended."""
        plan = self._share.plan
        names = [f"r{number}" for number in range(plan.runs)]
        async with anyio.create_task_group() as group:
            while True:
                infos = {info.session_id or "": info for info in await self._runtime.journal.runs()}
                if all(name in infos and infos[name].status == "finished" for name in names):
                    return
                await self._take_away(list(infos.values()))
                mine = [
                    name
                    for n, name in enumerate(names)
                    if name not in infos and n % plan.workers == self._number
                ]
                left = [name for name in names if name in infos and infos[name].status == "stopped"]
                self._chance.shuffle(left)
                for name in [name for name in (*left, *mine) if name not in self._driven][
                    : AT_ONCE - len(self._driven)
                ]:
                    self._driven.add(name)
                    group.start_soon(self._drive, name, infos.get(name))
                # a list of long runs that are under way is no small thing
                await anyio.sleep(plan.pause_s * 10)

    async def _drive(self, name: str, info: RunInfo | None) -> None:
        """Somebody else may be faster, or may take it away: nothing else that goes wrong is let
        pass.
        """
        try:
            if info is None:
                error = (await self._runtime.run(self._agent, f"run {name}", session=name)).error
            else:
                error = (await self._runtime.resume(info.run_id, self._agent)).error
        except AgentError as e:
            error = e
        finally:
            self._driven.discard(name)
        if error is not None and error.kind != "busy" and "is finished" not in error.message:
            raise error

    async def _take_away(self, infos: Sequence[RunInfo]) -> None:
        """The runs of a worker that is stopped."""
        if not self._share.taken.exists():
            return
        stopped = set(self._share.taken.read_text().split()) - self._seen - {str(os.getpid())}
        self._seen |= stopped
        for info in infos:
            if stopped and info.status == "running":
                await self._take_from(stopped, info.run_id)

    async def _take_from(self, stopped: set[str], run_id: str) -> None:
        journal = self._runtime.journal
        try:
            await (await journal.take_over(run_id)).release()
        except AgentError as e:
            driver = re.search(r"driven by process (\d+)", e.message)
            if driver is None or driver[1] not in stopped:
                return
            with suppress(AgentError):  # it has ended meanwhile
                await (await journal.take_over(run_id, force=True)).release()


if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # a child's collector would copy every page that it writes its marks on
    Crew(
        msgspec.json.decode(sys.argv[1], type=Share, dec_hook=lambda kind, value: kind(value))
    ).work()

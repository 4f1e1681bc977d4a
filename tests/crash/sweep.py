"""Ends a process at every durable boundary in turn, lets another one go on, and has the journal
judged each time. Entry: `sweep`, `sweep_twice`.

A sweep with `kills` runs the story once for each boundary, and kills it there. Otherwise one
process runs it once: at each boundary it is stopped, its folder copied, and it goes on; each copy is
what a kill would have left (test_boundaries.py compares them). Over PostgreSQL all is killed.

A boundary is passed before and after the commit of each append, and before and after each execution
of a tool (treadle/crash.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from tests.crash.accounts import Bounds
from tests.crash.checker import Verdict, check
from tests.crash.decrypted import decrypted
from tests.crash.drive import STEPS_MOST, Task
from tests.crash.nursery import Ended, Nursery, Stops
from tests.crash.postgres import ChaosServer
from tests.crash.records import Violation
from tests.crash.sabotage import Guard
from tests.crash.stories import STORIES, World

STORY = "story"
"""Folder of the process that is copied."""
NOT_KILLED = Ended(0, "")
MOST = 400
"""Boundaries; a sweep that does not come to its end is none."""


@dataclass
class Swept:
    """What came of all the crashes."""

    points: int = 0
    """Processes that were killed."""
    violations: list[tuple[str, Violation]] = field(default_factory=list[tuple[str, Violation]])
    """Where, and what."""
    unknown: int = 0
    had_happened: int = 0
    again: int = 0
    unknown_at_once: list[int] = field(default_factory=list[int])
    """For each point, how many outcomes were unknown."""

    def add(self, place: str, verdict: Verdict) -> None:
        self.violations += [(place, violation) for violation in verdict.violations]
        self.unknown += verdict.unknown
        self.had_happened += verdict.had_happened
        self.again += verdict.again
        self.unknown_at_once.append(verdict.unknown)

    def wrong(self, place: str, rule: str, text: str) -> None:
        self.violations.append((place, Violation(rule, text)))

    @property
    def rules(self) -> set[str]:
        return {violation.rule for _, violation in self.violations}


def sweep(
    nursery: Nursery,
    folder: Path,
    story: str,
    *,
    without: tuple[Guard, ...] = (),
    at: Iterable[int] | None = None,
    server: ChaosServer | None = None,
    key: bytes = b"",
    kills: bool = False,
) -> Swept:
    """One crash each: at the first boundary, at the second, and so on until the run survives.

    `at`: only at these. `server`: over PostgreSQL. `key`: of an encrypted file.
    """
    swept, numbers = Swept(), at if at is not None else range(1, MOST)
    if server is None and not kills:
        stage = Stage(nursery, folder / STORY, story, without)
        stage.encrypt(key)
        _judge_all(swept, stage.stopped(stage.task, numbers, named=""))
        return swept
    killed: list[tuple[Stage, Ended]] = []
    for number in numbers:
        stage = Stage(nursery, folder / f"{number}", story, without, server)
        stage.encrypt(key)
        ended = stage.start(crash_at=number)
        if kills:
            stage.apart = True
            _judge_all(swept, [(stage, ended)])
        else:
            killed.append((stage, ended))
        if not ended.killed:
            break
    _judge_all(swept, killed)
    return swept


def sweep_twice(
    nursery: Nursery,
    folder: Path,
    story: str,
    *,
    at: Iterable[int] | None = None,
    server: ChaosServer | None = None,
    kills: bool = False,
) -> Swept:
    """Two crashes each: the process that goes on is killed at its first boundary, at its second,
    and so on until it survives.

    `at`: where the first is killed, 0 for nowhere.
    """
    swept = Swept()
    for number in at if at is not None else range(MOST):
        if server is None and not kills:
            stage = Stage(nursery, folder / STORY, story)
            first = stage.start(crash_at=number)
            if number and not first.killed:
                return swept
            copies = stage.stopped(stage.next_task(), range(1, MOST), named=f"{number}-")
            _judge_all(swept, copies, before=first)
            continue
        first = NOT_KILLED
        killed: list[tuple[Stage, Ended]] = []
        for second in range(1, MOST):
            stage = Stage(nursery, folder / f"{number}-{second}", story, server=server)
            first = stage.start(crash_at=number)
            if number and not first.killed:
                return swept
            ended = stage.go_on(crash_at=second)
            if kills:
                stage.apart = True
                _judge_all(swept, [(stage, ended)], before=first)
            else:
                killed.append((stage, ended))
            if not ended.killed:
                break
        _judge_all(swept, killed, before=first)
    return swept


def _judge_all(
    swept: Swept, ends: Sequence[tuple[Stage, Ended]], *, before: Ended = NOT_KILLED
) -> None:
    """`before`: the process before each."""
    stages = [stage for stage, _ in ends]
    in_one = stages and all(stage.in_one for stage in stages)
    finished = stages[0].finish(stages) if in_one else [None] * len(ends)
    for (stage, ended), last in zip(ends, finished, strict=True):
        swept.points += ended.killed
        stage.judge(swept, ended, crashes=before.killed + ended.killed, finished=last)


class Stage:
    """A folder with a journal and a witness, and the processes that work on it."""

    def __init__(
        self,
        nursery: Nursery,
        folder: Path,
        story: str,
        without: tuple[Guard, ...] = (),
        server: ChaosServer | None = None,
    ) -> None:
        """`server`: the journal is a database of its own there, and only the witness is in the
        folder.
        """
        folder.mkdir(parents=True)
        self.folder = folder
        self.journal, self.witness = folder / "journal.db", folder / "witness"
        self.story, self._name = STORIES[story], story
        self.url = "" if server is None else server.journal()
        self.nursery = nursery
        self._server, self._key = server, b""
        self.bounds = Bounds()
        """Change it where processes are robbed of their journal."""
        self.apart = False
        """Whether each step is a process of its own."""
        self.task = Task(
            journal=self.journal, witness=self.witness, story=story, without=without, url=self.url
        )

    def encrypt(self, key: bytes) -> None:
        """Before the first process."""
        self._key = key
        self.task = msgspec.structs.replace(self.task, key=key.hex())

    @property
    def is_whole(self) -> bool:
        """A process without a guard, or with a fault, does not examine what it did."""
        return not self.task.without and not self.task.fault

    @property
    def in_one(self) -> bool:
        """Whether one process may go on to the end. Threads of its tools must not outlive the event
        loops.
        """
        has_threads = any("slow" in turn for turn in self.story.turns)
        return self.is_whole and not self.apart and not has_threads

    def start(self, *, crash_at: int = 0) -> Ended:
        return self._drive(self.task, crash_at)

    def stopped(
        self, task: Task, numbers: Iterable[int], *, named: str
    ) -> list[tuple[Stage, Ended]]:
        """A copy of this stage at each of the boundaries `numbers` that a process passes, and one at
        its end if that comes before the last of them. This stage is gone.
        """
        at = list(numbers)
        copies: list[tuple[Stage, Ended]] = []

        def copy(number: int, ended: Ended) -> None:
            copies.append((self.copied(self.folder.with_name(f"{named}{number}")), ended))
            if ended.killed:
                World(copies[-1][0].witness).saw("ending", str(ended.pid), str(ended.at_s))

        ended = self.nursery.drive(task, stops=Stops(at, copy))
        if len(copies) < len(at):
            copy(at[len(copies)], ended)
        shutil.rmtree(self.folder)
        return copies

    def copied(self, folder: Path) -> Stage:
        """What its processes have left, in this folder."""
        copy = Stage(self.nursery, folder, self._name, self.task.without)
        copy.bounds = self.bounds
        copy.encrypt(self._key)
        shutil.copytree(self.folder, copy.folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
        return copy

    def next_task(self) -> Task:
        return msgspec.structs.replace(self.task, do="go on")

    def finish(self, stages: Sequence[Stage]) -> list[Ended]:
        """Of all these, in one process."""
        for stage in stages:
            if stage._server is not None:
                stage._server.expire(stage.url)
        return self.nursery.finish(
            [msgspec.structs.replace(stage.task, do="end") for stage in stages]
        )

    def go_on(
        self, *, crash_at: int = 0, force: bool = False, do: Literal["go on", "end"] = "go on"
    ) -> Ended:
        """Over PostgreSQL nobody's lease holds any more.

        `force`: runs are taken from processes that are alive.
        """
        if self._server is not None:
            self._server.expire(self.url)
        return self._drive(msgspec.structs.replace(self.task, do=do, force=force), crash_at)

    def _drive(self, task: Task, crash_at: int) -> Ended:
        ended = self.nursery.drive(task, crash_at=crash_at)
        if ended.killed:
            World(self.witness).saw("ending", str(ended.pid), str(ended.at_s))
        return ended

    def judge_open(self) -> Verdict:
        """As it stands, over or not."""
        return check(self.url or self.journal, self.witness, open_runs=True, bounds=self.bounds)

    def judge(
        self, swept: Swept, last: Ended, *, crashes: int, finished: Ended | None = None
    ) -> Verdict:
        """Once everything has come to its end; a database is gone afterwards.

        `finished`: the end of the process that has examined it already.
        """
        place = self.folder.name
        if finished is None and self.in_one:
            (finished,) = self.finish([self])
        if finished is None:
            self._go_on_to_the_end(swept, last)
        else:
            for ended in (last, finished):
                if ended.code and not ended.killed:
                    swept.wrong(place, "end", f"a process ended with {ended.code}: {ended.said}")
        if not any(line.startswith("replay ") for line in self.witness.read_text().splitlines()):
            swept.wrong(place, "replay", "the journal was not examined")
        journal = decrypted(self.journal, self._key) if self._key else self.url or self.journal
        verdict = check(journal, self.witness, bounds=self.bounds)
        if self._server is not None:
            self._server.drop(self.url)
        if verdict.asked > (
            paid := self.story.requests * (1 + self.story.fork) + crashes * self.story.at_once
        ):
            swept.wrong(
                place, "paid", f"its model was asked {verdict.asked} times; {paid} are enough"
            )
        swept.add(place, verdict)
        return verdict

    def _go_on_to_the_end(self, swept: Swept, last: Ended) -> None:
        place = self.folder.name
        for _ in range(STEPS_MOST):
            if last.code and not last.killed:
                swept.wrong(place, "end", f"a process ended with {last.code}: {last.said}")
                break
            last = self.go_on(do="end" if self.is_whole else "go on")
            if not last.said:
                break
        if not self.is_whole or last.said:
            last = self.nursery.drive(
                msgspec.structs.replace(self.task, do="examine", without=(), fault="")
            )
        if last.code or last.said:
            swept.wrong(place, "replay", f"the journal cannot be examined: {last.said}")


def robbed(
    nursery: Nursery, folder: Path, story: str, *, server: ChaosServer | None = None
) -> Stage:
    """A stage on which living processes lose their journal."""
    stage = Stage(nursery, folder, story, server=server)
    stage.bounds = Bounds(cut_off=True)
    return stage

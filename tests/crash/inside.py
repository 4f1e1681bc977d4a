"""Faults inside a process of a crew, at random from a seed: calls of the system that fail, limits
that are reached, a clock that is wrong. Entry: `Inside`, `FAULTS`.

Each is armed for a moment and writes a line to the witness when that is over: its kind, and how
often it struck. What the harness itself opens is not hit.
"""

from __future__ import annotations

import builtins
import errno
import io
import itertools
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Literal, TypeAlias

import anyio
import apsw
from typing_extensions import override

from tests.crash.openers import open_and_close
from tests.crash.stories import World
from tests.journal.sqlite.failing_disk import FailingDisk
from treadle import types

Fault: TypeAlias = Literal[
    "open", "thread", "fork", "full", "broken", "unsynced", "clock", "descriptors", "opener"
]
"""open, thread, fork: the N-th call fails, and perhaps the next ones. full, broken, unsynced: the
N-th write or sync of SQLite. clock: hours ahead or behind, or jumping at each look. descriptors: a
limit that leaves a few. opener: a thread opens and closes the files of the journal.
"""
FAULTS: tuple[Fault, ...] = ("open", "thread", "fork", "full", "broken", "unsynced", "descriptors")
HARMLESS: frozenset[Fault] = frozenset(("thread", "fork", "clock"))
"""A process that they hit can still append to its journal."""
_REFUSALS = (
    OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    OSError(errno.EACCES, os.strerror(errno.EACCES)),
)
_DISKS: dict[str, tuple[str, type[apsw.Error]]] = {
    "full": ("write", apsw.FullError),
    "broken": ("write", apsw.IOError),
    "unsynced": ("sync", apsw.IOError),
}


class _Countdown:
    """Lets `first` calls pass, then fails `count`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Invariant: `hits` is how many of the calls since `arm` were failed."""
        self._first = self._count = 0
        self.hits = 0

    def arm(self, first: int, count: int) -> None:
        with self._lock:
            self._first, self._count, self.hits = first, count, 0

    def strikes(self) -> bool:
        with self._lock:
            if self._count and not self._first:
                self._count -= 1
                self.hits += 1
                return True
            self._first -= self._first > 0 and self._count > 0
            return False


class Inside:
    """One in a process; make it before the journal is opened, since it may put a disk under it."""

    def __init__(self, world: World, kinds: tuple[Fault, ...], seed: str, journal: str) -> None:
        """`journal`: its URL."""
        self._world, self._kinds = world, kinds
        self._journal = journal.removeprefix("sqlite:///")
        self._chance = random.Random(seed)
        self._counts = {kind: _Countdown() for kind in ("open", "thread", "fork", *_DISKS)}
        self._clock = _Clock()
        self._exhausted: list[None] = []
        """Calls that found no descriptor left."""
        if not kinds:
            return
        world.keep_open()
        for owner, name in ((os, "open"), (io, "open")):
            _notice(owner, name, self._exhausted)
        _refuse_to_open(self._counts["open"], self._chance)
        _fail(threading.Thread, "start", self._counts["thread"], _no_thread)
        for module, name in ((subprocess, "_fork_exec"), (os, "fork"), (os, "posix_spawn")):
            if hasattr(module, name):
                _fail(module, name, self._counts["fork"], _no_process)
        if set(kinds) & _DISKS.keys():
            self._disk = _Disk(self._counts)
        if "clock" in kinds:
            self._clock.install()
            if self._chance.random() < 0.3:
                self._clock.base_h = self._chance.randrange(-8, 9)

    async def harm(self, pause_s: float) -> None:
        """Until there is peace: a fault, then a pause of up to twice `pause_s`."""
        while self._kinds:
            await anyio.sleep(self._chance.uniform(0, 2 * pause_s))
            if self._world.is_at_peace():
                self._clock.base_h = 0
                return
            kind = self._chance.choice(self._kinds)
            hits = await self._once(kind, self._chance.uniform(0.01, 0.1))
            self._saw(kind, hits)

    async def _once(self, kind: Fault, seconds: float) -> int:
        match kind:
            case "descriptors":
                self._exhausted.clear()
                with _few_descriptors(self._chance.randrange(4)):
                    await anyio.sleep(seconds)
                return len(self._exhausted)
            case "clock":
                with self._clock.wrong(self._chance):
                    await anyio.sleep(seconds)
                return self._clock.looks
            case "opener":
                ends = self._chance.sample(("", "-wal", "-shm"), self._chance.randrange(1, 4))
                threading.Thread(target=open_and_close, args=(self._journal, ends)).start()
                if "-shm" in ends:
                    await self._be_ended(seconds * 20)
                return len(ends)
            case _:
                count = self._counts[kind]
                count.arm(self._chance.randrange(8), self._chance.choice((1, 1, 2, 30)))
                await anyio.sleep(seconds)
                hits = count.hits
                count.arm(0, 0)
                return hits

    async def _be_ended(self, seconds: float) -> None:
        """By a person who reads that this process has lost its locks."""
        self._saw("opener", 1)
        await anyio.sleep(seconds)
        self._world.saw("ending", str(os.getpid()), f"{time.time():.3f}")
        os.kill(os.getpid(), signal.SIGKILL)

    def _saw(self, kind: Fault, hits: int) -> None:
        self._world.saw("fault", kind, str(os.getpid()), f"{time.time():.3f}", str(hits))


# ---------------------------------------------------------------- calls that fail


def _fail(owner: Any, name: str, count: _Countdown, error: Callable[[], BaseException]) -> None:
    call = getattr(owner, name)

    def fails(*args: Any, **named: Any) -> Any:
        if count.strikes():
            raise error()
        return call(*args, **named)

    setattr(owner, name, fails)


def _notice(owner: Any, name: str, exhausted: list[None]) -> None:
    call = getattr(owner, name)

    def noticed(*args: Any, **named: Any) -> Any:
        try:
            return call(*args, **named)
        except OSError as e:
            if e.errno == errno.EMFILE:
                exhausted.append(None)
            raise

    setattr(owner, name, noticed)


def _refuse_to_open(count: _Countdown, chance: random.Random) -> None:
    def refused() -> OSError:
        chosen = chance.choice(_REFUSALS)
        return OSError(chosen.errno, chosen.strerror)

    _fail(os, "open", count, refused)
    _fail(io, "open", count, refused)
    builtins.open = io.open


def _no_thread() -> RuntimeError:
    return RuntimeError("can't start new thread")


def _no_process() -> BlockingIOError:
    return BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


class _Disk(FailingDisk):
    def __init__(self, counts: dict[str, _Countdown]) -> None:
        super().__init__()
        self._counts = counts
        self.write_fails, self.sync_fails = apsw.FullError, apsw.IOError

    @override
    def check(self, name: str, fails: type[apsw.Error] | None) -> None:
        operation = "sync" if fails is self.sync_fails else "write"
        for kind, (of, error) in _DISKS.items():
            if of == operation and self._counts[kind].strikes():
                super().check(name, error)


@contextmanager
def _few_descriptors(left: int) -> Generator[None]:
    """A limit under which so many more can be had."""
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    free = (number for number in itertools.count() if number not in used)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, left, None)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---------------------------------------------------------------- a wrong clock


class _Clock:
    """In every module that reads the wall clock; the one of the harness is right."""

    def __init__(self) -> None:
        self.base_h = 0
        """Hours by which it is wrong all the time."""
        self._hours: Callable[[], int] = int
        self.looks = 0

    def install(self) -> None:
        read = types.now

        def now() -> types.Time:
            self.looks += 1
            return read() + timedelta(hours=self.base_h + self._hours())

        for name, module in list(sys.modules.items()):
            if name.startswith("treadle") and getattr(module, "now", None) is read:
                vars(module)["now"] = now

    @contextmanager
    def wrong(self, chance: random.Random) -> Generator[None]:
        hours, self.looks = chance.randrange(-8, 9), 0
        jumps = chance.random() < 0.5
        self._hours = (lambda: chance.randrange(-8, 9)) if jumps else (lambda: hours)
        try:
            yield
        finally:
            self._hours = int

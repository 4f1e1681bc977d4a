"""Drivers that stop before each operation until the schedule lets them go on. Entry: `Stage`.

Exactly one operation runs at a time: the next one is chosen only when every driver has stopped
before an operation or has ended, and the event loop has nothing left to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio

from treadle import AgentError

T = TypeVar("T")


class FrozenLoop(asyncio.SelectorEventLoop):
    """Event loop whose clock is stopped, so that no timeout expires between two operations."""

    def time(self) -> float:
        return 1_000.0

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)  # type: ignore[attr-defined]  # asyncio has no public way to ask


@dataclass(eq=False)
class Stop:
    """An operation that waits for its turn."""

    label: str
    go: anyio.Event = field(default_factory=anyio.Event)


@dataclass(eq=False)
class Driver:
    """One of two drivers, as the schedule sees it."""

    name: str
    stops: list[Stop] = field(default_factory=list[Stop])
    seen: list[str] = field(default_factory=list[str])
    """Operations so far, each with a digest of what the driver learned from it: they determine
    what it does next.
    """
    running: int = 0
    """Operations that were let go on and have not returned."""
    has_ended: bool = False
    holds: bool = False
    has_lapsed: bool = False
    """Others may take its run over, as after the end of its lease."""
    lapses: int = 0

    @property
    def rests(self) -> bool:
        return self.has_ended or (not self.running and bool(self.stops))


class Stage:
    """Both drivers of one execution, and the order of their operations."""

    def __init__(self, *names: str) -> None:
        self.drivers = {name: Driver(name) for name in names}
        self.is_free = False
        """True once the rest of the execution is not scheduled any more."""
        self.digest: Callable[[], Awaitable[str]] = _nothing
        """Digest of everything that the drivers share."""
        self._changed = anyio.Event()

    async def stop(self, driver: Driver, label: str) -> None:
        """Wait for the turn of an operation; it counts as running afterwards."""
        if self.is_free:
            driver.running += 1
            return
        mine = Stop(label)
        driver.stops.append(mine)
        self._changed.set()
        try:
            await mine.go.wait()
        except BaseException:
            if mine in driver.stops:
                driver.stops.remove(mine)
            else:  # it was let go on at the same time
                driver.running -= 1
            self._changed.set()
            raise

    async def inside(self, driver: Driver, label: str) -> None:
        """Stop in the middle of what a driver does, which may be an operation that is running.

        Cancellation reaches it.
        """
        running, driver.running = driver.running, 0
        try:
            await self.stop(driver, label)
        finally:
            driver.running = running
        driver.seen.append(label)

    async def operation(
        self, driver: Driver, label: str, does: Callable[[], Awaitable[T]], *, reads: bool = False
    ) -> T:
        """Do it in its turn. It counts as begun, so a cancellation does not reach it.

        `reads`: what the driver learns is more than whether it failed.
        """
        with anyio.CancelScope(shield=True):
            await self.stop(driver, label)
            found = "failed"
            try:
                value = await does()
                found = "done"
                return value
            except AgentError as e:
                found = e.kind
                raise
            finally:
                digest = await self.digest() if reads else ""
                driver.seen.append(f"{label} {found} {digest}")
                driver.running -= 1
                self._changed.set()

    async def drive(self, driver: Driver, does: Callable[[], Awaitable[Any]]) -> None:
        try:
            await does()
        finally:
            driver.has_ended = True
            self._changed.set()

    async def rest(self) -> None:
        """Return once nothing moves until the next choice."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FrozenLoop), "run with FrozenLoop"
        while True:
            while loop.has_ready:
                await asyncio.sleep(0)
            if all(driver.rests for driver in self.drivers.values()):
                return
            self._changed = anyio.Event()
            await self._changed.wait()

    def go_on(self, name: str) -> None:
        """Let a driver do the operation that it has waited for the longest."""
        driver = self.drivers[name]
        driver.stops.pop(0).go.set()
        driver.running += 1

    def free(self) -> None:
        """Let everything go on to the end without a schedule."""
        self.is_free = True
        for name, driver in self.drivers.items():
            while driver.stops:
                self.go_on(name)


async def _nothing() -> str:
    return ""

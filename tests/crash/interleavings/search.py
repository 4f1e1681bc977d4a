"""Every schedule of a story up to a depth. Entry: `explore`; `python -m
tests.crash.interleavings.search DEPTH [STORE [STORY]...]` for a table of them all.

Two schedules that lead to the same state (`Execution.key`) have the same futures, so the second one
is not followed any further. `interleavings` counts all of them nevertheless.
"""

from __future__ import annotations

import heapq
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import anyio

from tests.crash.interleavings import stores
from tests.crash.interleavings.steps import FrozenLoop
from tests.crash.interleavings.stores import Store
from tests.crash.interleavings.stories import DRIVERS, NAMES, Execution, Name, Story, Violated
from treadle.config import load

Schedule = tuple[str, ...]


@dataclass
class Explored:
    executions: int = 0
    interleavings: int = 0
    """Schedules up to the depth, those that were not followed because their state was known
    included.
    """
    states: int = 0
    ends: set[str] = field(default_factory=set[str])
    """States in which executions ended."""
    violations: list[tuple[Schedule, str]] = field(default_factory=list[tuple[Schedule, str]])
    seconds: float = 0.0


class _Search:
    def __init__(
        self,
        story: Story,
        make: Callable[[], Store],
        depth: int,
        *,
        prune: bool,
        begins: Schedule = (),
    ) -> None:
        self._story, self._make, self._depth, self._prune = story, make, depth, prune
        self._known: dict[str, int] = {}
        """State -> how many choices were still explored from it."""
        self._edges: dict[str, dict[str, str]] = {}
        self._todo: list[tuple[int, int, Schedule, str]] = [(0, 0, begins, "")]
        self._planned = 0
        self._given = len(begins)
        self._config = load({}, files=False)
        self.found = Explored()

    async def run(self, *, most: int | None = None) -> Explored:
        begun = time.monotonic()
        shared = None if self._make is stores.memory else self._make()
        while self._todo and not (most and len(self.found.violations) >= most):
            _, _, prefix, before = heapq.heappop(self._todo)
            store = shared or self._make()
            name = f"x{self.found.executions}"
            await self._execute(Execution(self._story, store, name, self._config), prefix, before)
            self.found.executions += 1
        if shared is not None:
            await shared.aclose()
        self.found.states = len(self._known)
        self.found.interleavings = self._count(
            next(iter(self._edges[""].values())), self._depth - self._given, {}
        )
        self.found.seconds = time.monotonic() - begun
        return self.found

    async def _execute(self, execution: Execution, prefix: Schedule, before: str) -> None:
        taken: list[str] = []
        try:
            await execution.prepare()
            async with anyio.create_task_group() as group:
                for name in execution.stage.drivers:
                    group.start_soon(execution.drive, name)
                await self._follow(execution, prefix, before, taken)
        except Exception as e:  # whatever an execution ends with is a finding
            self.found.violations.append((tuple(taken), _first(e)))

    async def _follow(
        self, execution: Execution, prefix: Schedule, before: str, taken: list[str]
    ) -> None:
        """`before`: state in which the last choice of `prefix` is made."""
        try:
            while True:
                await execution.stage.rest()
                if not (choices := execution.choices()):
                    if len(prefix) <= len(taken) <= self._depth:
                        self._lead(before, taken, await execution.key())
                    break
                if len(taken) < len(prefix):
                    choice = prefix[len(taken)]
                    assert choice in choices, f"{choice} cannot follow {taken}: {choices}"
                else:
                    choice = _usual(choices, taken)
                    if len(taken) <= self._depth:
                        key = await execution.key()
                        await execution.check()
                        self._lead(before, taken, key)
                        if len(taken) < self._depth:
                            if self._is_known(key, len(taken)):
                                return
                            for other in [one for one in choices if one != choice]:
                                self._plan((*taken, other), key)
                        before = key
                taken.append(choice)
                await execution.choose(choice)
            self.found.ends.add(await execution.shared())
            await execution.check_end()
        finally:
            execution.stage.free()

    def _plan(self, prefix: Schedule, before: str) -> None:
        """The shortest prefix is next: a state that is first found early is not explored again."""
        self._planned += 1
        heapq.heappush(self._todo, (len(prefix), self._planned, prefix, before))

    def _lead(self, before: str, taken: list[str], key: str) -> None:
        """Note that the last choice led from one state to another. To leave schedules out is sound
        only where it always leads there.
        """
        choice = taken[-1] if taken else ""
        if (known := self._edges.setdefault(before, {}).setdefault(choice, key)) != key:
            raise Violated(f"{choice} leads from {before} to {known}, and to {key}")

    def _is_known(self, key: str, depth: int) -> bool:
        left = self._depth - depth
        if self._prune and self._known.get(key, -1) >= left:
            return True
        self._known[key] = left
        return False

    def _count(self, state: str, left: int, counted: dict[tuple[str, int], int]) -> int:
        """Schedules from `state` on."""
        if left == 0 or state not in self._edges:
            return 1
        if (state, left) not in counted:
            counted[state, left] = sum(
                self._count(following, left - 1, counted)
                for following in self._edges[state].values()
            )
        return counted[state, left]


def _first(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, Violated) else repr(error)


def _usual(choices: Sequence[str], taken: Sequence[str]) -> str:
    """The driver that went on last goes on; nothing happens around them."""
    last = next((one for one in reversed(taken) if one in DRIVERS), "")
    return last if last in choices else choices[0]


def explore(
    story: Story,
    make: Callable[[], Store],
    depth: int,
    *,
    prune: bool = True,
    most: int | None = None,
    begins: Schedule = (),
) -> Explored:
    """`most`: stop after so many violations. `begins`: only schedules that begin so."""
    search = _Search(story, make, depth, prune=prune, begins=begins)
    return anyio.run(partial(search.run, most=most), backend_options={"loop_factory": FrozenLoop})


@contextmanager
def making(kind: str, folder: Path) -> Generator[Callable[[str], Callable[[], Store]]]:
    """Give a function that makes the stores of a story; of PostgreSQL from a server of its own."""
    if kind == "memory":
        yield lambda name: stores.memory
    elif kind == "sqlite":
        yield lambda name: partial(stores.sqlite, folder / name)
    else:
        from tests.crash.postgres import unsynced

        with unsynced() as server:
            yield lambda name: partial(stores.postgres, server.past_the_proxy(server.made()))


def main(
    depth: int, kinds: Sequence[str] = ("memory", "sqlite"), names: Sequence[str] = NAMES
) -> int:
    """Print a table; return the number of violations."""
    print("| story | store | depth | executions | states | interleavings | seconds | violations |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    violations = 0
    with tempfile.TemporaryDirectory(prefix="treadle-steps-") as folder:
        for kind in kinds:
            with making(kind, Path(folder)) as make:
                for name in names:
                    e = explore(Story(cast("Name", name)), make(name), depth)
                    cells = (e.executions, e.states, e.interleavings, round(e.seconds))
                    figures = " | ".join(f"{cell:,}" for cell in (*cells, len(e.violations)))
                    print(f"| {name} | {kind} | {depth} | {figures} |", flush=True)
                    for schedule, what in e.violations[:5]:
                        print(f"    {what}: {', '.join(schedule)}", flush=True)
                    violations += len(e.violations)
    return violations


if __name__ == "__main__":
    depth, *more = sys.argv[1:] or ("12",)
    kinds, names = (more[:1] or ("memory", "sqlite")), (more[1:] or NAMES)
    sys.exit(main(int(depth), kinds, names) > 0)

"""Every schedule of a story up to a depth. Entry: `explore`; `python -m
tests.crash.interleavings.search` for a table of them all.

Two schedules that lead to the same state (`Execution.key`) have the same futures, so the second one
is not followed any further. `interleavings` counts all of them nevertheless.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio

from tests.crash.interleavings import stores
from tests.crash.interleavings.steps import FrozenLoop
from tests.crash.interleavings.stores import Store
from tests.crash.interleavings.stories import NAMES, Execution, Name, Story, Violated
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
        self._todo: list[tuple[Schedule, str]] = [(begins, "")]
        self._given = len(begins)
        self._config = load({}, files=False)
        self.found = Explored()

    async def run(self, *, most: int | None = None) -> Explored:
        begun = time.monotonic()
        shared = None if self._make is stores.memory else self._make()
        while self._todo and not (most and len(self.found.violations) >= most):
            prefix, before = self._todo.pop()
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
                    break
                if len(taken) < len(prefix):
                    choice = prefix[len(taken)]
                    assert choice in choices, f"{choice} cannot follow {taken}: {choices}"
                else:
                    choice = _usual(choices, taken)
                    if len(taken) <= self._depth:
                        key = await execution.key()
                        await execution.check()
                        self._edges.setdefault(before, {})[taken[-1] if taken else ""] = key
                        if len(taken) < self._depth:
                            if self._is_known(key, len(taken)):
                                return
                            others = [one for one in choices if one != choice]
                            self._todo += [((*taken, one), key) for one in others]
                        before = key
                taken.append(choice)
                await execution.choose(choice)
            self.found.ends.add(await execution.shared())
            await execution.check_end()
        finally:
            execution.stage.free()

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
    last = next((one for one in reversed(taken) if " " not in one and one != "change"), "")
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


def main(depth: int, names: Sequence[Name] = NAMES) -> int:
    """Print a table; return the number of violations."""
    print("| story | store | depth | executions | states | interleavings | seconds | violations |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    violations = 0
    with tempfile.TemporaryDirectory(prefix="treadle-steps-") as folder:
        for name in names:
            for kind in ("memory", "sqlite"):
                make = (
                    stores.memory
                    if kind == "memory"
                    else partial(stores.sqlite, Path(folder, name))
                )
                e = explore(Story(name), make, depth)
                cells = (
                    e.executions,
                    e.states,
                    e.interleavings,
                    round(e.seconds),
                    len(e.violations),
                )
                print(
                    f"| {name} | {kind} | {depth} | {' | '.join(f'{cell:,}' for cell in cells)} |",
                    flush=True,
                )
                for schedule, what in e.violations[:5]:
                    print(f"    {what}: {', '.join(schedule)}", flush=True)
                violations += len(e.violations)
    return violations


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 12) > 0)

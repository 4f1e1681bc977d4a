"""Measure the cost of hooks: a turn without hooks, with a hook that overrides nothing, and with one
that is called for each tool call and does nothing.

    python benchmarks/hooks.py [--turns 200] [--rounds 40]

The model is a list of deltas and the journal is in memory, so the figures contain only the loop.
All kinds take turns in one process. The figure is CPU time per turn, median and minimum of the
rounds. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

from typing_extensions import override

from treadle import Agent, Hook, Limits, ModelRequest, Runtime, StopReason, ToolCall, Usage, tool
from treadle.events.hooks import Guard, HookedRun, Rule
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    PartEnd,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
)


class Empty(Hook):
    @override
    async def before_tool(self, run: HookedRun, call: ToolCall) -> None:
        return None


class Listening(Hook):
    @override
    def on_event(self, event: Any) -> None:
        return None


KINDS: dict[str, tuple[Hook, ...]] = {
    "no hooks": (),
    "no hooks, once more": (),
    "a Hook() that overrides nothing": (Hook(),),
    "one empty before_tool": (Empty(),),
    "a Guard with one rule for another tool": (Guard(Rule("delete_*")),),
    "one empty on_event": (Listening(),),
}


class Turns:
    """A model that calls the tool a given number of times, then answers."""

    name, refuses = "bench:turns", frozenset[str]()

    def __init__(self, turns: int) -> None:
        self._left = turns

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self._left -= 1
        usage = Usage(input_tokens=10, output_tokens=5)
        if self._left < 0:
            yield TextDelta("All done.")
            yield ResponseEnd(stop_reason=StopReason.COMPLETE, usage=usage)
            return
        yield ToolCallStart(f"call_{self._left}", "lookup")
        yield ArgumentsDelta(f'{{"key": "k{self._left}"}}')
        yield PartEnd()
        yield ResponseEnd(stop_reason=StopReason.TOOL_USE, usage=usage)


@tool(effect="pure")
async def lookup(key: str) -> str:
    """Look up a key."""
    return f"value of {key}"


async def sample(turns: int, hooks: tuple[Hook, ...]) -> float:
    """Return microseconds of CPU time per turn."""
    async with Runtime.open(hooks=hooks) as rt:
        agent = Agent(
            name="bench", model=Turns(turns), tools=[lookup], limits=Limits(turns=turns + 10)
        )
        gc.collect()
        begun = time.process_time()
        result = await rt.run(agent, "go")
        taken = time.process_time() - begun
    assert result.turn_count == turns + 1, result.error
    return taken * 1e6 / (turns + 1)


async def measured(turns: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in KINDS}
    for i in range(rounds + 2):
        order = [*KINDS.items()]
        for name, hooks in order[i % len(order) :] + order[: i % len(order)]:
            taken = await sample(turns, hooks)
            if i >= 2:  # the first ones warm up
                found[name].append(taken)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=40)
    said = parser.parse_args()
    found = asyncio.run(measured(said.turns, said.rounds))
    base = found["no hooks"]
    for name, times in found.items():
        more = statistics.median(a - b for a, b in zip(times, base, strict=True))
        sys.stdout.write(
            f"{name:42} {statistics.median(times):7.1f} µs ({min(times):.1f}), {more:+.1f} µs beside no hooks\n"
        )


if __name__ == "__main__":
    main()

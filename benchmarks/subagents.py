"""Measure the cost of a subagent, and the lookup of an agent or a tool among ten thousand.

    python benchmarks/subagents.py [--children 200] [--rounds 7]

Two programs run in memory with a model that answers at once: a parent that calls a subagent, which
answers; and the same two turns with a tool that returns the same text. The difference is the cost
of the child: its run, its journal, its share of the budget. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from treadle import Agent, ModelRequest, Runtime, StopReason, Usage, tool
from treadle.agents.registry import AgentRegistry
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    PartEnd,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
)
from treadle.tools.function import FunctionTool
from treadle.tools.registry import ToolRegistry
from treadle.types import Limits, new_id

REGISTERED = 10_000
LIMITS = Limits(turns=10_000, tokens=100_000_000)


class Answers:
    """A model that calls its tool once, if it has one, then answers."""

    name = "answers:model"
    refuses: frozenset[str] = frozenset()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        calls = bool(request.tools) and request.messages[-1].role == "user"
        if calls:
            yield ToolCallStart(new_id("call"), request.tools[0].name)
            yield ArgumentsDelta('{"prompt": "Have a look."}')
            yield PartEnd()
        else:
            yield TextDelta("There is a cat.")
        yield ResponseEnd(
            stop_reason=StopReason.TOOL_USE if calls else StopReason.COMPLETE,
            usage=Usage(input_tokens=10, output_tokens=5),
        )


@tool(effect="pure")
async def helper(prompt: str) -> str:
    """Take a look."""
    return "There is a cat."


def pair() -> tuple[Agent[Any, Any], Agent[Any, Any]]:
    """Return the program with a subagent, and the one with a tool in its place."""
    child = Agent[Any, Any](name="helper", description="Has a look.", model=Answers())
    return (
        Agent(name="boss", model=Answers(), tools=[child], limits=LIMITS),
        Agent(name="boss", model=Answers(), tools=[helper], limits=LIMITS),
    )


async def cpu_ms(runtime: Runtime, agent: Agent[Any, Any], count: int) -> float:
    """Return the CPU milliseconds of one run."""
    begun = time.process_time()
    for _ in range(count):
        result = await runtime.run(agent, "go")
        assert result.success, result.error
    return (time.process_time() - begun) / count * 1000


async def subagent_ms(children: int, rounds: int) -> float:
    """Return the cost of a child: the median over the rounds."""
    with_child, with_tool = pair()
    added: list[float] = []
    for _ in range(rounds + 1):  # the first one warms up
        async with Runtime.open() as runtime:
            added.append(
                await cpu_ms(runtime, with_child, children)
                - await cpu_ms(runtime, with_tool, children)
            )
    return statistics.median(added[1:])


def lookup_us(get: Callable[[str], object], name: Callable[[int], str]) -> float:
    """Return the fastest of five passes over all names, in an order that differs from that of
    registration.
    """
    names = [name(n * 7919 % REGISTERED) for n in range(REGISTERED)]
    passes: list[float] = []
    for _ in range(5):
        begun = time.perf_counter()
        for each in names:
            get(each)
        passes.append((time.perf_counter() - begun) / len(names) * 1e6)
    return min(passes)


def registries() -> tuple[float, float]:
    """Return the microseconds to find an agent, and a tool, by name."""
    agents, tools = AgentRegistry(), ToolRegistry()
    for n in range(REGISTERED):
        agents.register(Agent(name=f"agent{n}", model="script:none"))
        tools.register(
            FunctionTool(
                name=f"tool{n}",
                description="Nothing.",
                parameters={"type": "object"},
                execute=_nothing,
            )
        )
    return lookup_us(agents.get, "agent{}".format), lookup_us(tools.get, "tool{}".format)


async def _nothing() -> str:
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--children", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    agent_us, tool_us = registries()
    added = asyncio.run(subagent_ms(options.children, options.rounds))
    figures = {
        "subagent_cpu_ms": round(added, 3),
        "agent_lookup_us": round(agent_us, 3),
        "tool_lookup_us": round(tool_us, 3),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

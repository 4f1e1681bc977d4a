"""End a run gracefully at its limit: the model is warned near the end, and in one last turn without
tools it answers with what it has found.

    python examples/budget.py
    python examples/budget.py --model anthropic:claude-opus-5-5 --turns 5
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from treadle import Agent, Limits, Runtime, tool
from treadle.events import LimitWarning, ToolCallEnd
from treadle.testing import ScriptedModel

SHELVES = {1: "atlases", 2: "poems", 3: "cookbooks", 4: "travels", 5: "letters"}


@tool(effect="pure")
async def look(shelf: int) -> str:
    """List the contents of a shelf.

    Args:
        shelf: Number of the shelf, from 1 to 5.
    """
    return SHELVES.get(shelf, "there is no such shelf")


async def main() -> None:
    parser = argparse.ArgumentParser(description="A budget that ends a run well.")
    parser.add_argument(
        "--model",
        help="like anthropic:claude-opus-5-5; a script without a key where nothing is said",
    )
    parser.add_argument("--turns", type=int, default=4)
    said = parser.parse_args()
    script: list[dict[str, Any]] = [
        {"tool_calls": [{"name": "look", "arguments": {"shelf": shelf}}]}
        for shelf in range(1, said.turns)
    ]
    script.append(
        {
            "text": f"I got as far as shelf {said.turns - 1}: "
            + ", ".join([*SHELVES.values()][: said.turns - 1])
            + "."
        }
    )
    agent = Agent(
        name="librarian",
        instructions="Look at one shelf a turn.",
        model=said.model or ScriptedModel(script),
        tools=[look],
        # cost_usd= too, where the price of the model is known
        limits=Limits(turns=said.turns, seconds=300, tokens=50_000),
    )

    async with Runtime.open() as rt, rt.stream(agent, "What is on our five shelves?") as run:
        async for event in run:
            if isinstance(event, ToolCallEnd):
                print("looked:", event.result)
            elif isinstance(event, LimitWarning):
                print(f"the limit of {event.limit} is near: {event.left} left")
    print(run.result.outcome.value, "after", run.result.turn_count, "turns:", run.result.text)


asyncio.run(main())

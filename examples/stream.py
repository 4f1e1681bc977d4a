"""Print an answer while the model writes it, and each call of a tool.

python examples/stream.py
"""

import asyncio

from treadle import Agent, Runtime, tool
from treadle.events import TextDelta, ToolCallStart
from treadle.testing import ScriptedModel

SCRIPT = ScriptedModel(
    [
        {"tool_calls": [{"name": "stock", "arguments": {"title": "Warp and Weft"}}]},
        {"text": "Yes, three copies."},
    ]
)


@tool(effect="pure")
def stock(title: str) -> int:
    """Copies of a book in the shop."""
    return 3


agent = Agent(name="bookshop", model=SCRIPT, tools=[stock])


async def main() -> None:
    async with Runtime.open() as rt, rt.stream(agent, "Is Warp and Weft there?") as run:
        async for event in run:
            if isinstance(event, ToolCallStart):
                print(f"[{event.name}]")
            elif isinstance(event, TextDelta):
                print(event.text, end="", flush=True)
    print(f"\n{run.result.metrics.turns} turns")


asyncio.run(main())

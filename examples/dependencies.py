"""Give tools and instructions what belongs to the request, such as a user and a database.

python examples/dependencies.py
"""

import asyncio
from dataclasses import dataclass, field

from treadle import Agent, RunContext, Runtime, ToolContext, tool
from treadle.testing import ScriptedModel


@dataclass
class Shop:
    customer: str
    orders: dict[str, list[str]] = field(default_factory=lambda: {"Ada": ["tea"], "Bob": []})


@tool(effect="pure")
def orders(ctx: ToolContext[Shop]) -> list[str]:
    """Orders of the customer who asks."""
    return ctx.deps.orders[ctx.deps.customer]


def instructions(ctx: RunContext[Shop]) -> str:
    return f"You serve {ctx.deps.customer}."


MODEL = ScriptedModel([{"tool_calls": [{"name": "orders"}]}, {"text": "You ordered tea."}])
agent = Agent(name="shop", instructions=instructions, model=MODEL, tools=[orders])


async def main() -> None:
    async with Runtime.open() as rt:
        print((await rt.run(agent, "What did I order?", deps=Shop("Ada"))).unwrap())


asyncio.run(main())

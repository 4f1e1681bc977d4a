"""Check an output against a database, and send it back to the model with the reason.

python examples/checked_output.py
"""

import asyncio
from dataclasses import dataclass

from treadle import Agent, RunContext, Runtime, ToolFailed
from treadle.testing import ScriptedModel


@dataclass
class Order:
    article: str
    count: int


async def in_stock(ctx: RunContext[dict[str, int]], order: Order) -> None:
    there = ctx.deps.get(order.article, 0)
    if order.count > there:
        raise ToolFailed(f"there are only {there} of {order.article}: order what there is")


MODEL = ScriptedModel(
    [{"text": '{"article": "tea", "count": 12}'}, {"text": '{"article": "tea", "count": 5}'}]
)
agent = Agent(name="orders", model=MODEL, output=Order, output_check=in_stock)


async def main() -> None:
    async with Runtime.open() as rt:
        print((await rt.run(agent, "A dozen boxes of tea, please.", deps={"tea": 5})).unwrap())


asyncio.run(main())

"""Limit what a run may cost, and add up the costs by user.

python examples/costs.py
"""

import asyncio

from treadle import Agent, Limits, Runtime
from treadle.config import Config, Price
from treadle.testing import ScriptedModel

ANSWER = {"text": "Hello.", "usage": {"input_tokens": 2_000, "output_tokens": 100}}
agent = Agent(
    name="bookshop", model=ScriptedModel([ANSWER] * 3), limits=Limits(turns=20, cost_usd=0.50)
)
config = Config(prices={"script:*": Price(input=3, output=15)})  # known for vendors' models


async def main() -> None:
    async with Runtime.open(config=config) as rt:
        for user in ("ada", "ada", "bob"):
            await rt.run(agent, "Hello!", user_id=user)
        print((await rt.run(agent, "Hello!", limits=Limits(cost_usd=0.00001))).outcome.value)
        for row in (await rt.journal.costs("user")).rows:
            print(row.key, f"${row.cost_usd:.4f}")


asyncio.run(main())

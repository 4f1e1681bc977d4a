"""Test an agent and its tool without a model.

pytest examples/tested_agent.py
python examples/tested_agent.py
"""

import asyncio

from treadle import Agent, Runtime, ToolContext, tool
from treadle.testing import ScriptedModel, context, no_real_models, override


@tool(effect="pure")
def stock(ctx: ToolContext[dict[str, int]], title: str) -> int:
    """Copies of a book in the shop."""
    return ctx.deps[title]


agent = Agent(name="bookshop", model="anthropic:claude-haiku-5-5", tools=[stock])


def test_the_tool() -> None:
    assert stock(context({"Warp": 3}), "Warp") == 3


async def test_it_looks_at_the_stock_first() -> None:
    call = {"name": "stock", "arguments": {"title": "Warp"}}
    model = ScriptedModel([{"tool_calls": [call]}, {"text": "Three."}])
    with no_real_models(), override(agent, model=model):
        async with Runtime.open() as rt:
            assert (await rt.run(agent, "How many?", deps={"Warp": 3})).unwrap() == "Three."
    assert model.requests[1].messages[-1].tool_results[0].text == "3"


if __name__ == "__main__":
    test_the_tool()
    asyncio.run(test_it_looks_at_the_stock_first())
    print("2 passed")

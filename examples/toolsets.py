"""Give users different tools from one set.

python examples/toolsets.py
"""

import asyncio

from treadle import Agent, RunContext, Runtime, ToolDefinition, Toolset, tool
from treadle.testing import ScriptedModel


@tool(effect="pure")
def find(name: str) -> str:
    """Find a customer."""
    return f"{name}, 12 Quay Street"


@tool(effect="once")
def delete(name: str) -> str:
    """Delete a customer."""
    return "deleted"


def allowed(ctx: RunContext, tool: ToolDefinition) -> bool:
    return ctx.user_id == "ada" or tool.name != "delete"


MODEL = ScriptedModel([{"text": "Hello."}, {"text": "Hello."}])
agent = Agent(
    name="desk", model=MODEL, tools=Toolset([find, delete]).filtered(allowed).prefixed("crm_")
)


async def main() -> None:
    async with Runtime.open() as rt:
        for user in ("ada", "bob"):
            await rt.run(agent, "Hi!", user_id=user)
            print(user, [tool.name for tool in MODEL.requests[-1].tools])


asyncio.run(main())

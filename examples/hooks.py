"""Change what a model sees, and refuse calls, without touching the agent's tools.

python examples/hooks.py
"""

import treadle
from treadle import Agent, Hook, tool
from treadle.hooks import Guard, HookedRun, Rule
from treadle.messages.message import ToolCall, ToolResult
from treadle.testing import ScriptedModel


@tool(effect="pure")
def customer(name: str) -> str:
    """Data of a customer."""
    return f"{name}, card 4111 1111 1111 1111"


@tool(effect="once")
def delete_customer(name: str) -> str:
    """Delete a customer."""
    return "deleted"


class HideCards(Hook):
    async def after_tool(self, run: HookedRun, call: ToolCall, result: ToolResult) -> str:
        return result.text.replace("4111 1111 1111 1111", "[card]")


CALLS = [{"name": name, "arguments": {"name": "Ada"}} for name in ("customer", "delete_customer")]
agent = Agent(
    name="desk",
    model=ScriptedModel([{"tool_calls": CALLS}, {"text": "I may not delete her."}]),
    tools=[customer, delete_customer],
    hooks=[HideCards(), Guard(Rule("delete_*", reason="nothing is deleted here"))],
)
result = treadle.run_sync(agent, "Delete Ada.")
print([found.text for found in result.messages[2].tool_results])

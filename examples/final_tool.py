"""Let a tool end the run with its own value, without another request.

python examples/final_tool.py
"""

import treadle
from treadle import Agent, ToolDone, tool
from treadle.testing import ScriptedModel


@tool(effect="once")
def book(day: str, people: int) -> ToolDone:
    """Book a table. This ends the conversation."""
    return ToolDone(f"{people} people on {day}")


CALL = {"name": "book", "arguments": {"day": "Friday", "people": 2}}
MODEL = ScriptedModel([{"text": "I book it.", "tool_calls": [CALL]}])
result = treadle.run_sync(Agent(name="tables", model=MODEL, tools=[book]), "Two on Friday.")
print(result.unwrap(), f"({result.metrics.turns} turn)")

"""Answer with the help of a tool.

python examples/weather.py
MODEL=anthropic:claude-haiku-5-5 python examples/weather.py
"""

import os

import treadle
from treadle import Agent, tool
from treadle.testing import ScriptedModel

SCRIPT = ScriptedModel(
    [
        {"tool_calls": [{"name": "weather", "arguments": {"city": "Lisbon"}}]},
        {"text": "Take sunglasses: Lisbon has sun."},
    ]
)


@tool(effect="pure")
def weather(city: str) -> str:
    """Tomorrow's weather of a city."""
    return f"{city}: sun, 24 degrees"


agent = Agent(name="weather", model=os.environ.get("MODEL") or SCRIPT, tools=[weather])
print(treadle.run_sync(agent, "What do I need in Lisbon tomorrow?").unwrap())

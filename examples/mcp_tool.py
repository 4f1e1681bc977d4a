"""Call a tool of an MCP server: mcp_calendar.py in the same folder, written with the official SDK.

pip install 'treadle[mcp]'
python examples/mcp_tool.py
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from treadle import Agent, ApprovalRequest, Approve, Deny, Runtime
from treadle.events import ToolCallEnd
from treadle.testing import ScriptedModel
from treadle.tools.mcp import McpServer

SERVER = Path(__file__).with_name("mcp_calendar.py")


async def ask(request: ApprovalRequest) -> Approve | Deny:
    """Approve the calls of the calendar by their name. Treadle cannot know the effect of a server's
    tools, so every call needs approval unless the mode is full.
    """
    print(f"{request.agent} wants to call {request.name}")
    return (
        Approve() if request.name == "calendar_free" else Deny("only free times are looked up here")
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description="A tool of an MCP server.")
    parser.add_argument(
        "--model",
        help="like anthropic:claude-opus-5-5; a script without a key where nothing is said",
    )
    said = parser.parse_args()
    script = ScriptedModel(
        [
            {"tool_calls": [{"name": "calendar_free", "arguments": {"day": "Friday"}}]},
            {"text": "Friday at three would do."},
        ]
    )
    calendar = McpServer(name="calendar", command=[sys.executable, str(SERVER)], tools=["free"])
    agent = Agent(
        name="planner",
        instructions="You find dates.",
        model=said.model or script,
        mcp_servers=[calendar],
    )

    async with (
        Runtime.open() as rt,
        rt.stream(agent, "When could we meet on Friday?", mode="ask", on_approval=ask) as run,
    ):
        async for event in run:
            if isinstance(event, ToolCallEnd):
                print(f"{event.name}: {event.result}")
    print(run.result.unwrap())


asyncio.run(main())

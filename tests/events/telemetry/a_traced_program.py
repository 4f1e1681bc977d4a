"""An application with a tracer of its own: a parent, its child, and an MCP server that the child
asks. Prints its spans, a line of JSON each.

`python a_traced_program.py FILE`: where the server's spans go. Entry: it is a program.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from treadle import Agent, Runtime, ToolContext, tool
from treadle.events.telemetry import otel_tracer
from treadle.testing import ScriptedModel
from treadle.tools.mcp import McpServer, McpServers

SERVER = McpServer(
    name="cats",
    command=[sys.executable, str(Path(__file__).with_name("a_traced_server.py")), sys.argv[1]],
)


async def main() -> None:
    async with McpServers() as servers, Runtime.open(tracer=otel_tracer()) as rt:
        tools = await servers.tools([SERVER], warn=sys.exit)
        script = [
            {"tool_calls": [{"name": "cats_look", "arguments": {"at": "the door"}}]},
            {"text": "a cat"},
        ]
        child = Agent[Any](name="child", model=ScriptedModel(script), tools=tools)

        @tool
        async def ask(ctx: ToolContext[None]) -> str:
            """Asks."""
            return (await ctx.spawn(child, "Have a look.")).text

        parent = Agent(
            name="parent",
            model=ScriptedModel([{"tool_calls": [{"name": "ask"}]}, {"text": "done"}]),
            tools=[ask],
        )
        result = await rt.run(parent, "go")
        assert result.success, result


if __name__ == "__main__":
    provider = TracerProvider()
    provider.add_span_processor(
        SimpleSpanProcessor(
            ConsoleSpanExporter(formatter=lambda span: span.to_json(indent=None) + "\n")
        )
    )
    trace.set_tracer_provider(provider)
    anyio.run(main)

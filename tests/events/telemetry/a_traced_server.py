"""An MCP server whose own spans go to a file, a line of JSON each:

`python a_traced_server.py FILE`. Entry: it is a program.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server import MCPServer
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

mcp = MCPServer("cats")


@mcp.tool()
def look(at: str) -> str:
    """Looks."""
    return f"a cat at {at}"


if __name__ == "__main__":
    provider = TracerProvider()
    file = Path(sys.argv[1]).open("w", encoding="utf-8")  # noqa: SIM115  until the process ends
    provider.add_span_processor(
        SimpleSpanProcessor(
            ConsoleSpanExporter(out=file, formatter=lambda span: span.to_json(indent=None) + "\n")
        )
    )
    trace.set_tracer_provider(provider)
    mcp.run("stdio")

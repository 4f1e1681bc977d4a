"""A server made with the official SDK, of which tests ask everything that servers do: `python
a_server.py stdio`, or `http PORT` on loopback.

Entry: it is a program.
"""

import os
import sys
from typing import Annotated, Any

import anyio
from mcp.server import MCPServer
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from opentelemetry.propagate import set_global_textmap
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import BaseModel

set_global_textmap(TraceContextTextMapPropagator())
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
mcp = MCPServer("ours")


@mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@mcp.tool(annotations=ToolAnnotations(read_only_hint=True, destructive_hint=True))
def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


@mcp.tool(annotations=ToolAnnotations(idempotent_hint=True), name="with.dots")
def dots() -> CallToolResult:
    """Shows everything."""
    return CallToolResult(
        content=[
            TextContent(type="text", text="one"),
            TextContent(type="text", text="two"),
            ImageContent(type="image", data=DOT, mime_type="image/jpeg"),
            ImageContent(type="image", data="bm8gaW1hZ2U=", mime_type="image/png"),
            EmbeddedResource(
                type="resource",
                resource=TextResourceContents(
                    uri="file:///x.txt", text="inside", mime_type="text/plain"
                ),
            ),
            ResourceLink(
                type="resource_link",
                name="more",
                uri="file:///y.txt",
                mime_type="text/plain",
                size=7,
            ),
        ]
    )


@mcp.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts, and says how far it is."""
    for i in range(to):
        await ctx.report_progress(i + 1, to, f"at {i + 1}")
    return "counted"


@mcp.tool()
async def wait(mark: str) -> str:
    """Waits until it is told to stop, and leaves a mark when it is."""
    with open(mark + ".begun", "w") as file:
        file.write("begun")
    try:
        await anyio.sleep_forever()
    except BaseException:
        with open(mark, "w") as file:
            file.write("stopped")
        raise
    return "never"


class Name(BaseModel):
    name: str


async def ask_for_name() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@mcp.tool()
async def meet(who: Annotated[ElicitationResult[Name], Resolve(ask_for_name)]) -> str:
    """Asks a person for a name, in whichever way the protocol has."""
    return f"hello {who.data.name}" if who.action == "accept" else f"they said {who.action}"


@mcp.tool()
def span(ctx: Context) -> str:
    """The trace that the request belongs to."""
    meta: Any = ctx.request_context.meta or {}
    return str(meta.get("traceparent"))


@mcp.tool()
def variable(name: str) -> str:
    """One of its environment."""
    return os.environ.get(name, "not there")


@mcp.tool()
def header(name: str, ctx: Context) -> str:
    """One of the request."""
    return (ctx.headers or {}).get(name, "not there")


@mcp.tool()
def leave() -> str:
    """Dies in the middle of the call."""
    print("out of memory, token=hunter2hunter2", file=sys.stderr, flush=True)
    os._exit(3)


@mcp.tool()
def big(size: int) -> str:
    """An answer of this many characters."""
    return "x" * size


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        mcp.run("stdio")
    else:
        mcp.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))

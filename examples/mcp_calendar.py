"""A small MCP server on stdio, written with the official SDK. mcp_tool.py starts it."""

from mcp.server import MCPServer

mcp = MCPServer("calendar")
FREE = {"Thursday": ["nine"], "Friday": ["eleven", "three"]}


@mcp.tool()
def free(day: str) -> str:
    """List the free hours of a day."""
    return ", ".join(FREE.get(day, [])) or f"nothing is free on {day}"


@mcp.tool()
def book(day: str, hour: str) -> str:
    """Add an entry to the calendar."""
    FREE.get(day, []).remove(hour)
    return f"{day} at {hour} is taken"


if __name__ == "__main__":
    mcp.run("stdio")

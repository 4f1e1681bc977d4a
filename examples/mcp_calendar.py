"""A small MCP server on stdio, made with the official SDK: what mcp_tool.py starts."""

from mcp.server import MCPServer

mcp = MCPServer("calendar")
FREE = {"Thursday": ["nine"], "Friday": ["eleven", "three"]}


@mcp.tool()
def free(day: str) -> str:
    """Hours of a day in which nothing stands yet."""
    return ", ".join(FREE.get(day, [])) or f"nothing is free on {day}"


@mcp.tool()
def book(day: str, hour: str) -> str:
    """Puts something into the calendar."""
    FREE.get(day, []).remove(hour)
    return f"{day} at {hour} is taken"


if __name__ == "__main__":
    mcp.run("stdio")

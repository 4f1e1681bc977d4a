"""A tool and an agent, each with the name of its entry point."""

from __future__ import annotations

from treadle import Agent, tool


@tool(effect="pure")
def tide(place: str) -> str:
    """Return the tide at a place."""
    return f"high at {place}"


pilot = Agent(
    name="pilot",
    description="Pilots ships.",
    model="acme:one",
    instructions="Pilot the ship.",
    tools=[tide],
)

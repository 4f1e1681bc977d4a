"""The agent and the one tool of these tests; what a model says to them is aimock.json's and
tiny_model.py's. Entry: `guide`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.peers.wires import MODEL
from treadle import Agent, Limits, Settings, tool

SYSTEM = "You advise on trips, in one sentence."


def guide(
    asked: list[str] | None = None, *, then: Callable[[], object] | None = None, **settings: object
) -> Agent:
    """`asked` is told of each city that the tool is called for; `then` is called in the tool,
    before it answers.
    """

    @tool(effect="pure")
    async def get_weather(city: str, days: int = 1) -> str:
        """Forecast for a city.

        Args:
            city: Name of the city.
            days: How many days ahead, 1 to 7.
        """
        if asked is not None:
            asked.append(city)
        if then is not None:
            then()
        return f"{city}: 18C for {days} day(s)"

    return Agent(
        name="guide",
        instructions=SYSTEM,
        model=MODEL,
        tools=[get_weather],
        limits=Limits(turns=6, seconds=40),
        settings=Settings(**settings),
    )

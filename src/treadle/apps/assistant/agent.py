"""Definition of the task assistant, for any model.

Running it for a person is in runner.py. Entry point: `task_agent`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from treadle.agents.agent import Agent
from treadle.agents.templates import Input
from treadle.apps.assistant.caller import ToolUser
from treadle.models.model import Model
from treadle.types import Limits, Settings, SystemBlock

if TYPE_CHECKING:
    from treadle.apps.assistant.server import MCPToolServer

NAME: Final = "tasks"
CALLS_MOST: Final = 10
SECONDS_MOST: Final = 30
_TURNS_MOST: Final = 16
"""Maximum number of turns: enough for ten calls in sequence, a few refused calls, and an answer."""
_LIMITS: Final = Limits(tool_calls=CALLS_MOST, seconds=SECONDS_MOST, turns=_TURNS_MOST)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TODAY: Final = SystemBlock(text="Today is ${today}.", passing=True)


def task_agent(
    server: MCPToolServer,
    model: str | Model | None = None,
    *,
    today: Callable[[], date] = date.today,
) -> Agent[ToolUser, str]:
    """Return the agent. `model`: None selects the rule-based model, which needs no key. `today`:
    returns the date for that model.

    Runs receive the date in their inputs (`inputs_of`).
    """
    if model is None:
        from treadle.apps.assistant.embedded import EmbeddedModel  # noqa: PLC0415  only where it is asked

        model = EmbeddedModel(today=today)
    return Agent(
        name=NAME,
        description="Manages a person's to-do list.",
        instructions=_instructions(),
        context=(_TODAY,),
        model=model,
        tools=server.tools,
        limits=_LIMITS,
        settings=Settings(max_tokens=1024),
        inputs={"today": Input(description="The day, in words and as YYYY-MM-DD")},
    )


def inputs_of(today: date) -> dict[str, str]:
    return {"today": f"{_DAYS[today.weekday()]}, {today.isoformat()}"}


@cache
def _instructions() -> str:
    return files("treadle.apps.assistant").joinpath("instructions.md").read_text(encoding="utf-8")

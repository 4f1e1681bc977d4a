"""Unfinished output, which the transcript updates and the region draws with each frame. Entry
points: `Live`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from treadle.messages.todos import Todo
from treadle.tui.calling import Calling

ACTIVITIES_MAX: Final = 5
"""Maximum number of lines. The last one counts the rest."""


@dataclass(slots=True, kw_only=True)
class Activity:
    """Tool call that runs or waits for approval."""

    call: Calling
    since: float
    """Time at which the call started, on the monotonic clock."""
    agent: str = ""
    """Name of the child agent that made the call, or empty."""
    progress: str = ""
    """Last line of the call's output."""
    waits: bool = False
    """True while it waits for approval."""


@dataclass(slots=True, kw_only=True)
class Live:
    """State of everything below the scrollback except the input."""

    tail: str = ""
    """Unfinished block of the current answer, as Markdown."""
    thinking_since: float | None = None
    thought: str = ""
    """Last line of the model's reasoning."""
    asking_since: float | None = None
    """Start of a request that has had no response yet; None if there is none."""
    retry: str = ""
    """Reason of a retry."""
    activities: dict[str, Activity] = field(default_factory=dict[str, Activity])
    """Active calls by id, in the order in which they began."""
    todos: tuple[Todo, ...] = ()
    queued: list[str] = field(default_factory=list[str])
    """Messages queued by the user, oldest first."""
    context_tokens: int = 0
    """Tokens of the last request and its response."""
    cost_usd: float | None = None
    """Cost of this conversation since it was opened here, or None."""
    child_usd: float | None = None
    """Part of `cost_usd` spent by other agents for this conversation's agent."""
    cost_is_partial: bool = False
    """True if the price of a response is unknown."""

    @property
    def moves(self) -> bool:
        """True if something with a timer or spinner is drawn."""
        return (
            self.thinking_since is not None
            or self.asking_since is not None
            or any(not activity.waits for activity in self.activities.values())
        )

    def add_cost(self, cost_usd: object) -> None:
        """Add the cost of a response. Anything but a number means that its price is unknown."""
        if isinstance(cost_usd, float | int):
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd
        else:
            self.cost_is_partial = True

    def calm(self) -> None:
        """Reset the state after the end of a run."""
        self.tail = self.thought = self.retry = ""
        self.thinking_since = self.asking_since = None
        self.activities.clear()

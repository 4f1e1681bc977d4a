"""What is not finished yet, and so is drawn anew with each frame: a value that the transcript
changes and the region draws. Entry: `Live`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from treadle.messages.todos import Todo
from treadle.tui.calling import Calling

ACTIVITIES_MAX: Final = 5
"""Lines; what is more is counted in the last one."""


@dataclass(slots=True, kw_only=True)
class Activity:
    """A call that runs, or waits for a yes."""

    call: Calling
    since: float
    """On the monotonic clock."""
    agent: str = ""
    """Of a run below the one that the person talks to."""
    progress: str = ""
    """The last line that it said."""
    waits: bool = False
    """For a person."""


@dataclass(slots=True, kw_only=True)
class Live:
    """Everything below the scrollback but what the person types."""

    tail: str = ""
    """Of the answer that is being written: what is no finished block yet, as Markdown."""
    thinking_since: float | None = None
    thought: str = ""
    """The last line of what the model thinks."""
    asking_since: float | None = None
    """A request is under way, and nothing has come yet."""
    retry: str = ""
    """Why the model is asked again."""
    activities: dict[str, Activity] = field(default_factory=dict[str, Activity])
    """By call id, in the order in which they began."""
    todos: tuple[Todo, ...] = ()
    queued: list[str] = field(default_factory=list[str])
    """What the person has said for later, oldest first."""
    context_tokens: int = 0
    """What the last request and its answer took."""
    cost_usd: float | None = None
    """Of this conversation since it was opened here; None: nothing has been paid."""
    child_usd: float | None = None
    """The part of `cost_usd` that other agents spent for this conversation's own."""
    cost_is_partial: bool = False
    """There was a response whose price nobody knows."""

    @property
    def moves(self) -> bool:
        """Whether something is drawn that counts the time."""
        return (
            self.thinking_since is not None
            or self.asking_since is not None
            or any(not activity.waits for activity in self.activities.values())
        )

    def calm(self) -> None:
        """Nothing runs any more."""
        self.tail = self.thought = self.retry = ""
        self.thinking_since = self.asking_since = None
        self.activities.clear()

"""One slash command. Entry: `SlashCommand`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.tui.desk import Desk


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    name: str
    """Without its slash."""
    summary: str
    """One line, for `/help` and the completions."""
    usage: str = ""
    """What can stand behind it: `[NAME]`."""
    run: Callable[[Desk, str], Awaitable[None]]
    """Called with what stands behind the name, stripped.

    Raises AgentError for what cannot be done, which is told to the person.
    """
    while_running: bool = True
    """Whether it may be said while a run is under way; else it is refused with the reason."""
    own: bool = False
    """Whether it is the user's."""

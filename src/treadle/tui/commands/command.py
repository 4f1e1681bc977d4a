"""The type of a slash command. Entry points: `SlashCommand`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.tui.desk import Desk


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    name: str
    """Name without the slash."""
    summary: str
    """One line for `/help` and the completions."""
    usage: str = ""
    """Arguments, for example `[NAME]`."""
    run: Callable[[Desk, str], Awaitable[None]]
    """Function called with the text after the name, stripped.

    Raises AgentError with a message for the user.
    """
    while_running: bool = True
    """True if the command may be used while a run is active; otherwise it is refused."""
    own: bool = False
    """True for a user-defined command."""

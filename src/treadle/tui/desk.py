"""Protocol through which commands, pickers and the wizard use the chat, which chat.py implements.
Entry points: `Desk`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from rich.console import RenderableType

from treadle.config import Config
from treadle.tui.conversation import ChatConversation
from treadle.tui.input import InputLine
from treadle.tui.screen import Screen
from treadle.tui.status import Status
from treadle.tui.theme import Theme
from treadle.tui.transcript import Transcript


class Desk(Protocol):
    theme: Theme
    screen: Screen
    line: InputLine
    status: Status
    transcript: Transcript
    conversation: ChatConversation

    @property
    def config(self) -> Config:
        """Configuration at the start of the chat, with the options of the command line applied."""
        ...

    @property
    def cwd(self) -> Path: ...

    def tell(self, text: str, style: str = "dim") -> None:
        """Print a message into the scrollback. `style`: a style of the theme, such as `warning` or
        `error`.
        """
        ...

    def show(self, renderable: RenderableType) -> None:
        """Print a Rich renderable into the scrollback."""
        ...

    def send(self, text: str, *, shown: str | None = None) -> None:
        """Send a message as if the user had typed it. `shown`: its display text."""
        ...

    async def open(self, session_id: str | None) -> None:
        """Replace the conversation with another one, whose messages are drawn; with a new one if
        None. Raises AgentError(busy) while a run is active.
        """
        ...

    def use_model(self, model: str) -> None:
        """Use a model from the next run on. Raises AgentError(invalid) for an unknown model."""
        ...

    def leave(self) -> None:
        """End the chat; if a run is active, ask first."""
        ...

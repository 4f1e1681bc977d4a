"""What commands, pickers and the wizard work on: the open chat as they may use it. chat.py is it.

Entry: `Desk`.
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
        """As it was when the chat began, with what was said on the command line."""
        ...

    @property
    def cwd(self) -> Path: ...

    def tell(self, text: str, style: str = "dim") -> None:
        """A line of our own into the scrollback; `style`: of the theme, like `warning` or `error`."""  # noqa: E501
        ...

    def show(self, renderable: RenderableType) -> None:
        """Anything that Rich can draw, into the scrollback."""
        ...

    def send(self, text: str, *, shown: str | None = None) -> None:
        """As if the person had typed it; `shown`: what stands in the scrollback for it."""
        ...

    async def open(self, session_id: str | None) -> None:
        """Another conversation in the place of this one, what was said in it drawn; None: a new
        one. Raises AgentError(busy) while a run is under way.
        """
        ...

    def use_model(self, model: str) -> None:
        """From the next run on. Raises AgentError(invalid) for what is no model."""
        ...

    def leave(self) -> None:
        """Ends the chat; where a run is under way, the person is asked first."""
        ...

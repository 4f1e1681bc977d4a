"""Finds what a name means: models by `provider:id`, their connections and keys. Entry: `Models`."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from treadle.config import Config
from treadle.errors import AgentError
from treadle.model import Model

if TYPE_CHECKING:
    from treadle.providers.http import HttpConnection

FILES = ("script", "tape", "record")
LATER = ("openai", "openai-chat", "gemini")


class Connection(Protocol):
    async def aclose(self) -> None: ...


class Models:
    """Models by name, made when they are first asked for; one connection for each provider, shared by all runs."""

    def __init__(self, config: Config, *, clean: Callable[[str], str]) -> None:
        self._config = config
        self._clean = clean
        self._connections: dict[str, HttpConnection] = {}
        self._retired: list[HttpConnection] = []

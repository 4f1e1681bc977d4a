"""A home, a project, a provider, and chats in terminals: `treadle chat` as a person has it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.projects import written
from tests.tui.terminal.provider import Provider
from tests.tui.terminal.terminal import TMUX, Terminal

pytestmark = pytest.mark.skipif(not TMUX, reason="tmux is not installed")
PLACEHOLDER = "Ask a question or describe a task"
SAYS = "Ask a question"
"""Of the placeholder, as much as stands in the narrowest window."""


class Place:
    """A home and a project, with a provider that the tests drive.

    Terminals that are opened here end with the test.
    """

    def __init__(self, root: Path, provider: Provider, stack: ExitStack) -> None:
        self.home, self.cwd, self.provider = root / "home", root / "shop", provider
        self.cwd.mkdir()
        self.own = self.home / ".treadle"
        self._stack = stack
        written(self.own / "config.yaml", f"{provider.config}defaults: {{sandbox: 'off'}}\n")

    def confines(self) -> None:
        """Commands run in a sandbox. What a person allows for longer than once holds only in there."""
        written(self.own / "config.yaml", self.provider.config)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "NO_PROXY": "*",
        }

    def runs(
        self, *arguments: str, columns: int = 80, rows: int = 24, **environment: str
    ) -> Terminal:
        """`treadle` in a terminal; the tests do not wait for anything on it yet."""
        command = [sys.executable, "-m", "treadle", *arguments]
        return self._stack.enter_context(
            Terminal(
                command, {**self.environment, **environment}, self.cwd, columns=columns, rows=rows
            )
        )

    def chat(
        self, *arguments: str, columns: int = 80, rows: int = 24, **environment: str
    ) -> Terminal:
        """One that stands."""
        terminal = self.runs("chat", *arguments, columns=columns, rows=rows, **environment)
        terminal.sees(SAYS)
        return terminal

    def chat_with(self, question: str, *arguments: str) -> Terminal:
        """One that begins with a question."""
        terminal = self.runs("chat", *arguments)
        terminal.sees(question)
        return terminal


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as made:
        yield made


@pytest.fixture
def place(tmp_path: Path, provider: Provider) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, provider, stack)


@pytest.fixture
def chat(place: Place) -> Terminal:
    return place.chat()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A mark of this file holds for no other one."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytestmark)

"""A home, a project, a provider, and chats in terminals: `treadle chat` as a person has it.

Chats are forked (tests/fork_server.py), but for those of tests about the ends of processes, which
set `place.starts`.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.fork_server import ROOT, ForkServer, command_of, fits
from tests.projects import written
from tests.tui.terminal.provider import Provider
from tests.tui.terminal.terminal import TMUX, Terminal

pytestmark = pytest.mark.skipif(not TMUX, reason="tmux is not installed")
PLACEHOLDER = "Ask a question or describe a task"
SAYS = "Ask a question"
"""Of the placeholder, as much as stands in the narrowest window."""


_OF_CHATS = (
    "anyio._backends._asyncio",
    "anyio._core._signals",
    "anyio._core._subprocesses",
    "encodings.ascii",
    "encodings.utf_8_sig",
    "markdown_it.main",
    "prompt_toolkit.input.vt100",
    "prompt_toolkit.key_binding.bindings.search",
    "pygments.lexers.python",
    "rich.table",
    "rich._unicode_data.unicode17-0-0",
    "tree_sitter",
    "tree_sitter_bash",
    "treadle.agents.coding",
    "treadle.cli.app",
    "treadle.cli.chat",
    "treadle.cli.session_lookup",
    "treadle.config.document",
    "treadle.journal.sqlite",
    "treadle.models.providers.http_pool",
    "treadle.models.providers.openai_chat",
    "treadle.models.providers.wires",
    "treadle.policy.sandboxes.bubblewrap",
    "treadle.policy.shell.judge",
    "treadle.runtime.runtime",
    "treadle.tui.chat",
    "treadle.tui.commands.own",
    "treadle.tui.commands.view",
    "treadle.tui.markdown",
    "treadle.tui.start",
    "treadle.tui.viewer",
    "tests.known",
)


@cache
def _forks() -> ForkServer:
    """Of this process of pytest, once it has imported what chats need."""
    server = ForkServer({"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}, arguments=_OF_CHATS)
    atexit.register(server.close)
    server.run(["--version"], cwd=ROOT, environment={}, stdin=None, timeout_s=100)
    return server


class Place:
    """A home and a project, with a provider that the tests drive.

    Terminals that are opened here end with the test.
    """

    def __init__(self, root: Path, provider: Provider, stack: ExitStack) -> None:
        self.home, self.cwd, self.provider = root / "home", root / "shop", provider
        self.cwd.mkdir()
        self.own = self.home / ".treadle"
        self._stack = stack
        self.starts = False
        """Whether a chat is a process of its own, in the session of its terminal."""
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
        words = (
            command_of(_forks(), "treadle", *arguments)
            if fits(environment) and not self.starts
            else [sys.executable, "-m", "treadle", *arguments]
        )
        return self._stack.enter_context(
            Terminal(
                words, {**self.environment, **environment}, self.cwd, columns=columns, rows=rows
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

"""A screen that stands: a real one, whose keys come through a pipe, and of which tests read the
rows that are drawn.
"""

from __future__ import annotations

import io
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from prompt_toolkit.application.current import create_app_session, get_app
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output

from treadle.tui.input import InputLine
from treadle.tui.live import Live
from treadle.tui.region import Region
from treadle.tui.screen import Screen
from treadle.tui.status import Status
from treadle.tui.theme import Theme

THEME = Theme("none", 1, True)
UP, DOWN, ENTER, ESCAPE, PAGE_DOWN, HOME, END = (
    "\x1b[A",
    "\x1b[B",
    "\r",
    "\x1b",
    "\x1b[6~",
    "\x1b[H",
    "\x1b[F",
)

_COMMANDS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Stage:
    def __init__(
        self, screen: Screen, keyboard: PipeInput, size: list[int], out: io.StringIO
    ) -> None:
        self.screen, self._keyboard, self.size, self.out = screen, keyboard, size, out

    def press(self, *keys: str) -> None:
        for key in keys:
            self._keyboard.send_text(key)

    def rows(self) -> list[str]:
        """As they were drawn last, by whoever holds the terminal."""
        cells = get_app().renderer.last_rendered_screen
        if cells is None:
            return []
        return [
            "".join(cells.data_buffer[y][x].char for x in range(self.size[1])).rstrip()
            for y in range(cells.height)
        ]

    @property
    def text(self) -> str:
        return "\n".join(self.rows())

    async def sees(self, what: str | Callable[[str], bool]) -> str:
        """Waits until that stands on the screen."""
        there: Callable[[str], bool] = (
            (lambda text: what in text) if isinstance(what, str) else what
        )
        try:
            with anyio.fail_after(20):
                while not there(self.text):
                    await anyio.sleep(0)
        except TimeoutError:
            raise AssertionError(
                f"{what!r} never stood on the screen, which shows:\n{self.text}"
            ) from None
        return self.text

    async def writes(self, what: str) -> None:
        """Waits until that was written, above the region too; how lines were broken is the same."""
        try:
            with anyio.fail_after(20):
                while " ".join(what.split()) not in self.written:
                    await anyio.sleep(0)
        except TimeoutError:
            raise AssertionError(
                f"{what!r} was never written, but:\n{self.written[-2000:]}"
            ) from None

    @property
    def written(self) -> str:
        """Everything up to now, without what commands the terminal."""
        return " ".join(_COMMANDS.sub("", self.out.getvalue()).split())

    def resize(self, columns: int, rows: int) -> None:
        self.size[:] = [rows, columns]
        get_app()._on_resize()  # pyright: ignore[reportPrivateUsage]  what the signal of a terminal calls


@asynccontextmanager
async def standing(columns: int = 80, rows: int = 24) -> AsyncGenerator[Stage]:
    size, out = [rows, columns], io.StringIO()
    with create_pipe_input() as keyboard:
        output: Output = Vt100_Output(
            out, lambda: Size(rows=size[0], columns=size[1]), term="xterm", enable_cpr=False
        )
        with create_app_session(input=keyboard, output=output):
            live = Live()
            status = Status(theme=THEME, live=lambda: live)
            line = InputLine(THEME, DummyCompleter(), history=None, placeholder="")
            screen = Screen(
                THEME,
                Region(THEME, lambda: live, status),
                line,
                KeyBindings(),
                keyboard=keyboard,
                output=output,
            )
            async with anyio.create_task_group() as group:
                group.start_soon(screen.run)
                await screen.started()
                try:
                    yield Stage(screen, keyboard, size, out)
                finally:
                    await screen.end()


async def answered(stage: Stage, slot: Any, *keys: str) -> Any:
    """What the slot gives once these were pressed, each when the one before has been drawn."""
    got: list[Any] = []

    async def ask() -> None:
        got.append(await stage.screen.ask(slot))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            while not stage.screen.is_asking:
                await anyio.sleep(0)
            stage.press(*keys)
    return got[0]

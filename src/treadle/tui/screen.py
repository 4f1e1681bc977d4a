"""The one writer of the terminal: blocks above, once; the live region below, at most 20 times a
second; keys to whom they belong.

What the region shows is region.py's, what a block looks like blocks.py's. Entry: `Screen`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import (
    ConditionalKeyBindings,
    DynamicKeyBindings,
    KeyBindingsBase,
    merge_key_bindings,
)
from prompt_toolkit.layout import ConditionalContainer, DynamicContainer, HSplit, Layout, Window
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from typing_extensions import override

from treadle._internal.terminal_text import encodable, one_line
from treadle.tui.inline import InlineRenderer, reflows
from treadle.tui.region import Region
from treadle.tui.rows import Rows
from treadle.tui.theme import Theme

if TYPE_CHECKING:
    from prompt_toolkit.input import Input as Keyboard
    from prompt_toolkit.output import Output

    from treadle.tui.blocks import Block
    from treadle.tui.input import InputLine
    from treadle.tui.slot import Slot

T = TypeVar("T")

FRAME_S: Final = 0.05
"""Between two frames that nobody's key asked for."""
SETTLES_S: Final = 0.3
"""That a new size must last before something is drawn into it."""
ESCAPE_S: Final = 0.05
"""How long after an Escape the rest of a key's sequence may come: slow lines need some."""
CHORD_S: Final = 0.15
"""How long after an Escape a key still is the second half of an Alt chord."""
_DEPTHS: Final = {
    1: ColorDepth.DEPTH_1_BIT,
    4: ColorDepth.DEPTH_4_BIT,
    8: ColorDepth.DEPTH_8_BIT,
    24: ColorDepth.DEPTH_24_BIT,
}


class _Spelling(Vt100_Output):
    """Writes only what the terminal can show."""

    spelled_in = ""

    @override
    def write(self, data: str) -> None:
        super().write(encodable(data, self.spelled_in))


def _terminal(theme: Theme) -> Vt100_Output:
    """That never asks where the cursor is: the answer would come among the keys."""
    kind = Vt100_Output if theme.unicode else _Spelling
    given = kind.from_pty(sys.stdout, term=os.environ.get("TERM"), enable_bell=False)
    given.enable_cpr = False
    if isinstance(given, _Spelling):
        given.spelled_in = theme.encoding
    return given


class Screen:
    """Made once; `run` holds the terminal until `close`.

    Everything else is called in its event loop.
    """

    def __init__(
        self,
        theme: Theme,
        region: Region,
        line: InputLine,
        keys: KeyBindingsBase,
        *,
        keyboard: Keyboard | None = None,
        output: Output | None = None,
    ) -> None:
        self.theme, self.region, self.line = theme, region, line
        self._slot: Slot[Any] | None = None
        self._one_slot = anyio.Semaphore(1)
        self.is_lent = False
        """To an editor, or a full-screen view."""
        self._drawing_due = self._is_titled = False
        self._started, self._closed, self._ended = anyio.Event(), anyio.Event(), anyio.Event()
        self._app = self._application(keys, keyboard, output)
        region.size = self._app.output.get_size

    def _application(
        self, keys: KeyBindingsBase, keyboard: Keyboard | None, output: Output | None
    ) -> Application[None]:
        asking = Condition(lambda: self._slot is not None)
        above, below = Rows(lambda: self.region.above), Rows(lambda: self.region.below)
        slot = DynamicContainer(
            lambda: self._slot.container if self._slot is not None else Window(height=0)
        )
        root = HSplit(
            [
                above,
                ConditionalContainer(self.line.container, ~asking),
                ConditionalContainer(slot, asking),
                below,
            ]
        )
        bindings = merge_key_bindings(
            [
                ConditionalKeyBindings(keys, ~asking),
                DynamicKeyBindings(lambda: self._slot.keys if self._slot else None),
            ]
        )
        app: Application[None] = Application(
            layout=Layout(root, focused_element=self.line.window),
            style=Style.from_dict(self.theme.toolkit_styles()),
            key_bindings=bindings,
            input=keyboard,
            output=output or _terminal(self.theme),
            color_depth=_DEPTHS[self.theme.depth],
            full_screen=False,
            mouse_support=False,
            erase_when_done=True,
        )
        app.renderer = self._renderer = InlineRenderer(
            app.renderer.style, app.output, reflows=reflows(os.environ)
        )
        self._renderer.noticed = self._resized
        app._on_resize = self._resized  # pyright: ignore[reportPrivateUsage]  else it erases as many rows as there were before
        app.ttimeoutlen, app.timeoutlen = ESCAPE_S, CHORD_S
        app.before_render += self._compose
        return app

    def _compose(self, app: Application[None]) -> None:
        """What stands around the input, or the question in its place, in the rows that it leaves."""  # noqa: E501
        size = app.output.get_size()
        asked = self.line.container if self._slot is None else self._slot.container
        self.region.compose(asked.preferred_height(size.columns, size.rows).preferred)

    def _resized(self) -> None:
        """Nothing is drawn until the size has stayed the same for a while."""
        loop = self._app.loop
        if not self._renderer.holds and loop is not None:
            self._renderer.holds = True
            loop.call_later(SETTLES_S, self._settled, self._app.output.get_size())

    def _settled(self, size: Size) -> None:
        now = self._app.output.get_size()
        loop = self._app.loop
        if now != size and loop is not None:
            loop.call_later(SETTLES_S, self._settled, now)
        else:
            self._renderer.holds, self._renderer.settled = False, now
            self._open_slot()
            self._app.invalidate()

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        """Holds the terminal until `end`. Raises EOFError where the terminal has gone."""
        try:
            await self._app.run_async(
                pre_run=self._started.set, set_exception_handler=False, handle_sigint=False
            )
        finally:
            self._closed.set()
            self._ended.set()

    async def started(self) -> None:
        await self._started.wait()

    def close(self) -> None:
        """The person leaves: whoever waits for `closed` comes to an end.

        The region stays until `end`. Idempotent.
        """
        self._closed.set()

    async def closed(self) -> None:
        await self._closed.wait()

    async def end(self) -> None:
        """Gives the terminal back: the region goes, what stands above it stays. Raises nothing.

        Idempotent.
        """
        if self._app.is_running:
            if self._is_titled:
                self.title("")
            if not self._app.is_done:
                self._app.exit()
            await self._ended.wait()

    @property
    def columns(self) -> int:
        return self._app.output.get_size().columns

    @property
    def rows(self) -> int:
        return self._app.output.get_size().rows

    # ------------------------------------------------------------ drawing

    def print(self, *blocks: Block) -> None:
        """Writes them above the region, once, with the next frame."""
        if not blocks:  # most deltas finish none
            return
        from treadle.tui.drawing import Drawing  # noqa: PLC0415  it brings Rich, and the first paint needs none

        drawing = Drawing(self.columns, self.theme)
        for block in blocks:
            self.put(("\n" if block.spaced else "") + drawing.ansi(block.draw(drawing)))

    def put(self, text: str) -> None:
        """`text`: whole lines, drawn already."""
        self._renderer.above(text)
        self.refresh()

    def refresh(self) -> None:
        """A frame will be drawn, within 50 ms; a key draws one at once."""
        if not self._drawing_due and self._app.is_running:
            self._drawing_due = True
            loop = self._app.loop
            assert loop is not None, "it runs"
            loop.call_later(FRAME_S, self._draw)

    def _draw(self) -> None:
        self._drawing_due = False
        self._app.invalidate()

    def redraw(self) -> None:
        """The region anew, in an empty window: what stood there is in the scrollback."""
        self._app.renderer.clear()
        self._app.invalidate()

    def title(self, text: str) -> None:
        """Of the terminal's window; empty: as it was."""
        if self.theme.depth > 1 or os.environ.get("TERM", "").startswith(
            ("xterm", "screen", "tmux")
        ):
            self._is_titled = bool(text)
            self._app.output.set_title(one_line(text)) if text else self._app.output.clear_title()
            self._app.output.flush()

    def copy(self, text: str) -> None:
        """To the clipboard of the terminal (OSC 52), over ssh too; tmux passes it on where it is
        allowed to.
        """
        from base64 import b64encode  # noqa: PLC0415  only where somebody copies

        self._app.output.write_raw(f"\x1b]52;c;{b64encode(text.encode()).decode()}\x07")
        self._app.output.flush()

    # ------------------------------------------------------------ questions

    async def ask(self, slot: Slot[T]) -> T:
        """Shows a question in the place of the input and waits for its answer; a second one waits
        until the first is gone.
        """
        async with self._one_slot:
            self._slot = slot
            self._open_slot()
            self._app.layout.focus(slot.focus)
            self._app.invalidate()
            try:
                return await slot.answer()
            finally:
                self._slot = None
                self._app.layout.focus(self.line.window)
                self._app.invalidate()

    def _open_slot(self) -> None:
        if self._slot is not None:
            self._slot.opened(max(self.rows - 4, 1))

    @property
    def is_asking(self) -> bool:
        return self._slot is not None

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[None]:
        """The whole terminal for somebody else: an editor, a full-screen view.

        Blocks wait meanwhile.
        """
        with set_app(self._app):  # which is how prompt_toolkit knows whose terminal it is
            async with in_terminal():
                self.is_lent = True
                try:
                    yield
                finally:
                    self.is_lent = False
                    self._open_slot()  # a question that came meanwhile is seen from now on

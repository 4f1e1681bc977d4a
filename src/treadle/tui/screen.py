"""The only writer to the terminal: blocks are printed above the live region, which is redrawn at
most 20 times a second, and keys are dispatched. Entry points: `Screen`.

The region is composed in region.py, blocks are drawn in blocks.py.
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
"""Interval between frames that no key triggered."""
SETTLES_S: Final = 0.3
"""Seconds for which a new size must be stable before drawing."""
ESCAPE_S: Final = 0.05
"""Seconds to wait after Escape for the rest of a key sequence, for slow connections."""
CHORD_S: Final = 0.15
"""Seconds after Escape in which a key completes an Alt chord."""
_DEPTHS: Final = {
    1: ColorDepth.DEPTH_1_BIT,
    4: ColorDepth.DEPTH_4_BIT,
    8: ColorDepth.DEPTH_8_BIT,
    24: ColorDepth.DEPTH_24_BIT,
}


class _Spelling(Vt100_Output):
    """Output that replaces the characters that the terminal's encoding lacks."""

    spelled_in = ""

    @override
    def write(self, data: str) -> None:
        super().write(encodable(data, self.spelled_in))


def _terminal(theme: Theme) -> Vt100_Output:
    """Return an output that never asks for the cursor position, because the answer would arrive
    among the keys.
    """
    kind = Vt100_Output if theme.unicode else _Spelling
    given = kind.from_pty(sys.stdout, term=os.environ.get("TERM"), enable_bell=False)
    given.enable_cpr = False
    if isinstance(given, _Spelling):
        given.spelled_in = theme.encoding
    return given


class Screen:
    """Screen of a chat, whose `run` holds the terminal until `end`.

    All other methods must be called in its event loop.
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
        """True while an editor or a full-screen view uses the terminal."""
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
        app._on_resize = self._resized  # pyright: ignore[reportPrivateUsage]  the default erases as many rows as before the resize
        app.ttimeoutlen, app.timeoutlen = ESCAPE_S, CHORD_S
        app.before_render += self._compose
        return app

    def _compose(self, app: Application[None]) -> None:
        """Compose the region around the input or the current question."""
        size = app.output.get_size()
        asked = self.line.container if self._slot is None else self._slot.container
        self.region.compose(asked.preferred_height(size.columns, size.rows).preferred)

    def _resized(self) -> None:
        """Pause drawing until the size has been stable for a while."""
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
        """Hold the terminal until `end`. Raises EOFError if the terminal is gone."""
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
        """Request the end of the chat, which wakes the waiters of `closed`.

        The region stays until `end`. Idempotent.
        """
        self._closed.set()

    async def closed(self) -> None:
        await self._closed.wait()

    async def end(self) -> None:
        """Release the terminal: erase the region and keep the text above it. Never raises.

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
        """Print blocks above the region, in the next frame."""
        if not blocks:  # most deltas finish no block
            return
        from treadle.tui.drawing import Drawing  # noqa: PLC0415  brings Rich, which the first paint does not need

        drawing = Drawing(self.columns, self.theme)
        for block in blocks:
            self.put(("\n" if block.spaced else "") + drawing.ansi(block.draw(drawing)))

    def put(self, text: str) -> None:
        """Print complete lines that are already drawn, in the next frame."""
        self._renderer.above(text)
        self.refresh()

    def refresh(self) -> None:
        """Schedule a frame within 50 ms; keys draw immediately."""
        if not self._drawing_due and self._app.is_running:
            self._drawing_due = True
            loop = self._app.loop
            assert loop is not None, "it runs"
            loop.call_later(FRAME_S, self._draw)

    def _draw(self) -> None:
        self._drawing_due = False
        self._app.invalidate()

    def redraw(self) -> None:
        """Redraw the region in a cleared window; earlier output stays in the scrollback."""
        self._app.renderer.clear()
        self._app.invalidate()

    def title(self, text: str) -> None:
        """Set the title of the terminal window, or restore it if empty."""
        if self.theme.depth > 1 or os.environ.get("TERM", "").startswith(
            ("xterm", "screen", "tmux")
        ):
            self._is_titled = bool(text)
            self._app.output.set_title(one_line(text)) if text else self._app.output.clear_title()
            self._app.output.flush()

    def copy(self, text: str) -> None:
        """Copy to the terminal's clipboard (OSC 52), also over ssh; tmux passes it on if
        configured.
        """
        from base64 import b64encode  # noqa: PLC0415  only to copy

        self._app.output.write_raw(f"\x1b]52;c;{b64encode(text.encode()).decode()}\x07")
        self._app.output.flush()

    # ------------------------------------------------------------ questions

    async def ask(self, slot: Slot[T]) -> T:
        """Show a question in place of the input and return the answer. A second question waits for
        the first.
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
        """Lend the terminal to an editor or a full-screen view.

        Blocks printed in the meantime are queued.
        """
        with set_app(self._app):  # tells prompt_toolkit which application owns the terminal
            async with in_terminal():
                self.is_lent = True
                try:
                    yield
                finally:
                    self.is_lent = False
                    self._open_slot()  # a question that arrived in the meantime becomes visible

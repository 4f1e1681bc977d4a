"""Full-screen view of complete output: results, differences and reasoning. Entry points: `view`,
`view_text`.

Rows are computed in pages.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    HSplit,
    Layout,
    UIContent,
    UIControl,
    Window,
)
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.styles import Style
from rich.console import RenderableType
from typing_extensions import override

from treadle._internal.terminal_text import columns, cut, one_line
from treadle.tui.blocks import Block, Drawn
from treadle.tui.pages import Pages, RowPlace
from treadle.tui.screen import ESCAPE_S, Screen
from treadle.tui.slot import Line

KEYS: Final = "q quit   / search   n N next, previous   g G ends"


async def view(screen: Screen, title: str, blocks: Sequence[Block], *, at_end: bool = True) -> None:
    """Show blocks in full screen until the user leaves. The chat waits. `at_end`: start at the last
    block.

    Cancellation restores the terminal.
    """
    async with screen.lent():
        below = get_app()
        await (
            Viewer(screen, title, blocks, at_end=at_end)
            .application(below)
            .run_async(set_exception_handler=False, handle_sigint=False)
        )


async def view_text(screen: Screen, title: str, text: RenderableType) -> None:
    """Show a Rich renderable from its beginning."""
    await view(screen, title, [Drawn(text)], at_end=False)


class Viewer(UIControl):
    """Control for the visible rows and the keys of the view."""

    def __init__(
        self, screen: Screen, title: str, blocks: Sequence[Block], *, at_end: bool
    ) -> None:
        self._theme, self._title = screen.theme, one_line(title)
        self._pages = Pages(screen.theme, blocks, screen.columns)
        self._height = max(screen.rows - 1, 1)
        self._follows = at_end
        """True while the view shows the end, whose position depends on the height."""
        self._top = RowPlace(0, 0)
        self._words, self._note = "", ""
        self._match: RowPlace | None = None
        self._searching = False
        self._buffer = Buffer(multiline=False)
        self._app: Application[None] | None = None

    def application(self, below: Application[None]) -> Application[None]:
        body = Window(self, wrap_lines=False, always_hide_cursor=True)
        field = Window(
            BufferControl(self._buffer),
            height=1,
            get_line_prefix=lambda line, wrapped: [(self._style("prompt"), "/")],
        )
        searching = Condition(lambda: self._searching)
        foot = Window(FormattedTextControl(self._foot), height=1, always_hide_cursor=True)
        root = HSplit(
            [body, ConditionalContainer(field, searching), ConditionalContainer(foot, ~searching)]
        )
        self._layout = Layout(root, focused_element=body)
        self._body, self._field = body, field
        app: Application[None] = Application(
            layout=self._layout,
            key_bindings=self._bindings(searching),
            style=Style.from_dict(self._theme.toolkit_styles()),
            input=below.input,
            output=below.output,
            color_depth=below.color_depth,
            full_screen=True,
            mouse_support=False,
        )
        app.ttimeoutlen = app.timeoutlen = ESCAPE_S
        self._app = app
        return app

    # ------------------------------------------------------------ drawing

    @override
    def is_focusable(self) -> bool:
        return True

    @override
    def create_content(self, width: int, height: int) -> UIContent:
        if width != self._pages.width:
            self._pages.resized(width)
            self._top = self._pages.moved(self._top, 0)
        self._height = max(height, 1)
        end = self._pages.end(self._height)
        self._top = end if self._follows else min(self._top, end)
        shown = [
            self._marked(place, line) for place, line in self._pages.shown(self._top, self._height)
        ]
        return UIContent(get_line=lambda at: shown[at], line_count=len(shown), show_cursor=False)

    def _marked(self, place: RowPlace, line: Line) -> Line:
        """Highlight the row that the last search found."""
        return (
            [(f"{style} {self._style('match')}", text) for style, text, *_ in line]
            if place == self._match
            else line
        )

    def _foot(self) -> Line:
        width = self._pages.width
        where = (
            "end"
            if self._follows or self._top >= self._pages.end(self._height)
            else f"{self._pages.share(self._top):.0%}"
        )
        left = cut(self._note or self._title, max(width - columns(where) - 4, 4))
        room = width - columns(left) - columns(where) - 7
        keys = cut(KEYS, room) if room > 8 else ""
        style = self._style("warning" if self._note else "title")
        return [(style, left), (self._style("dim"), f"  {where}{f'   {keys}' if keys else ''}")]

    def _style(self, name: str) -> str:
        return self._theme.toolkit(name)

    # ------------------------------------------------------------ keys

    def _bindings(self, searching: Condition) -> KeyBindings:
        keys = KeyBindings()

        def bind(names: str, act: Callable[[], None], *, when: Condition) -> None:
            def pressed(_: KeyPressEvent) -> None:
                self._note = ""
                act()

            for name in names.split():
                keys.add(name, filter=when, eager=True)(pressed)

        looking = Condition(lambda: not self._searching)
        for names, by in (
            ("up k", lambda: -1),
            ("down j enter", lambda: 1),
            ("pageup b c-b", lambda: 1 - self._height),
            ("pagedown space c-f", lambda: self._height - 1),
        ):
            bind(names, lambda by=by: self._move(by()), when=looking)
        bind("home g", self._to_start, when=looking)
        bind("end G", self._to_end, when=looking)
        bind("/", self._ask, when=looking)
        bind("n", lambda: self._seek(1), when=looking)
        bind("N", lambda: self._seek(-1), when=looking)
        bind("q escape c-o c-c c-d", self._leave, when=looking)
        bind("enter", self._found, when=searching)
        bind("escape c-c", self._look_on, when=searching)
        return keys

    def _move(self, by: int) -> None:
        top = self._pages.moved(self._top, by)
        self._follows = by > 0 and top >= self._pages.end(self._height)
        self._top = top

    def _to_start(self) -> None:
        self._top, self._follows = RowPlace(0, 0), False

    def _to_end(self) -> None:
        self._follows = True

    def _leave(self) -> None:
        assert self._app is not None, "keys come while it runs"
        self._app.exit()

    # ------------------------------------------------------------ search

    def _ask(self) -> None:
        self._searching = True
        self._buffer.reset()
        self._layout.focus(self._field)

    def _look_on(self) -> None:
        self._searching = False
        self._layout.focus(self._body)

    def _found(self) -> None:
        self._words, self._match = self._buffer.text, None
        self._look_on()
        self._seek(1)

    def _seek(self, step: int) -> None:
        if not self._words:
            return
        start = self._match or self._pages.moved(self._top, 0)._replace(
            row=self._top.row - (step if self._match is None else 0)
        )
        found = self._pages.find(self._words, start, step)
        if found is None:
            self._note = f"{one_line(self._words, 40)!r} was not found"
            return
        self._match, self._follows = found, False
        self._top = self._pages.moved(found, -(self._height // 3))

"""Input of one line, which can be masked, for example for a key. Entry points: `EntrySlot`."""

from __future__ import annotations

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, HSplit, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.processors import PasswordProcessor

from treadle._internal.terminal_text import cut, one_line, plain
from treadle.tui.screen import Screen
from treadle.tui.slot import Line, SlotAnswer


class EntrySlot:
    """Slot with an input line. The answer is the stripped text, or None after Escape."""

    def __init__(self, screen: Screen, title: str, *, masked: bool = False) -> None:
        self._screen, self._title = screen, one_line(title)
        self._answered = SlotAnswer["str | None"]()
        self._rows = 1
        self._buffer = Buffer(multiline=False)
        control = BufferControl(
            self._buffer, input_processors=[PasswordProcessor()] if masked else []
        )
        self.focus = Window(control, height=1, wrap_lines=False, get_line_prefix=self._prompt)
        head = Window(
            FormattedTextControl(self._head),
            height=lambda: int(min(self._rows, get_app().output.get_size().rows - 4) > 1),
            always_hide_cursor=True,
        )
        self.container = HSplit([head, self.focus])
        self.keys = self._bindings()

    def opened(self, rows: int) -> None:
        self._rows = rows

    async def answer(self) -> str | None:
        return await self._answered.wait()

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(_: KeyPressEvent) -> None:
            if text := self._buffer.text.strip():
                self._answered.give(text)

        @keys.add("escape", eager=True)
        @keys.add("c-c", eager=True)
        @keys.add("c-d", eager=True)
        def _(_: KeyPressEvent) -> None:
            self._answered.give(None)

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            self._buffer.insert_text(" ".join(plain(event.data).split()))

        return keys

    def _head(self) -> Line:
        theme = self._screen.theme
        return [
            (
                theme.toolkit("title"),
                cut(f"{self._title}   Enter selects, Esc cancels", self._screen.columns - 1),
            )
        ]

    def _prompt(self, line: int, wrapped: int) -> Line:
        theme = self._screen.theme
        return [(theme.toolkit("prompt"), f"{theme.glyphs.prompt} ")]

"""Yes-or-no questions and the input of one line at the bottom of the screen.

Approvals of tool calls are in approval.py. Entry points: `confirm`, `quoted`,
`EntrySlot`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, HSplit, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.processors import PasswordProcessor

from treadle._internal.terminal_text import cut, one_line, plain, wrapped
from treadle.tui.slot import Line, SlotAnswer
from treadle.tui.theme import Theme

if TYPE_CHECKING:
    from treadle.tui.screen import Screen

DEAF_S: Final = 0.5
"""Seconds after the question appears, and after each key that is no answer, in which keys are
ignored, so that ongoing typing does not answer it.
"""
QUOTE: Final = "  | "
"""Start of each line of a text by someone else."""
_BUTTON_ROWS: Final = 1


def quoted(text: str, most: int) -> list[str]:
    """Return the lines of a text by someone else, wrapped to `most` columns. Each line is marked,
    because otherwise the rest of a long line would look like the chat's own words.
    """
    width = max(most - len(QUOTE), 10)
    return [QUOTE + part for line in text.split("\n") for part in wrapped(line, width) or [""]]


async def confirm(
    screen: Screen,
    question: str,
    *,
    yes: str = "Yes",
    no: str = "No",
    danger: bool = False,
    complete: bool = False,
) -> bool:
    """Ask a question and return the answer; Escape means no. Waits while another question is open.

    With `danger`, it is styled as a warning and Enter alone means no. With `complete`, yes is
    disabled while a part of the question does not fit the screen.
    """
    return await screen.ask(
        Confirm(
            screen.theme,
            question,
            words=(yes, no),
            danger=danger,
            complete=complete,
            columns=lambda: screen.columns,
        )
    )


class Confirm:
    """Slot with a question of one or more lines and two answers."""

    def __init__(
        self,
        theme: Theme,
        question: str,
        *,
        words: tuple[str, str] = ("Yes", "No"),
        danger: bool = False,
        complete: bool = False,
        columns: Callable[[], int] = lambda: 80,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a question. `words`: labels of yes and no."""
        self._theme, self._words, self._danger, self._columns, self._clock = (
            theme,
            words,
            danger,
            columns,
            clock,
        )
        self._question = plain(question)
        self._complete = complete
        self._answered = SlotAnswer[bool]()
        self._chosen = not danger
        self._rows = 4
        self._hears_at = 0.0
        control = FormattedTextControl(self._drawn, focusable=True, show_cursor=False)
        self.container = self.focus = Window(
            control,
            height=lambda: len(self._lines()),
            wrap_lines=False,
            dont_extend_height=True,
            always_hide_cursor=True,
        )
        self.keys = self._bindings()

    def opened(self, rows: int) -> None:
        self._rows, self._hears_at = rows, self._clock() + DEAF_S

    async def answer(self) -> bool:
        return await self._answered.wait()

    # ------------------------------------------------------------ plain terminals

    def spoken(self) -> list[str]:
        """Return the question as plain text for a terminal without drawing; the last line names the
        possible answers.
        """
        return [
            *self._wrapped(),
            f"Type y ({self._words[0]}) or n ({self._words[1]}) and press Enter.",
        ]

    def hears(self, line: str) -> bool:
        """Handle a typed answer. Return True if `line` was one."""
        said = {"y": True, "yes": True, "n": False, "no": False}.get(line.strip().lower())
        if said is not None:
            self._answered.give(said)
        return said is not None

    # ------------------------------------------------------------ keys

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        deaf = Condition(lambda: self._clock() < self._hears_at)

        @keys.add(Keys.Any)
        def _(event: KeyPressEvent) -> None:
            """Ignore a key that is no answer, and the keys that follow it closely: they belong to
            a text that is being typed.
            """
            self._hears_at = self._clock() + DEAF_S

        def bind(name: str, act: Callable[[], None]) -> None:
            def handle(event: KeyPressEvent) -> None:
                act()

            keys.add(name, filter=~deaf)(handle)

        for key in ("escape", "c-c", "c-d"):
            keys.add(key)(self._refuse)
        for letter, said in (("y", True), ("n", False), ("1", True), ("2", False)):
            bind(letter, partial(self._give, said))
        for key in ("left", "right", "up", "down", "tab", "s-tab"):
            bind(key, self._turn)
        bind("enter", lambda: self._give(self._chosen))
        return keys

    def _give(self, said: bool) -> None:
        if not (said and self._is_unseen):  # the last line explains why
            self._answered.give(said)

    def _refuse(self, _: KeyPressEvent) -> None:
        self._answered.give(False)

    def _turn(self) -> None:
        self._chosen = not self._chosen

    # ------------------------------------------------------------ drawing

    def _drawn(self) -> StyleAndTextTuples:
        joined: StyleAndTextTuples = []
        for number, line in enumerate(self._lines()):
            joined += [("", "\n"), *line] if number else line
        return joined

    @property
    def _is_unseen(self) -> bool:
        """True if the complete question must be visible and does not fit."""
        most = max(self._rows - _BUTTON_ROWS, 1)
        return self._complete and len(self._wrapped()) > most

    def _wrapped(self) -> list[str]:
        most = max(self._columns() - 3, 10)
        return [
            part
            for line in self._question.split("\n")
            for part in (
                quoted(line.removeprefix(QUOTE), most)
                if line.startswith(QUOTE)
                else wrapped(line, most)
            )
        ]

    def _lines(self) -> list[Line]:
        """Return the question, shortened to the available rows, and the answers."""
        style, glyphs = (
            self._theme.toolkit("warning" if self._danger else "title"),
            self._theme.glyphs,
        )
        lines = self._wrapped()
        most = max(self._rows - _BUTTON_ROWS, 1)
        if len(lines) > most:
            lines = [
                *lines[: max(most - 2, 0)],
                f"{glyphs.ellipsis} {len(lines) - most + 1} more lines",
                lines[-1],
            ][-most:]
        shown: list[Line] = [
            [(style, f"{f'{glyphs.question} ' if number == 0 else '  '}{line}")]
            for number, line in enumerate(lines)
        ]
        return [*shown, self._buttons()]

    def _buttons(self) -> Line:
        if self._is_unseen:
            text = "  Not all of it fits: enlarge the window to answer yes. Esc: no"
            return [(self._theme.toolkit("warning"), cut(text, max(self._columns() - 1, 10)))]
        line: Line = [("", "  ")]
        for word, letter, is_yes in ((self._words[0], "y", True), (self._words[1], "n", False)):
            chosen = self._chosen is is_yes
            mark = self._theme.glyphs.prompt if chosen else " "
            line.append(
                (self._theme.toolkit("selected" if chosen else "dim"), f"{mark} {word} ({letter})")
            )
            line.append(("", "   "))
        line.append((self._theme.toolkit("dim"), "Esc: no"))
        return line


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

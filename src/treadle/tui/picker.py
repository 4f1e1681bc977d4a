"""Selection from a list that is filtered by typing, with a preview of the current row. Entry
points: `Picker`, `PickerRow`.

Only visible rows are drawn. The lists come from pickers/ and the wizard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import anyio
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, HSplit, UIContent, UIControl, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.processors import ConditionalProcessor, PasswordProcessor
from typing_extensions import override

from treadle._internal.terminal_text import columns, cut, one_line, plain, wrapped
from treadle.tui.matching import Matching
from treadle.tui.screen import Screen
from treadle.tui.slot import Line, SlotAnswer

T = TypeVar("T")

ROWS_MAX: Final = 20
"""Maximum height in rows, whatever the height of the terminal."""
WIDE: Final = 100
"""Minimum width for a preview next to the list."""
UNDER_ROWS: Final = 9
"""Height from which the preview is below the list."""
PREVIEW_LINES: Final = 200
TEXT_CHARS: Final = 1_000


@dataclass(frozen=True)
class PickerRow(Generic[T]):
    """Row that can be selected."""

    label: str
    value: T
    detail: str = ""
    """Dim text after the label."""
    preview: str = ""
    """Preview of the row, if it is known in advance; otherwise the picker's `preview` provides
    it.
    """


@dataclass(frozen=True)
class SecretText(Generic[T]):
    """Text that is masked and not used as a search, unless a row contains it."""

    hides: Callable[[str], bool]
    takes: Callable[[str], PickerRow[T]] | None = None
    """Function that builds the only row for such a text; None means that there is none."""


class Picker(Generic[T]):
    """Slot with a list. The answer is the value of a row, or None after Escape."""

    def __init__(
        self,
        screen: Screen,
        title: str,
        rows: Iterable[PickerRow[T]],
        *,
        preview: Callable[[T], Awaitable[str]] | None = None,
        search: Callable[[str], Awaitable[Sequence[PickerRow[T]]]] | None = None,
        empty: str = "Nothing there.",
        secret: SecretText[T] | None = None,
    ) -> None:
        """Create a list. `preview`: loads the text for the current row, one at a time. `search`:
        adds rows for the typed text after the matching ones.

        `empty`: text if there are no rows. `secret`: text to mask, such as a key.
        """
        self._screen, self._theme, self._title, self._empty = (
            screen,
            screen.theme,
            one_line(title),
            one_line(empty),
        )
        self._preview, self._search = preview, search
        self._secret = secret
        self._rows: list[PickerRow[T]] = []
        self._matching = Matching()
        self._more: tuple[str, list[PickerRow[T]]] = ("", [])
        """Last search text and its results."""
        self._shown: list[PickerRow[T]] = []
        self._at = self._top = 0
        self._looks: dict[int, tuple[PickerRow[T], str]] = {}
        """Previews by the identity of their row, with the row, which must stay alive."""
        self._changed = anyio.Event()
        self._answered = SlotAnswer["T | None"]()
        self._given_rows = 1
        self._buffer = Buffer(multiline=False, on_text_changed=self._typed)
        self._list = _List(self._body)
        self.focus = self._entry_field()
        head = Window(
            FormattedTextControl(self._head),
            height=lambda: int(self._rows_now() > 2),
            always_hide_cursor=True,
        )
        self.container = HSplit(
            [head, self.focus, Window(self._list, height=self._body_rows, always_hide_cursor=True)]
        )
        self.keys = self._bindings()
        self.add(rows)

    def add(self, rows: Iterable[PickerRow[T]]) -> None:
        """Add rows, even while the list is open; the cursor stays where it is."""
        new = [*rows]
        self._rows += new
        self._matching.add((row.label, row.detail) for row in new)
        self._match()
        self._screen.refresh()

    # ------------------------------------------------------------ a slot

    def opened(self, rows: int) -> None:
        self._given_rows = max(rows, 1)

    async def answer(self) -> T | None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._look_up)
            await self._answered.wait()
            group.cancel_scope.cancel()
        return await self._answered.wait()

    async def _look_up(self) -> None:
        """Load the preview and the search results for the current state, one at a time."""
        while True:
            changed = self._changed = anyio.Event()
            words = self._buffer.text.strip()
            row = self._current()
            if self._is_hidden():
                await changed.wait()
            elif self._search is not None and self._more[0] != words:
                self._more = (words, [*await self._search(words)] if words else [])
                self._match()
            elif (
                self._preview is not None
                and row is not None
                and not row.preview
                and id(row) not in self._looks
            ):
                self._looks[id(row)] = (row, await self._preview(row.value))
            else:
                await changed.wait()
            self._screen.refresh()

    # ------------------------------------------------------------ rows

    def _typed(self, _: Buffer) -> None:
        self._at = self._top = 0
        self._match()

    def _is_hidden(self) -> bool:
        words = self._buffer.text.strip()
        return (
            self._secret is not None
            and self._secret.hides(words)
            and not any(words in row.label for row in self._rows)
        )

    def _match(self) -> None:
        if self._is_hidden():
            takes = None if self._secret is None else self._secret.takes
            self._shown = [] if takes is None else [takes(self._buffer.text.strip())]
            self._move(0)
            return
        found, near = (
            [self._rows[at] for at in places] for places in self._matching.find(self._buffer.text)
        )
        if self._more[0] and self._more[0] == self._buffer.text.strip():
            there = [row.value for row in found]
            found += [row for row in self._more[1] if row.value not in there]
        there = [row.value for row in found] if self._more[1] else []
        self._shown = [*found, *(row for row in near if row.value not in there)]
        self._move(0)

    def _current(self) -> PickerRow[T] | None:
        return self._shown[self._at] if self._shown else None

    def _move(self, by: int) -> None:
        self._at = min(max(self._at + by, 0), max(len(self._shown) - 1, 0))
        self._changed.set()

    def _entry_field(self) -> Window:
        stars = ConditionalProcessor(PasswordProcessor(), Condition(self._is_hidden))
        return Window(
            BufferControl(self._buffer, input_processors=[stars]),
            height=1,
            get_line_prefix=self._prompt,
            wrap_lines=False,
        )

    # ------------------------------------------------------------ keys

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()

        def moves(by: Callable[[], int]) -> Callable[[KeyPressEvent], None]:
            return lambda _: self._move(by())

        page, end = lambda: max(self._list.height - 1, 1), lambda: len(self._shown)
        for names, by in (
            (("up", "c-p"), lambda: -1),
            (("down", "c-n"), lambda: 1),
            (("pageup",), lambda: -page()),
            (("pagedown",), page),
            (("home",), lambda: -end()),
            (("end",), end),
        ):
            for name in names:
                keys.add(name)(moves(by))
        for name in ("escape", "c-c", "c-d"):
            keys.add(name, eager=True)(self._leave)
        keys.add("enter")(self._take)

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            self._buffer.insert_text(one_line(event.data))

        return keys

    def _leave(self, _: KeyPressEvent) -> None:
        self._answered.give(None)

    def _take(self, _: KeyPressEvent) -> None:
        if (row := self._current()) is not None:
            self._answered.give(row.value)

    # ------------------------------------------------------------ drawing

    def _rows_now(self) -> int:
        """Return the height available now; the terminal may have shrunk since the start."""
        return max(min(self._given_rows, ROWS_MAX, get_app().output.get_size().rows - 4), 1)

    def _body_rows(self) -> int:
        """Return the height of list and preview."""
        room = self._rows_now() - (1 if self._rows_now() <= 2 else 2)
        asked = (
            len(self._shown)
            if self._preview is None and not any(row.preview for row in self._shown[:1])
            else ROWS_MAX
        )
        return min(room, max(asked, 1))

    def _head(self) -> Line:
        width = self._screen.columns
        count = f"  {self._at + 1} of {len(self._shown):,}" if len(self._shown) > 1 else ""
        title = cut(self._title, max(width - columns(count) - 1, 4))
        left = width - columns(title) - columns(count) - 4
        return [
            (self._style("title"), title),
            (
                self._style("dim"),
                count + (f"   {cut('Enter selects, Esc cancels', left)}" if left > 12 else ""),
            ),
        ]

    def _prompt(self, line: int, wrapped_: int) -> Line:
        return [(self._style("prompt"), f"{self._theme.glyphs.prompt} ")]

    def _body(self, width: int, height: int) -> list[Line]:
        row = self._current()
        look = "" if row is None else row.preview or self._looks.get(id(row), (row, ""))[1]
        wide = width >= WIDE and (self._preview is not None or bool(look))
        if wide:
            left = width * 2 // 5
            return self._beside(
                self._listed(left, height), self._look(look, width - left - 3, height), left
            )
        if not look or height < UNDER_ROWS:
            return self._listed(width, height)
        listed = self._listed(width, max(height - height // 2, min(len(self._shown), height - 4)))
        rule: Line = [(self._style("mark"), self._theme.glyphs.rule * (width - 1))]
        return [*listed, rule, *self._look(look, width, height - len(listed) - 1)]

    def _listed(self, width: int, height: int) -> list[Line]:
        if not self._shown:
            return [
                [
                    (
                        self._style("dim"),
                        cut(
                            f"  {self._nothing()}",
                            width,
                        ),
                    )
                ]
            ]
        self._top = max(min(self._top, self._at), self._at - height + 1, 0)
        return [
            self._row(self._shown[at], width, at == self._at)
            for at in range(self._top, min(self._top + height, len(self._shown)))
        ]

    def _nothing(self) -> str:
        if self._is_hidden():
            return (
                "This looks like a key, so it is not shown. It is not an answer to this question."
            )
        return "No matches." if self._buffer.text else self._empty

    def _row(self, row: PickerRow[T], width: int, is_current: bool) -> Line:
        mark = f"{self._theme.glyphs.prompt} " if is_current else "  "
        detail = one_line(row.detail, TEXT_CHARS)
        room = max(width - 1 - columns(mark), 1)
        label = cut(
            one_line(row.label, TEXT_CHARS),
            max(room - min(columns(detail) + 2, room // 2) if detail else room, 1),
        )
        left = room - columns(label) - 2
        style = self._style("selected") if is_current else ""
        return [
            (style, mark + label),
            (self._style("dim"), f"  {cut(detail, left)}" if detail and left > 3 else ""),
        ]

    def _look(self, text: str, width: int, height: int) -> list[Line]:
        lines = [
            line
            for each in plain(text).splitlines()[:PREVIEW_LINES]
            for line in wrapped(each[:TEXT_CHARS], max(width - 1, 1)) or [""]
        ]
        return [[(self._style("dim"), line)] for line in lines[: max(height, 0)]]

    def _beside(self, listed: list[Line], look: list[Line], width: int) -> list[Line]:
        bar = (self._style("mark"), f" {self._theme.glyphs.bar} ")
        lines: list[Line] = []
        for at in range(max(len(listed), len(look))):
            line = listed[at] if at < len(listed) else []
            used = sum(columns(piece[1]) for piece in line)
            lines.append(
                [
                    *line,
                    ("", " " * max(width - used, 0)),
                    bar,
                    *(look[at] if at < len(look) else []),
                ]
            )
        return lines

    def _style(self, name: str) -> str:
        return self._theme.toolkit(name)


class _List(UIControl):
    """Control that draws lines for the width and height given at drawing time."""

    def __init__(self, draw: Callable[[int, int], list[Line]]) -> None:
        self._draw = draw
        self.height = ROWS_MAX

    @override
    def create_content(self, width: int, height: int) -> UIContent:
        self.height = height
        lines = self._draw(width, height)
        return UIContent(get_line=lambda at: lines[at], line_count=len(lines), show_cursor=False)

"""Content of an approval prompt: the preview of a call, shortened to the rows, and the choices.

Entry points: `PreviewLines`, `choices_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from treadle._internal.terminal_text import revealed_line, wrapped
from treadle._internal.units import count
from treadle.tools.approval import ApprovalRequest
from treadle.tui import differences
from treadle.tui.drawing import Drawing
from treadle.tui.preview import FileDifference, Patch, Preview, TextPreview
from treadle.tui.slot import Line
from treadle.tui.theme import Theme

Scope: TypeAlias = Literal["once", "edits", "session", "always", "no"]


@dataclass(frozen=True, slots=True)
class Choice:
    key: str
    """Key of the choice, which does not depend on the other choices."""
    words: str
    scope: Scope
    pattern: str = ""
    """Rule that the choice grants, as text."""
    asks_why: bool = False


NO: Final = Choice("n", "No", "no")


def choices_of(request: ApprovalRequest) -> list[Choice]:
    wider: list[Choice] = []
    if request.is_edit:
        wider.append(Choice("e", "Yes, and accept edits from now on (Shift-Tab)", "edits"))
    if request.pattern:
        words = ", ".join(map(revealed_line, request.pattern))
        wider += [
            Choice("s", "Yes, and for this session:", "session", words),
            Choice("a", "Yes, and always:", "always", words),
        ]
    return [
        Choice("y", "Yes, this once", "once"),
        *wider,
        NO,
        Choice("w", "No, and say why", "no", asks_why=True),
    ]


PATH_LINES: Final = 3


class PreviewLines:
    def __init__(self, preview: Preview, theme: Theme) -> None:
        self._preview, self._theme = preview, theme
        self._laid: tuple[int, list[Line], list[Line]] = (0, [], [])
        """Width, with the lines of the path and of the rest for that width."""

    @property
    def is_cut(self) -> bool:
        """True if even the full view does not show the complete call."""
        return isinstance(self._preview, TextPreview) and self._preview.left_out > 0

    def shown(self, width: int, most: int) -> tuple[list[Line], int]:
        """Return at most `most` lines of the preview, and the number of hidden lines."""
        if self._laid[0] != width:
            self._laid = (width, *self._lay_out(width - 2))
        path, rest = self._laid[1:]
        paths, hidden = self._ends(path, min(most, PATH_LINES))
        shown, more = self._ends(rest, most - len(paths))
        return [*paths, *shown], hidden + more

    def _lay_out(self, width: int) -> tuple[list[Line], list[Line]]:
        """Return the lines of the path and those of the rest, with long lines wrapped."""
        if isinstance(self._preview, Patch):
            return [], [line for file in self._preview.files for line in self._file(file, width)]
        if isinstance(self._preview, TextPreview):
            return [], self._words(
                wrapped(self._preview.text, width) or [""],
                "tool.target" if self._preview.is_command else "tool.body",
            )
        path, *rest = self._file(self._preview, width)
        paths = len(wrapped(self._preview.path, width))
        return [path, *rest[: paths - 1]], rest[paths - 1 :]

    def _file(self, file: FileDifference, width: int) -> list[Line]:
        """Return the lines of a file: its path and its differences."""
        drawing = Drawing(width, self._theme)
        drawn = drawing.lines(
            differences.drawn(file.path, file.before, file.after, drawing, whole=True)
        )
        return [
            *self._words(wrapped(f"{file.path}{file.note}", width), "tool.target"),
            *([("", "  "), *line] for line in drawn),
        ]

    def _words(self, lines: Sequence[str], style: str) -> list[Line]:
        return [[(self._theme.toolkit(style), f"  {line}")] for line in lines]

    def _ends(self, lines: Sequence[Line], most: int) -> tuple[list[Line], int]:
        """Return all lines if they fit; otherwise the first and the last of them, around a warning
        with the number of hidden lines. Also return that number.
        """
        if len(lines) <= most:
            return [*lines], 0
        if most < 2:
            return [*lines[: max(most, 0)]], len(lines) - max(most, 0)
        last = (most - 1) // 2
        missing = len(lines) - (most - 1)
        words = f"  {self._theme.glyphs.ellipsis} {count(missing, 'more line')}: d shows all"
        mark: Line = [(self._theme.toolkit("warning"), words)]
        return [*lines[: most - 1 - last], mark, *lines[len(lines) - last :]], missing

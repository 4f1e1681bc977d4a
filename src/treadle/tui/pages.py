"""Rows of a full-screen view of blocks, laid out lazily, long blocks in pieces. Entry points:
`Pages`.

Keys and the terminal are handled in viewer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from treadle._internal.terminal_text import plain
from treadle.tui.blocks import AnswerBlock, Block, CallBlock, NoticeBlock, PromptBlock, Thought
from treadle.tui.drawing import Drawing
from treadle.tui.slot import Line
from treadle.tui.theme import Theme

LONG_LINES: Final = 400
"""Maximum lines of a text laid out by Rich; a longer one is laid out as plain pieces."""
PIECE_LINES: Final = 200
LINE_CHARS: Final = 10_000
_MARKS: Final = str.maketrans("", "", "*_`~")
"""Markdown markers that a search ignores."""


class RowPlace(NamedTuple):
    """Position of a row: the piece and the row within it."""

    piece: int
    row: int


@dataclass(slots=True)
class _Piece:
    rows: Callable[[Drawing], list[Line]]
    text: Callable[[], str]
    """Text to search before the layout; empty if unknown."""
    kept: list[Line] | None = field(default=None)


class Pages:
    """Rows of all blocks for one width, which `resized` changes."""

    def __init__(self, theme: Theme, blocks: Sequence[Block], width: int) -> None:
        self._theme, self._blocks = theme, blocks
        self._drawing = Drawing(width, theme)
        self._pieces = [
            piece
            for at, block in enumerate(blocks)
            for piece in _pieces(block, spaced=block.spaced and at > 0)
        ]

    def resized(self, width: int) -> None:
        self._drawing = Drawing(width, self._theme)
        for piece in self._pieces:
            piece.kept = None

    @property
    def width(self) -> int:
        return self._drawing.width

    def rows_of(self, piece: int) -> list[Line]:
        found = self._pieces[piece]
        if found.kept is None:
            found.kept = found.rows(self._drawing)
        return found.kept

    # ------------------------------------------------------------ positions

    def shown(self, top: RowPlace, height: int) -> list[tuple[RowPlace, Line]]:
        """Return at most `height` rows from `top` on."""
        found: list[tuple[RowPlace, Line]] = []
        for piece in range(top.piece, len(self._pieces)):
            rows = self.rows_of(piece)
            first = top.row if piece == top.piece else 0
            found += [
                (RowPlace(piece, row), rows[row])
                for row in range(first, min(len(rows), first + height - len(found)))
            ]
            if len(found) >= height:
                break
        return found

    def moved(self, place: RowPlace, by: int) -> RowPlace:
        """Move a position by a number of rows, within the ends."""
        piece, row = place
        if not self._pieces:
            return RowPlace(0, 0)
        piece = min(piece, len(self._pieces) - 1)
        row = min(row, len(self.rows_of(piece))) + by
        while row < 0 and piece > 0:
            piece -= 1
            row += len(self.rows_of(piece))
        while row >= len(self.rows_of(piece)) and piece + 1 < len(self._pieces):
            row -= len(self.rows_of(piece))
            piece += 1
        return RowPlace(piece, min(max(row, 0), max(len(self.rows_of(piece)) - 1, 0)))

    def end(self, height: int) -> RowPlace:
        """Return the top position at which the last row is at the bottom of the screen."""
        if not self._pieces:
            return RowPlace(0, 0)
        last = len(self._pieces) - 1
        return self.moved(RowPlace(last, max(len(self.rows_of(last)) - 1, 0)), 1 - height)

    def share(self, place: RowPlace) -> float:
        """Return the approximate share of the content that is above a position."""
        return place.piece / len(self._pieces) if self._pieces else 0.0

    # ------------------------------------------------------------ searching

    def find(self, words: str, start: RowPlace, step: int) -> RowPlace | None:
        """Return the next row that contains `words`, in either direction, wrapping around. Case is
        ignored if `words` are lower case.
        """
        folded = str.casefold if words == words.casefold() else str
        wanted, number = folded(words), len(self._pieces)
        for distance in range(number + 1 if number else 0):
            at = (start.piece + step * distance) % number
            text = self._pieces[at].text()
            if text and wanted not in folded(" ".join(text.split())) and wanted not in folded(text):
                continue
            rows = _holding(
                wanted, [folded("".join(piece[1] for piece in line)) for line in self.rows_of(at)]
            )
            if distance == 0:
                rows = [row for row in rows if (row - start.row) * step > 0]
            if rows:
                return RowPlace(at, rows[0] if step > 0 else rows[-1])
        return None


def _holding(wanted: str, rows: list[str]) -> list[int]:
    """Return the rows in which a match begins; it may continue in the next row."""
    after = [*(row.strip() for row in rows[1:]), ""]
    return [
        at
        for at, row in enumerate(rows)
        if wanted in row or (wanted not in after[at] and wanted in f"{row.rstrip()} {after[at]}")
    ]


def _pieces(block: Block, *, spaced: bool) -> Iterator[_Piece]:
    source = _source(block)
    if source.count("\n") <= LONG_LINES:
        yield _Piece(
            lambda drawing: _drawn(block, drawing, spaced=spaced), lambda: _searched(block, source)
        )
        return
    head = _head(block)
    if head is not None:
        yield _Piece(lambda drawing: _drawn(head, drawing, spaced=spaced), lambda: "")
    lines = source.splitlines()
    for first in range(0, len(lines), PIECE_LINES):
        yield _long(lines, first, block)


def _drawn(block: Block, drawing: Drawing, *, spaced: bool) -> list[Line]:
    above: list[Line] = [[]] if spaced else []
    return above + [[*line] for line in drawing.lines(block.draw(drawing, full=True))]


def _long(lines: list[str], first: int, block: Block) -> _Piece:
    """Return a piece with some lines of a long text."""
    some = slice(first, first + PIECE_LINES)

    def rows(drawing: Drawing) -> list[Line]:
        bar, style = f"  {drawing.theme.glyphs.bar} ", drawing.theme.toolkit(_style(block))
        room = max(drawing.width - len(bar), 1)
        texts = (plain(line.expandtabs(4))[:LINE_CHARS] for line in lines[some])
        return [[(style, f"{bar}{each}")] for text in texts for each in _folded(text, room)]

    return _Piece(rows, lambda: "\n".join(lines[some]))


def _folded(text: str, room: int) -> Iterator[str]:
    """Fold output at the exact width and keep its blanks."""
    if text.isascii():
        yield from (text[at : at + room] for at in range(0, max(len(text), 1), room))
        return
    from rich.cells import chop_cells  # noqa: PLC0415  only where a character may be wider than a column

    yield from chop_cells(text, room) or [""]


def _source(block: Block) -> str:
    match block:
        case PromptBlock() | Thought() | NoticeBlock():
            return block.text
        case CallBlock():
            return block.result
        case AnswerBlock():
            return block.source
        case _:
            return ""


def _searched(block: Block, source: str) -> str:
    match block:
        case CallBlock():
            return f"{block.call.done} {block.call.target}\n{source}"
        case AnswerBlock():  # as written, and roughly as drawn
            return f"{source}\n{source.translate(_MARKS)}"
        case _:
            return source


def _head(block: Block) -> Block | None:
    match block:
        case CallBlock():
            return replace(block, result="")
        case Thought():
            return replace(block, text="")
        case _:
            return None


def _style(block: Block) -> str:
    match block:
        case PromptBlock():
            return "user"
        case AnswerBlock():
            return "assistant"
        case Thought():
            return "reasoning"
        case NoticeBlock():
            return block.style
        case _:
            return "tool.body"

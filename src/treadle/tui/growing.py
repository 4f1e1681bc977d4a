"""Incremental splitter for streaming Markdown that emits finished blocks, so that only the last one
is redrawn. Entry points: `Growing`, `SourcePiece`.

The pieces depend on the text alone, not on its division into deltas, and each is emitted exactly
once. Blocks that grow without bound are emitted in parts: lines of code, list items, table rows,
sentences of a long paragraph. At most a tail of `TAIL_LINES` is parsed again. Rendering is in
markdown.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from treadle.tui.containers import (
    OpenedContext,
    Within,
    closes,
    first_line,
    insides,
    is_blank,
    is_closed,
    stripped,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

CODE_LINES: Final = 8
"""Maximum lines of an open code block that are held back."""
TAIL_LINES: Final = 40
"""Maximum lines of any other block that are held back."""
TAIL_CHARS: Final = 3_000
LINE_CHARS: Final = 1_500
"""Length at which a line is cut, at the end of a sentence if possible."""
DEPTH_MAX: Final = 20
"""Maximum nesting of lists and quotes, as in markdown-it. Deeper levels are text."""
RULES_OFF: Final = ("reference", "html_block")
"""Disabled rules. Link definitions are drawn in place, because links in other blocks would not find
them.
"""

_SENTENCE = re.compile("[.!?\u2026:]['\")\\]*_]* |[\u3002\uff01\uff1f]")


class SourcePiece(str):
    """Source of a finished block or of a part of one.

    Joined in order, all pieces give the complete text.
    """

    within: Within

    def __new__(cls, source: str, within: Within) -> SourcePiece:
        piece = super().__new__(cls, source)
        piece.within = within
        return piece


class Growing:
    """Splitter that receives deltas and returns finished pieces.

    The cost of a delta does not depend on what was already emitted.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        """Complete lines with line ends that are not emitted yet."""
        self._part = ""
        """Last line so far, which is incomplete."""
        self._within = Within()
        """Context at the start of `_lines`."""
        self._numbers: tuple[int | None, ...] = ()
        """Number of the next list item in each container."""
        self._fence = ""
        """Opening line of the code block that contains the next line."""
        self._shown = False
        self._after_blank = False

    @property
    def tail(self) -> SourcePiece:
        """Source that has not been emitted yet."""
        source = "".join([*self._lines, self._part])
        gap = self._has_gap(source)
        return SourcePiece(
            source, self._within if gap == self._within.gap else replace(self._within, gap=gap)
        )

    def feed(self, text: str) -> list[SourcePiece]:
        """Add a delta and return the pieces that are now finished, in order."""
        return list(self._fed(self._part + text))

    def finish(self) -> list[SourcePiece]:
        """Return the remaining pieces at the end of the text."""
        last, self._part = self._part, ""
        pieces = list(self._line(last)) if last else []
        return [*pieces, *self._give(len(self._lines))]

    # ------------------------------------------------------------ lines

    def _fed(self, text: str) -> Iterator[SourcePiece]:
        at = 0
        while True:
            end = text.find("\n", at, at + LINE_CHARS)
            if end >= 0:
                yield from self._line(text[at : end + 1])
                at = end + 1
            elif len(text) - at >= LINE_CHARS:
                cut = at + _sentence(text[at : at + LINE_CHARS], code=bool(self._fence))
                yield from self._line(text[at:cut])
                yield from self._force()
                self._within = replace(self._within, midline=True)
                at = cut
            else:
                self._part = text[at:]
                return

    def _line(self, line: str) -> Iterator[SourcePiece]:
        open_now = self._within.containers
        inside, deep = (
            (line, len(open_now))
            if self._within.midline and not self._lines
            else stripped(line, open_now)
        )
        if deep < len(open_now):
            yield from self._give(len(self._lines))
            self._within = Within(containers=open_now[:deep], number=self._numbers[deep])
            self._numbers, self._fence = self._numbers[:deep], ""
        self._lines.append(line)
        if self._fence:
            yield from self._code_line(inside)
        else:
            yield from self._settled()
        if sum(map(len, self._lines)) >= TAIL_CHARS or len(self._lines) >= TAIL_LINES:
            yield from self._force()

    def _code_line(self, line: str) -> Iterator[SourcePiece]:
        if closes(line, self._fence):
            self._fence = ""
            yield from self._give(len(self._lines))
        elif len(self._lines) >= CODE_LINES:
            yield from self._force()

    # ------------------------------------------------------------ blocks

    def _settled(self) -> Iterator[SourcePiece]:
        """Emit the blocks that the next line can no longer change."""
        lines = insides(self._lines, self._within)
        before = len(lines) - len(self._lines)
        tokens = _parser().parse("".join(lines))
        begins = [
            max(token.map[0] - before, 0) for token in tokens if token.level == 0 and token.map
        ]
        if not begins:
            return
        last = next(token for token in reversed(tokens) if token.level == 0 and token.map)
        number = self._within.number
        for begin, end in pairwise(begins):
            number = None
            yield from self._give(end - begin if begin else end)
        if _is_complete(last, lines):
            yield from self._give(len(self._lines))
        elif last.type == "fence":
            self._fence = lines[first_line(last)]
        elif last.type.endswith("list_open"):
            yield from self._items(
                last, tokens, before + (begins[-1] if len(begins) > 1 else 0), number
            )
        if (
            len(self._lines) >= CODE_LINES
            and not self._fence
            and OpenedContext(tokens, lines).fence
        ):
            yield from self._force()

    def _items(
        self, listing: Token, tokens: Sequence[Token], given: int, number: int | None
    ) -> Iterator[SourcePiece]:
        """Emit all items of a list but the last."""
        if listing.type == "ordered_list_open" and number is None:
            number = int(listing.attrs.get("start", 1))
        items = [
            first_line(token)
            for token in tokens[tokens.index(listing) :]
            if token.type == "list_item_open" and token.level == 1
        ]
        for n, begin in enumerate(items[1:], 1):
            yield from self._give(begin - given)
            given = begin
            self._within = replace(self._within, number=None if number is None else number + n)

    def _force(self) -> Iterator[SourcePiece]:
        """Emit everything held back and record the open context."""
        if not self._lines:
            return
        if self._fence:
            yield from self._give(len(self._lines))
            self._within = replace(self._within, fence=self._fence)
            return
        lines = insides(self._lines, self._within)
        opened = OpenedContext(_parser().parse("".join(lines)), lines, self._within.number)
        yield from self._give(len(self._lines))
        self._fence = opened.fence
        self._numbers = (*self._numbers, *opened.numbers)[:DEPTH_MAX]
        self._within = Within(
            containers=(*self._within.containers, *opened.containers)[:DEPTH_MAX],
            fence=opened.fence,
            table=opened.table,
        )

    # ------------------------------------------------------------ emitting

    def _give(self, lines: int) -> Iterator[SourcePiece]:
        """Emit the first `lines` lines, if any."""
        if not lines:
            return
        given, self._lines = self._lines[:lines], self._lines[lines:]
        source = "".join(given)
        piece = SourcePiece(source, replace(self._within, gap=self._has_gap(source)))
        self._within = Within(containers=self._within.containers)
        self._shown = self._shown or bool(source.strip())
        self._after_blank = is_blank(given[-1])
        yield piece

    def _has_gap(self, source: str) -> bool:
        within = self._within
        return (
            self._shown
            and not within.fence
            and not within.midline
            and (self._after_blank or is_blank(source.partition("\n")[0]))
        )


def _is_complete(block: Token, lines: Sequence[str]) -> bool:
    if block.type in ("heading_open", "hr"):
        return True
    if block.type == "fence":
        return is_closed(block, lines)
    return (
        block.type in ("paragraph_open", "table_open", "blockquote_open") and not lines[-1].strip()
    )


def _sentence(text: str, *, code: bool) -> int:
    """Return the position at which to cut a line: after a sentence in its second half where no code
    or bold is open, else after a word.
    """
    half = len(text) // 2
    ends = [] if code else [found.end() for found in _SENTENCE.finditer(text, half)]
    closed = [
        end
        for end in ends
        if text.count("`", 0, end) % 2 == 0 and text.count("**", 0, end) % 2 == 0
    ]
    return (closed or ends or [0])[-1] or text.rfind(" ", half) + 1 or len(text)


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    """Return a parser for blocks only."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  not needed before the first answer

    return MarkdownIt("commonmark", {"html": False}).enable("table").disable([*RULES_OFF, "inline"])

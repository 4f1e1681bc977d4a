"""Markdown that is still being written, given away block by block, so that only the last one has to
be drawn anew.

What is finished depends on the text alone, never on how it was cut into deltas, and is given away
exactly once. What would grow without a bound is given away in pieces: lines of code, items of a
list, rows of a table, sentences of a long paragraph. Whatever is looked at again is at most a tail
of `TAIL_LINES`. Not here: how it looks (markdown.py). Entry: `Growing`, `SourcePiece`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

CODE_LINES: Final = 8
"""Of an open code block, that are not given away yet."""
TAIL_LINES: Final = 40
"""Of anything else."""
TAIL_CHARS: Final = 3_000
LINE_CHARS: Final = 1_500
"""That are waited for before a line is cut: at a sentence, if it has one."""
DEPTH_MAX: Final = 20
"""Lists and quotes in one another, as in markdown-it. What is deeper counts as text."""
BLANKS: Final = " \t\r\n>"
"""What a line is made of that says nothing, in a quote too."""
RULES_OFF: Final = ("reference", "html_block")
"""A definition is drawn where it stands: links to it from other blocks would not find it."""

_ITEM = re.compile(r" *(?:[-*+]|\d{1,9}[.)])(?: {1,4}(?! )| (?= )|$)")
_QUOTE = re.compile(r" {0,3}> ?")
_SENTENCE = re.compile("[.!?\u2026:]['\")\\]*_]* |[\u3002\uff01\uff1f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """What was open already where a piece begins."""

    containers: tuple[int, ...] = ()
    """From the outside in: the columns by which an item of a list is indented; 0 for a quote."""
    gap: bool = False
    """An empty line stands above it."""
    midline: bool = False
    """It goes on with a line that was cut."""
    number: int | None = None
    """Of the ordered item it begins with, whatever that calls itself."""
    fence: str = ""
    """The line that opened the code it goes on with."""
    table: str = ""
    """The two lines at the head of the table it goes on with."""


class SourcePiece(str):
    """The source of a finished block, or of a part of one.

    As a text it is just that: all pieces joined are the whole.
    """

    within: Within

    def __new__(cls, source: str, within: Within) -> SourcePiece:
        piece = super().__new__(cls, source)
        piece.within = within
        return piece


class Growing:
    """Fed with deltas; gives finished pieces.

    The cost of a delta does not depend on what was given away.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        """Whole ones, each with its line end, that are not given away."""
        self._part = ""
        """The last one, which has no end yet."""
        self._within = Within()
        """Where `_lines` begin."""
        self._numbers: tuple[int | None, ...] = ()
        """For each container: what the next item of its list is called."""
        self._fence = ""
        """The line that opened the code that the next line belongs to."""
        self._shown = False
        self._after_blank = False

    @property
    def tail(self) -> SourcePiece:
        """What is not given away yet."""
        source = "".join([*self._lines, self._part])
        gap = self._has_gap(source)
        return SourcePiece(
            source, self._within if gap == self._within.gap else replace(self._within, gap=gap)
        )

    def feed(self, text: str) -> list[SourcePiece]:
        """What is finished now, in order."""
        return list(self._fed(self._part + text))

    def finish(self) -> list[SourcePiece]:
        """All the rest: nothing more will come."""
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
        if _closes(line, self._fence):
            self._fence = ""
            yield from self._give(len(self._lines))
        elif len(self._lines) >= CODE_LINES:
            yield from self._force()

    # ------------------------------------------------------------ blocks

    def _settled(self) -> Iterator[SourcePiece]:
        """Gives away what the next line cannot change any more."""
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
            self._fence = lines[_first(last)]
        elif last.type.endswith("list_open"):
            yield from self._items(
                last, tokens, before + (begins[-1] if len(begins) > 1 else 0), number
            )
        if len(self._lines) >= CODE_LINES and not self._fence and _Opened(tokens, lines).fence:
            yield from self._force()

    def _items(
        self, listing: Token, tokens: Sequence[Token], given: int, number: int | None
    ) -> Iterator[SourcePiece]:
        """All but the last."""
        if listing.type == "ordered_list_open" and number is None:
            number = int(listing.attrs.get("start", 1))
        items = [
            _first(token)
            for token in tokens[tokens.index(listing) :]
            if token.type == "list_item_open" and token.level == 1
        ]
        for n, begin in enumerate(items[1:], 1):
            yield from self._give(begin - given)
            given = begin
            self._within = replace(self._within, number=None if number is None else number + n)

    def _force(self) -> Iterator[SourcePiece]:
        """Gives all away that there is, and remembers what is open."""
        if not self._lines:
            return
        if self._fence:
            yield from self._give(len(self._lines))
            self._within = replace(self._within, fence=self._fence)
            return
        lines = insides(self._lines, self._within)
        opened = _Opened(_parser().parse("".join(lines)), lines, self._within.number)
        yield from self._give(len(self._lines))
        self._fence = opened.fence
        self._numbers = (*self._numbers, *opened.numbers)[:DEPTH_MAX]
        self._within = Within(
            containers=(*self._within.containers, *opened.containers)[:DEPTH_MAX],
            fence=opened.fence,
            table=opened.table,
        )

    # ------------------------------------------------------------ giving

    def _give(self, lines: int) -> Iterator[SourcePiece]:
        """The first so many lines, if any."""
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


class _Opened:
    """What the end of some lines leaves open."""

    def __init__(
        self, tokens: Sequence[Token], lines: Sequence[str], number: int | None = None
    ) -> None:
        self.containers: tuple[int, ...] = ()
        self.numbers: tuple[int | None, ...] = ()
        self.table = self.fence = ""
        following: int | None = None
        for n, token in _chain(tokens):
            begin, end = token.map or (0, 0)
            first = _peeled(lines[begin], self.containers)
            if token.type == "ordered_list_open":
                start = (
                    number if n == 0 and number is not None else int(token.attrs.get("start", 1))
                )
                following = start + sum(
                    t.type == "list_item_open" and t.level == token.level + 1 for t in tokens[n:]
                )
            elif token.type == "list_item_open":
                found = _ITEM.match(first)
                self._enter(found.end() if found else 2, following)
                following = None
            elif end < len(lines):
                return
            elif token.type == "blockquote_open":
                self._enter(0, None)
            elif token.type == "table_open":
                self.table = "".join(
                    _peeled(line, self.containers) for line in lines[begin : begin + 2]
                )
            elif token.type == "fence" and not _is_closed(
                token, [_peeled(line, self.containers) for line in lines]
            ):
                self.fence = first

    def _enter(self, columns: int, number: int | None) -> None:
        self.containers += (columns,)
        self.numbers += (number,)


def is_blank(line: str) -> bool:
    """Also in a quote."""
    return not line.strip(BLANKS)


def insides(lines: Sequence[str], within: Within) -> list[str]:
    """Lines as they are inside of all that is open, and before them those that open the code or the
    table they go on with.
    """
    head = within.fence or within.table
    inner = [
        line if n == 0 and within.midline else stripped(line, within.containers)[0]
        for n, line in enumerate(lines)
    ]
    return [
        *head.splitlines(keepends=True),
        *(line.replace("\r", "").replace("\0", "\ufffd") for line in inner),
    ]


def stripped(line: str, containers: Sequence[int]) -> tuple[str, int]:
    """What is left of it inside of the containers, and how many of those it is inside of."""
    for n, columns in enumerate(containers):
        blanks = line[: len(line) - len(line.lstrip(" \t"))]
        if "\t" in blanks:
            line = blanks.expandtabs(4) + line[len(blanks) :]
        if not columns and (mark := _QUOTE.match(line)):
            line = line[mark.end() :]
        elif columns and not line.strip():
            line = line[columns:] or "\n"
        elif columns and line.startswith(" " * columns):
            line = line[columns:]
        else:
            return line, n
    return line, len(containers)


def _peeled(line: str, containers: Sequence[int]) -> str:
    """As `stripped`, where the marks of items may still stand."""
    for columns in containers:
        mark = _QUOTE.match(line)
        line = line[columns:] if columns else line[mark.end() :] if mark else line
    return line


def _chain(tokens: Sequence[Token]) -> list[tuple[int, Token]]:
    """The block that began last, and before it those that it is in; each with its place."""
    stack: list[tuple[int, Token]] = []
    chain: list[tuple[int, Token]] = []
    for n, token in enumerate(tokens):
        if token.nesting < 0:
            stack.pop()
        elif token.map and token.type != "inline":
            chain = [*stack, (n, token)]
        if token.nesting > 0:
            stack.append((n, token))
    return chain


def _is_complete(block: Token, lines: Sequence[str]) -> bool:
    if block.type in ("heading_open", "hr"):
        return True
    if block.type == "fence":
        return _is_closed(block, lines)
    return (
        block.type in ("paragraph_open", "table_open", "blockquote_open") and not lines[-1].strip()
    )


def _is_closed(fence: Token, lines: Sequence[str]) -> bool:
    begin, end = fence.map or (0, 0)
    return end - begin > 1 and _closes(lines[end - 1], lines[begin])


def _closes(line: str, opening: str) -> bool:
    mark = opening.strip()[:1]
    opened = len(opening.strip()) - len(opening.strip().lstrip(mark))
    closing = line.strip()
    return not line.startswith("    ") and len(closing) >= opened and not closing.strip(mark)


def _first(token: Token) -> int:
    return token.map[0] if token.map else 0


def _sentence(text: str, *, code: bool) -> int:
    """Where to cut it: behind a sentence of its second half at which no code and nothing bold is
    open; else behind a word.
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
    """Of blocks alone."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  not before the first answer

    return MarkdownIt("commonmark", {"html": False}).enable("table").disable([*RULES_OFF, "inline"])

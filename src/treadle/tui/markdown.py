"""Markdown rendering. The parser is imported with the first block drawn. Entry points: `drawn`.

No text is lost: HTML, images and deeply nested blocks are drawn as text. Streaming is handled in
growing.py, inline text in wording.py, tables in tables.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from rich.text import Text
from typing_extensions import override

from treadle._internal.terminal_text import plain
from treadle.tui.containers import Within, insides, is_blank
from treadle.tui.drawing import LaidOut, Line
from treadle.tui.growing import DEPTH_MAX, RULES_OFF, Growing, SourcePiece
from treadle.tui.highlighting import highlighted
from treadle.tui.tables import tabled
from treadle.tui.wording import chopped, worded, wrapped

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from treadle.tui.drawing import Drawing

__all__ = ["Growing", "Markdown", "SourcePiece", "drawn"]

SOURCE_CHARS: Final = 6_000
"""Maximum length that is parsed in one step. A longer text that is not split is drawn unparsed."""
WIDTH_LEAST: Final = 12
"""Minimum width inside lists and quotes; below it there is no further indent."""
RULE_COLUMNS: Final = 24
_TASK = re.compile(r"\[([ xX])\] ")


def drawn(source: str, drawing: Drawing) -> Markdown:
    """Return a renderable of a Markdown text.

    A `SourcePiece` continues the one before it; any other text is complete.
    """
    return Markdown(source, drawing)


class Markdown(LaidOut):
    """Renderable of one piece, laid out for the width at which it is drawn."""

    def __init__(self, source: str, drawing: Drawing) -> None:
        self._within = source.within if isinstance(source, SourcePiece) else Within()
        self._source = plain(source)
        self._drawing = drawing

    @override
    def laid_out(self, width: int) -> list[Line]:
        within, drawing = self._within, self._drawing
        source = insides(self._source.split("\n"), within)
        source = [line.removesuffix("\n") for line in source]
        prefix, room = _prefix(within.containers, width, drawing)
        lines = self._inner(source, room)
        if prefix:
            lines = [[*prefix, *line] for line in lines]
        return [[], *lines] if lines and within.gap else lines

    def _inner(self, source: list[str], width: int) -> list[Line]:
        within, drawing = self._within, self._drawing
        text = "\n".join(source)
        if len(text) <= SOURCE_CHARS:
            tokens = _parser().parse(text)
            if all(token.level < DEPTH_MAX - 1 for token in tokens):
                return _Page(source, tokens, within, drawing).blocks(
                    0, len(tokens), width, sum(map(bool, within.containers))
                )
        shown = source[1:] if within.fence else source[2:] if within.table else source
        return wrapped(
            Text("\n".join(shown).strip("\n"), drawing.style("assistant")), width, drawing
        )


class _Page:
    """Parsed blocks of one text."""

    def __init__(
        self, source: Sequence[str], tokens: Sequence[Token], within: Within, drawing: Drawing
    ) -> None:
        self._source = source
        self._tokens = tokens
        self._within = within
        self._drawing = drawing

    def blocks(self, begin: int, end: int, width: int, depth: int = 0) -> list[Line]:
        """Draw the blocks between two tokens, with a blank line where the source has one."""
        lines: list[Line] = []
        for first, last in self._siblings(begin, end):
            block = self._block(first, last, width, depth)
            if lines and block and self._follows_blank(first):
                lines.append([])
            lines += block
        return lines

    def _siblings(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield each block's first token and the index after its last."""
        at = begin
        while at < end:
            level, last = self._tokens[at].level, at
            if self._tokens[at].nesting > 0:
                last = next(
                    n
                    for n in range(at + 1, end)
                    if self._tokens[n].level == level and self._tokens[n].nesting < 0
                )
            yield at, last + 1
            at = last + 1

    def _follows_blank(self, first: int) -> bool:
        line = (self._tokens[first].map or (0,))[0]
        return line > 0 and is_blank(self._source[line - 1])

    def _block(self, first: int, last: int, width: int, depth: int) -> list[Line]:
        token, drawing = self._tokens[first], self._drawing
        match token.type:
            case "paragraph_open":
                return wrapped(self._words(first), width, drawing)
            case "heading_open":
                return self._heading(first, width)
            case "fence" | "code_block":
                return self._code(token, first, width)
            case "bullet_list_open" | "ordered_list_open":
                return self._list(first, last, width, depth)
            case "blockquote_open":
                prefix, room = _prefix((0,), width, drawing)
                return [[*prefix, *line] for line in self.blocks(first + 1, last - 1, room, depth)]
            case "table_open":
                return tabled(
                    self._tokens[first:last],
                    width,
                    drawing,
                    headed=not (self._within.table and first == 0),
                )
            case "hr":
                return [
                    [
                        Segment(
                            drawing.theme.glyphs.rule * min(width, RULE_COLUMNS),
                            drawing.style("mark"),
                        )
                    ]
                ]
            case _:
                return wrapped(
                    Text(token.content.strip("\n"), drawing.style("assistant")), width, drawing
                )

    def _words(self, first: int, style: str = "assistant") -> Text:
        return worded(self._tokens[first + 1].children or (), self._drawing, style)

    def _heading(self, first: int, width: int) -> list[Line]:
        level = int(self._tokens[first].tag[1:])
        style = f"heading.{min(level, 3)}"
        words = self._words(first, style)
        if not self._drawing.theme.attributes:
            words = Text("#" * level + " ", end="").append_text(words)
        return wrapped(words, width, self._drawing)

    def _code(self, token: Token, first: int, width: int) -> list[Line]:
        """Draw indented code without a frame, which would be copied too."""
        indent = 2 if width >= WIDTH_LEAST + 2 else 0
        code = token.content.removesuffix("\n").expandtabs(4)
        if not code and not (self._within.fence and first == 0 and token.content):
            return []
        language = (token.info.split(maxsplit=1) or [""])[0].strip("{}.,").partition("{")[0]
        whole = highlighted(code, language, self._drawing)
        lines = chain.from_iterable(
            chopped(line, width - indent, self._drawing)
            for line in whole.split("\n", allow_blank=True)
        )
        return [[Segment(" " * indent), *line] for line in lines]

    # ------------------------------------------------------------ lists

    def _list(self, first: int, last: int, width: int, depth: int) -> list[Line]:
        lines: list[Line] = []
        marks = self._marks(first, depth)
        for begin, end in self._siblings(first + 1, last - 1):
            if lines and self._follows_blank(begin):
                lines.append([])
            lines += self._item(begin + 1, end - 1, next(marks), width, depth)
        return lines

    def _marks(self, first: int, depth: int) -> Iterator[str]:
        listing = self._tokens[first]
        if listing.type == "bullet_list_open":
            bullets = self._drawing.theme.glyphs.bullets
            while True:
                yield bullets[depth % len(bullets)]
        number = int(listing.attrs.get("start", 1))
        if first == 0 and self._within.number is not None:
            number = self._within.number
        while True:
            yield f"{number}."
            number += 1

    def _item(self, begin: int, end: int, mark: str, width: int, depth: int) -> list[Line]:
        task = self._task(begin, end)
        mark = f"{task or mark} "
        indent = len(mark) if width - len(mark) >= WIDTH_LEAST else 2 if width > WIDTH_LEAST else 0
        lines = self.blocks(begin, end, max(width - indent, 1), depth + 1) or [[]]
        if len(mark) > indent:
            lines.insert(0, [])
        blank = Segment(" " * indent)
        return [
            [Segment(mark, self._drawing.style("mark")), *lines[0]],
            *([blank, *line] if line else [] for line in lines[1:]),
        ]

    def _task(self, begin: int, end: int) -> str:
        """Return the checkbox of an item, and remove it from the item's text."""
        words = (
            self._tokens[begin + 1].children
            if end - begin > 1 and self._tokens[begin].type == "paragraph_open"
            else None
        )
        if not words or words[0].type != "text" or not (box := _TASK.match(words[0].content)):
            return ""
        words[0].content = words[0].content[box.end() :]
        glyphs = self._drawing.theme.glyphs
        return glyphs.unchecked if box[1] == " " else glyphs.checked


def _prefix(containers: Sequence[int], width: int, drawing: Drawing) -> tuple[Line, int]:
    """Return the prefix of each line, and the width that is left after it."""
    prefix: Line = []
    for columns in containers:
        wide = columns or 2
        if width - wide < WIDTH_LEAST:
            break
        width -= wide
        prefix.append(
            Segment(" " * wide)
            if columns
            else Segment(f"{drawing.theme.glyphs.bar} ", drawing.style("mark"))
        )
    return prefix, width


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  imported with the first block drawn

    return (
        MarkdownIt("commonmark", {"html": False})
        .enable(["table", "strikethrough"])
        .disable([*RULES_OFF])
    )

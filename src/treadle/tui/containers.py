"""Containers of Markdown lines (lists, quotes, code, tables), and which of them are still open
at the end of the given lines. Entry points: `Within`, `OpenedContext`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it.token import Token

BLANKS: Final = " \t\r\n>"
"""Characters of a blank line, also inside a quote."""

_ITEM = re.compile(r" *(?:[-*+]|\d{1,9}[.)])(?: {1,4}(?! )| (?= )|$)")
_QUOTE = re.compile(r" {0,3}> ?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Context that is open where a piece begins."""

    containers: tuple[int, ...] = ()
    """Containers from the outside in: the indent of a list item, or 0 for a quote."""
    gap: bool = False
    """True if a blank line precedes the piece."""
    midline: bool = False
    """True if the piece continues a line that was cut."""
    number: int | None = None
    """Number of the ordered item with which the piece begins, whatever the source has."""
    fence: str = ""
    """Opening line of the code block that the piece continues."""
    table: str = ""
    """Header lines of the table that the piece continues: two."""


class OpenedContext:
    """Containers that are still open at the end of the given lines."""

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
            elif token.type == "fence" and not is_closed(
                token, [_peeled(line, self.containers) for line in lines]
            ):
                self.fence = first

    def _enter(self, columns: int, number: int | None) -> None:
        self.containers += (columns,)
        self.numbers += (number,)


def is_blank(line: str) -> bool:
    """Return True for a blank line, also inside a quote."""
    return not line.strip(BLANKS)


def insides(lines: Sequence[str], within: Within) -> list[str]:
    """Return the lines without their containers, preceded by the opening lines of the code or table
    that they continue.
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
    """Strip the containers from a line; also return how many of them the line is inside of."""
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
    """Strip the containers like `stripped`, where list markers may still be present."""
    for columns in containers:
        mark = _QUOTE.match(line)
        line = line[columns:] if columns else line[mark.end() :] if mark else line
    return line


def _chain(tokens: Sequence[Token]) -> list[tuple[int, Token]]:
    """Return the block that began last, preceded by its ancestors, each with its index."""
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


def is_closed(fence: Token, lines: Sequence[str]) -> bool:
    begin, end = fence.map or (0, 0)
    return end - begin > 1 and closes(lines[end - 1], lines[begin])


def closes(line: str, opening: str) -> bool:
    mark = opening.strip()[:1]
    opened = len(opening.strip()) - len(opening.strip().lstrip(mark))
    closing = line.strip()
    return not line.startswith("    ") and len(closing) >= opened and not closing.strip(mark)


def first_line(token: Token) -> int:
    return token.map[0] if token.map else 0

"""Drawing of file differences with line numbers and changed words, side by side on wide terminals.

tools/builtin/difference.py compares the texts. Entry points: `drawn`, `drawn_patch`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from rich.segment import Segment
from rich.text import Text
from typing_extensions import override

from treadle._internal.terminal_text import plain
from treadle.tools.builtin.difference import difference
from treadle.tui.drawing import LaidOut, Line
from treadle.tui.highlighting import highlighted, language_of
from treadle.tui.wording import chopped, columns, filled, segments

if TYPE_CHECKING:
    from treadle.tui.drawing import Drawing

SPLIT_COLUMNS: Final = 140
"""Width from which both sides are drawn side by side."""
HIGHLIGHTED_LINES: Final = 60
"""Maximum number of lines that are syntax-highlighted."""
WORDS_MAX: Final = 200
"""Maximum words of a line for a comparison word by word."""
LINE_CHARS: Final = 2_000
"""Maximum characters drawn of a line, whatever the width."""
WHOLE_CHARS: Final = 200_000
"""Maximum characters drawn of a line of a difference that needs approval."""

Kind: TypeAlias = Literal["added", "removed", "same", "note"]
_KINDS: Final[dict[str, Kind]] = {"+": "added", "-": "removed", " ": "same", "": "same"}
_SIGNS: Final[dict[Kind, str]] = {"added": "+", "removed": "-", "same": " ", "note": " "}
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)


@dataclass(slots=True, eq=False)
class Changed:
    """Line of a difference."""

    kind: Kind
    text: str
    number: int = 0
    """Number of the line: in the old file for a removed line, else in the new one."""
    other: int = 0
    """Line number of an unchanged line in the old file."""
    opposite: Changed | None = None
    """Line that replaces this one, or that this one replaces."""


Pair: TypeAlias = tuple[Changed | None, Changed | None]


def drawn(
    path: str,
    before: str,
    after: str,
    drawing: Drawing,
    *,
    most: int | None = None,
    whole: bool = False,
) -> DifferenceView:
    """Return a renderable of the difference between two texts. `most` limits the lines, the last of
    which counts the rest; None draws all and wraps long ones. With `whole`, no line is truncated.
    """
    return DifferenceView(
        difference(before, after), drawing, language=language_of(path), most=most, whole=whole
    )


def drawn_patch(
    patch: str, drawing: Drawing, *, path: str = "", most: int | None = None
) -> DifferenceView:
    """Return a renderable of a unified diff; lines before its first `@@` are skipped."""
    lines = patch.split("\n")
    begin = next((n for n, line in enumerate(lines) if line.startswith("@@")), 0)
    return DifferenceView(
        lines[begin:], drawing, language=language_of(path or _path_in(lines[:begin])), most=most
    )


class DifferenceView(LaidOut):
    """Renderable of a difference; empty if there is none."""

    def __init__(
        self,
        lines: Sequence[str],
        drawing: Drawing,
        *,
        language: str,
        most: int | None,
        whole: bool = False,
    ) -> None:
        self._drawing = drawing
        self._language = language
        self._most = most
        self._changes = list(_changes(lines, WHOLE_CHARS if whole else LINE_CHARS))

    @override
    def laid_out(self, width: int) -> Iterator[Line]:
        pairs = _paired(self._changes)
        split = width >= SPLIT_COLUMNS
        rows: list[Pair] = pairs if split else [row for pair in _blocks(pairs) for row in pair]
        most = (
            len(rows) if self._most is None or len(rows) <= self._most else max(self._most - 1, 0)
        )
        texts = self._texts(rows[:most])
        digits = len(
            str(max((max(change.number, change.other) for change in self._changes), default=0))
        )
        for row in rows[:most]:
            yield from (
                self._beside(row, texts, digits, width)
                if split
                else self._row(row[0] or row[1], texts, digits, width)
            )
        if missing := len(rows) - most:
            yield [
                Segment(
                    (
                        f"{self._drawing.theme.glyphs.ellipsis} {missing} more "
                        f"line{'' if missing == 1 else 's'}"
                    ),
                    self._drawing.style("dim"),
                )
            ]

    # ------------------------------------------------------------ rows

    def _row(
        self,
        change: Changed | None,
        texts: dict[Changed, Text],
        digits: int,
        width: int,
        *,
        before: bool = False,
    ) -> list[Line]:
        """Draw a line; `before` selects the line number in the old file."""
        if change is None:
            return [[]]
        drawing = self._drawing
        if change.kind == "note":
            return [segments(Text(change.text[:width], drawing.style("hunk")), drawing)]
        number = change.other if before and change.kind == "same" else change.number
        sign = Segment(
            f"{_SIGNS[change.kind]} ",
            drawing.style(change.kind if change.kind != "same" else "dim"),
        )
        room = max(width - digits - 3, 1)
        begin: Line = [Segment(f"{number:>{digits}} ", drawing.style("line.number")), sign]
        text = texts[change]
        if self._most is not None:
            text.truncate(room, overflow="ellipsis")
        lines = chopped(text, room, drawing)
        return [
            [*(begin if n == 0 else [Segment(" " * (digits + 3))]), *line]
            for n, line in enumerate(lines)
        ]

    def _beside(
        self, row: Pair, texts: dict[Changed, Text], digits: int, width: int
    ) -> Iterator[Line]:
        half = (width - 3) // 2
        left, right = row
        if left is not None and left.kind == "note":
            yield from self._row(left, texts, digits, width)
            return
        nothing: Line = []
        bar = Segment(f" {self._drawing.theme.glyphs.bar} ", self._drawing.style("dim"))
        for before, after in zip_longest(
            self._row(left, texts, digits, half, before=True),
            self._row(right, texts, digits, half),
            fillvalue=nothing,
        ):
            yield [*filled(before, half), bar, *after] if columns(before) <= half else before

    # ------------------------------------------------------------ words

    def _texts(self, rows: Sequence[Pair]) -> dict[Changed, Text]:
        shown = list(
            dict.fromkeys(
                change
                for row in rows
                for change in row
                if change is not None and change.kind != "note"
            )
        )
        coloured = (
            self._coloured(shown)
            if len(shown) <= HIGHLIGHTED_LINES and self._language and self._drawing.theme.depth >= 8
            else {}
        )
        return {change: self._text(change, coloured.get(change)) for change in shown}

    def _text(self, change: Changed, coloured: Text | None) -> Text:
        text = Text(
            change.text,
            "" if change.kind == "same" else self._drawing.style(change.kind),
            end="",
            no_wrap=True,
        )
        if coloured is not None and coloured.plain == change.text:
            text.spans = [*coloured.spans]
        if change.opposite is not None:
            text.stylize(
                self._drawing.style(f"{change.kind}.word"),
                *_different(change.text, change.opposite.text),
            )
        return text

    def _coloured(self, shown: Sequence[Changed]) -> dict[Changed, Text]:
        """Highlight each side separately, so that multi-line constructs are recognised."""
        found: dict[Changed, Text] = {}
        for side in ("removed", "added"):
            changes = [change for change in shown if change.kind in (side, "same")]
            whole = highlighted(
                "\n".join(change.text for change in changes), self._language, self._drawing
            )
            found.update(zip(changes, whole.split("\n", allow_blank=True), strict=False))
        return found


def _changes(lines: Sequence[str], chars: int) -> Iterator[Changed]:
    """Yield the lines with their numbers; a note between hunks marks omitted lines."""
    before = after = 0
    for n, line in enumerate(lines):
        if found := _HUNK.match(line):
            before, after = int(found[1]), int(found[2])
            if n:
                yield Changed("note", "⋮")
        elif line[:1] in _KINDS and (line or n + 1 < len(lines)):
            kind = _KINDS[line[:1]]
            yield Changed(
                kind,
                cut_off(plain(line[1:]), chars).expandtabs(4),
                before if kind == "removed" else after,
                before,
            )
            before += kind != "added"
            after += kind != "removed"
        elif line:
            yield Changed("note", plain(line).strip("@ "))


def cut_off(text: str, chars: int) -> str:
    """Truncate a text, and add a note of how much is missing."""
    return text if len(text) <= chars else f"{text[:chars]}… {len(text) - chars:,} more characters"


def _paired(changes: Sequence[Changed]) -> list[Pair]:
    """Pair unchanged lines with themselves and removed lines with their replacements, in order."""
    pairs: list[Pair] = []
    removed: list[Changed] = []
    added: list[Changed] = []

    def flush() -> None:
        for was, now in zip(removed, added, strict=False):
            was.opposite, now.opposite = now, was
        pairs.extend(zip_longest(removed, added))
        removed.clear()
        added.clear()

    for change in changes:
        if change.kind == "removed":
            if added:
                flush()
            removed.append(change)
        elif change.kind == "added":
            added.append(change)
        else:
            flush()
            pairs.append((change, change))
    flush()
    return pairs


def _blocks(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Reorder pairs for one column: all removed lines of a change before the added ones."""
    block: list[Pair] = []
    for pair in [*pairs, None]:
        if pair is not None and pair[0] is not pair[1]:
            block.append(pair)
            continue
        yield [(was, None) for was, _ in block if was is not None]
        yield [(None, now) for _, now in block if now is not None]
        block = []
        if pair is not None:
            yield [(pair[0], None)]


def _different(text: str, opposite: str) -> tuple[int, int]:
    """Return the range of words that differ; an empty range if the lines have too little in
    common.
    """
    ours, theirs = _words(text), _words(opposite)
    if max(len(ours), len(theirs)) > WORDS_MAX:
        return 0, 0
    least = min(len(ours), len(theirs))
    head = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), least)
    tail = next((n for n in range(least - head) if ours[-1 - n] != theirs[-1 - n]), least - head)
    begin, end = sum(map(len, ours[:head])), len(text) - sum(map(len, ours[len(ours) - tail :]))
    alike = len(text[:begin].strip()) + len(text[end:].strip())
    return (0, 0) if alike * 3 < max(len(text.strip()), len(opposite.strip())) else (begin, end)


@lru_cache(maxsize=4)
def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _path_in(lines: Sequence[str]) -> str:
    """Return the path in the header of a patch."""
    return next(
        (line[4:].split("\t")[0].removeprefix("b/") for line in lines if line.startswith("+++ ")),
        "",
    )

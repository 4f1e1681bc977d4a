"""Application of a parsed patch to the text of one file.

Pure functions over text with line feeds. Files are handled by apply_patch.py, text similarity by
matching.py. Entry point: `patch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from treadle.tools.builtin import matching
from treadle.tools.builtin.patch_format import END_OF_FILE, LINE_CHARS, FileChange, Hunk
from treadle.tools.builtin.text import TextDocument
from treadle.tools.tool import ToolFailed

_SHOWN: Final = 10


# ---------------------------------------------------------------- reading


# ---------------------------------------------------------------- applying


def patch(document: TextDocument, change: FileChange) -> None:
    """Apply the hunks of one file. Raises ToolFailed as `spans_of` does."""
    for span in reversed(spans_of(document.text, change.hunks)):
        document.replace([(span.start, span.end)], span.new)


class Span(NamedTuple):
    start: int
    end: int
    new: str


def spans_of(text: str, hunks: Sequence[Hunk]) -> list[Span]:
    """Return the replacements in `text`, in ascending order, not overlapping. A missing final line
    feed stays missing.

    Raises ToolFailed with a message for the model if a hunk is not found, or is ambiguous without a
    `@@` line.
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    starts[-1] = len(text)
    spans, cursor = list[Span](), 0
    for n, hunk in enumerate(hunks, 1):
        try:
            at = _place(lines, hunk, cursor)
        except ToolFailed as e:
            raise ToolFailed(
                f"Hunk {n} of {len(hunks)}: {e.message}" if len(hunks) > 1 else e.message
            ) from e
        spans += (
            _span(text, starts, at + first, removed, added) for first, removed, added in _runs(hunk)
        )
        cursor = at + len(hunk.before)
    return spans


def _place(lines: list[str], hunk: Hunk, cursor: int) -> int:
    """Return the line at which the hunk begins."""
    start = cursor
    for anchor in hunk.anchors:
        start = _anchored(lines, anchor, start)
    before = hunk.before
    if not before:
        return _insertion(lines, hunk, start)
    # Exact lines first, then ignoring trailing, then surrounding white space.
    for alike in (str, str.rstrip, str.strip):
        found = _found([alike(line) for line in lines[start:]], [alike(line) for line in before])
        if hunk.at_end and len(lines) - len(before) - start in found:
            return len(lines) - len(before)
        if len(found) == 1 or (found and hunk.anchors):
            return start + found[0]
        if found:
            at = ", ".join(str(start + n + 1) for n in found[:_SHOWN]) + (
                ", …" if len(found) > _SHOWN else ""
            )
            raise ToolFailed(
                f"its lines occur in {len(found)} places, at lines {at}. Add more lines around "
                "the change, or an '@@' line that is above it."
            )
    raise ToolFailed(_not_found(lines, before, start))


def _insertion(lines: list[str], hunk: Hunk, start: int) -> int:
    if hunk.at_end or not lines:
        return len(lines)
    if hunk.anchors:
        return start + 1
    raise ToolFailed(
        "it only adds lines, and nothing says where. Add lines of the file around them, or "
        f"'{END_OF_FILE}' below them."
    )


def _anchored(lines: list[str], anchor: str, start: int) -> int:
    wanted = anchor.strip()
    tests: tuple[Callable[[str], bool], ...] = (
        lambda line: line == anchor,
        lambda line: line.strip() == wanted,
        lambda line: line.strip().startswith(wanted),
    )
    for test in tests:
        if (at := next((n for n in range(start, len(lines)) if test(lines[n])), None)) is not None:
            return at
        if any(map(test, lines[:start])):  # another change below the same line
            return start
    raise ToolFailed(
        f"no line {anchor[:LINE_CHARS]!r}, which follows '@@', is in the file below line "
        f"{start}. {_closest_to(lines, [anchor])}"
    )


def _found(lines: list[str], wanted: list[str]) -> list[int]:
    count = len(wanted)
    return [
        n
        for n in range(len(lines) - count + 1)
        if lines[n] == wanted[0] and lines[n : n + count] == wanted
    ]


def _not_found(lines: list[str], before: list[str], start: int) -> str:
    if start and _found([line.strip() for line in lines], [line.strip() for line in before]):
        return (
            f"its lines occur only above line {start + 1}, where the hunk or '@@' line before it "
            "is. Give hunks in the order of the file."
        )
    return f"its lines were not found. {_closest_to(lines, before)}"


def _closest_to(lines: list[str], wanted: list[str]) -> str:
    return (
        matching.closest(lines, wanted, named="the patch")
        or "No similar text exists. Read the file again and give its exact text."
    )


def _runs(hunk: Hunk) -> Iterator[tuple[int, int, list[str]]]:
    """Yield each change of a hunk: the number of preceding lines in the hunk, the number of removed
    lines, and the added lines.
    """
    at = first = removed = 0
    added, is_open = list[str](), False
    for sign, text in [*hunk.lines, (" ", "")]:
        if sign == " ":
            if is_open:
                yield first, removed, added
            added, is_open, removed = [], False, 0
            at += 1
            continue
        if not is_open:
            is_open, first = True, at
        if sign == "-":
            removed += 1
            at += 1
        else:
            added.append(text)


def _span(text: str, starts: list[int], at: int, removed: int, added: list[str]) -> Span:
    start, end, new = starts[at], starts[at + removed], "".join(f"{line}\n" for line in added)
    if end < len(text) or text.endswith("\n") or not text:
        return Span(start, end, new)
    if not new:  # the last line is removed with the line feed before it
        return Span(max(start - 1, 0), end, "")
    new = new[:-1]
    return Span(start, end, f"\n{new}" if start == len(text) else new)


# ---------------------------------------------------------------- for people

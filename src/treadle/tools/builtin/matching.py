"""Location of an edit's text in a file: exact, or ignoring white space with a note to the model. If
the text is not found, the closest text for the error message.

Pure functions over text with line feeds. See also: files (edit.py). Entry point: `find`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from treadle.tools.tool import ToolFailed

_SIMILAR = 0.6
_LINES_COMPARED = 20_000
_LINE_CHARS_COMPARED = 400
_CHARS_COMPARED = 2_000
_REGION_LINES = 20
_NUMBERS_SHOWN = 10
_BE_UNIQUE = (
    "Take in more of the lines around the one that is meant, so that it occurs only once, or set "
    "all to true."
)
_NUMBERED = re.compile(r"^ *\d+\t")


class EditMatch(msgspec.Struct, frozen=True):
    spans: tuple[tuple[int, int], ...]
    """Matched spans, in ascending order, not overlapping."""
    new: str
    """Replacement text."""
    note: str | None = None
    """Note for the model about an inexact match. Empty for an exact one."""


def find(text: str, old: str, new: str, *, every: bool) -> EditMatch:
    """Find `old`. Raises ToolFailed with a message for the model if it does not occur, or occurs
    more than once without `every`.
    """
    spans = exact(text, old)
    if not spans:
        return _but_for_white_space(text, old, new)
    if every or (len(spans) == 1 and text.find(old, spans[0][0] + 1) < 0):
        return EditMatch(spans, new)
    starts = _starts(text, old)
    at = _line_numbers(
        [text.count("\n", 0, start) + 1 for start in starts[:_NUMBERS_SHOWN]], of=len(starts)
    )
    raise ToolFailed(f"old was found {len(starts)} times, at lines {at}. {_BE_UNIQUE}")


def exact(text: str, old: str) -> tuple[tuple[int, int], ...]:
    spans: list[tuple[int, int]] = []
    start = text.find(old)
    while start >= 0:
        spans.append((start, start + len(old)))
        start = text.find(old, start + len(old))
    return tuple(spans)


def _starts(text: str, old: str) -> list[int]:
    """Return all start positions, including overlapping ones: two lines within three equal lines
    are ambiguous.
    """
    starts = [text.find(old)]
    while (start := text.find(old, starts[-1] + 1)) >= 0:
        starts.append(start)
    return starts


def _line_numbers(numbers: Sequence[int], *, of: int) -> str:
    return ", ".join(map(str, numbers[:_NUMBERS_SHOWN])) + (", …" if of > _NUMBERS_SHOWN else "")


# ---------------------------------------------------------------- ignoring white space


def _but_for_white_space(text: str, old: str, new: str) -> EditMatch:
    """Find whole lines that are equal after white space is collapsed, if they occur only once.

    Any weaker similarity is rejected.
    """
    lines = text.split("\n")
    wanted = old.removesuffix("\n").split("\n")
    starts = _alike([_collapsed(line) for line in lines], [_collapsed(line) for line in wanted])
    if not starts:
        raise ToolFailed(_not_found(lines, old))
    if len(starts) > 1:
        at = _line_numbers([start + 1 for start in starts], of=len(starts))
        raise ToolFailed(
            f"old was not found exactly, but differs only in white space in {len(starts)} "
            f"places, at lines {at}. Give the exact text of the one that is meant."
        )
    first, count = starts[0], len(wanted)
    start = sum(len(line) + 1 for line in lines[:first])
    taken = "\n".join(lines[first : first + count])
    end = min(start + len(taken) + old.endswith("\n"), len(text))
    where = (
        f"line {first + 1}, which differs only in white space, was"
        if count == 1
        else f"lines {first + 1}-{first + count}, which differ only in white space, were"
    )
    note = (
        f"Note: old did not match exactly; {where} replaced, and new was indented to fit. Check "
        "the difference."
    )
    return EditMatch(
        ((start, end),), _reindented(new, wanted, lines[first : first + count], lines), note
    )


def _collapsed(line: str) -> str:
    return " ".join(line.split())


def _alike(lines: list[str], wanted: list[str]) -> list[int]:
    if not any(wanted):
        return []
    count = len(wanted)
    return [
        i
        for i in range(len(lines) - count + 1)
        if lines[i] == wanted[0] and lines[i : i + count] == wanted
    ]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindented(new: str, wanted: list[str], taken: list[str], lines: list[str]) -> str:
    """Return `new` with its indentation adapted to the file: as in the matching lines, else scaled
    to the file's unit.
    """
    known = {_indent(w): _indent(t) for w, t in zip(wanted, taken, strict=True) if w.strip()}
    if all(w == t for w, t in known.items()):
        return new
    unit, step = _unit(lines), len(_unit([*wanted, *new.split("\n")]).expandtabs(4))

    def fitted(line: str) -> str:
        own = _indent(line)
        if not line.strip() or own in known:
            return known.get(own, own) + line[len(own) :]
        base = max((k for k in known if own.startswith(k)), key=len, default="")
        extra = own[len(base) :].expandtabs(4)
        return (
            known.get(base, "")
            + unit * (len(extra) // step)
            + " " * (len(extra) % step)
            + line[len(own) :]
        )

    return "\n".join(map(fitted, new.split("\n")))


def _unit(lines: list[str]) -> str:
    """Return one level of indentation: a tab if tabs are used, else the narrowest indentation of at
    least two blanks.
    """
    indents = [
        indent for line in lines[:_LINES_COMPARED] if line.strip() and (indent := _indent(line))
    ]
    if any(indent.startswith("\t") for indent in indents):
        return "\t"
    return " " * min((len(indent) for indent in indents if len(indent) > 1), default=4)


# ---------------------------------------------------------------- not found


def _not_found(lines: list[str], old: str) -> str:
    wanted = old.removesuffix("\n").split("\n")
    if any(w.strip() for w in wanted) and all(_NUMBERED.match(w) for w in wanted if w.strip()):
        return (
            "old was not found. It begins its lines with numbers as the read tool shows them: "
            "these and the tab after them are not in the file."
        )
    if (shown := closest(lines, wanted, named="old")) is None:
        return (
            "old was not found, nor anything like it. Read the file again and give its exact text."
        )
    return f"old was not found. {shown}"


def closest(lines: list[str], wanted: list[str], *, named: str) -> str | None:
    """Describe the text most similar to `wanted`, and the first difference. None if nothing is
    similar. `named`: name of the source of `wanted`.
    """
    region = _closest(lines, wanted)
    if region is None:
        return None
    first, count = region
    there = lines[first : first + count]
    shown = "\n".join(
        f"{number:6d}\t{line[:200]}" for number, line in enumerate(there[:_REGION_LINES], first + 1)
    )
    return (
        f"The closest text is:\n{shown}\n{_first_difference(first, there, wanted, named)}Give "
        "the exact text of the file."
    )


def _first_difference(first: int, there: list[str], wanted: list[str], named: str) -> str:
    for i, (is_, want) in enumerate(zip(there, wanted, strict=False)):
        if is_ != want:
            return (
                f"The first difference is in line {first + i + 1}: the file has {is_[:200]!r}, "
                f"{named} has {want[:200]!r}. "
            )
    return ""


def _closest(lines: list[str], wanted: list[str]) -> tuple[int, int] | None:
    """Return the first line and the line count of the region most similar to `wanted`, with a
    similarity of at least 0.6.
    """
    from difflib import SequenceMatcher, get_close_matches  # noqa: PLC0415  only for an edit that fails

    anchor = max(range(len(wanted)), key=lambda i: len(wanted[i].strip()))
    candidates = dict.fromkeys(
        line.strip() for line in lines[:_LINES_COMPARED] if len(line) <= _LINE_CHARS_COMPARED
    )
    like_anchor = get_close_matches(
        wanted[anchor].strip()[:_LINE_CHARS_COMPARED], candidates, n=3, cutoff=_SIMILAR
    )
    firsts = [
        max(i - anchor, 0)
        for i, line in enumerate(lines[:_LINES_COMPARED])
        if line.strip() in like_anchor
    ][:20]
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2("\n".join(wanted)[:_CHARS_COMPARED])
    best, best_first = 0.0, 0
    for first in firsts:
        matcher.set_seq1("\n".join(lines[first : first + len(wanted)])[:_CHARS_COMPARED])
        if (ratio := matcher.ratio()) > best:
            best, best_first = ratio, first
    return (best_first, len(wanted)) if best >= _SIMILAR else None

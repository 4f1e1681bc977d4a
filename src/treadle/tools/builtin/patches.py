"""Patches in the V4A format that GPT models are trained on: parsing, and application to the text of
one file.

Pure functions over text with line feeds. Files are handled by apply_patch.py, text similarity by
matching.py. Entry points: `parse_patch`, `parse_diff`, `patch`. Source: developers.openai.com,
"Apply patch", and the tool instructions of openai/codex, read 2026-11-26.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, cast

import msgspec

from treadle.tools.builtin import matching
from treadle.tools.builtin.text import TextDocument, to_line_feeds
from treadle.tools.tool import InvalidArguments, ToolFailed

PATCH: Final = "apply_patch"
"""Name of the tool."""
BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
_END_OF_FILE: Final = "*** End of File"
_MOVE: Final = "*** Move to: "
_HEADS: Final = {
    "*** Add File: ": "add",
    "*** Update File: ": "update",
    "*** Delete File: ": "delete",
}
_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)?(?: @@.*)?")
"""Line numbers of a unified diff. This format has none, so they are ignored."""
_SHOWN: Final = 10
_LINE_CHARS: Final = 120

Kind: TypeAlias = Literal["add", "update", "delete"]


class Hunk(msgspec.Struct, frozen=True):
    """Changed region of a file."""

    anchors: tuple[str, ...]
    """Lines of the file above the region, outermost first."""
    lines: tuple[tuple[str, str], ...]
    """Sign (" ", "-" or "+") and text."""
    at_end: bool = False

    @property
    def before(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]


class FileChange(msgspec.Struct, frozen=True):
    kind: Kind
    path: str
    content: str = ""
    """Content of a new file."""
    hunks: tuple[Hunk, ...] = ()
    move_to: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.move_to is None else (self.path, self.move_to)


class _Line(NamedTuple):
    number: int
    text: str


# ---------------------------------------------------------------- reading


def parse_patch(text: str) -> tuple[FileChange, ...]:
    """Read a whole patch, with sections for any number of files.

    Raises InvalidArguments with the line that is wrong.
    """
    lines = [
        _Line(n, line) for n, line in enumerate(to_line_feeds(text).strip("\n ").split("\n"), 1)
    ]
    if lines[0].text.strip() != BEGIN or lines[-1].text.strip() != END or len(lines) < 2:
        raise InvalidArguments(
            f"A patch begins with the line '{BEGIN}' and ends with the line '{END}'; this one "
            "does not."
        )
    changes, at, last = list[FileChange](), 1, len(lines) - 1
    while at < last:
        kind, path = _head(lines[at])
        end = next(
            (n for n in range(at + 1, last) if lines[n].text.startswith(tuple(_HEADS))), last
        )
        changes.append(_section(kind, path, lines[at + 1 : end], lines[at]))
        at = end
    if not changes:
        raise InvalidArguments(
            "The patch has no section: '*** Add File: PATH', '*** Update File: PATH' or '*** "
            "Delete File: PATH'."
        )
    return tuple(changes)


def parse_diff(kind: Kind, path: str, diff: str) -> FileChange:
    """Read the body of one section. A head of another section in it is an error.

    Raises InvalidArguments.
    """
    text = to_line_feeds(diff).removesuffix("\n")
    return _section(
        kind,
        path,
        [_Line(n, line) for n, line in enumerate(text.split("\n"), 1)] if text else [],
        _Line(0, f"the diff of {path!r}"),
    )


def _head(line: _Line) -> tuple[Kind, str]:
    for head, kind in _HEADS.items():
        if line.text.startswith(head):
            return kind, line.text.removeprefix(head).strip()  # pyright: ignore[reportReturnType]  one of the three
    raise _wrong(
        line,
        (
            "is no head of a section: '*** Add File: PATH', '*** Update File: PATH' or '*** Delete "
            "File: PATH' is expected"
        ),
    )


def _section(kind: Kind, path: str, lines: Sequence[_Line], head: _Line) -> FileChange:
    if kind == "delete":
        if left := next((line for line in lines if line.text.strip()), None):
            raise _wrong(
                left, "follows a head that deletes a file, after which nothing belongs to it"
            )
        return FileChange(kind, path)
    while lines and not lines[-1].text:  # a blank line before the next section
        lines = lines[:-1]
    if kind == "add":
        if wrong := next((line for line in lines if not line.text.startswith("+")), None):
            raise _wrong(wrong, "does not begin with '+', as each line of a new file does")
        return FileChange(kind, path, content="".join(f"{line.text[1:]}\n" for line in lines))
    move_to = None
    if lines and lines[0].text.startswith(_MOVE):
        move_to, lines = lines[0].text.removeprefix(_MOVE).strip(), lines[1:]
    hunks = tuple(_hunks(lines))
    if not hunks and move_to is None:
        raise _wrong(head, "changes nothing: lines with '-' and '+' below '@@' are missing")
    return FileChange(kind, path, hunks=hunks, move_to=move_to)


def _hunks(lines: Sequence[_Line]) -> Iterator[Hunk]:
    anchors, body = list[str](), list[tuple[str, str]]()
    for line in lines:
        text = line.text
        if text.startswith("@@"):
            if body:
                yield _hunk(anchors, body, line)
                anchors, body = [], []
            anchor = text.removeprefix("@@").removeprefix(" ")
            anchors += [anchor] if anchor.strip() and not _NUMBERS.fullmatch(anchor.strip()) else []
        elif text.strip() == _END_OF_FILE:
            yield _hunk(anchors, body, line, at_end=True)
            anchors, body = [], []
        elif text[:1] in (" ", "+", "-", ""):
            body.append((text[:1] or " ", text[1:]))
        else:
            raise _wrong(line, "does not begin with ' ', '-', '+' or '@@'")
    if anchors or body:
        yield _hunk(anchors, body, lines[-1])


def _hunk(
    anchors: Sequence[str], body: Sequence[tuple[str, str]], line: _Line, *, at_end: bool = False
) -> Hunk:
    if all(sign == " " for sign, _ in body):
        raise _wrong(line, "ends a hunk that changes nothing: it has no line with '-' or '+'")
    return Hunk(tuple(anchors), tuple(body), at_end)


def _wrong(line: _Line, why: str) -> InvalidArguments:
    return InvalidArguments(
        f"Line {line.number} of the patch, {line.text[:_LINE_CHARS]!r}, {why}. Nothing was changed."
    )


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
    """Return the replacements in `text`, in ascending order, not overlapping. The presence of a
    final line feed is preserved.

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
    # As written, then ignoring trailing and surrounding white space.
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
                f"its lines stand in {len(found)} places, at lines {at}. Add more lines around "
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
        f"'{_END_OF_FILE}' below them."
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
        f"no line {anchor[:_LINE_CHARS]!r}, which stands behind '@@', is in the file below line "
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
            f"its lines stand only above line {start + 1}, where the hunk or '@@' line before it "
            "is. Give hunks in the order of the file."
        )
    return f"its lines were not found. {_closest_to(lines, before)}"


def _closest_to(lines: list[str], wanted: list[str]) -> str:
    return (
        matching.closest(lines, wanted, named="the patch")
        or "Nothing like it is there. Read the file again and give its exact text."
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

_NAMED = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE)


def named_paths(arguments: Mapping[str, object]) -> list[str]:
    """Return the files that a call of `apply_patch` names, from partial or invalid arguments
    too.
    """
    operation = arguments.get("operation")
    if isinstance(operation, Mapping):
        return [str(cast("Mapping[str, object]", operation).get("path", ""))]
    given = arguments.get("input")
    return [path.strip() for path in _NAMED.findall(given)] if isinstance(given, str) else []

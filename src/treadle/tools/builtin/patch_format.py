"""Patches in the V4A format, on which GPT models are trained, as values.

Entry points: `parse_patch`, `parse_diff`. Source: developers.openai.com, "Apply patch", and the
tool instructions of openai/codex, read 2026-11-26.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, cast

import msgspec

from treadle.tools.builtin.text import to_line_feeds
from treadle.tools.tool import InvalidArguments

PATCH: Final = "apply_patch"
"""Name of the tool."""
BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
END_OF_FILE: Final = "*** End of File"
_MOVE: Final = "*** Move to: "
_HEADS: Final = {
    "*** Add File: ": "add",
    "*** Update File: ": "update",
    "*** Delete File: ": "delete",
}
_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)?(?: @@.*)?")
"""Line numbers as in a unified diff. This format has none, so they are ignored."""

LINE_CHARS: Final = 120

Kind: TypeAlias = Literal["add", "update", "delete"]


class Hunk(msgspec.Struct, frozen=True):
    """Changed region of a file."""

    anchors: tuple[str, ...]
    """Lines of the file above the region, outermost first."""
    lines: tuple[tuple[str, str], ...]
    """Pairs of sign (" ", "-" or "+") and text."""
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


def parse_patch(text: str) -> tuple[FileChange, ...]:
    """Parse a whole patch, with sections for any number of files.

    Raises InvalidArguments, which quotes the invalid line.
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
    """Parse the body of one section. The heading of another section is an error.

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
        elif text.strip() == END_OF_FILE:
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
        f"Line {line.number} of the patch, {line.text[:LINE_CHARS]!r}, {why}. Nothing was changed."
    )


_NAMED = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE)


def named_paths(arguments: Mapping[str, object]) -> list[str]:
    """Return the files named in a call of `apply_patch`, even if its arguments are partial or
    invalid.
    """
    operation = arguments.get("operation")
    if isinstance(operation, Mapping):
        return [str(cast("Mapping[str, object]", operation).get("path", ""))]
    given = arguments.get("input")
    return [path.strip() for path in _NAMED.findall(given)] if isinstance(given, str) else []

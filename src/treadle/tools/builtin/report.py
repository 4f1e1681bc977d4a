"""Report of search results for the model: in path order, truncated, and verified.

A search program opens files by path, and a directory may be swapped for a link in the meantime.
Each reported line is therefore verified through descriptors. See also: searching (grep.py). Entry
points: `Findings`, `report`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from treadle.tools.builtin import files
from treadle.tools.builtin.folder import OpenFolder
from treadle.tools.builtin.patterns import GlobPattern
from treadle.tools.builtin.search import Request, text_lines

MAX_MATCHES = 100
MAX_MATCH_CHARS = 500
_LOOKED_UP_BYTES = 4 * MAX_MATCH_CHARS + 4
_LOOKED_THROUGH_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_RECORD = re.compile(r"(\d+)([:-])(.*)", re.DOTALL)
_RECORD_AT = re.compile(r"(\d+)([:-])(\d+)[:-](.*)", re.DOTALL)


class MatchLine(NamedTuple):
    """Line of a file: a match, a context line, or the number of matches."""

    path: str
    """Path relative to the searched directory."""
    number: int
    """Line number; in count mode, the number of matching lines."""
    text: str = ""
    is_match: bool = True
    offset: int | None = None
    """Byte offset of the line in the file, if the program reports it."""


class Findings(msgspec.Struct):
    """Collector of a search program's output, up to the limits."""

    request: Request
    max_matches: int
    max_chars: int
    has_offsets: bool
    lines: list[MatchLine] = []
    matches: int = 0
    full: bool = False
    """True if there are more results than were collected."""
    _wanted: GlobPattern | None = None
    _chars: int = 0

    def __post_init__(self) -> None:
        self._wanted = (
            GlobPattern.of_names(self.request.glob) if self.request.glob is not None else None
        )

    def add(self, path: bytes, record: bytes) -> None:
        name = self.request.file or os.fsdecode(path.removeprefix(b"./"))
        if self._wanted is not None and not self._wanted.matches(name):
            return
        line = self._read(name, record.decode("utf-8", "replace"))
        if line is None:
            return
        self._chars += len(line.text) + len(name)
        if self._chars > self.max_chars or (line.is_match and self.matches == self.max_matches):
            self.full = True
            return
        self.lines.append(line)
        self.matches += line.is_match

    def _read(self, name: str, record: str) -> MatchLine | None:
        if self.request.counts:
            return MatchLine(name, int(record)) if record.strip().isdecimal() else None
        parsed = (_RECORD_AT if self.has_offsets else _RECORD).match(record)
        if parsed is None:
            return None
        number, mark, *offset, text = parsed.groups()
        return MatchLine(
            name,
            int(number),
            text.removesuffix("\r"),
            mark == ":",
            int(offset[0]) if offset else None,
        )


def report(
    findings: Findings,
    cwd: Path,
    max_chars: int,
    withheld: Callable[[str], bool] | None,
    is_secret: Callable[[str], bool],
) -> str:
    """Render the first matches in path order, or a message that there are none.

    For a directory, omits files that probably contain a secret and `withheld` files.
    """
    request, page = findings.request, _Page(findings.request, cwd, max_chars)
    in_order = sorted(
        findings.lines, key=lambda line: (os.fsencode(line.path).split(b"/"), line.number)
    )
    for path, lines in groupby(in_order, key=lambda line: line.path):
        if (
            request.file is None
            and withheld is not None
            and withheld(os.path.join(request.directory, path))
        ):
            page.withheld += 1
            continue
        if request.file is None and is_secret(f"/{page.name_of(path).removeprefix('/')}"):
            page.secrets.append(page.name_of(path))
            continue
        for line in _really_there(request, path, [*lines]):
            page.add(line)
        if page.full:
            break
    return page.text(more=findings.full)


# ---------------------------------------------------------------- verification


def _really_there(request: Request, path: str, lines: Sequence[MatchLine]) -> Sequence[MatchLine]:
    """Return the lines that exist in the file at the reported positions, reading it without
    following links. A single file was passed to the program already open, so it needs no
    verification.
    """
    if request.file is not None:
        return lines
    folder, _, name = path.rpartition("/")
    try:
        with (
            OpenFolder.at(os.path.normpath(os.path.join(request.directory, folder))) as parent,
            os.fdopen(parent.open_file(name), "rb") as file,
        ):
            shift = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
            elsewhere = [
                line
                for line in lines
                if line.offset is not None and not _stands_at(file, line.offset + shift, line.text)
            ]
            if not elsewhere:
                return lines
            file.seek(0)
            by_number = (
                dict(enumerate(islice(text_lines(file), max(line.number for line in elsewhere)), 1))
                if _is_small(file)
                else {}
            )
    except OSError:
        return ()
    gone = {
        line.number
        for line in elsewhere
        if not _is_same(line.text, by_number.get(line.number, "\0"))
    }
    return [line for line in lines if line.number not in gone]


def _stands_at(file: BinaryIO, offset: int, text: str) -> bool:
    file.seek(offset)
    found = file.read(_LOOKED_UP_BYTES).partition(b"\n")[0]
    return _is_same(text, found.decode("utf-8", "replace").removesuffix("\r"))


def _is_same(shown: str, there: str) -> bool:
    """Return True if the model would see the same line."""
    return shown[:MAX_MATCH_CHARS] == there[:MAX_MATCH_CHARS]


def _is_small(file: BinaryIO) -> bool:
    return os.fstat(file.fileno()).st_size <= _LOOKED_THROUGH_BYTES


# ---------------------------------------------------------------- rendering


class _Page:
    """Collector of lines, up to the size limit."""

    def __init__(self, request: Request, cwd: Path, max_chars: int) -> None:
        self.full = False
        self._request, self._cwd, self._chars_left = request, cwd, max_chars
        self._lines: list[str] = []
        self._matches = 0
        self._last = self._last_match = ("", 0)
        self.secrets: list[str] = []
        """Files whose matches are omitted because they probably contain a secret."""
        self.withheld = 0

    def name_of(self, path: str) -> str:
        return files.shown(os.path.join(self._request.directory, path), self._cwd)

    def add(self, line: MatchLine) -> None:
        name = self.name_of(line.path)
        if self._request.counts:
            self._append(f"{name}:{line.number}", is_match=True)
        elif not self._request.names_only:
            self._add_text(name, line)
        elif line.is_match:
            self._append(name, is_match=True)

    def _add_text(self, name: str, line: MatchLine) -> None:
        last_name, last_number = self._last_match
        if (
            not line.is_match
            and self._matches == MAX_MATCHES
            and (name != last_name or line.number > last_number + self._request.context)
        ):
            return  # context of a match that is not shown
        if self._request.context and self._lines and self._last != (name, line.number - 1):
            self._lines.append("--")
        text = (
            line.text
            if len(line.text) <= MAX_MATCH_CHARS
            else f"{line.text[:MAX_MATCH_CHARS]} [… cut]"
        )
        mark = ":" if line.is_match else "-"
        self._append(
            f"{name}{mark}{line.number}{mark}{files.printable_line(text)}", is_match=line.is_match
        )
        self._last = (name, line.number)
        if line.is_match:
            self._last_match = self._last

    def _append(self, line: str, *, is_match: bool) -> None:
        self._chars_left -= len(line) + len("\n--\n")
        if self._chars_left < 0 or (is_match and self._matches == MAX_MATCHES):
            self.full = True
        if self.full:
            return
        self._lines.append(line)
        self._matches += is_match

    def text(self, *, more: bool) -> str:
        lines = self._lines[:-1] if self._lines[-1:] == ["--"] else self._lines
        notes: list[str] = []
        if self.secrets:
            named = ", ".join(self.secrets[:3]) + (", …" if len(self.secrets) > 3 else "")
            notes.append(
                f"(matches in {named} are left out, since such a file probably contains a secret: "
                "to search it, give it as path)"
            )
        if self.withheld:
            notes.append(
                f"(matches in {self.withheld} file{'s' if self.withheld > 1 else ''} that a rule "
                "of the user withholds are left out)"
            )
        if self.full or more:
            what = "files" if self._request.names_only or self._request.counts else "matching lines"
            notes.append(
                f"(the first {self._matches} {what}; there are more: take a narrower pattern, "
                "path or glob)"
            )
        return "\n".join([*(lines or ["No matches."]), *notes])

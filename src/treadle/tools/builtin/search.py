"""The search process: replaces ripgrep for `grep` on machines without it.

A separate process, so that a slow pattern can be killed: a match inside Python cannot be
interrupted. Imports only the standard library, and pathspec if there is a .gitignore. Writes the
format of `rg --null --no-heading --line-number`: path, NUL, number, `:` or `-`, line. See also: the
report for the model (report.py). Entry points: `main`, started by `command`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import BinaryIO, NamedTuple

from treadle.tools.builtin.folder import OpenFolder
from treadle.tools.builtin.patterns import GlobPattern
from treadle.tools.builtin.walk import walk

MAX_LINE_BYTES = 1024 * 1024
"""Number of bytes searched in a longer line."""
MAX_SECONDS = 30
"""Seconds after which an abandoned search process exits."""
_SHOWN_BYTES = 2_000
_SNIFF_BYTES = 64 * 1024
_WHOLE_BYTES = 4 * 1024 * 1024
_UTF16 = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_START = (
    "import json, sys; sys.path += json.loads(sys.argv.pop(1)); from "
    "treadle.tools.builtin.search import main; main()"
)

INVALID_PATTERN = 3
"""Exit code of an invalid pattern; standard error has the reason.

As with grep, 0 means matches and 1 no matches.
"""


class Request(NamedTuple):
    pattern: str
    directory: str
    """Searched directory: absolute, without links."""
    file: str | None = None
    """The only file to search in the directory. None: all."""
    glob: str | None = None
    context: int = 0
    counts: bool = False
    """True to output the number of matching lines of each file instead of the lines."""
    names_only: bool = False
    """True if one match per file is enough."""


def command(request: Request) -> list[str]:
    """Return the command line of a search.

    The process is isolated from the environment and the working directory, so that it imports
    nothing from them.
    """
    places = {
        os.path.dirname(os.path.dirname(spec.origin))
        for name in ("treadle", "pathspec")
        if (spec := find_spec(name)) is not None and spec.origin
    }
    return [
        sys.executable,
        "-I",
        "-c",
        _START,
        json.dumps(sorted(places)),
        json.dumps(request._asdict()),
    ]


def main() -> None:
    if hasattr(signal, "alarm"):
        signal.alarm(MAX_SECONDS)
    request = Request(**json.loads(sys.argv[1]))
    try:
        warnings.simplefilter("error", FutureWarning)
        regex = re.compile(request.pattern)
    except (re.error, FutureWarning, OverflowError, RecursionError) as e:
        print(e, file=sys.stderr)
        sys.exit(INVALID_PATTERN)
    search = _Search(request, regex, sys.stdout.buffer)
    try:
        search.run()
    except BrokenPipeError:
        os._exit(0)
    sys.exit(0 if search.found else 1)


class _Search:
    def __init__(self, request: Request, regex: re.Pattern[str], out: BinaryIO) -> None:
        self._request = request
        self._search = regex.search
        self._literal = literal_in(request.pattern).encode("utf-8", "replace")
        self._out = out
        self.found = False

    def run(self) -> None:
        if (name := self._request.file) is not None:
            with OpenFolder.at(self._request.directory) as folder:
                self._in_file(folder, name, name)
            return
        wanted = (
            GlobPattern.of_names(self._request.glob) if self._request.glob is not None else None
        )
        for found in walk(
            self._request.directory,
            enter=wanted.may_contain if wanted is not None else lambda path: True,
        ):
            if not found.is_link and (wanted is None or wanted.matches(found.path)):
                self._in_file(found.folder, found.name, found.path)

    def _in_file(self, folder: OpenFolder, name: str, path: str) -> None:
        """Search one file. A file that is unreadable or not text has no matches."""
        try:
            file = os.fdopen(folder.open_file(name), "rb")
        except OSError:
            return
        with file:
            lines = self._numbered(text_lines(file, self._literal), os.fsencode(path))
            for line in lines:
                self._out.write(line)
        self._out.flush()

    def _numbered(self, lines: Iterator[str], path: bytes) -> Iterator[bytes]:
        if self._request.counts:
            count = sum(self._search(line) is not None for line in lines)
            self.found |= count > 0
            return iter([b"%s\0%d\n" % (path, count)] if count else [])
        return self._matching(lines, path)

    def _matching(self, lines: Iterator[str], path: bytes) -> Iterator[bytes]:
        before: deque[tuple[int, str]] = deque(maxlen=self._request.context)
        after = 0
        for number, line in enumerate(lines, 1):
            if self._search(line) is not None:
                self.found = True
                yield from (_line(path, n, b"-", text) for n, text in before)
                before.clear()
                yield _line(path, number, b":", line)
                after = self._request.context
                if self._request.names_only:
                    return
            elif after:
                after -= 1
                yield _line(path, number, b"-", line)
            elif self._request.context:
                before.append((number, line))


def _line(path: bytes, number: int, mark: bytes, line: str) -> bytes:
    return b"%s\0%d%s%s\n" % (path, number, mark, line[:_SHOWN_BYTES].encode("utf-8", "replace"))


def text_lines(file: BinaryIO, literal: bytes = b"") -> Iterator[str]:
    """Yield lines without their ends. Yields none if the file lacks the literal or has a NUL near
    its start, and stops at a later NUL.
    """
    data = file.read(_WHOLE_BYTES)
    for bom, codec in _UTF16:
        if data.startswith(bom):
            return iter(
                (data + file.read()).decode(codec, "replace").removeprefix("\ufeff").splitlines()
            )
    nul = data.find(b"\0")
    if 0 <= nul < _SNIFF_BYTES:
        return iter(())
    if len(data) == _WHOLE_BYTES:
        file.seek(0)
        return _lines_of_large(file)
    if literal not in data:
        return iter(())
    if nul >= 0:
        data = data[: data.rfind(b"\n", 0, nul) + 1]
    return _lines_of_text(data.decode("utf-8-sig", "replace"))


def _lines_of_text(text: str) -> Iterator[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return (line.removesuffix("\r") for line in lines) if "\r" in text else iter(lines)


def _lines_of_large(file: BinaryIO) -> Iterator[str]:
    in_long_line = False
    for raw in iter(partial(file.readline, MAX_LINE_BYTES), b""):
        if b"\0" in raw:
            return
        is_rest, in_long_line = in_long_line, not raw.endswith(b"\n")
        if not is_rest:
            yield raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")


def literal_in(pattern: str) -> str:
    """Return text that occurs in every line matching the pattern, so that most files can be
    skipped. Empty if there is no obvious one.
    """
    if re.search(r"[|(\[{]|\\[xuUN0-9]", re.sub(r"\\[^xuUN0-9]", "", pattern)):
        return ""
    longest, run = "", ""
    for token in re.findall(r"(?:\\.|[^\\])[?*+]*", pattern, re.DOTALL):
        char, quantity = (token[1], token[2:]) if token[0] == "\\" else (token[0], token[1:])
        is_plain = not char.isalnum() if token[0] == "\\" else char not in ".^$"
        run = (
            run + char
            if is_plain and not quantity
            else char
            if is_plain and quantity[0] == "+"
            else ""
        )
        longest = max(longest, run, key=len)
    return longest

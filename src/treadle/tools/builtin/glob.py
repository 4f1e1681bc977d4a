"""The `glob` tool: finds files by a name pattern, newest first.

See also: pattern syntax (patterns.py), walking a directory (walk.py). Entry point: `Glob`.
"""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from anyio import from_thread, to_thread
from typing_extensions import override

from treadle.tools.builtin import files
from treadle.tools.builtin.base import Arguments, Builtin, closed_object
from treadle.tools.builtin.file_errors import telling
from treadle.tools.builtin.patterns import GlobPattern
from treadle.tools.builtin.walk import FoundFile, walk
from treadle.tools.tool import InvalidArguments, ToolContext, ToolFailed, Touched

MAX_FILES = 100
MAX_SECONDS = 20.0
_HINT_SECONDS = 2.0
_HINTS = 3


class GlobArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pattern: str
    path: str = "."


class Glob(Builtin[GlobArguments]):
    name = "glob"
    effect = "pure"
    arguments = GlobArguments
    example = '{"pattern": "**/*.py", "path": "src"}'
    parameters = closed_object(
        {
            "pattern": {
                "type": "string",
                "description": "Pattern such as **/*.py or src/**/*.{ts,tsx}, relative to path.",
            },
            "path": {
                "type": "string",
                "description": "Directory to search. Default: the working directory.",
            },
        },
        required=["pattern"],
    )

    @override
    def check(self, arguments: GlobArguments) -> None:
        files.check_path(arguments.path)
        try:
            GlobPattern(arguments.pattern)
        except ValueError as e:
            raise InvalidArguments(f"Wrong pattern: {e}.") from e

    @override
    def touches(self, arguments: GlobArguments, cwd: Path) -> Touched:
        return Touched(lists=(arguments.path,))

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: GlobArguments) -> str:
        """Find the files. Cancellation stops the walk."""
        return await to_thread.run_sync(_glob, ctx, arguments, self.max_output)


def _glob(ctx: ToolContext[Any], arguments: GlobArguments, max_chars: int) -> str:
    cwd, top = ctx.cwd, files.place_of(arguments.path, ctx)
    if os.path.isfile(top):
        raise ToolFailed(f"{arguments.path!r} is a file: path takes the directory to look in.")
    search = _Search(GlobPattern(arguments.pattern), os.fspath(top))
    with telling("list", arguments.path, cwd):
        newest = heapq.nlargest(MAX_FILES, search.run(MAX_SECONDS))
    if not newest:
        return (
            f"No file matches {arguments.pattern!r} in "
            f"{arguments.path!r}.{search.was_cut or _near_misses(arguments, top, cwd)}"
        )
    lines = [files.shown(top / path, cwd) for _, path in newest]
    while sum(map(len, lines)) + len(lines) > max_chars - 200:
        lines.pop()
    left = search.count - len(lines)
    if left:
        lines.append(
            f"({len(lines)} of {search.count:,} files, the newest; {left:,} are left out: take a "
            "narrower pattern or path)"
        )
    return "\n".join(lines) + search.was_cut


class _Search(msgspec.Struct):
    pattern: GlobPattern
    top: str
    all_files: bool = False
    count: int = 0
    was_cut: str = ""

    def run(self, seconds: float) -> Iterator[tuple[int, str]]:
        """Yield the modification time and path of each matching file."""
        deadline = time.monotonic() + seconds
        for i, found in enumerate(
            walk(self.top, all_files=self.all_files, enter=self.pattern.may_contain)
        ):
            if i % 256 == 0:
                from_thread.check_cancelled()
                if time.monotonic() > deadline:
                    self.was_cut = (
                        f"\n(stopped after {seconds:.0f} s; there may be more: take a narrower "
                        "path)"
                    )
                    return
            if self.pattern.matches(found.path) and (changed := _changed_at(found)) is not None:
                self.count += 1
                yield changed, found.path


def _changed_at(found: FoundFile) -> int | None:
    """Return the modification time. None for a missing file and for a link to a directory."""
    try:
        if found.is_link and found.folder.leads_to_directory(found.name):
            return None
        return found.folder.stat(found.name).st_mtime_ns
    except OSError:
        return None


def _near_misses(arguments: GlobArguments, top: Path, cwd: Path) -> str:
    """Describe files of the same name that are in other directories or excluded by .gitignore."""
    name = arguments.pattern.rsplit("/", 1)[-1]
    if name in ("*", "**") or set("{}") & set(arguments.pattern):
        return ""
    elsewhere = _Search(GlobPattern(f"**/{name}"), os.fspath(top), all_files=True)
    found = [
        files.shown(top / path, cwd)
        for _, path in heapq.nlargest(_HINTS, elsewhere.run(_HINT_SECONDS))
    ]
    return (
        f" In other directories, or excluded by .gitignore, there is {', '.join(found)}."
        if found
        else ""
    )

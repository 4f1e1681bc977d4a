"""The `bash` tool: runs one command in its own shell. All its processes end with the call.

See also: which commands may run (policy.py), how they are started (commands.py) and ended
(processes.py), background jobs (jobs.py). Entry point: `Bash`.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
from typing_extensions import override

from treadle.tools.builtin.base import Arguments, Builtin, closed_object
from treadle.tools.builtin.commands import StartedCommand, pipe, start
from treadle.tools.builtin.jobs import BackgroundJob, Jobs, captures
from treadle.tools.builtin.processes import Tree
from treadle.tools.confinement import CommandNotes
from treadle.tools.tool import MAX_OUTPUT_LINES, InvalidArguments, ToolContext, ToolFailed, Touched
from treadle.tools.truncate import Capture

DEFAULT_TIMEOUT_S = 120.0
MAX_TIMEOUT_S = 600.0
_AT_ONCE_S = 0.3
"""Seconds within which a background command that ends has most likely failed, so its call reports
the result.
"""
_LAST_WORDS_S = 0.2
"""Seconds to wait for remaining output after the shell has ended."""
_PROGRESS_S = 0.2
_LONG_S = 5.0
"""Duration in seconds from which the result states it. Shorter durations are omitted, so that equal
commands give equal results and a loop can be detected.
"""
_PIECE = 64 * 1024
_NOTE_CHARS = 500
_NOTE_LINES = 8


class BashArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: str
    timeout_s: float | None = None
    background: bool = False


class Bash(Builtin[BashArguments]):
    name = "bash"
    effect = "once"
    has_commands = True
    arguments = BashArguments
    example = '{"command": "python -m pytest -q tests", "timeout_s": 300}'
    parameters = closed_object(
        {
            "command": {"type": "string", "description": "The command for bash."},
            "timeout_s": {
                "type": "number",
                "description": (
                    f"Timeout in seconds, at most {MAX_TIMEOUT_S:.0f}. Default "
                    f"{DEFAULT_TIMEOUT_S:.0f}; none in the background."
                ),
            },
            "background": {
                "type": "boolean",
                "description": "Return immediately while it runs. Pass the returned id to bash_output and bash_kill.",  # noqa: E501
            },
        },
        required=["command"],
    )

    @override
    def check(self, arguments: BashArguments) -> None:
        if not arguments.command.strip():
            raise InvalidArguments(f"The command is empty. A right call: {self.example}")
        if "\0" in arguments.command:
            raise InvalidArguments(
                "The command contains a NUL character, which no command can contain: write such "
                "bytes with printf '\\0'."
            )
        if arguments.timeout_s is not None and not arguments.timeout_s > 0:
            raise InvalidArguments(f"timeout_s must be more than 0, not {arguments.timeout_s}.")

    @override
    def touches(self, arguments: BashArguments, cwd: Path) -> Touched:
        return Touched(command=arguments.command)

    @override
    async def execute(self, ctx: ToolContext[Any], arguments: BashArguments) -> str:
        """Run the command. Raises ToolFailed if it could not be started, was killed at its timeout
        (its effects are then unknown), or was terminated by a signal.

        Cancellation: SIGTERM to all its processes, SIGKILL after half a second. A timeout sends
        SIGKILL immediately.
        """
        if arguments.background:
            return await _begun(ctx, arguments)
        asked_s = DEFAULT_TIMEOUT_S if arguments.timeout_s is None else arguments.timeout_s
        timeout_s = min(asked_s, MAX_TIMEOUT_S)
        masking = ctx.masking() if ctx.masking is not None else None
        with Capture(
            ctx.spill,
            max_chars=self.max_output - _NOTE_CHARS,
            max_lines=MAX_OUTPUT_LINES - _NOTE_LINES,
            masking=masking,
        ) as capture:
            begun = anyio.current_time()
            ended = await _run(ctx, arguments.command, timeout_s, capture)
            took_s = anyio.current_time() - begun
            text = capture.text().rstrip("\n") or "(no output)"
        notes = [
            *_notes(ended, took_s),
            *(
                [f"[timeout_s was {asked_s:g}; {MAX_TIMEOUT_S:.0f} is the most]"]
                if asked_s > timeout_s
                else []
            ),
        ]
        warn_of(ctx, "bash", ended.left)
        if not ended.left.begun:
            raise ToolFailed(f"Not run: the sandbox could not be created. {text}")
        if ended.timed_out:
            told = "\n".join([_timed_out(timeout_s), text, *notes_of(ended.left)])
            raise ToolFailed(told, happened=None)
        ctx.exited(ended.code)
        result = "\n".join([text, *notes])
        if ended.code < 0:
            raise ToolFailed(result, happened=True)
        return result


class _Ended(msgspec.Struct, frozen=True):
    code: int
    timed_out: bool
    left_behind: bool
    """True if background processes were still running when the command ended, and were
    terminated.
    """
    left: CommandNotes


def _timed_out(timeout_s: float) -> str:
    """Return the timeout message. The user interface shows its first line."""
    longer = "" if timeout_s >= MAX_TIMEOUT_S else "pass a larger timeout_s, or "
    return (
        f"Timed out after {timeout_s:g} s (killed): {longer}run it with background=true.\n"
        "Everything that it had started was killed too. Its output until then:"
    )


def exit_notes(code: int) -> list[str]:
    """Return notes about the exit code; empty for a success."""
    if not code:
        return []
    return [
        f"[exit code {code}{_meaning(code)}]"
        if code > 0
        else f"[the shell was ended by {_signal_name(-code)}]"
    ]


def _notes(ended: _Ended, took_s: float) -> list[str]:
    notes = exit_notes(ended.code)
    if ended.left_behind or ended.left.left_behind:
        notes.append("[what the command had left running in the background was ended]")
    if took_s >= _LONG_S:
        notes.append(f"[took {took_s:.0f} s]")
    return [*notes, *notes_of(ended.left)]


def notes_of(left: CommandNotes) -> list[str]:
    """Return the sandbox's notes on a command, for the model."""
    return [f"[{text}]" for text in (*left.notes, *left.quarantined, *left.refused)]


def warn_of(ctx: ToolContext[Any], name: str, left: CommandNotes) -> None:
    """Warn the user about files that the sandbox removed after a command and hosts that it
    blocked.
    """
    for text in left.quarantined:
        ctx.warn(f"{name}: {text}")
    told = ctx.keep(_Told)
    for text in left.refused:
        if (ctx.run_id, text) not in told:
            told.add((ctx.run_id, text))
            ctx.warn(f"{name}: {text}")


class _Told(set[tuple[str, str]]):
    """Blocked hosts that this run has already warned about."""


def _meaning(code: int) -> str:
    if code in (126, 127):
        return ": cannot be executed" if code == 126 else ": command not found"
    return f": ended by {_signal_name(code - 128)}" if 128 < code <= 128 + 64 else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# ---------------------------------------------------------------- in the background


async def _begun(ctx: ToolContext[Any], arguments: BashArguments) -> str:
    """Start a background job. If the command ends immediately, report its result directly."""
    jobs = ctx.keep(Jobs)
    jobs.check_room()
    reader, writer = pipe()
    os.set_blocking(reader, False)
    try:
        # Shielded, so that a start always ends with a running command or an error.
        running = await start(ctx, arguments.command, writer)
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    job = jobs.add(
        lambda name: BackgroundJob(name, running, reader, captures(ctx), arguments.timeout_s)
    )
    try:
        await job.wait(_AT_ONCE_S)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await job.end()
        raise
    if job.is_running:
        return (
            f"[{job.name} is running in the background: bash_output shows what it writes, "
            "bash_kill ends it; it ends with the session at the latest]"
        )
    output = await job.new_output()
    if not job.left.begun:
        raise ToolFailed(f"Not run: the sandbox could not be created. {output}")
    warn_of(ctx, job.name, job.left)
    ctx.exited(job.code or 0)
    return "\n".join(
        [
            output or "(no output)",
            f"[{job.name} has ended already]",
            *(exit_notes(job.code or 0) or ["[exit code 0]"]),
            *notes_of(job.left),
        ]
    )


# ---------------------------------------------------------------- running


async def _run(ctx: ToolContext[Any], command: str, timeout_s: float, capture: Capture) -> _Ended:
    """Run the command with our own pipe instead of asyncio's: otherwise another process that holds
    the write end open would block the call.
    """
    reader, writer = pipe()
    try:
        os.set_blocking(reader, False)
        try:
            running = await start(ctx, command, writer)
        finally:
            os.close(writer)
        try:
            code, timed_out, left_behind = await _followed(
                running, timeout_s, _Output(reader, capture, ctx, anyio.Event())
            )
            return _Ended(code, timed_out, left_behind, await running.leave())
        except BaseException:
            with anyio.CancelScope(shield=True):
                await running.end()
            raise
    finally:
        os.close(reader)


class _Output(msgspec.Struct, frozen=True):
    """Reader of the pipe, until every process that holds its write end has closed it."""

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
        # A program with endless output must not starve the event loop.
        await anyio.lowlevel.checkpoint()
        while True:
            with suppress(BlockingIOError):
                return os.read(self.reader, _PIECE)
            await anyio.wait_readable(self.reader)


async def _followed(
    running: StartedCommand, timeout_s: float, output: _Output
) -> tuple[int, bool, bool]:
    """Return the exit code, whether the command timed out, and whether it left processes
    running.
    """
    process, tree = running.process, running.tree
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
    return await process.wait(), limit.cancelled_caught, left_behind


async def _settled(tree: Tree, output: _Output) -> bool:
    """Return True if all remaining processes end shortly after the shell."""
    with anyio.move_on_after(_LAST_WORDS_S):
        await output.ended.wait()
        await tree.group_ended()
        return True
    return False

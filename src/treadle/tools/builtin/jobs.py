"""Background commands of a session: their output and their end.

They end with the session's runtime, or with the run if there is no session. See also: starting a
command (commands.py), results for the model (bash.py, bash_output.py, bash_kill.py). Entry point:
`Jobs`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio

from treadle.tools.builtin.commands import StartedCommand
from treadle.tools.confinement import CommandNotes
from treadle.tools.tool import ToolContext, ToolFailed
from treadle.tools.truncate import Capture

MAX_RUNNING = 16
SHOWN_CHARS = 29_000
SHOWN_LINES = 1_900
_PIECE = 64 * 1024
_PAUSE_S = 0.005
"""Seconds between two reads of output, so that endless output does not starve the event loop."""
_LAST_WORDS_S = 0.2


def captures(ctx: ToolContext[Any]) -> Callable[[], Capture]:
    """Return a function that creates the captures of successive outputs."""
    spill, masking = ctx.spill, ctx.masking
    return lambda: Capture(
        spill,
        max_chars=SHOWN_CHARS,
        max_lines=SHOWN_LINES,
        masking=None if masking is None else masking(),
    )


class BackgroundJob:
    """A command that runs in the background.

    Its output is read continuously in the event loop, and each piece is returned once.
    """

    def __init__(
        self,
        name: str,
        command: StartedCommand,
        reader: int,
        new_capture: Callable[[], Capture],
        timeout_s: float | None,
    ) -> None:
        self.name = name
        self.timed_out = False
        self.is_told = False
        """True if the model was informed that the job has ended."""
        self._command, self._reader, self._new_capture = command, reader, new_capture
        self._capture = new_capture()
        self._heard = anyio.Event()
        """Set when there is new output."""
        self._silent = anyio.Event()
        """Set once no process holds the write end of the pipe."""
        self._left: CommandNotes | None = None
        self._freeing = anyio.Lock()
        self._loop = asyncio.get_running_loop()
        self._timer = (
            None if timeout_s is None else self._loop.call_later(timeout_s, self._out_of_time)
        )
        self._pause: asyncio.TimerHandle | None = None
        self._listen()

    # ------------------------------------------------------------ while it runs

    def _listen(self) -> None:
        self._pause = None
        self._loop.add_reader(self._reader, self._read)

    def _read(self) -> None:
        self._loop.remove_reader(self._reader)
        data = b""
        with suppress(BlockingIOError):
            data = os.read(self._reader, _PIECE)
            if not data:
                self._silent.set()
                return
        self._capture.feed(data)
        self._heard.set()
        self._pause = self._loop.call_later(_PAUSE_S, self._listen)

    def _out_of_time(self) -> None:
        if self.is_running:
            self.timed_out = True
            self._command.tree.kill_now()

    @property
    def is_running(self) -> bool:
        return self._left is None and self._command.process.returncode is None

    @property
    def code(self) -> int | None:
        """Exit code; None while it runs."""
        return self._command.process.returncode

    async def wait(self, seconds: float, *, to_the_end: bool = True) -> None:
        """Wait up to `seconds` for the job to end. Without `to_the_end`, also return on new
        output.
        """
        with anyio.move_on_after(seconds):
            if to_the_end:
                await self._command.process.wait()
                return
            async with anyio.create_task_group() as waiting:
                for wait in (self._command.process.wait, self._heard.wait):
                    waiting.start_soon(_first, wait, waiting.cancel_scope)

    # ------------------------------------------------------------ output

    async def new_output(self) -> str:
        """Return the output since the last call: its beginning and end, with all of it in a file if
        it is too long.
        """
        if not self.is_running:
            self.is_told = True
            await self._finish()
        capture, self._capture, self._heard = self._capture, self._new_capture(), anyio.Event()
        with capture:
            return capture.text().rstrip("\n")

    async def end(self) -> CommandNotes:
        """Send SIGTERM to all processes and SIGKILL half a second later. Output so far remains
        available. Idempotent. Call it shielded.
        """
        if self._left is None and self._command.process.returncode is None:
            await self._command.tree.end()
        return await self._finish()

    async def _finish(self) -> CommandNotes:
        """Free the command's resources. The lock prevents concurrent calls from doing it twice."""
        with anyio.CancelScope(shield=True):
            async with self._freeing:
                self._left = self._left or await self._freed()
        return self.left

    async def _freed(self) -> CommandNotes:
        await self._command.tree.kill()
        await self._command.process.wait()
        with anyio.move_on_after(_LAST_WORDS_S):
            await self._silent.wait()
        for timer in (self._timer, self._pause):
            if timer is not None:
                timer.cancel()
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
        return await self._command.leave()

    @property
    def left(self) -> CommandNotes:
        """Sandbox notes, available after the job has ended."""
        return self._left or CommandNotes()


async def _first(wait: Callable[[], Awaitable[object]], scope: anyio.CancelScope) -> None:
    await wait()
    scope.cancel()


class Jobs:
    """Jobs of one session. Ids are never reused."""

    def __init__(self) -> None:
        self._jobs: dict[str, BackgroundJob] = {}
        self._began = 0

    def check_room(self) -> None:
        """Check that another job may start. Raises ToolFailed if too many are running."""
        if (
            len(running := [job.name for job in self._jobs.values() if job.is_running])
            >= MAX_RUNNING
        ):
            raise ToolFailed(
                f"{len(running)} jobs run already ({', '.join(running)}): end one with bash_kill "
                "first."
            )

    def add(self, make: Callable[[str], BackgroundJob]) -> BackgroundJob:
        self._began += 1
        name = f"job_{self._began}"
        job = self._jobs[name] = make(name)
        return job

    def get(self, name: str) -> BackgroundJob:
        """Return a job by id. Raises ToolFailed for an unknown one."""
        job = self._jobs.get(name)
        if job is None:
            known = ", ".join(
                f"{job.name} ({'running' if job.is_running else 'ended'})"
                for job in self._jobs.values()
            )
            raise ToolFailed(
                f"There is no job {name!r}. "
                f"{f'There are: {known}' if known else 'None was started, or they ended with the process that had them'}."  # noqa: E501
            )
        return job

    def news(self) -> list[str]:
        """Return notes about jobs that have ended since the model was last informed."""
        ended = [job for job in self._jobs.values() if not job.is_told and not job.is_running]
        for job in ended:
            job.is_told = True
        return [
            f"[{job.name} has ended with exit code {job.code}: bash_output shows what it wrote]"
            for job in ended
        ]

    async def aclose(self) -> None:
        """End all jobs."""
        async with anyio.create_task_group() as ending:
            for job in self._jobs.values():
                ending.start_soon(job.end)

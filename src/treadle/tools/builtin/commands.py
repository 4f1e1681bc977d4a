"""Execution of one shell command, sandboxed or not. Output goes to a pipe that the caller reads.

See also: processing the output (bash.py, jobs.py), ending a process tree (processes.py). Entry
points: `start`, `pipe`.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import anyio
from anyio.abc import Process
from msgspec import structs

from treadle._internal.environment import find_shell, for_a_shell, path_outside
from treadle.errors import AgentError
from treadle.tools.builtin.processes import MARK, Tree, tree_of
from treadle.tools.confinement import Cage, CommandNotes, CommandRoom, Confinement, NetworkGate
from treadle.tools.tool import ToolContext, ToolFailed

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
"""Environment variables set for every command, overriding inherited ones, because there is no
interactive terminal.
"""


class StartedCommand:
    """A running command. Its owner must end it and then call `leave`, also after an error."""

    def __init__(
        self,
        process: Process,
        tree: Tree,
        cage: Cage | None = None,
        room: CommandRoom | None = None,
    ) -> None:
        self.process, self.tree, self._cage = process, tree, cage
        self._network = (
            None if room is None or isinstance(room.network, str | NetworkGate) else room.network
        )
        self._refused: list[str] = []

    async def leave(self) -> CommandNotes:
        """Return the sandbox's notes once all processes have ended. Idempotent."""
        if self._cage is None:
            return CommandNotes()
        left = await self._cage.leave()
        if self._network is not None:
            self._refused += self._network.take_refused()
        return structs.replace(left, refused=self._refused) if self._refused else left

    async def end(self) -> None:
        """Send SIGTERM to all processes and SIGKILL half a second later, then call `leave`. Call it
        shielded.
        """
        await self.tree.end()
        await self.process.wait()
        await self.leave()


async def start(ctx: ToolContext[Any], command: str, output: int) -> StartedCommand:
    """Start a command. Raises ToolFailed on failure, leaving no process or descriptor open. The
    caller closes the descriptor `output`.

    Cancellation does not interrupt a start, so every started process is tracked.
    """
    _check_place(ctx.cwd)
    mark = os.urandom(16).hex()
    environment = {**for_a_shell(ctx.environment), **SETTINGS, MARK: mark}
    shell = find_shell(path_outside(environment.get("PATH"), ctx.cwd))
    # bash reads its rc files if it detects that sshd started it.
    own_files = ["--norc", "--noprofile"] if os.path.basename(shell) == "bash" else []
    argv = [shell, *own_files, "-c", "--", command]
    with anyio.CancelScope(shield=True):
        return await (
            _unconfined(ctx, argv, environment, output)
            if ctx.sandbox is None
            else _confined(ctx, ctx.sandbox, argv, environment, output)
        )
    raise AssertionError("a shielded scope without cancellation ends with a result or an error")


async def _unconfined(
    ctx: ToolContext[Any], argv: list[str], environment: Mapping[str, str], output: int
) -> StartedCommand:
    process = await _opened(argv, environment, output, cwd=ctx.cwd)
    return StartedCommand(process, tree_of(process.pid, environment[MARK]))


async def _confined(
    ctx: ToolContext[Any],
    place: Confinement,
    argv: list[str],
    environment: Mapping[str, str],
    output: int,
) -> StartedCommand:
    hold = _Hold()
    if not isinstance(network := place.room.network, str | NetworkGate):
        network.hold(hold.is_over)
    with hold:
        try:
            cage = await place.cage(argv, ctx.cwd, environment)
        except (AgentError, OSError) as e:
            raise ToolFailed(
                f"Not run: the command cannot be confined: {e}.", happened=False
            ) from e
        try:
            hold.process = process = await _opened(
                list(cage.argv),
                cage.environment,
                output,
                cwd=ctx.cwd,
                pass_fds=tuple(cage.pass_fds),
            )
            inside = await cage.entered(process.pid)
        except BaseException:
            await cage.leave()
            raise
    return StartedCommand(
        process, tree_of(process.pid, environment[MARK], inside), cage, place.room
    )


class _Hold:
    """Hold on the sandbox for one command, acquired before its start.

    As a context manager: an exception inside the block means that the command never started.
    """

    process: Process | None = None
    _failed = False

    def is_over(self) -> bool:
        return self._failed or (self.process is not None and self.process.returncode is not None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._failed = kind is not None


async def _opened(
    argv: list[str],
    environment: Mapping[str, str],
    output: int,
    *,
    cwd: Path | None = None,
    pass_fds: tuple[int, ...] = (),
) -> Process:
    try:
        return await anyio.open_process(
            argv,
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env=environment,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    except OSError as e:
        if e.errno == errno.E2BIG:
            text = (
                f"The command is {len(argv[-1]):,} characters long, more than can be started: "
                "write it to a file and run that."
            )
            raise ToolFailed(text, happened=False) from e
        raise ToolFailed(
            f"Not run: the shell {argv[0]!r} could not be started: {e.strerror or e}.",
            happened=False,
        ) from e


def pipe() -> tuple[int, int]:
    """Open a pipe for the output of a command that has not started. Raises
    ToolFailed(happened=False).
    """
    try:
        return os.pipe()
    except OSError as e:
        raise ToolFailed(
            (
                f"Not run: there is no pipe for its output ({e.strerror or e}). Make the call "
                "again later."
            ),
            happened=False,
        ) from e


def _check_place(cwd: Path) -> None:
    if sys.platform == "win32":
        raise ToolFailed("There is no bash on Windows. Use WSL, or do it with the other tools.")
    if not cwd.is_dir():
        raise ToolFailed(
            f"The working directory {str(cwd)!r} does not exist, so nothing can be run in it."
        )

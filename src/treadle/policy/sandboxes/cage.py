"""One confined command: the arguments and descriptors with which bubblewrap starts it, and the
checks after it has ended. Entry point: `BubblewrapCage`.
"""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio import to_thread

from treadle.policy.sandboxes.control_files import ControlFiles
from treadle.policy.sandboxes.leftovers import shortened
from treadle.policy.sandboxes.limits import CommandLimits, Group
from treadle.policy.sandboxes.mounts import (
    EMPTY,
    MountView,
)
from treadle.policy.sandboxes.ruled_writes import taken_away
from treadle.tools.confinement import CommandNotes, CommandRoom, NetworkGate

_FIRST = """unset BASH_ENV; {{ {ulimits}; }} 2>/dev/null
{bound}echo begun >&{fd}; read -rn 1 -u {word} treadle || exit 1; exec {word}<&-; unset treadle
trap 'set -- /proc/[0-9]*; while [ $# -gt 2 ] && [ $((treadle += 1)) -le 20 ]; do sleep 0.01; set -- /proc/[0-9]*; done
[ $# -le 2 ] || echo left >&{fd}' EXIT
"""  # noqa: E501
"""Shell code before the command. It sets limits and, when the command has ended, waits a moment for
processes that it left running, which end with the sandbox.

It waits for our signal, sent once every process would die with this one: bubblewrap's processes
request that one after the other, and do not check whether their parent still exists. If this
process dies earlier, the signal never comes, and the code exits. The first process is bubblewrap's,
the second the shell. A command that ends its shell in another way is not waited for.
"""

_BOUND = """for ((treadle = 0; treadle < 1000; treadle++)); do
    read -rd '' REPLY < /proc/1/status; [[ $REPLY == *Seccomp:?2* ]] && break
done; unset REPLY
"""
"""Shell code that waits for the first process, which installs its seccomp filter right after it has
requested to die with its parent.
"""


class ConfinedCommand(NamedTuple):
    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]


class Confinement(NamedTuple):
    """Restrictions under which one command runs."""

    program: str
    """Path of bubblewrap."""
    arguments: Sequence[str]
    system_calls: bytes
    """The seccomp filter; empty for none."""
    limits: CommandLimits


class BubblewrapCage:
    """Confinement of one command, which holds descriptors and a control group until `leave`."""

    def __init__(
        self,
        command: ConfinedCommand,
        confinement: Confinement,
        room: CommandRoom,
        view: MountView,
        files: ControlFiles | None = None,
    ) -> None:
        """Create a bubblewrap cage. `files`: control files that the command has entered; None if it
        cannot write the workspace.
        """
        self.environment = dict(command.environment)
        self._room, self._files, self._view = room, files, view
        self._theirs: list[int] = []
        """Descriptors to close in this process once the child has inherited them."""
        self._ours: list[int] = []
        self._group = Group.make(confinement.limits)
        self._speaks = os.path.basename(command.argv[0]) == "bash"
        """True if its shell reports that it has started, and then waits for permission to
        continue.
        """
        self._said = b""
        self._left: CommandNotes | None = None
        try:
            self._status, status = self._pipe()
            self.argv = self._command(command, confinement, status)
            if self._speaks:
                self._let_wait(confinement, status)
        except BaseException:
            self._close([*self._theirs, *self._ours])
            raise
        self.pass_fds = tuple(self._theirs)

    def _command(
        self, command: ConfinedCommand, confinement: Confinement, status: int
    ) -> list[str]:
        """Return the command that starts bubblewrap, which reads its arguments from a
        descriptor.
        """
        filtered = confinement.system_calls
        arguments = [
            *confinement.arguments,
            *(["--seccomp", str(self._memory(filtered))] if filtered else []),
            *("--chdir", str(command.cwd)),
            *([] if self._speaks else ["--info-fd", str(status)]),
        ]
        arguments = [
            str(self._memory(b"")) if argument is EMPTY else argument for argument in arguments
        ]
        listed = self._memory("\0".join(arguments).encode("utf-8", "surrogateescape") + b"\0")
        network = self._room.network
        words = [
            *(network.enter if isinstance(network, NetworkGate) else ()),
            *(confinement.program, "--args", str(listed), "--"),
            *command.argv,
        ]
        return words if self._group is None else self._group.joined(words)

    def _let_wait(self, confinement: Confinement, status: int) -> None:
        """Run the shell code before the command."""
        word, self._word = os.pipe()
        self._theirs.append(word)
        self._ours.append(self._word)
        first = _FIRST.format(
            fd=status,
            word=word,
            ulimits=confinement.limits.ulimits(grouped=self._group is not None),
            bound=_BOUND if confinement.system_calls else "",
        )
        self.environment["BASH_ENV"] = f"/proc/self/fd/{self._memory(first.encode())}"

    def _pipe(self) -> tuple[int, int]:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._ours.append(reader)
        self._theirs.append(writer)
        return reader, writer

    def _memory(self, data: bytes) -> int:
        fd = os.memfd_create("treadle")
        self._theirs.append(fd)
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    async def entered(self, pid: int) -> int | None:
        self._close(self._theirs)
        while not self._is_there():
            await anyio.wait_readable(self._status)
        return self._let_begin(pid)

    def _is_there(self) -> bool:
        """Return True if the shell has reported that it waits, or has ended before."""
        with suppress(BlockingIOError):
            while piece := os.read(self._status, 4096):
                self._said += piece
            return True
        return (b"begun\n" if self._speaks else b"}\n") in self._said

    def _let_begin(self, pid: int) -> int | None:
        """Let the confined command start, and return the id of the first process inside the
        sandbox; None if the kernel does not list child processes.
        """
        inside = None
        with suppress(OSError, IndexError):
            inside = int(Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()[0])
        if self._speaks:
            with suppress(BrokenPipeError):  # the process has ended
                os.write(self._word, b"!")
        return inside

    def run_blocking(self, timeout_s: float) -> tuple[int, str]:
        """Run a command to its end, for trials: return its exit code and output. Raises
        subprocess.TimeoutExpired after killing it.
        """
        try:
            process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # also if bubblewrap is a wrapper that does not change directory itself
                cwd=self._room.workspace,
                env=dict(self.environment),
                pass_fds=self.pass_fds,
            )
            with process:
                try:
                    self._close(self._theirs)
                    while (
                        not self._is_there() and select.select([self._status], [], [], timeout_s)[0]
                    ):
                        pass
                    self._let_begin(process.pid)
                    said, _ = process.communicate(timeout=timeout_s)
                finally:
                    process.kill()
            return process.returncode, said.decode("utf-8", "replace")
        finally:
            anyio.run(self.leave)

    @property
    def quarantined(self) -> Sequence[str]:
        return () if self._left is None else self._left.quarantined

    async def leave(self) -> CommandNotes:
        with anyio.CancelScope(shield=True):
            self._left = self._left or await self._leave()
        return self._left or CommandNotes()

    async def _leave(self) -> CommandNotes:
        self._is_there()
        self._close([*self._theirs, *self._ours])
        notes: list[str] = []
        if self._group is not None:
            exceeded = self._group.exceeded()
            notes += [exceeded] if exceeded else []
            await self._group.aclose()
        if self._files is None:
            quarantined = []
        elif self._files.is_quick and self._room.ruled is None:
            quarantined = self._clear(self._files)
        else:
            quarantined = await to_thread.run_sync(self._clear, self._files)
        notes += self._view.secrets.notes
        begun = not self._speaks or b"begun" in self._said
        return CommandNotes(
            begun=begun, left_behind=b"left" in self._said, quarantined=quarantined, notes=notes
        )

    def _clear(self, files: ControlFiles) -> list[str]:
        said = files.leave(self._room.quarantine, is_open=self._room.is_open)
        if self._room.ruled is not None:
            said += taken_away(self._room, self._view.ruled)
        return shortened(said)

    def _close(self, fds: list[int]) -> None:
        for fd in list(fds):
            os.close(fd)
            for kept in (self._theirs, self._ours):
                if fd in kept:
                    kept.remove(fd)

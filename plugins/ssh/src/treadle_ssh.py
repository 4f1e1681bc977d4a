"""A sandbox on another host: each command gets a copy of the workspace there, over SSH.

TREADLE_SSH has the arguments of ssh, such as `-p 2222 me@box`. What a command changes comes back
when it ends, unless it is read-only; deletions do not, and names that begin with a dot only after
an approved command. The host is the confinement: give it no network and no secrets, and throw it
away. A command that is killed here may live on there until its connection is found dead.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE

import anyio
from anyio import to_thread

from treadle.errors import AgentError
from treadle.tools.confinement import CommandNotes, CommandRoom, SandboxStatus

if sys.version_info >= (3, 11, 4):
    import tarfile
else:  # it cannot refuse harmful members there
    from backports import tarfile

_PASSED = ("HOME", "PATH", "SSH_AUTH_SOCK")


async def _ask(ssh: Sequence[str], line: str, given: bytes = b"") -> bytes:
    done = await anyio.run_process([*ssh, line], input=given, stderr=PIPE, check=False)
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip()
        raise AgentError("tool", f"ssh ended with {done.returncode}: {told}")
    return done.stdout


class SshCage:
    """One command."""

    pass_fds: Sequence[int] = ()

    def __init__(self, ssh: Sequence[str], folder: str, line: str, room: CommandRoom) -> None:
        self.argv: Sequence[str] = [*ssh, line]
        self.environment: Mapping[str, str] = {
            name: os.environ[name] for name in _PASSED if name in os.environ
        }
        self._ssh, self._folder, self._room = ssh, folder, room
        self._notes: CommandNotes | None = None

    async def entered(self, pid: int) -> int | None:
        return None

    async def leave(self) -> CommandNotes:
        if self._notes is not None:
            return self._notes
        self._notes = CommandNotes()
        folder = shlex.quote(self._folder)
        try:
            if not self._room.is_read_only:
                packed = await _ask(self._ssh, f"tar -C {folder} -cf - .")
                await to_thread.run_sync(self._unpack, packed)
        except (AgentError, tarfile.TarError, OSError) as e:
            self._notes = CommandNotes(notes=(f"Changes could not be copied back: {e}",))
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                await anyio.run_process([*self._ssh, f"rm -rf {folder}"], check=False)
        return self._notes

    def _unpack(self, packed: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            for member in archive:
                parts = Path(member.name).parts
                if self._room.is_open or not any(part.startswith(".") for part in parts):
                    archive.extract(member, self._room.workspace, filter="data")


class SshSandbox:
    """Commands on the host that `arguments` of ssh name."""

    name = "ssh"

    def __init__(self, arguments: Sequence[str]) -> None:
        self._sockets = tempfile.TemporaryDirectory(prefix="ts-")
        shared = ("ControlMaster=auto", f"ControlPath={self._sockets.name}/%C", "ControlPersist=60")
        options = [part for option in ("BatchMode=yes", *shared) for part in ("-o", option)]
        self._ssh = ("ssh", "-T", *options, *arguments)
        self._arguments = arguments
        self._status: SandboxStatus | None = None

    def begin(self) -> None:
        pass

    async def standing(self) -> SandboxStatus:
        if self._status is None:
            self._status = await self._tried()
        return self._status

    async def _tried(self) -> SandboxStatus:
        if not self._arguments:
            return SandboxStatus(works=False, text="set TREADLE_SSH, like `-p 2222 me@box`")
        try:
            with anyio.fail_after(20):
                await _ask(self._ssh, "command -v tar")
        except (AgentError, OSError, TimeoutError) as e:
            return SandboxStatus(works=False, text=f"the host cannot be reached: {e}")
        return SandboxStatus(works=True, text=f"ssh to {self._arguments[-1]}")

    async def cage(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], room: CommandRoom
    ) -> SshCage:
        packed = await to_thread.run_sync(_packed, room.workspace)
        made = await _ask(self._ssh, 'd=$(mktemp -d) && tar -C "$d" -xf - && echo "$d"', packed)
        folder = made.decode().strip()
        within = shlex.quote(str(Path(folder, cwd.relative_to(room.workspace))))
        given = [f"{name}={value}" for name, value in environment.items()]
        line = f"cd {within} && exec env -i {shlex.join([*given, *argv])}"
        return SshCage(self._ssh, folder, line, room)

    async def aclose(self) -> None:
        if self._arguments:
            await anyio.run_process(["ssh", "-O", "exit", *self._ssh[1:]], check=False)
        self._sockets.cleanup()


def _packed(workspace: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(workspace, ".")
    return packed.getvalue()


def find(own: Path | None) -> SshSandbox:
    return SshSandbox(shlex.split(os.environ.get("TREADLE_SSH", "")))

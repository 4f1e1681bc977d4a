"""Commands confined by bubblewrap on Linux: a file system of their own view, namespaces, no
capability, no network.

What is hidden and guarded is found by hidden.py, workspace_secrets.py and control_files.py, and
mounted as mounts.py says; whether it all holds here is tried by trial.py. Entry: `Bubblewrap`.
"""

from __future__ import annotations

import os
import platform
import select
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import anyio
from anyio import to_thread

from treadle.errors import AgentError
from treadle.policy.sandboxes.control_files import ControlFiles
from treadle.policy.sandboxes.egress import isolated, through_gate, with_proxy
from treadle.policy.sandboxes.hidden import HiddenPlaces
from treadle.policy.sandboxes.leftovers import shortened
from treadle.policy.sandboxes.limits import CommandLimits, Group
from treadle.policy.sandboxes.mounts import (
    EMPTY,
    MountView,
    each,
    guarding,
    hide_all,
    hiding,
    of_worktree,
)
from treadle.policy.sandboxes.ruled_writes import ruled_before, taken_away
from treadle.policy.sandboxes.seccomp import seccomp_filter
from treadle.policy.sandboxes.surroundings import confined_environment
from treadle.policy.sandboxes.trial import Trial
from treadle.policy.sandboxes.workspace_secrets import Secrets, WorkspaceSecrets
from treadle.tools.confinement import CommandNotes, CommandRoom, NetworkGate, SandboxStatus

PRIVATE = ("/run", "/var/tmp")
SHOWN_OF_RUN = ("/run/current-system", "/run/opengl-driver")
"""Programs of NixOS."""
OF_THE_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
"""A caller who is root could write them without any capability, and a written core_pattern runs a
program outside.
"""
MORE_OF_THE_KERNEL = ("/proc/acpi", "/proc/fs", "/proc/scsi")


_FIRST = """unset BASH_ENV; {{ {ulimits}; }} 2>/dev/null
{bound}echo begun >&{fd}; read -rn 1 -u {word} treadle || exit 1; exec {word}<&-; unset treadle
trap 'set -- /proc/[0-9]*; while [ $# -gt 2 ] && [ $((treadle += 1)) -le 20 ]; do sleep 0.01; set -- /proc/[0-9]*; done
[ $# -le 2 ] || echo left >&{fd}' EXIT
"""  # noqa: E501
"""Shell code before the command: it sets limits, and finally waits a moment for processes that the
command has left running, which end with it.

It begins at our word, which comes once all of it would die with us: bubblewrap's processes ask for
that one after the other, and do not check whether we still exist. If we died before, the word never
comes, and it ends. The first process is bubblewrap's, the second the shell. A command that ends its
shell otherwise is not waited for.
"""

_BOUND = """for ((treadle = 0; treadle < 1000; treadle++)); do
    read -rd '' REPLY < /proc/1/status; [[ $REPLY == *Seccomp:?2* ]] && break
done; unset REPLY
"""
"""Waits for the first process, which filters its system calls right after it has asked to die with
its parent.
"""


class Protection(NamedTuple):
    """Arguments that hold one thing. Each is needed: tests take it away and see something escape."""  # noqa: E501

    name: str
    arguments: Sequence[str]


class Bubblewrap:
    """A `Sandbox` over the program `bwrap`."""

    name = "bubblewrap"

    def __init__(
        self,
        program: str,
        *,
        own: Path | None = None,
        home: Path | None = None,
        limits: CommandLimits | None = None,
    ) -> None:
        """`own`: Treadle's folder, which is hidden, and where is kept how the trial went.

        `home`: the user's.
        """
        self.program = program
        self.limits = limits or CommandLimits()
        self._own = own
        self._home = home or Path(os.path.expanduser("~"))
        self._hidden = HiddenPlaces(self._home, own)
        self._watched: dict[Path, ControlFiles] = {}
        self._secrets: dict[Path, WorkspaceSecrets] = {}
        self._trial = Trial(self, own)

    def begin(self) -> None:
        self._trial.begin()

    async def standing(self) -> SandboxStatus:
        return await self._trial.standing()

    async def aclose(self) -> None:
        await self._trial.aclose()

    async def cage(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], room: CommandRoom
    ) -> BubblewrapCage:
        """Cancellation: nothing is held yet.

        Raises AgentError(tool) for the root of the file system as a workspace.
        """
        await self.standing()  # from it is known what this bubblewrap understands
        room = await through_gate(room, partial(isolated, self.program))
        if room.ruled is None and self._is_quick(room):
            return self.make_cage(argv, cwd, environment, room)
        with anyio.CancelScope(shield=True):
            return await to_thread.run_sync(self.make_cage, argv, cwd, environment, room)
        raise AssertionError("a shielded scope that nobody cancels ends with a result or an error")

    def make_cage(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], room: CommandRoom
    ) -> BubblewrapCage:
        """The same, blocking for a few milliseconds. A network that is not open yet is none."""
        if room.workspace == Path("/"):
            raise AgentError(
                "tool",
                (
                    "the working directory is '/', which nothing can be kept out of: work in "
                    "another one"
                ),
            )
        view = self._view(room)
        inside = with_proxy(confined_environment(environment, is_open=room.is_open), room)
        if room.is_read_only:
            return BubblewrapCage(self, argv, cwd, inside, room, None, view)
        files = self._watched.setdefault(room.workspace, ControlFiles(room.workspace, self._own))
        sight = files.enter(is_open=room.is_open, scratch=room.scratch())
        try:
            return BubblewrapCage(self, argv, cwd, inside, room, files, view._replace(sight=sight))
        except BaseException:
            files.leave(room.quarantine, is_open=room.is_open)
            raise

    def _is_quick(self, room: CommandRoom) -> bool:
        known: list[ControlFiles | WorkspaceSecrets | None] = (
            [] if room.is_read_only else [self._watched.get(room.workspace)]
        )
        known += (
            []
            if room.shows_secrets and not room.is_read_only
            else [self._secrets.get(room.workspace)]
        )
        return all(one is not None and one.is_quick for one in known)

    def _view(self, room: CommandRoom) -> MountView:
        """Return what is hidden from a command in `room`, except for control files.

        Raises AgentError(tool) if that cannot be determined.
        """
        ruled = ruled_before(room)
        secrets = Secrets()
        if room.is_read_only or not room.shows_secrets:
            found = self._secrets.setdefault(room.workspace, WorkspaceSecrets(room.workspace))
            secrets = found.look(_everything if room.shows_secrets else room.is_granted)
        return MountView(hidden=self._hidden.look(), secrets=secrets, ruled=ruled)

    def twin(self, *, home: Path, own: Path, limits: CommandLimits | None = None) -> Self:
        """The same in another home. For trials."""
        twin = type(self)(self.program, own=own, home=home, limits=limits or self.limits)
        twin._trial.knows_disable_userns = self._trial.knows_disable_userns
        return twin

    # ------------------------------------------------------------ protections

    def protections(self, room: CommandRoom, view: MountView) -> list[Protection]:
        """Return the protections in bubblewrap's order: a later mount covers an earlier one."""
        root = str(room.workspace)
        return [
            Protection("user namespace", ["--unshare-user"]),
            *(
                [Protection("no more user namespaces", ["--disable-userns"])]
                if self._trial.knows_disable_userns
                else []
            ),
            Protection("process namespace", ["--unshare-pid"]),
            Protection("ipc namespace", ["--unshare-ipc"]),
            Protection("host name", ["--unshare-uts"]),
            Protection("control group namespace", ["--unshare-cgroup-try"]),
            *(
                []
                if room.network == "open" or isinstance(room.network, NetworkGate)
                else [Protection("no network", ["--unshare-net"])]
            ),
            Protection("no terminal", ["--new-session"]),
            Protection("ends with us", ["--die-with-parent"]),
            Protection("no capabilities", ["--cap-drop", "ALL"]),
            Protection("read-only disk", ["--ro-bind", "/", "/"]),
            Protection("few devices", ["--dev", "/dev"]),
            Protection("own processes only", ["--proc", "/proc"]),
            Protection("kernel settings", [*each("--ro-bind", _kernel_places())]),
            *(
                Protection(f"private {place}", ["--tmpfs", place])
                for place in PRIVATE
                if os.path.isdir(place)
            ),
            Protection(
                "programs",
                [*each("--ro-bind", (place for place in SHOWN_OF_RUN if os.path.isdir(place)))],
            ),
            *(
                [Protection("names of hosts", [*each("--ro-bind", _resolver())])]
                if room.network == "open"
                else []
            ),
            *(
                [Protection("private /tmp", ["--bind", str(room.scratch()), "/tmp"])]
                if os.path.isdir("/tmp")
                else []
            ),
            Protection(
                "shown", [*each("--ro-bind", (str(path) for path in room.shown if path.exists()))]
            ),
            Protection("read-only workspace", ["--ro-bind", root, root])
            if room.is_read_only
            else Protection("workspace", ["--bind", root, root]),
            Protection(
                "repository of a worktree", [*of_worktree(room.workspace)] if room.is_open else []
            ),
            Protection(
                "control files",
                []
                if room.is_read_only
                else [*guarding(root, view.sight.guarded.values(), view.ruled)],
            ),
            Protection("hidden secrets", [*hiding(room, view)]),
            Protection("files of read rules", [*hide_all(view.ruled.hidden)]),
        ]

    def system_calls(self, room: CommandRoom) -> bytes:
        """The filter of a command."""
        return seccomp_filter(platform.machine(), network=room.network != "none")


def _everything(path: str) -> bool:
    return True


def _kernel_places() -> list[str]:
    places = OF_THE_KERNEL + MORE_OF_THE_KERNEL if os.geteuid() == 0 else OF_THE_KERNEL
    return [place for place in places if os.path.exists(place)]


def _resolver() -> list[str]:
    real = os.path.realpath("/etc/resolv.conf")
    return [real] if real.startswith("/run/") and os.path.exists(real) else []


# ---------------------------------------------------------------- one command


class BubblewrapCage:
    """Confinement of one command. Holds descriptors and a control group until `leave`."""

    def __init__(
        self,
        sandbox: Bubblewrap,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        room: CommandRoom,
        files: ControlFiles | None,
        view: MountView,
    ) -> None:
        """`files`: where the command has entered; None if it can write nothing there."""
        self.environment = dict(environment)
        self._room, self._files, self._view = room, files, view
        self._theirs: list[int] = []
        """Closed here once the child has them."""
        self._ours: list[int] = []
        self._group = Group.make(sandbox.limits)
        self._speaks = os.path.basename(argv[0]) == "bash"
        """Its shell tells us that it has begun, and waits for our word."""
        self._said = b""
        self._left: CommandNotes | None = None
        try:
            self._status, status = self._pipe()
            filtered = self._seccomp(sandbox, room)
            arguments = [
                *(
                    argument
                    for protection in sandbox.protections(room, view)
                    for argument in protection.arguments
                ),
                *filtered,
                *("--chdir", str(cwd)),
                *([] if self._speaks else ["--info-fd", str(status)]),
            ]
            arguments = [
                str(self._memory(b"")) if argument is EMPTY else argument for argument in arguments
            ]
            listed = self._memory("\0".join(arguments).encode("utf-8", "surrogateescape") + b"\0")
            command = [
                *(room.network.enter if isinstance(room.network, NetworkGate) else ()),
                sandbox.program,
                "--args",
                str(listed),
                "--",
                *argv,
            ]
            self.argv = command if self._group is None else self._group.joined(command)
            if self._speaks:
                word, self._word = os.pipe()
                self._theirs.append(word)
                self._ours.append(self._word)
                ulimits = sandbox.limits.ulimits(grouped=self._group is not None)
                first = _FIRST.format(
                    fd=status, word=word, ulimits=ulimits, bound=_BOUND if filtered else ""
                )
                self.environment["BASH_ENV"] = f"/proc/self/fd/{self._memory(first.encode())}"
        except BaseException:
            self._close([*self._theirs, *self._ours])
            raise
        self.pass_fds = tuple(self._theirs)

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

    def _seccomp(self, sandbox: Bubblewrap, room: CommandRoom) -> list[str]:
        return (
            ["--seccomp", str(self._memory(program))]
            if (program := sandbox.system_calls(room))
            else []
        )

    async def entered(self, pid: int) -> int | None:
        self._close(self._theirs)
        while not self._is_there():
            await anyio.wait_readable(self._status)
        return self._let_begin(pid)

    def _is_there(self) -> bool:
        """Return True if it has reported that it waits, or ended before it could."""
        with suppress(BlockingIOError):
            while piece := os.read(self._status, 4096):
                self._said += piece
            return True
        return (b"begun\n" if self._speaks else b"}\n") in self._said

    def _let_begin(self, pid: int) -> int | None:
        """Gives the first process inside, where the kernel tells whose child it is."""
        inside = None
        with suppress(OSError, IndexError):
            inside = int(Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()[0])
        if self._speaks:
            with suppress(BrokenPipeError):  # it has ended
                os.write(self._word, b"!")
        return inside

    def run_blocking(self, timeout_s: float) -> tuple[int, str]:
        """The whole command, for trials: its exit code and output.

        Raises subprocess.TimeoutExpired; nothing runs on then.
        """
        try:
            process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # also where bubblewrap is a program that does not go there itself
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

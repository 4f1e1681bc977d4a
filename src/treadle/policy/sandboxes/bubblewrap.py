"""Confinement by bubblewrap on Linux: a separate view of the file system, namespaces, no
capabilities, no network.

hidden.py, workspace_secrets.py and control_files.py find the files to hide and guard, mounts.py
mounts them, and trial.py tests that the protections work. Entry: `Bubblewrap`.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import anyio
from anyio import to_thread

from treadle.errors import AgentError
from treadle.policy.sandboxes.cage import BubblewrapCage, ConfinedCommand, Confinement
from treadle.policy.sandboxes.control_files import ControlFiles
from treadle.policy.sandboxes.egress import isolated, through_gate, with_proxy
from treadle.policy.sandboxes.hidden import HiddenPlaces
from treadle.policy.sandboxes.limits import CommandLimits
from treadle.policy.sandboxes.mounts import (
    MountView,
    each,
    guarding,
    hide_all,
    hiding,
    of_worktree,
)
from treadle.policy.sandboxes.ruled_writes import ruled_before
from treadle.policy.sandboxes.seccomp import seccomp_filter
from treadle.policy.sandboxes.surroundings import confined_environment
from treadle.policy.sandboxes.trial import Trial
from treadle.policy.sandboxes.workspace_secrets import SecretPaths, WorkspaceSecrets
from treadle.tools.confinement import CommandRoom, NetworkGate, SandboxStatus

PRIVATE = ("/run", "/var/tmp")
SHOWN_OF_RUN = ("/run/current-system", "/run/opengl-driver")
"""Directories below /run with programs of NixOS."""
OF_THE_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
"""Files of the kernel that root could write without any capability. Writing core_pattern, for
example, runs a program outside.
"""
MORE_OF_THE_KERNEL = ("/proc/acpi", "/proc/fs", "/proc/scsi")


class Protection(NamedTuple):
    """Arguments for one protection. Each of them is needed: tests remove it and observe an
    escape.
    """

    name: str
    arguments: Sequence[str]


class Bubblewrap:
    """`Sandbox` that uses the program `bwrap`."""

    name = "bubblewrap"

    def __init__(
        self,
        program: str,
        *,
        own: Path | None = None,
        home: Path | None = None,
        limits: CommandLimits | None = None,
    ) -> None:
        """Create a sandbox. `own`: Treadle's directory, which is hidden, and where test results are
        stored.

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
        """Prepare the confinement of one command. Raises AgentError(tool) for the root of the file
        system as a workspace.

        Cancellation: no resources are held yet.
        """
        await self.standing()  # the test also shows which options this bubblewrap supports
        room = await through_gate(room, partial(isolated, self.program))
        if room.ruled is None and self._is_quick(room):
            return self.make_cage(argv, cwd, environment, room)
        with anyio.CancelScope(shield=True):
            return await to_thread.run_sync(self.make_cage, argv, cwd, environment, room)
        raise AssertionError("a shielded scope ends with a result or an error")

    def make_cage(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], room: CommandRoom
    ) -> BubblewrapCage:
        """Return the same as `cage`, but block for a few milliseconds. A network that is not open
        yet counts as none.
        """
        if room.workspace == Path("/"):
            raise AgentError(
                "tool",
                "the working directory is '/', which contains every file: work in another one",
            )
        view = self._view(room)
        inside = with_proxy(confined_environment(environment, is_open=room.is_open), room)
        command = ConfinedCommand(argv, cwd, inside)
        if room.is_read_only:
            return BubblewrapCage(command, self._confinement(room, view), room, view)
        files = self._watched.setdefault(room.workspace, ControlFiles(room.workspace, self._own))
        sight = files.enter(is_open=room.is_open, scratch=room.scratch())
        try:
            view = view._replace(sight=sight)
            return BubblewrapCage(command, self._confinement(room, view), room, view, files)
        except BaseException:
            files.leave(room.quarantine, is_open=room.is_open)
            raise

    def _confinement(self, room: CommandRoom, view: MountView) -> Confinement:
        arguments = [one for each in self.protections(room, view) for one in each.arguments]
        return Confinement(self.program, arguments, self.system_calls(room), self.limits)

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
        """Return the files hidden from a command in `room`, except for control files.

        Raises AgentError(tool) if they cannot be determined.
        """
        ruled = ruled_before(room)
        secrets = SecretPaths()
        if room.is_read_only or not room.shows_secrets:
            found = self._secrets.setdefault(room.workspace, WorkspaceSecrets(room.workspace))
            secrets = found.look(_everything if room.shows_secrets else room.is_granted)
        return MountView(hidden=self._hidden.look(), secrets=secrets, ruled=ruled)

    def twin(self, *, home: Path, own: Path, limits: CommandLimits | None = None) -> Self:
        """Return a copy with another home directory, for tests."""
        twin = type(self)(self.program, own=own, home=home, limits=limits or self.limits)
        twin._trial.knows_disable_userns = self._trial.knows_disable_userns
        return twin

    # ------------------------------------------------------------ protections

    def protections(self, room: CommandRoom, view: MountView) -> list[Protection]:
        """Return the protections in bubblewrap's order: a later mount covers an earlier one."""
        return [*self._processes(room), *_disk(room), *_workspace(room, view)]

    def _processes(self, room: CommandRoom) -> list[Protection]:
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
        ]

    def system_calls(self, room: CommandRoom) -> bytes:
        """Return the seccomp filter of a command."""
        return seccomp_filter(platform.machine(), network=room.network != "none")


def _disk(room: CommandRoom) -> list[Protection]:
    return [
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
    ]


def _workspace(room: CommandRoom, view: MountView) -> list[Protection]:
    root = str(room.workspace)
    return [
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
            [] if room.is_read_only else [*guarding(root, view.sight.guarded.values(), view.ruled)],
        ),
        Protection("hidden secrets", [*hiding(room, view)]),
        Protection("files of read rules", [*hide_all(view.ruled.hidden)]),
    ]


def _everything(path: str) -> bool:
    return True


def _kernel_places() -> list[str]:
    places = OF_THE_KERNEL + MORE_OF_THE_KERNEL if os.geteuid() == 0 else OF_THE_KERNEL
    return [place for place in places if os.path.exists(place)]


def _resolver() -> list[str]:
    real = os.path.realpath("/etc/resolv.conf")
    return [real] if real.startswith("/run/") and os.path.exists(real) else []

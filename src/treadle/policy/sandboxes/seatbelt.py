"""Confinement by macOS's sandbox-exec, with a profile for each command. Unproven, because escapes
have not been attempted.

It has no namespaces: processes are visible, /tmp is shared, and processes that leave their group
survive. Entry points: `Seatbelt`, `profile_of`.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio import to_thread

from treadle.errors import AgentError
from treadle.policy.sandboxes.control_files import ControlFiles
from treadle.policy.sandboxes.egress import on_loopback, through_gate, with_proxy
from treadle.policy.sandboxes.hidden import Hidden, HiddenPlaces
from treadle.policy.sandboxes.leftovers import shortened
from treadle.policy.sandboxes.ruled_writes import ruled_before, taken_away
from treadle.policy.sandboxes.sight import Sight
from treadle.policy.sandboxes.surroundings import confined_environment
from treadle.policy.sandboxes.trial_thread import TrialThread
from treadle.policy.sandboxes.workspace_secrets import SecretPaths, WorkspaceSecrets
from treadle.tools.confinement import CommandNotes, CommandRoom, Ruled, SandboxStatus

PROGRAM = "/usr/bin/sandbox-exec"
WITHIN_S = 10.0

_ALWAYS = """(version 1)
(deny default (with no-log))
(allow process-exec process-fork process-info* (target same-sandbox))
(allow process-exec process-fork)
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") (global-name "com.apple.SystemConfiguration.configd"))
(allow ipc-posix-sem ipc-posix-shm)
(allow file-read* file-test-existence)
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (regex #"^/dev/fd/"))
(allow file-ioctl (literal "/dev/null") (literal "/dev/tty"))"""  # noqa: E501
_NETWORK = """(allow network*)
(allow system-socket)
(allow mach-lookup (global-name "com.apple.dnssd.service") (global-name "com.apple.trustd.agent") (global-name "com.apple.networkd"))"""  # noqa: E501
_LOOPBACK = """(allow network* (local ip "localhost:*") (remote ip "localhost:*"))
(deny network-outbound (remote unix-socket))"""


class HiddenPaths(NamedTuple):
    """Parts of the disk that are hidden from one command."""

    sight: Sight = Sight({})
    hidden: Sequence[Hidden] = ()
    secrets: Sequence[str] = ()
    ruled: Ruled = Ruled()


def profile_of(room: CommandRoom, kept: HiddenPaths, scratch: Path) -> str:
    """Return the profile for sandbox-exec.

    The last matching rule applies, so denials follow permissions.
    """
    root, sight = str(room.workspace), kept.sight
    guarded = [
        f"{root}/{path}" for path, found in sorted(sight.guarded.items()) if found.kind != "git"
    ]
    pinned = {parent for path in sight.guarded for parent in _parents(path)} | {
        path for path, found in sight.guarded.items() if found.kind == "git"
    }
    above = [f"{root}/{path}" for path in sorted(pinned)]
    hidden = [
        str(place.path) for place in kept.hidden if not room.workspace.is_relative_to(place.path)
    ]
    rules = [
        _ALWAYS,
        _NETWORK if room.network == "open" else _LOOPBACK,
        _rule(
            "allow file-write*",
            "subpath",
            [str(scratch)] if room.is_read_only else [root, str(scratch)],
        ),
        _rule("deny file-write*", "subpath", [*guarded, *kept.ruled.fixed]),
        _rule("deny file-write-unlink", "literal", above),
        _rule(
            "deny file-read* file-write*", "subpath", [*hidden, *kept.secrets, *kept.ruled.hidden]
        ),
    ]
    return "\n".join(rule for rule in rules if rule) + "\n"


def _rule(what: str, how: str, paths: Iterable[str]) -> str:
    named = " ".join(f"({how} {_quoted(path)})" for path in paths)
    return f"({what} {named})" if named else ""


def _quoted(path: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", path) + '"'


def _parents(path: str) -> list[str]:
    """Return the directories above a path. Renaming one would move the guarded contents
    elsewhere.
    """
    names = path.split("/")[:-1]
    return ["/".join(names[: depth + 1]) for depth in range(len(names))]


class Seatbelt:
    """`Sandbox` that uses the program sandbox-exec of macOS."""

    name = "seatbelt"

    def __init__(self, *, own: Path | None = None, home: Path | None = None) -> None:
        self._own = own
        self._hidden = HiddenPlaces(home or Path(os.path.expanduser("~")), own)
        self._watched: dict[Path, ControlFiles] = {}
        self._secrets: dict[Path, WorkspaceSecrets] = {}
        self._trial = TrialThread("sandbox-exec", self._tried)

    def begin(self) -> None:
        self._trial.begin()

    async def standing(self) -> SandboxStatus:
        return await self._trial.standing()

    async def aclose(self) -> None:
        await self._trial.aclose()

    def _tried(self) -> SandboxStatus:
        """Check that a write outside is denied and one inside is allowed."""
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder).resolve()
            (place / "work").mkdir()
            room = CommandRoom(
                workspace=place / "work", scratch=lambda: place / "work", quarantine=lambda: place
            )
            profile = profile_of(room, HiddenPaths(), place / "work")
            script = f"echo x > '{place}/work/in'; echo x > '{place}/out'; exit 0"
            subprocess.run(
                [PROGRAM, "-p", profile, "/bin/bash", "-c", script],
                capture_output=True,
                timeout=WITHIN_S,
                check=True,
            )
            if not (place / "work/in").exists():
                return SandboxStatus(
                    works=False, text="sandbox-exec lets nothing be written in the workspace"
                )
            if (place / "out").exists():
                return SandboxStatus(
                    works=False, text="sandbox-exec does not confine commands here"
                )
        return SandboxStatus(
            works=True, text="sandbox-exec confines commands; what it holds is unproven"
        )

    async def cage(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], room: CommandRoom
    ) -> SeatbeltCage:
        """Prepare the confinement of one command. Raises AgentError(tool) for the root of the file
        system as a workspace.
        """
        if room.workspace == Path("/"):
            raise AgentError(
                "tool",
                "the working directory is '/', which contains every file: work in another one",
            )
        room = await through_gate(room, on_loopback)
        with anyio.CancelScope(shield=True):
            return await to_thread.run_sync(self._caged, argv, environment, room)
        raise AssertionError("a shielded scope ends with a result or an error")

    def _caged(
        self, argv: Sequence[str], environment: Mapping[str, str], room: CommandRoom
    ) -> SeatbeltCage:
        ruled = ruled_before(room)
        secrets = (
            SecretPaths()
            if room.shows_secrets
            else self._secrets.setdefault(room.workspace, WorkspaceSecrets(room.workspace)).look(
                room.is_granted
            )
        )
        files = (
            None
            if room.is_read_only
            else self._watched.setdefault(room.workspace, ControlFiles(room.workspace, self._own))
        )
        scratch = room.scratch().resolve()
        sight = Sight({}) if files is None else files.enter(is_open=room.is_open, scratch=scratch)
        profile = profile_of(
            room, HiddenPaths(sight, self._hidden.look(), secrets.paths, ruled), scratch
        )
        environment = with_proxy(surrounded(environment, scratch, is_open=room.is_open), room)
        return SeatbeltCage(
            [PROGRAM, "-p", profile, *argv], environment, room, files, ruled, secrets.notes
        )


def surrounded(environment: Mapping[str, str], scratch: Path, *, is_open: bool) -> dict[str, str]:
    """Return the environment of a command, with a writable directory for temporary files, because
    it has no private /tmp.
    """
    inside = confined_environment(environment, is_open=is_open)
    return inside | {
        "TMPDIR": str(scratch),
        "XDG_CACHE_HOME": f"{scratch}/.cache",
        "npm_config_cache": f"{scratch}/.cache/npm",
    }


class SeatbeltCage:
    """Confinement of one command, whose processes are identified by their group, as without a
    sandbox.
    """

    pass_fds: Sequence[int] = ()

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        room: CommandRoom,
        files: ControlFiles | None,
        ruled: Ruled,
        notes: Sequence[str],
    ) -> None:
        self.argv, self.environment = argv, environment
        self._room, self._files, self._ruled, self._notes = room, files, ruled, notes
        self._left: CommandNotes | None = None

    async def entered(self, pid: int) -> None:
        return None

    async def leave(self) -> CommandNotes:
        if self._left is None:
            self._left = CommandNotes()
            with anyio.CancelScope(shield=True):
                self._left = CommandNotes(
                    quarantined=await to_thread.run_sync(self._clear), notes=self._notes
                )
        return self._left

    def _clear(self) -> list[str]:
        if self._files is None:
            return []
        said = self._files.leave(self._room.quarantine, is_open=self._room.is_open)
        return shortened(
            said if self._room.ruled is None else said + taken_away(self._room, self._ruled)
        )

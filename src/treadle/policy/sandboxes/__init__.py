"""The ways to confine commands, and which of them this machine has.

bubblewrap on Linux: bubblewrap.py, with what it hides (hidden.py), which files of a workspace it
guards (control_files.py, walking.py) and moves away afterwards (leftovers.py, replaced.py), what
processes share of that (shared_sight.py), what git reads (repositories.py, git_contents.py,
git_index.py, git_settings.py), where the repository of a worktree lies (worktree.py), which system
calls it refuses (seccomp.py), how much commands may use (limits.py) and which variables they get
(surroundings.py). Whether it works is found out by trying: trial.py at the start, escapes.py for
`treadle doctor --full`. sandbox-exec on macOS: seatbelt.py, unproven. Either is tried in a thread:
trial_thread.py.

Entry: `find_sandbox`.

    cage.py               one confined command
    connections.py        the connections of all proxies of this process
    escape_attempt.py     an attempt of escapes.py, and the ground that it runs on
    file_escapes.py       ways out through files
    system_escapes.py     ways out through processes, the network and the kernel
    egress.py             A network namespace that confined commands share, and the proxy on its
    git_files.py          files and folders of a repository
    plain_settings.py     settings of git that name no program
    pending_operations.py operations of git that have not ended
    quarantine.py         moves of leftovers into quarantine
    lookups.py            names that a proxy resolves
    mounts.py             mounts that hide files of a workspace, or keep them from being written
    parent_proxy.py       proxies of the user's own environment, through which ours reaches
    proxy.py              the proxy through which confined commands reach listed hosts
    proxy_streams.py      the two ends of a connection through the proxy
    request_head.py       the head of a request to the proxy, read strictly
    ruled_writes.py       new files that a `deny` rule for writing is about
    workspace_secrets.py  the files of a workspace that likely hold a secret, found again before
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from treadle._internal.environment import path_outside
from treadle.tools.confinement import Cage, CommandRoom, Sandbox, SandboxStatus

INSTALL = (
    "install bubblewrap (apt install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap)"
)


class NoSandbox:
    """A `Sandbox` that reports that commands cannot be confined."""

    name = "none"

    def __init__(self, text: str) -> None:
        self._standing = SandboxStatus(works=False, text=text)

    def begin(self) -> None:
        pass

    async def standing(self) -> SandboxStatus:
        return self._standing

    async def cage(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], room: CommandRoom
    ) -> Cage:
        raise AssertionError("nothing works here, as its standing says")

    async def aclose(self) -> None:
        pass


def find_sandbox(own: Path | None) -> Sandbox:
    """`own`: Treadle's folder, if there is one. Does not test the sandbox yet."""
    if sys.platform.startswith("linux"):
        from treadle.policy.sandboxes.bubblewrap import Bubblewrap  # noqa: PLC0415  only on Linux

        if (
            program := shutil.which("bwrap", path=path_outside(os.environ.get("PATH"), Path.cwd()))
        ) is None:
            return NoSandbox("bubblewrap is not there: " + INSTALL)
        return Bubblewrap(program, own=own)
    if sys.platform == "darwin":
        from treadle.policy.sandboxes.seatbelt import PROGRAM, Seatbelt  # noqa: PLC0415  only on macOS

        return (
            Seatbelt(own=own)
            if os.access(PROGRAM, os.X_OK)
            else NoSandbox(f"{PROGRAM} is not there")
        )
    return NoSandbox(f"there is none for {sys.platform}")

"""The implementations of command confinement, and the choice of one for this machine.

bubblewrap on Linux: bubblewrap.py, with hidden files (hidden.py), guarded files of a workspace
(control_files.py, walking.py) and their quarantine (leftovers.py, replaced.py), state shared by
processes (shared_sight.py), files that git reads (repositories.py, git_contents.py, git_index.py,
git_settings.py), the repository of a worktree (worktree.py), blocked system calls (seccomp.py),
resource limits (limits.py) and environment variables (surroundings.py). Tests of the sandbox:
trial.py at the start, escapes.py for `treadle doctor --full`. sandbox-exec on macOS: seatbelt.py,
unproven. Either is tested in a thread: trial_thread.py.

Entry: `find_sandbox`, `chosen_sandbox`.

    cage.py               one confined command
    connections.py        the connections of all proxies of this process
    escape_attempt.py     an attempt of escapes.py, and its environment
    file_escapes.py       ways out through files
    system_escapes.py     ways out through processes, the network and the kernel
    egress.py             the network namespace that confined commands share, and its proxy
    git_files.py          files and folders of a repository
    plain_settings.py     settings of git that name no program
    pending_operations.py operations of git that have not ended
    quarantine.py         moves of leftovers into quarantine
    lookups.py            names that a proxy resolves
    mounts.py             mounts that hide files of a workspace, or make them read-only
    parent_proxy.py       proxies of the user's own environment, which ours can use
    proxy.py              the proxy through which confined commands reach listed hosts
    proxy_streams.py      the two sides of a connection through the proxy
    request_head.py       strict parser of request heads for the proxy
    ruled_writes.py       new files that a `deny` rule for writing covers
    workspace_secrets.py  the files of a workspace that probably contain a secret
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from treadle._internal.environment import path_outside
from treadle.config.plugins import load_plugin
from treadle.errors import AgentError
from treadle.tools.confinement import Cage, CommandRoom, Sandbox, SandboxStatus

INSTALL = (
    "install bubblewrap (apt install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap)"
)


SANDBOX_USES = ("auto", "on", "off")
"""Values of `defaults.sandbox`, apart from the names of plug-ins."""


class NoSandbox:
    """`Sandbox` for machines on which commands cannot be confined."""

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


def chosen_sandbox(wanted: str, own: Path | None) -> Sandbox:
    """Return the sandbox that `defaults.sandbox` selects: a plug-in by its name, else that of this
    machine. Raises AgentError(invalid) for a plug-in that cannot be loaded.
    """
    if wanted in SANDBOX_USES:
        return find_sandbox(own)
    if (plugin := load_plugin("sandboxes", wanted)) is None:
        raise AgentError("invalid", f"defaults.sandbox is {wanted!r}, and no plug-in has this name")
    return cast("Sandbox", plugin.called(own))


def find_sandbox(own: Path | None) -> Sandbox:
    """Return the sandbox for this machine, without testing it yet. `own`: Treadle's directory, if
    there is one.
    """
    if sys.platform.startswith("linux"):
        from treadle.policy.sandboxes.bubblewrap import Bubblewrap  # noqa: PLC0415  only on Linux

        if (
            program := shutil.which("bwrap", path=path_outside(os.environ.get("PATH"), Path.cwd()))
        ) is None:
            return NoSandbox("bubblewrap is not installed: " + INSTALL)
        return Bubblewrap(program, own=own)
    if sys.platform == "darwin":
        from treadle.policy.sandboxes.seatbelt import PROGRAM, Seatbelt  # noqa: PLC0415  only on macOS

        return (
            Seatbelt(own=own)
            if os.access(PROGRAM, os.X_OK)
            else NoSandbox(f"{PROGRAM} does not exist")
        )
    return NoSandbox(f"there is none for {sys.platform}")

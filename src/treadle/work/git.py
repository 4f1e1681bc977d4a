"""Git as this program runs it: nothing that a repository configures is started, no hook, no monitor, no pager, and nobody is asked.

What it is used for stands in worktrees.py and changes.py. Entry: `Git`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import anyio

from treadle.errors import AgentError

QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.safecrlf=false", "-c", "advice.detachedHead=false")
SAID_CHARS = 300
KEPT_VARIABLES = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES"})
"""Any other, such as the GIT_DIR of a hook that started us, would name another repository."""


class GitFailed(AgentError):
    """What git said, in one line. Its kind is invalid."""


class Git:
    """Commands of git in one folder. `environment`: without anybody's keys."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        kept = {name: value for name, value in environment.items() if not name.startswith("GIT_") or name in KEPT_VARIABLES}
        self._environment = {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "LC_ALL": "C"}

    def within(self, folder: Path, **environment: str) -> Git:
        """The same elsewhere, with more variables."""
        other = Git(folder, {})
        other._environment = {**self._environment, **environment}
        return other

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> str:
        """What it prints, without the last line end; bytes that are no UTF-8 as surrogates. Raises GitFailed. Cancellation kills it."""
        program = shutil.which("git", path=self._environment.get("PATH"))
        if program is None:
            raise GitFailed("invalid", "git is not installed, or not on the PATH")
        try:
            done = await anyio.run_process(
                [program, "--no-optional-locks", *QUIET, *arguments],
                input=stdin,
                check=False,
                cwd=self.folder,
                env=self._environment,
                start_new_session=True,  # Ctrl-C of the terminal is for us: half a checkout is nobody's wish
            )
        except OSError as e:
            raise GitFailed("invalid", f"git could not be started in {str(self.folder)!r}: {e.strerror or e}") from e
        if done.returncode:
            said = " ".join(os.fsdecode(done.stderr).split())[:SAID_CHARS]
            raise GitFailed("invalid", f"git {arguments[0]} failed in {str(self.folder)!r}: {said or f'exit code {done.returncode}'}")
        return os.fsdecode(done.stdout).removesuffix("\n")

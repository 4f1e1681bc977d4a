"""Git commands that start nothing that a repository configures (hooks, monitors, filters) and never
prompt.

worktrees.py and changes.py use them. Entry point: `GitCommands`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from treadle._internal.environment import path_outside
from treadle.errors import AgentError

QUIET = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.safecrlf=false",
    "-c",
    "diff.ignoreSubmodules=dirty",
)
BESIDE_FILES = frozenset({"rev-parse", "update-ref", "diff-tree"})
"""Commands that read no file of a working tree.

Any other command may pass files through a filter. Even write-tree does, if it cannot trust its
index.
"""
WELL_KNOWN = frozenset({"git-lfs clean -- %f", "git-lfs smudge -- %f", "git-lfs filter-process"})
"""Filters written by `git lfs install --local`."""
SWITCHED_OFF = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
SAID_CHARS = 300
KEPT_VARIABLES = frozenset(
    {
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_EXEC_PATH",
        "GIT_CEILING_DIRECTORIES",
    }
)
"""Variables that git receives. Any other, such as the GIT_DIR of a hook that started us, would name
another repository.
"""


class GitFailed(AgentError):
    """Error with git's message in one line. Its kind is invalid."""


class GitCommands:
    """Git commands in one folder. `environment` must not contain secrets."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        kept = {
            name: value
            for name, value in environment.items()
            if not name.startswith("GIT_") or name in KEPT_VARIABLES
        }
        self._environment = {
            **kept,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_PAGER": "cat",
            "LC_ALL": "C",
        }
        self._is_without_filters = False

    def within(self, folder: Path, **environment: str) -> GitCommands:
        """Return the commands for another folder, with additional environment variables."""
        other = GitCommands(folder, {})
        other._environment = {**self._environment, **environment}
        return other

    async def without_filters(self) -> GitCommands:
        """Return the commands with the repository's current filters disabled, for several commands
        in a row: each of them would read the configuration. Raises GitFailed.
        """
        other = self.within(self.folder, **await self._without_filters())
        other._is_without_filters = True
        return other

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run a command and return its standard output without the last line feed; invalid UTF-8
        becomes surrogates.

        Raises GitFailed. Cancellation kills the command.
        """
        is_safe = self._is_without_filters or arguments[0] in BESIDE_FILES
        extra = {} if is_safe else await self._without_filters()
        code, out, said = await self._run(arguments, stdin, extra)
        if code:
            raise GitFailed(
                "invalid",
                f"git {arguments[0]} failed in {str(self.folder)!r}: {said or f'exit code {code}'}",
            )
        return out.removesuffix("\n")

    async def _without_filters(self) -> dict[str, str]:
        """Return variables that disable the filters that the repository configures, because its
        author chose their commands. The user's own filters stay.
        """
        code, listed, said = await self._run(
            (
                "config",
                "--show-scope",
                "--null",
                "--get-regexp",
                r"^filter\..*\.(clean|smudge|process)$",
            ),
            b"",
            {},
        )
        if code not in (0, 1):  # 1: no filter is configured
            raise GitFailed("invalid", f"git config failed in {str(self.folder)!r}: {said}")
        fields = listed.split("\0")
        found = [
            (scope, *said.partition("\n"))
            for scope, said in zip(fields[::2], fields[1::2], strict=False)
        ]
        foreign = {
            key.rpartition(".")[0]
            for scope, key, _, command in found
            if scope in ("local", "worktree") and command not in WELL_KNOWN
        }
        off = [(f"{name}.{key}", value) for name in sorted(foreign) for key, value in SWITCHED_OFF]
        pairs = {
            f"GIT_CONFIG_{part}_{n}": text
            for n, pair in enumerate(off)
            for part, text in zip(("KEY", "VALUE"), pair, strict=True)
        }
        return {"GIT_CONFIG_COUNT": str(len(off)), **pairs}

    async def _run(
        self, arguments: Sequence[str], stdin: bytes, extra: Mapping[str, str]
    ) -> tuple[int, str, str]:
        """Return exit code, standard output, and standard error in one line.

        Raises GitFailed if git cannot be started.
        """
        program = shutil.which("git", path=path_outside(self._environment.get("PATH"), self.folder))
        if program is None:
            raise GitFailed("invalid", "git is not installed, or is not on the PATH")
        try:
            done = await anyio.run_process(
                [program, "--no-optional-locks", *QUIET, *arguments],
                input=stdin,
                check=False,
                cwd=self.folder,
                env={**self._environment, **extra},
                # Ctrl-C in the terminal is meant for Treadle, and must not interrupt a checkout.
                start_new_session=True,
            )
        except OSError as e:
            raise GitFailed(
                "invalid", f"git could not be started in {str(self.folder)!r}: {e.strerror or e}"
            ) from e
        return (
            done.returncode,
            os.fsdecode(done.stdout),
            " ".join(os.fsdecode(done.stderr).split())[:SAID_CHARS],
        )

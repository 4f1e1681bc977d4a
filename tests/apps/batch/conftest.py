"""A repository with a commit, and the command line beside it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Answer, Cli

IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")


def git(folder: Path, *arguments: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
    }
    done = subprocess.run(
        ["git", *IDENTITY, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.removesuffix("\n")


def repository(folder: Path) -> Path:
    """With one commit of two files."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "cart.py").write_text("one\ntwo\nthree\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}], **more}


def lives(pid: int) -> bool:
    """A dead process that its parent has not collected yet does not."""
    if not os.path.isdir("/proc"):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Work(Cli):
    """`treadle work` in a repository."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path)
        repository(self.workspace)

    @property
    def shelf(self) -> Path:
        return self.home / ".treadle" / "journal.db-work"

    def rows(self, answer: Answer) -> list[dict[str, Any]]:
        return json.loads(answer.out)["rows"]

    def work(self, *arguments: str, **more: Any) -> tuple[Answer, list[dict[str, Any]]]:
        """With the report as JSON, in mode full."""
        answer = self("work", *arguments, "--mode", "full", "--output", "json", **more)
        return answer, self.rows(answer)

    def resume(self, *arguments: str, **more: Any) -> tuple[Answer, list[dict[str, Any]]]:
        answer = self.resumed(*arguments, **more)
        return answer, self.rows(answer)

    def resumed(self, *arguments: str, **more: Any) -> Answer:
        """Forked: a command that a killed process was about to start holds the lock of its batch
        until it is executed.
        """
        words = ("work", "--resume", "last", "--output", "json")
        return self(*words, *arguments, forked=True, **more)

    def worktrees(self) -> list[Path]:
        """Those that git knows beside the checkout."""
        lines = git(self.workspace, "worktree", "list", "--porcelain").splitlines()
        return [
            Path(line.removeprefix("worktree ")) for line in lines if line.startswith("worktree ")
        ][1:]

    def branches(self) -> list[str]:
        return git(
            self.workspace, "branch", "--list", "--format=%(refname:short)", "treadle/*"
        ).split()

    def checkout(self) -> str:
        """All that must not change of the person's checkout."""
        files = {
            path.name: path.read_bytes() for path in self.workspace.iterdir() if path.is_file()
        }
        return f"{files} {git(self.workspace, 'status', '--porcelain')} {git(self.workspace, 'rev-parse', 'HEAD', '--abbrev-ref', 'HEAD')}"


@pytest.fixture
def cli(tmp_path: Path) -> Work:
    return Work(tmp_path)

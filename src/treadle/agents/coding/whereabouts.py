"""Description of the working environment: directory, git, system, programs, date. It is identical
in every process on the same day.

Runs no program, in particular not git, because a project's configuration can make git run code.
Entry points: `whereabouts`.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from treadle._internal.safe_open import head_of
from treadle.config import Project

SHELLS = ("bash", "zsh", "fish", "sh")
PROGRAMS = (
    *("git", "gh", "rg", "jq", "curl", "make", "cmake", "docker", "podman"),
    *(
        "python3",
        "uv",
        "pip",
        "node",
        "npm",
        "pnpm",
        "yarn",
        "bun",
        "deno",
        "cargo",
        "go",
        "java",
        "mvn",
        "gradle",
        "ruby",
        "php",
        "dotnet",
    ),
)
"""Programs to look up on the PATH, so that the model need not probe for them."""

PATH_MAX_CHARS = 1_000
HEAD_MAX_BYTES = 4_096
BRANCH = re.compile(
    r"ref: "
    r"refs/heads/((?!.*(?:\.\.|//|@\{))[^\x00-\x20\x7f-\xa0~^:?*\[\\\u200b-\u200f\u2028-\u202f\u2060-\u206f]{1,120})\n?"
)
"""Branch reference of a HEAD file. Accepts only valid git names of limited length, because the
project's author chose the name.
"""
COMMIT = re.compile(r"([0-9a-f]{40}(?:[0-9a-f]{24})?)\n?")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def whereabouts(
    project: Project,
    *,
    attended: bool = False,
    environment: Mapping[str, str] | None = None,
    today: datetime.date | None = None,
) -> str:
    """Return the environment block of the system prompt.

    `attended`: True if a user can answer questions during the run.
    """
    environment = os.environ if environment is None else environment
    lines = [
        f"Working directory: {_shown(project.here)}",
        *_git(project),
        f"System: {_system()}",
        f"Shells: {_found(SHELLS, environment)}. Commands run in bash.",
        f"Programs found: {_found(PROGRAMS, environment)}.",
        f"Day: {(today or datetime.date.today()).isoformat()}",
        "A person follows this run and can answer questions."
        if attended
        else (
            "No person can answer questions: a call that needs a person's approval is denied, "
            "and only your last message is read."
        ),
    ]
    return "\n".join(
        ("# Environment at the start of the run", "", *(f"- {line}" for line in lines))
    )


def _system() -> str:
    name = platform.system()
    parts = ("macOS", platform.mac_ver()[0]) if name == "Darwin" else (name, platform.release())
    return " ".join(part for part in (*parts, platform.machine()) if part)


def _found(names: tuple[str, ...], environment: Mapping[str, str]) -> str:
    path = environment.get("PATH", os.defpath)
    return ", ".join(name for name in names if shutil.which(name, path=path)) or "none"


def _shown(path: Path) -> str:
    text = _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(path))
    return text if len(text) <= PATH_MAX_CHARS else f"{text[:PATH_MAX_CHARS]}…"


# ---------------------------------------------------------------- git, from its files


def _git(project: Project) -> Iterator[str]:
    folder = _git_folder(project.root / ".git")
    if folder is None:
        yield "Git: no repository"
        return
    root = "" if project.root == project.here else f"root {_shown(project.root)}, "
    yield f"Git: {root}{_head(folder)}"


def _git_folder(path: Path) -> Path | None:
    """Return the git folder. In worktrees and submodules, `.git` is a file that points to it."""
    if path.is_dir():
        return path
    said = re.fullmatch(r"gitdir: ([^\x00\n]+)\n?", _line(path))
    folder = path.parent / said[1] if said else None
    return folder if folder is not None and folder.is_dir() else None


def _head(folder: Path) -> str:
    line = _line(folder / "HEAD")
    if branch := BRANCH.fullmatch(line):
        return f"branch {branch[1]}"
    if commit := COMMIT.fullmatch(line):
        return f"no branch, at commit {commit[1][:12]}"
    return "on an unknown branch"


def _line(path: Path) -> str:
    """Return the start of a regular file as text; an empty string if it is not one."""
    return (head_of(path, HEAD_MAX_BYTES) or b"").decode("utf-8", "replace")

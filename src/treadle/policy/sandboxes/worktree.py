"""Repository of a workspace that is a git worktree: it is outside the workspace, and a commit
writes there. Entry: `worktree_binds`, `repository_of`. mounts.py mounts the submodules of such a
worktree.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_OF_ALL = ("config", "config.worktree", "hooks", "info", "modules", "worktrees")
"""Read-only parts of the repository: those that name programs, and other worktrees."""
_OF_ONE = ("gitdir", "commondir", "config.worktree")
_FOLDERS = frozenset({"hooks", "info", "modules"})
"""Directories that are covered if they do not exist, so that nothing can be created there."""


def worktree_binds(workspace: Path) -> list[str]:
    """Return arguments of bubblewrap for a workspace whose `.git` file points to a repository that
    lists this workspace; else none.

    The repository must confirm the link. Otherwise, writing that file could make any directory of
    the disk writable.
    """
    found = repository_of(workspace)
    return [] if found is None else [*_binds(*found)]


def repository_of(workspace: Path) -> tuple[Path, Path] | None:
    """Return the repository of a worktree, and its directory for this worktree; None for any other
    workspace.
    """
    link = workspace / ".git"
    try:
        if link.is_symlink() or not link.is_file():
            return None
        own = Path(
            os.path.realpath(
                workspace / link.read_text(encoding="utf-8").strip().removeprefix("gitdir: ")
            )
        )
        if os.path.realpath(
            (own / "gitdir").read_text(encoding="utf-8").strip()
        ) != os.path.realpath(link):
            return None
        whole = Path(
            os.path.realpath(own / (own / "commondir").read_text(encoding="utf-8").strip())
        )
    except (OSError, UnicodeError, ValueError):
        return None
    return (
        (whole, own) if own.parent == whole / "worktrees" and (whole / "config").is_file() else None
    )


def _binds(whole: Path, own: Path) -> Iterator[str]:
    if (
        "worktreeconfig"
        in (whole / "config").read_text(encoding="utf-8", errors="replace").casefold()
    ):
        for folder in (whole, own):
            # git reads through it from now on, so the existing content can be kept
            (folder / "config.worktree").touch()
    yield from ("--bind", str(whole), str(whole))
    for name in _OF_ALL:
        path = str(whole / name)
        if os.path.lexists(path):
            yield from ("--ro-bind", path, path)
        elif name in _FOLDERS:
            yield from ("--tmpfs", path, "--remount-ro", path)
    yield from ("--bind", str(own), str(own))
    for name in _OF_ONE:
        if (own / name).exists():
            yield from ("--ro-bind", str(own / name), str(own / name))

"""Walk through a workspace, directory by directory: control files, repositories and their content.

Entry points: `WorkspaceWalk`, `sorted_out`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from treadle._internal.stamps import Stamp
from treadle._internal.wildcards import wildcards
from treadle.policy import guarded_paths
from treadle.policy.guarded_paths import PathGuard, guard_of
from treadle.policy.sandboxes.repositories import (
    Kind,
    RepositoryFolder,
    inner_repositories,
    is_repository,
    last_changed,
    repository_at,
)
from treadle.policy.sandboxes.sight import NOT_LOOKED_INTO, FoundPath, Sight

GROWS = frozenset({"modules", "worktrees"})
"""Entries of a repository that git extends. If everything is allowed, each submodule and worktree
in them is guarded individually.
"""


class WalkedFolder(NamedTuple):
    stamp: Stamp
    guarded: tuple[FoundPath, ...]
    folders: tuple[str, ...]
    links: tuple[str, ...]
    is_bare: bool


class WorkspaceWalk:
    """Inspection of a workspace that is in progress."""

    def __init__(
        self, root: str, *, is_open: bool, writable: Collection[str] = (), is_before: bool = False
    ) -> None:
        """Create a workspace walk. `writable`: directories elsewhere that commands may write.

        `is_before`: a file that is not guarded for this command may be new to another one.
        """
        self._root, self._is_open, self._writable, self._is_before = (
            root,
            is_open,
            writable,
            is_before,
        )
        self._guarded: dict[str, FoundPath] = {}
        self._seen: dict[str, FoundPath] = {}
        self._repositories: dict[str, RepositoryFolder] = {}
        self._changed: dict[str, int] = {}
        self._opened: set[str] = set()

    def sight(self, at_ns: int, unread: set[str], *, is_whole: bool) -> Sight:
        return Sight(
            guarded=self._guarded,
            at_ns=at_ns,
            is_whole=is_whole,
            seen=self._seen,
            repositories=self._repositories,
            changed=self._changed,
            opened=frozenset(self._opened),
            unread=frozenset(unread),
        )

    def add(self, found: FoundPath, *, is_near: bool) -> None:
        is_free = self._is_open and guard_of(f"/w/{found.path}") is PathGuard.REVIEWED
        if is_free and not self._is_before:
            return
        found = found.followed(self._root)
        self._seen[found.path] = found
        if is_near and not is_free:
            self._guarded[found.path] = found
        if found.kind == "git":
            self.add_repository(found.path, "git", is_near=is_near)

    def add_link(self, path: str, *, is_foreign: bool) -> str | None:
        """Record a link to a place that is not inspected. Return the directory that it leads to if
        it must be inspected because of the link.
        """
        place = os.path.join(self._root, path)
        real = os.path.realpath(place)
        inside = real.removeprefix(f"{self._root}/") if real.startswith(f"{self._root}/") else None
        names = real.split("/") if inside is None else inside.split("/")
        is_hidden = ".git" in (name.casefold() for name in names)
        is_hidden |= not is_foreign and inside is not None and not NOT_LOOKED_INTO.isdisjoint(names)
        is_hidden |= inside is None and any(
            f"{real}/".startswith(f"{folder}/") for folder in self._writable
        )
        if not is_hidden or (found := found_at(place, path)) is None or found.kind != "link":
            return None
        self._seen[path] = found._replace(kind="into", leads=real if os.path.isdir(real) else "")
        if (
            inside is None
            or names[-1].casefold() == ".git"
            or inside in self._opened
            or not os.path.isdir(real)
        ):
            return None
        self._opened.add(inside)
        return inside

    def add_repository(
        self, path: str, kind: Kind, *, is_near: bool, is_alone: bool = False
    ) -> None:
        """Add a repository. `is_alone`: without its submodules and worktrees.

        A repository that is already known keeps its kind.
        """
        if kind == "bare" and path in self._repositories:
            return
        names = self._add_parts(path, kind, is_near=is_near, is_guarded=is_near)
        if is_alone or not names & GROWS:
            return
        for inner, inner_kind in inner_repositories(self._root, path):
            found = found_at(os.path.join(self._root, inner), inner)
            if found is not None:
                self._seen[inner] = found._replace(is_part=inner_kind is not None)
            if found is not None and inner_kind is not None:
                is_guarded = is_near and self._is_open
                if is_guarded:
                    self._guarded[inner] = found._replace(kind="git")
                self._add_parts(inner, inner_kind, is_near=is_near, is_guarded=is_guarded)

    def _add_parts(self, path: str, kind: Kind, *, is_near: bool, is_guarded: bool) -> set[str]:
        repository = self._repositories[path] = repository_at(self._root, path, kind)
        if not is_near:
            self._changed[path] = last_changed(os.path.join(self._root, path))
        for name in repository.parts:
            inner = f"{path}/{name}" if path else name
            if (found := found_at(os.path.join(self._root, inner), inner)) is not None:
                self._seen[inner] = found = found.followed(self._root)._replace(is_part=True)
                if is_guarded and not (self._is_open and name.casefold() in GROWS):
                    self._guarded[inner] = found
        return {name.casefold() for name in repository.parts}


# ---------------------------------------------------------------- one directory


def sorted_out(
    folder: str, stamp: Stamp, entries: Sequence[os.DirEntry[str]], *, is_foreign: bool
) -> WalkedFolder:
    guarded: list[FoundPath] = []
    folders: list[str] = []
    links: list[str] = []
    for entry in entries:
        name = entry.name
        path = f"{folder}/{name}" if folder else name
        if (
            _may_be_guarded(entry, is_foreign=is_foreign)
            and (guard := _guard(entry, path)) is not None
        ):
            if (found := found_at(entry.path, path)) is not None:
                guarded.append(found)
            if guard is not PathGuard.REVIEWED:
                continue
        if entry.is_dir(follow_symlinks=False):
            folders.append(path)
        elif entry.is_symlink() and (not is_foreign or _may_lead_out(entry)):
            links.append(path)
    return WalkedFolder(
        stamp,
        tuple(guarded),
        tuple(folders),
        tuple(links),
        is_repository(entry.name for entry in entries),
    )


def _may_lead_out(entry: os.DirEntry[str]) -> bool:
    """Return True if a link among packages may itself lead out of them. A chain of links does if
    its last link does.
    """
    try:
        target = os.readlink(entry.path)
    except OSError:
        return False
    return os.path.isabs(target) or ".." in target.split("/") or ".git" in target.casefold()


def _may_be_guarded(entry: os.DirEntry[str], *, is_foreign: bool) -> bool:
    names, above, pattern = _guarded_names()
    lower = entry.name.casefold()
    if is_foreign:
        return lower == ".git" or not entry.name.isascii()
    return (
        lower in names
        or not entry.name.isascii()
        or pattern.fullmatch(lower) is not None
        or (lower in above and entry.is_symlink())
    )


def _guard(entry: os.DirEntry[str], path: str) -> PathGuard | None:
    guard = guard_of(f"/w/{path}")
    if guard is None and entry.name.casefold() in _guarded_names()[1] and entry.is_symlink():
        # paths guarded by several components are not found through a link
        return PathGuard.INSTRUCTS
    return guard


def found_at(place: str, path: str) -> FoundPath | None:
    try:
        known = os.lstat(place)
        mode = known.st_mode
        if stat.S_ISLNK(mode):
            return FoundPath(path, "link", (known.st_dev, known.st_ino, os.readlink(place)))
    except OSError:
        return None
    is_folder = stat.S_ISDIR(mode)
    kind = (
        "git"
        if is_folder and path.rpartition("/")[2].casefold() == ".git"
        else "folder"
        if is_folder
        else "file"
    )
    return FoundPath(path, kind, (known.st_dev, 0, ""))


@lru_cache(maxsize=1)
def _guarded_names() -> tuple[frozenset[str], frozenset[str], re.Pattern[str]]:
    """Return the last components of guarded paths, and those of the directories above them. Entries
    with other names need no further check.
    """
    lines = [line.casefold() for line in guarded_paths.guard_patterns() if not line.startswith("/")]
    last = {line.rpartition("/")[2] for line in lines}
    above = {name for line in lines for name in line.split("/")[:-1]}
    patterns = "|".join(wildcards(name, ".") for name in last if set(name) & set("*?"))
    return (
        frozenset(name for name in last if not set(name) & set("*?")),
        frozenset(above),
        re.compile(patterns or r"(?!)"),
    )

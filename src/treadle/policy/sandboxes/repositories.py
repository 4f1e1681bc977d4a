"""Git repositories, detected as git does, and the entries of one that can make git run a program.

Reads files only and never runs git. Each parser accepts a small subset of git's syntax and reports
everything else, so a difference from git can only lead to a stricter result. Entry:
`RepositoryFolder`, `is_repository`, `flaws`.

Source: git 2.39 setup.c (is_git_directory, read_gitfile_gently, get_common_dir), config.c and
sequencer.c, and gitrepository-layout(5), 2026-11-22.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Literal, NamedTuple

from treadle.policy.sandboxes.git_contents import contents, veiled
from treadle.policy.sandboxes.git_files import entries_of, is_folder, names_in, read
from treadle.policy.sandboxes.pending_operations import pending_settings
from treadle.policy.sandboxes.plain_settings import plain_settings

Kind = Literal["git", "bare", "module", "worktree"]
"""`git`: a `.git` directory.

`module` and `worktree`: a directory that a repository keeps for a submodule or a linked worktree.
"""

CONTROL = frozenset(
    {"config", "config.worktree", "hooks", "info", "commondir", "gitdir", "modules", "worktrees"}
)
"""Entries of a repository that name programs or lead to such entries.

Every commit writes the other entries.
"""
PENDING = frozenset(
    {"rebase-merge", "rebase-apply", "sequencer", "bisect_names", "remotes", "branches"}
)
"""Entries that an unfinished operation leaves for the next call of git."""
MAX_INNER = 1_000
"""Maximum number of submodule and worktree directories that are inspected in one repository."""

_OF_HEAD = {"head", "objects", "refs"}
_INFO = frozenset({"exclude", "sparse-checkout", "refs"})


class RepositoryFolder(NamedTuple):
    """Directory that git regards as a repository or as part of one."""

    path: str
    """Path relative to the workspace."""
    kind: Kind
    parts: tuple[str, ...]
    """Names of its `CONTROL` entries."""
    pending: Mapping[str, frozenset[bytes]]
    """Settings that make git run a program or write elsewhere, by the entry of the repository that
    holds them.
    """
    veiled: frozenset[bytes] = frozenset()
    """Settings that make git show fewer changes than there are."""


def is_repository(names: Iterable[str]) -> bool:
    """Return whether a directory with these entries may be a repository. Case-insensitive; does not
    look at the entries.
    """
    folded = {name.casefold() for name in names if len(name) <= len("commondir")}
    return "head" in folded and ("commondir" in folded or folded >= _OF_HEAD)


def repository_at(root: str, path: str, kind: Kind) -> RepositoryFolder:
    """Read one repository's entries. An unreadable directory has none."""
    folder = os.path.join(root, path)
    names = names_in(folder)
    parts = tuple(sorted(name for name in names if name.casefold() in CONTROL))
    found: dict[str, frozenset[bytes]] = {}
    for name in names:
        if name.casefold() in PENDING:
            found.update(pending_settings(folder, name))
    for name, lines in contents(folder, kind).items():
        found[name] = found.get(name, frozenset()) | lines
    return RepositoryFolder(path, kind, parts, found, veiled(folder))


def inner_repositories(root: str, path: str) -> Iterator[tuple[str, Kind | None]]:
    """Yield the submodules and worktrees that a repository keeps, at any depth, as path and kind.

    A kind of None marks an entry in the place of such a directory that cannot be inspected: a link,
    or one directory too many.
    """
    waiting = _inner_folders(root, path)
    left = MAX_INNER
    while waiting:
        folder, kind = waiting.pop()
        for entry in entries_of(os.path.join(root, folder)):
            inner = f"{folder}/{entry.name}"
            left -= 1
            if entry.is_symlink() or (left < 0 and entry.is_dir(follow_symlinks=False)):
                yield inner, None
            elif not entry.is_dir(follow_symlinks=False):
                continue
            elif kind == "worktree" or any(
                name.casefold() == "head" for name in names_in(entry.path)
            ):
                yield inner, kind
                waiting += _inner_folders(root, inner)
            else:
                waiting.append((inner, kind))


def _inner_folders(root: str, path: str) -> list[tuple[str, Kind]]:
    found: list[tuple[str, Kind]] = []
    for entry in entries_of(os.path.join(root, path)):
        if entry.name.casefold() in ("modules", "worktrees") and entry.is_dir(
            follow_symlinks=False
        ):
            found.append(
                (
                    f"{path}/{entry.name}",
                    "module" if entry.name.casefold() == "modules" else "worktree",
                )
            )
    return found


def last_changed(folder: str) -> int:
    """Return when a repository's control entries last changed, as a ctime in nanoseconds, which no
    program can set.
    """
    parts = [os.path.join(folder, name) for name in names_in(folder) if name.casefold() in CONTROL]
    newest = 0
    for place in (*parts, *(os.path.join(part, name) for part in parts for name in names_in(part))):
        with suppress(OSError):
            newest = max(newest, os.lstat(place).st_ctime_ns)
    return newest


# ---------------------------------------------------------------- unusual content


def flaws(root: str, repository: RepositoryFolder) -> list[str]:
    """Return the sorted names in a repository that differ from those of `git init` and `git clone`.
    None: nothing in it names a program.
    """
    folder = os.path.join(root, repository.path)
    found = {name for name in repository.parts if not is_plain_part(root, repository, name)} | set(
        repository.pending
    )
    names = {entry.name.casefold(): entry for entry in entries_of(folder)}
    if not names and not os.access(folder, os.R_OK):
        return ["."]
    if "head" in names and not names["head"].is_file(follow_symlinks=False):
        found.add(names["head"].name)
    if names_in(os.path.join(folder, "objects/info")) & {"alternates", "http-alternates"}:
        found.add("objects")
    return sorted(found)


def is_plain_part(root: str, repository: RepositoryFolder, name: str) -> bool:
    """Return True if one of a repository's `parts` contains only what git itself creates there."""
    place = os.path.join(root, repository.path, name)
    match name:
        case "config" | "config.worktree":
            return _is_plain_config(root, os.path.join(root, repository.path), name)
        case "hooks":
            return _is_folder_of(place, lambda entry: entry.name.endswith(".sample"))
        case "info":
            return _is_folder_of(place, lambda entry: entry.name in _INFO)
        case "modules" | "worktrees":
            return is_folder(place)
        case "commondir":
            return repository.kind == "worktree" and read(place) == b"../..\n"
        case "gitdir":
            return repository.kind == "worktree" and _is_inside(root, place, read(place))
        case _:
            return False


def gitfile_target(root: str, path: str) -> str | None:
    """Return the target of a `.git` file, below the workspace; None if it is uncertain or
    outside.
    """
    found = re.fullmatch(
        rb"gitdir: ([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)\n?",
        read(os.path.join(root, path)) or b"",
    )
    if found is None:
        return None
    real = os.path.realpath(os.path.join(root, os.path.dirname(path), os.fsdecode(found[1])))
    return os.path.relpath(real, root) if real.startswith(f"{root}/") else None


def _is_folder_of(place: str, fits: Callable[[os.DirEntry[str]], bool]) -> bool:
    try:
        with os.scandir(place) as entries:
            return is_folder(place) and all(
                fits(entry) and entry.is_file(follow_symlinks=False) for entry in entries
            )
    except OSError:
        return False


def _is_inside(root: str, place: str, target: bytes | None) -> bool:
    if target is None or not re.fullmatch(rb"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\n?", target):
        return False
    real = os.path.realpath(os.path.join(os.path.dirname(place), os.fsdecode(target.rstrip(b"\n"))))
    return real == root or real.startswith(f"{root}/")


# ---------------------------------------------------------------- configuration


def _is_plain_config(root: str, folder: str, name: str) -> bool:
    settings = plain_settings(os.path.join(folder, name))
    return settings is not None and all(
        _is_inside(root, os.path.join(folder, name), value)
        for key, value in settings
        if key == "core.worktree"
    )


# ---------------------------------------------------------------- operations that have not ended

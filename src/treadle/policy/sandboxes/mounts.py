"""Mounts that hide files of a workspace or make them read-only, as arguments of bubblewrap. Entry:
`hiding`, `guarding`, `of_worktree`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.policy.sandboxes.hidden import Hidden, topmost
from treadle.policy.sandboxes.sight import FoundPath, Sight
from treadle.policy.sandboxes.walking import GROWS, WorkspaceWalk
from treadle.policy.sandboxes.workspace_secrets import SecretPaths
from treadle.policy.sandboxes.worktree import repository_of, worktree_binds
from treadle.tools.confinement import CommandRoom, Ruled

MAX_BINDS = 256
"""Maximum number of mounts for control files. Each delays the start slightly.

Beyond it, whole top-level directories are made read-only.
"""

EMPTY = "empty"
"""Placeholder in arguments for the descriptor of an empty file."""


class MountView(NamedTuple):
    """Parts of the disk that are hidden from one command."""

    hidden: Sequence[Hidden] = ()
    """Hidden paths outside the workspace."""
    secrets: SecretPaths = SecretPaths()
    ruled: Ruled = Ruled()
    sight: Sight = Sight({})


def hiding(room: CommandRoom, view: MountView) -> Iterator[str]:
    root = str(room.workspace)
    for place in view.hidden:
        if not room.workspace.is_relative_to(place.path):
            yield from (
                ("--ro-bind-data", EMPTY, str(place.path))
                if place.is_emptied
                else _hide(str(place.path), is_folder=place.is_folder)
            )
    above = tuple(f"{path}/" for path in view.ruled.hidden)
    pipes = view.secrets.pipes if room.is_read_only else ()
    real = {os.path.realpath(path) for path in (*view.secrets.paths, *pipes)}
    yield from hide_all(
        path
        for path in real
        if not path.startswith(above) and not f"{root}/".startswith(f"{path}/")
    )


def hide_all(paths: Iterable[str]) -> Iterator[str]:
    for path in topmost(paths):
        if os.path.exists(path):
            yield from _hide(path, is_folder=os.path.isdir(path))


def each(option: str, places: Iterator[str] | Sequence[str]) -> Iterator[str]:
    for place in places:
        yield from (option, place, place)


def _hide(path: str, *, is_folder: bool) -> tuple[str, ...]:
    """Mount a device on a nodev mount, which makes opening it fail."""
    return ("--tmpfs", path) if is_folder else ("--ro-bind", "/dev/null", path)


def guarding(root: str, guarded: Iterable[FoundPath], ruled: Ruled) -> Iterator[str]:
    """Yield read-only mounts for control files and files of rules; every directory above them is
    bound to itself.

    A mount point cannot be renamed, nor can the directory that contains it. Hidden files are pinned
    too: renaming a directory above one would move it out of its rule. All of them are one list,
    because a later mount covers earlier ones below it. Filling a workspace with control files does
    not help an attacker: files beyond the limit are protected by making the top-level directory
    read-only.
    """
    if any(f"{root}/".startswith(f"{path.rstrip('/')}/") for path in ruled.fixed):
        yield from ("--ro-bind", root, root)
        return
    inside = [
        FoundPath(path[len(root) + 1 :], "file", (0, 0, ""))
        for path in (*ruled.fixed, *ruled.hidden)
        if path.startswith(f"{root}/")
    ]
    kinds: dict[str, str] = {}
    for found in sorted((*guarded, *inside), key=lambda found: (found.path.count("/"), found.path)):
        path = _real(root, found)
        if path is None:
            continue
        new = dict.fromkeys(_above(path), "--bind") | {
            path: "--bind" if found.kind == "git" else "--ro-bind"
        }
        if len(kinds.keys() | new.keys()) > MAX_BINDS:
            new = {_closed(path): "--ro-bind"}
        for name, option in new.items():
            kinds[name] = "--ro-bind" if "--ro-bind" in (option, kinds.get(name)) else option
    for path in sorted(kinds, key=lambda path: (path.count("/"), path)):
        # a separate mount would be writable again
        if not any(kinds.get(above) == "--ro-bind" for above in _above(path)):
            yield from (kinds[path], f"{root}/{path}", f"{root}/{path}")


def of_worktree(workspace: Path) -> Iterator[str]:
    """Return the mounts of a worktree's repository: writable for commits, with its control entries
    and those of its submodules read-only.
    """
    yield from worktree_binds(workspace)
    if (found := repository_of(workspace)) is not None:
        own = found[1]
        seen = WorkspaceWalk(str(own.parent), is_open=True)
        seen.add_repository(own.name, "worktree", is_near=True)
        inside = (
            (inner.path.partition("/")[2], inner)
            for inner in seen.sight(0, set(), is_whole=True).guarded.values()
        )
        yield from guarding(
            str(own),
            (inner._replace(path=path) for path, inner in inside if path.startswith("modules/")),
            Ruled(),
        )


def _above(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:depth]) for depth in range(1, len(names))]


def _closed(path: str) -> str:
    """Return the directory that is made read-only in place of one entry in it: all submodules or
    worktrees of a repository, or a top-level directory.
    """
    names = path.split("/")
    for depth, name in enumerate(names):
        if name.casefold() in GROWS and ".git" in (above.casefold() for above in names[:depth]):
            return "/".join(names[: depth + 1])
    return names[0]


def _real(root: str, found: FoundPath) -> str | None:
    """Return the path below the workspace to mount over. For a link, this is its target if that is
    in the workspace.
    """
    if found.kind != "link":
        return found.path
    real = os.path.realpath(os.path.join(root, found.path))
    return (
        os.path.relpath(real, root)
        if real.startswith(f"{root}/") and os.path.exists(real)
        else None
    )

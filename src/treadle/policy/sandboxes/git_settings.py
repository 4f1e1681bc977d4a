"""Places in a workspace that a repository's settings name: hook directories, and included settings
files.

Calls `git config`, which reads settings and runs nothing that they name. Entry: `named_places`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from treadle._internal.environment import path_outside
from treadle.policy.sandboxes.git_files import read
from treadle.policy.sandboxes.plain_settings import plain_settings
from treadle.policy.sandboxes.sight import Sight

WITHIN_S = 5.0
_KEYS = r"^(core\.(hookspath|worktree)|init\.templatedir|include\.path|includeif\..*\.path)$"
_OF_THE_USER = (
    "~/.gitconfig",
    "${XDG_CONFIG_HOME}/git/config",
    "~/.config/git/config",
    "/etc/gitconfig",
)
_HOOKS = """
applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit pre-rebase post-checkout post-merge
pre-push pre-receive update proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate
fsmonitor-watchman p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change
"""  # noqa: E501
"""Names of hooks. Source: githooks(5), 2026-11-22."""


class _Tree(NamedTuple):
    """Directory of git, with the directories in which git calls its hooks."""

    gitdir: str
    folder: str


def named_places(root: str, sight: Sight) -> frozenset[str]:
    """Return the places below the workspace that settings of its repositories name, whether they
    exist or not. Blocks for milliseconds on first use.

    A relative hook directory counts for each worktree. For a hook directory that contains the
    worktree, the names of hooks in it are returned. Every condition of an `includeIf` counts as
    true.
    """
    trees = {*_trees(root, sight)}
    if not trees:
        return frozenset()
    of_user = tuple(_stamp(os.path.expanduser(os.path.expandvars(file))) for file in _OF_THE_USER)
    return frozenset[str]().union(
        *(_named_places(root, tree, of_user, _stamps_of(tree.gitdir)) for tree in trees)
    )


def _trees(root: str, sight: Sight) -> Iterator[_Tree]:
    for path, repository in sight.repositories.items():
        gitdir = os.path.join(root, path)
        link = (
            _told(f"{gitdir}/gitdir", "")
            if repository.kind == "worktree"
            else gitdir
            if repository.kind == "git"
            else ""
        )
        yield _Tree(gitdir, os.path.dirname(link) or gitdir)
    for path, found in sight.seen.items():
        if found.kind in ("file", "link") and path.rpartition("/")[2].casefold() == ".git":
            place = os.path.join(root, path)
            if (
                gitdir := os.path.realpath(place)
                if found.kind == "link"
                else _told(place, "gitdir: ")
            ):
                yield _Tree(gitdir, os.path.dirname(place))


def _told(place: str, before: str) -> str:
    """Return the path stored in a small file of git, made absolute; empty if there is none."""
    text = os.fsdecode(read(place) or b"").rstrip("\n")
    return (
        os.path.realpath(os.path.join(os.path.dirname(place), text.removeprefix(before)))
        if text.startswith(before) and text
        else ""
    )


def _files_of(gitdir: str) -> tuple[str, ...]:
    common = _told(f"{gitdir}/commondir", "") if os.path.lexists(f"{gitdir}/commondir") else gitdir
    return (f"{common}/config", f"{common}/config.worktree", f"{gitdir}/config.worktree")


def _stamps_of(gitdir: str) -> tuple[int, ...]:
    return tuple(_stamp(file) for file in (f"{gitdir}/commondir", *_files_of(gitdir)))


def _stamp(file: str) -> int:
    try:
        return os.stat(file).st_ctime_ns
    except OSError:
        return 0


@lru_cache(maxsize=4096)
def _named_places(
    root: str, tree: _Tree, of_user: tuple[int, ...], _stamps: tuple[int, ...]
) -> frozenset[str]:
    found = _settings_of(root, tree.gitdir, of_user)
    folders = [
        os.path.join(tree.gitdir, value) for _, key, value in found if key == "core.worktree"
    ]
    trees = [*map(os.path.normpath, folders), tree.folder]
    places: set[str] = set()
    for origin, key, value in found:
        if key != "core.worktree":
            above = [os.path.dirname(os.path.join(root, origin))] if "include" in key else trees
            within = trees if key == "core.hookspath" else []
            places.update(
                *(
                    _below(root, os.path.join(folder, os.path.expanduser(value)), within)
                    for folder in above
                )
            )
    return frozenset(places)


def _settings_of(
    root: str, gitdir: str, of_user: tuple[int, ...]
) -> Sequence[tuple[str, str, str]]:
    """Return the settings of a repository. If they are plain, which is common, git is not called,
    because they set no more than the user's own settings do.
    """
    users = _of_user(root, of_user)
    plain = [
        plain_settings(file) for file in dict.fromkeys(_files_of(gitdir)) if os.path.lexists(file)
    ]
    if any(settings is None for settings in plain) or any(
        key.startswith("includeif.") for _, key, _ in users
    ):
        return tuple(_asked(root, f"--git-dir={gitdir}", cwd=root))
    trees = [
        value
        for settings in plain
        if settings is not None
        for key, value in settings
        if key == "core.worktree"
    ]
    return (*users, *((gitdir, "core.worktree", os.fsdecode(value)) for value in trees))


@lru_cache(maxsize=64)
def _of_user(root: str, _stamps: tuple[int, ...]) -> tuple[tuple[str, str, str], ...]:
    return tuple(_asked(root, cwd="/"))


def _asked(root: str, *options: str, cwd: str) -> Iterator[tuple[str, str, str]]:
    """Return the origin, key and value of each setting; None if git is missing or fails, because
    then it runs no hook either.
    """
    program = shutil.which("git", path=path_outside(os.environ.get("PATH"), Path(root)))
    if program is None:
        return
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")
    }
    command = [program, *options, "config", "--null", "--show-origin", "--get-regexp", _KEYS]
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    fields = os.fsdecode(done.stdout).split("\0")
    for origin, setting in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = setting.partition("\n")
        yield origin.removeprefix("file:"), key, value


def _below(root: str, place: str, trees: Sequence[str]) -> Iterator[str]:
    """Yield the paths relative to `root` that a setting names, if they are inside. `trees`: for a
    hook directory, the directories in which git calls its hooks.
    """
    real = os.path.normpath(place)
    if real == root or real.startswith(f"{root}/"):
        holds_a_tree = any(f"{tree}/".startswith(f"{real}/") for tree in trees)
        inside = (
            os.path.relpath(os.path.join(real, name), root)
            for name in (_HOOKS.split() if holds_a_tree else [""])
        )
        yield from (path for path in inside if path != ".")

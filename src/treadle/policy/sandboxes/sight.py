"""A workspace at one moment, as far as it decides what runs later. Entry: `Sight`, `FoundPath`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from treadle.policy.sandboxes.repositories import RepositoryFolder

NOT_LOOKED_INTO = frozenset(
    {
        "node_modules", "bower_components", "site-packages", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache",  # noqa: E501
        ".gradle", ".terraform", "target",
    }
)  # fmt: skip
"""Folders with other people's files, where agents and editors look for no files of their own. Only
repositories are searched for there, as git does.
"""


class FoundPath(NamedTuple):
    """A file, by its path below the workspace."""

    path: str
    kind: str
    """`file`, `folder`, `link`, `git`: a folder of git, in which only some things are guarded; or
    `into`: a link to where a look finds nothing.
    """
    identity: tuple[int, int, str]
    """Identity of a link: device, inode and target. Links cannot be made read-only; they are
    restored.
    """
    leads: str = ""
    """Final target of a link; empty if nothing is there."""
    is_part: bool = False
    """True for one of a repository's control entries, which may be harmless when new."""

    def followed(self, root: str) -> FoundPath:
        if self.kind != "link":
            return self
        real = os.path.realpath(os.path.join(root, self.path))
        return self._replace(leads=real if os.path.lexists(real) else "")


class Sight(NamedTuple):
    guarded: Mapping[str, FoundPath]
    """Files that are made read-only."""
    at_ns: int = 0
    is_whole: bool = True
    """False if there are more folders than are inspected."""
    seen: Mapping[str, FoundPath] = {}
    """Everything that is guarded by its name, including files too deep to be made read-only, and
    every repository's control entries.
    """
    repositories: Mapping[str, RepositoryFolder] = {}
    changed: Mapping[str, int] = {}
    """When the control entries of a repository that is not made read-only last changed."""
    named: frozenset[str] = frozenset()
    """Places that git's settings name."""
    opened: frozenset[str] = frozenset()
    """Folders that are only looked into because links lead there."""
    unread: frozenset[str] = frozenset()
    """Folders that could not be listed."""

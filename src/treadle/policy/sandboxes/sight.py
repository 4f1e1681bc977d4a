"""Snapshot of the files of a workspace that determine what is executed later. Entry: `Sight`,
`FoundPath`.
"""

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
"""Directories of third-party files, where agents and editors do not expect their own files. They
are searched only for repositories, as git does.
"""


class FoundPath(NamedTuple):
    """File that was found, by its path below the workspace."""

    path: str
    kind: str
    """`file`, `folder`, `link`; `git`: a directory of git, in which only some entries are guarded;
    or `into`: a link to a place that is not inspected.
    """
    identity: tuple[int, int, str]
    """Identity of a link: device, inode and target. Links cannot be made read-only; they are
    restored.
    """
    leads: str = ""
    """Final target of a link; empty if it does not exist."""
    is_part: bool = False
    """True for one of a repository's control entries, which may be harmless when new."""

    def followed(self, root: str) -> FoundPath:
        if self.kind != "link":
            return self
        real = os.path.realpath(os.path.join(root, self.path))
        return self._replace(leads=real if os.path.lexists(real) else "")


class Sight(NamedTuple):
    guarded: Mapping[str, FoundPath]
    """Files to make read-only."""
    at_ns: int = 0
    is_whole: bool = True
    """False if there are more directories than the limit."""
    seen: Mapping[str, FoundPath] = {}
    """All entries that are guarded by name, including those too deep to be made read-only, and
    every repository's control entries.
    """
    repositories: Mapping[str, RepositoryFolder] = {}
    changed: Mapping[str, int] = {}
    """Time when the control entries of a repository that is not made read-only last changed."""
    named: frozenset[str] = frozenset()
    """Places that git settings name."""
    opened: frozenset[str] = frozenset()
    """Directories that are inspected only because links lead there."""
    unread: frozenset[str] = frozenset()
    """Directories that could not be listed."""

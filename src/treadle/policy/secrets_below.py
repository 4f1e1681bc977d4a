"""Search below a directory for files that probably contain a secret, or a repository with a key.

Entry point: `secret_below`.
"""

from __future__ import annotations

import os
import re
from collections import Counter

from treadle.policy.guarded_paths import is_secret

MAX_LOOKED_AT = 2_000
"""Maximum number of directory entries that one decision inspects for secrets."""

_CREDENTIALS = re.compile(
    rb"://[^/\s@]*@|extraheader|password|passwd|token|secret|askpass", re.IGNORECASE
)
GIT_CONFIG_BYTES = 256 * 1024


def secret_below(top: str, root: str, work: Counter[str]) -> str | None:
    """Return the reason why a file below `top` may hold a secret, or None.

    `work` counts the entries that one decision has inspected.
    """
    if not os.path.isdir(top):
        return None
    below_root, folders = "" if top == root else "/" + os.path.relpath(top, root), [top]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    work["entries"] += 1
                    if work["entries"] > MAX_LOOKED_AT:
                        return "there are too many files below it to check for secrets"
                    is_git = entry.name == ".git"
                    if is_secret(below_root + entry.path[len(top.rstrip("/")) :]) or (
                        is_git and _holds_credentials(entry.path)
                    ):
                        named = shown(os.path.relpath(entry.path, root))
                        return f"{named} below it probably contains a secret"
                    if not is_git and entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            continue
    return None


def shown(path: str) -> str:
    """Return a path for a message."""
    return repr(path if len(path) <= 80 else f"{path[:77]}...")


def _holds_credentials(repository: str) -> bool:
    """Return True if the configuration in a `.git` directory, or a file added to it, likely
    contains a key. Git stores no keys in its other files.
    """
    if not os.path.isdir(repository):
        return False
    try:
        names = os.listdir(repository)
        modules = os.path.join(repository, "modules")
        inner = (
            [os.path.join(modules, name, "config") for name in os.listdir(modules)]
            if "modules" in names
            else []
        )
        if len(inner) > 100 or any(is_secret(f"/{name}") for name in names):
            return True
        for place in (os.path.join(repository, "config"), *inner):
            if os.path.isfile(place):
                with open(place, "rb") as file:
                    if (
                        _CREDENTIALS.search(data := file.read(GIT_CONFIG_BYTES))
                        or len(data) == GIT_CONFIG_BYTES
                    ):
                        return True
    except OSError:
        return True
    return False

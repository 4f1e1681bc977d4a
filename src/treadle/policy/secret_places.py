"""Places in a user's home directory where programs keep credentials, private data and histories.

secret_places.txt lists them, one per line. guarded_paths.py has names that indicate secrets
anywhere, such as `.env`. Entry points: `PLACES`, `ONLY_IN_HOME`, `names_a_place`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from treadle._internal.wildcards import wildcards

PLACES = tuple(
    line
    for line in Path(__file__).with_name("secret_places.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
)

ONLY_IN_HOME = (
    ".bundle/config", ".condarc", ".config/pip/pip.conf", ".pip/pip.conf", "Library/Application Support/pip/pip.conf", ".hgrc",  # noqa: E501
    ".config/nix/nix.conf", ".history", ".config/uv/uv.toml",
)  # fmt: skip
"""Files that may hold a password in a home directory but are ordinary project files. They stay
visible in a workspace.
"""

_Piece: TypeAlias = "str | re.Pattern[str]"


def names_a_place(folded: str) -> bool:
    """Return True if a normalised path in lower case contains one of `PLACES`, at any depth."""
    names = folded.split("/")
    exact, patterns, any_pattern = _by_first_name()
    if exact.keys().isdisjoint(names) and any_pattern.search(folded) is None:
        return False
    for i, name in enumerate(names):
        candidates = [
            *exact.get(name, ()),
            *(pattern for pattern in patterns if _fits(pattern[0], name)),
        ]
        if any(
            len(names) - i >= len(place) and all(map(_fits, place, names[i:]))
            for place in candidates
        ):
            return True
    return False


def _fits(piece: _Piece, name: str) -> bool:
    return piece == name if isinstance(piece, str) else piece.fullmatch(name) is not None


@lru_cache(maxsize=1)
def _by_first_name() -> tuple[
    dict[str, list[tuple[_Piece, ...]]], list[tuple[_Piece, ...]], re.Pattern[str]
]:
    """Return the places by their first component, those whose first component is a pattern, and a
    pattern that finds any of these names in a path.
    """
    exact: dict[str, list[tuple[_Piece, ...]]] = {}
    patterns: list[tuple[_Piece, ...]] = []
    for line in PLACES:
        pieces = tuple(
            re.compile(wildcards(name, "[^/]")) if "*" in name else name
            for name in line.casefold().split("/")
        )
        exact.setdefault(pieces[0], []).append(pieces) if isinstance(
            pieces[0], str
        ) else patterns.append(pieces)
    first_names = {piece.pattern for piece, *_ in patterns if isinstance(piece, re.Pattern)}
    return exact, patterns, re.compile("(?:^|/)(?:" + "|".join(sorted(first_names)) + ")(?:/|$)")

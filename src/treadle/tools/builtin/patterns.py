"""File name patterns: `*`, `?`, `[a-z]`, `{a,b}` within a name, `**` for any number of directories.
Matching takes linear time.

Imports only the standard library, since the search process starts with this. See also: walking
(walk.py). Entry point: `GlobPattern`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeAlias

MAX_ALTERNATIVES = 100
_DEEP = "**"
_MAGIC = re.compile(r"[*?\[]")

Part: TypeAlias = "Callable[[str], object] | None"
"""Matcher of one name. None: any number of names."""


class GlobPattern:
    """Pattern over paths relative to a directory, with `/` between names. Case-sensitive; a leading
    dot is an ordinary character.

    Raises ValueError with a message for the author of the pattern.
    """

    def __init__(self, pattern: str) -> None:
        if not pattern.strip():
            raise ValueError("the pattern is empty")
        self._alternatives = [_parts(alternative) for alternative in _braces_expanded(pattern)]

    @classmethod
    def of_names(cls, pattern: str) -> GlobPattern:
        """Parse a pattern as search tools do: one without `/` matches names in any directory."""
        return cls(pattern if "/" in pattern else f"**/{pattern}")

    def matches(self, path: str) -> bool:
        names = path.split("/")
        return any(len(parts) in _after(parts, names) for parts in self._alternatives)

    def may_contain(self, directory: str) -> bool:
        """Return False if nothing below that directory can match, so that it can be skipped."""
        names = directory.split("/")
        return any(_after(parts, names) - {len(parts)} for parts in self._alternatives)


def _after(parts: list[Part], names: list[str]) -> set[int]:
    """Return the positions reachable in the pattern after these names. All possibilities are
    tracked in parallel, so there is no backtracking.
    """
    states = _closed(parts, {0})
    for name in names:
        states = _closed(parts, {j for i in states if (j := _step(parts, i, name)) is not None})
        if not states:
            break
    return states


def _step(parts: list[Part], i: int, name: str) -> int | None:
    if i == len(parts):
        return None
    part = parts[i]
    if part is None:
        return i
    return i + 1 if part(name) else None


def _closed(parts: list[Part], states: set[int]) -> set[int]:
    for i in [*states]:
        j = i
        while j < len(parts) and parts[j] is None:
            j += 1
            states.add(j)
    return states


def _parts(pattern: str) -> list[Part]:
    if pattern.startswith(("/", "~")):
        raise ValueError(
            f"the pattern {pattern!r} is absolute: pass the directory as path, and "
            "a pattern for the files below it"
        )
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ValueError(
            f"the pattern {pattern!r} leaves the directory with '..': pass the directory as path, "
            "and a pattern for the files below it"
        )
    if pattern.endswith("/") or not names:
        raise ValueError(
            f"the pattern {pattern!r} names a directory; only files are found: "
            f"{pattern.rstrip('/') or '.'}/** finds those in it"
        )
    parts: list[Part] = []
    for name in names:
        if name != _DEEP:
            parts.append(_name_matcher(name))
        elif not parts or parts[-1] is not None:
            parts.append(None)
    return [*parts, _name_matcher("*")] if parts[-1] is None else parts


def _name_matcher(name: str) -> Callable[[str], object]:
    if _MAGIC.search(name) is None:
        return name.__eq__
    matches = re.compile(fnmatch.translate(name.replace("[^", "[!"))).match
    # A file may literally be named [id].tsx.
    return (lambda there: there == name or matches(there)) if "[" in name else matches


def _braces_expanded(pattern: str) -> list[str]:
    start = pattern.find("{")
    if start < 0:
        return [pattern]
    end, commas = _closing(pattern, start)
    bounds = [start, *commas, end]
    choices = [pattern[a + 1 : b] for a, b in pairwise(bounds)]
    expanded = [f"{pattern[:start]}{choice}{pattern[end + 1 :]}" for choice in choices]
    found: list[str] = []
    for alternative in _each_expanded(expanded):
        found.append(alternative)
        if len(found) > MAX_ALTERNATIVES:
            raise ValueError(
                f"the braces in {pattern!r} give more than {MAX_ALTERNATIVES} patterns: use "
                "fewer, or a '*'"
            )
    return found


def _each_expanded(patterns: list[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from _braces_expanded(pattern)


def _closing(pattern: str, start: int) -> tuple[int, list[int]]:
    """Return the position of the brace that closes the one at `start`, and its commas."""
    depth, commas = 0, list[int]()
    for i in range(start, len(pattern)):
        match pattern[i]:
            case "{":
                depth += 1
            case "}":
                depth -= 1
                if depth == 0:
                    return i, commas
            case "," if depth == 1:
                commas.append(i)
            case _:
                pass
    raise ValueError(f"the '{{' in {pattern!r} is never closed")

"""Files on disk that match a user's `deny` and `ask` rules, so that a sandbox can hide them from
commands.

A rule applies to a path that a call names; a command also reads paths without naming them, such as
everything below a directory. rules.py compares paths with rules, and the sandbox hides the files
found here. Entry point: `RuledFiles`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple, TypeAlias

from treadle._internal.stamps import Stamp, stamp_of
from treadle._internal.wildcards import wildcards
from treadle.config.rule import PermissionRule
from treadle.config.rules import Rules
from treadle.errors import AgentError
from treadle.policy.permissions import Permissions
from treadle.tools.confinement import Ruled

MAX_LOOKED_AT = 100_000
"""Maximum number of directory entries compared with the rules before one command."""
MAX_FOUND = 200
"""Maximum number of separate files and directories protected from one command; each needs a
mount.
"""

Part: TypeAlias = re.Pattern[str] | None
"""Name in a pattern. None for `**`."""


class _Pattern(NamedTuple):
    base: str
    """Start of the search: no component of it has a wildcard."""
    parts: tuple[Part, ...]


class _Entry(NamedTuple):
    name: str
    is_folder: bool
    is_link: bool


class RuledFiles:
    """Index of the files that one set of rules covers in one workspace.

    Caches each directory's entries until its ctime changes. Thread-safe.
    """

    def __init__(self, rules: Rules, workspace: Path, home: str) -> None:
        self._rules, self._root, self._home = rules, os.path.realpath(workspace), home
        self._known: dict[str, tuple[Stamp, tuple[_Entry, ...]]] = {}
        self._lock = Lock()
        """Serialises walks, so that a second thread reuses the entries that the first has read."""

    @classmethod
    def of(cls, permissions: Permissions, workspace: Path) -> RuledFiles | None:
        """Return an instance, or None if no rule can concern a command's files."""
        rules = permissions.rules
        about = any(rule.about in ("read", "write") for rule in (*rules.deny, *rules.ask))
        return cls(rules, workspace, permissions.home) if about else None

    def look(self, *, approved: bool) -> Ruled:
        """Return the files that currently match. `approved`: the user approved this command, which
        satisfies the `ask` rules.

        More entries or matches than the limits above set `too_many`. Files that a rule denies to
        write are found without a limit, so that those a command creates are still removed after it.
        Blocks. Raises AgentError(tool) if a directory cannot be listed.
        """
        asking = () if approved else self._rules.ask
        excess: list[str] = []
        with self._lock:
            denied = self._found(self._rules.deny, "write", excess, is_bounded=False)
            hidden = self._found((*self._rules.deny, *asking), "read", excess)
            fixed = [*denied, *self._found(asking, "write", excess)]
        if len(hidden) + len(fixed) > MAX_FOUND:
            excess.append(
                f"the rules for reading and writing cover more than {MAX_FOUND} separate files; "
                "name their folders in the rules instead"
            )
        return Ruled(
            tuple(hidden), tuple(_topmost(fixed)), tuple(denied), excess[0] if excess else ""
        )

    def _found(
        self,
        rules: Iterable[PermissionRule],
        about: Literal["read", "write"],
        excess: list[str],
        *,
        is_bounded: bool = True,
    ) -> list[str]:
        found: set[str] = set()
        for rule in rules:
            if rule.about == about:
                real = (
                    os.path.realpath(path)
                    for path in self._matches(rule, excess, is_bounded=is_bounded)
                )
                found.update(path for path in real if os.path.lexists(path))
        return list(_topmost(found))

    # ------------------------------------------------------------ one rule

    @cached_property
    def _patterns(self) -> dict[PermissionRule, _Pattern]:
        rules = (*self._rules.deny, *self._rules.ask)
        return {
            rule: _pattern(rule.pattern, self._root, self._home)
            for rule in rules
            if rule.about in ("read", "write")
        }

    def _matches(
        self, rule: PermissionRule, excess: list[str], *, is_bounded: bool
    ) -> Iterator[str]:
        """Yield the paths that the rule matches, without anything below a match.

        Links are followed, visiting each directory once.
        """
        pattern = self._patterns[rule]
        left, seen = MAX_LOOKED_AT, set[str]()
        waiting = [(pattern.base, _further({0}, pattern.parts))]
        while waiting:
            folder, states = waiting.pop()
            if len(pattern.parts) in states:
                yield folder
                continue
            for entry in self._entries(folder):
                left -= 1
                if left == -1:
                    excess.append(
                        f"the rule {rule.text!r} would have to be compared with more than "
                        f"{MAX_LOOKED_AT:,} files; name a folder in it"
                    )
                if left < 0 and is_bounded:
                    return
                after = _after(entry.name, states, pattern.parts)
                path = os.path.join(folder, entry.name)
                if len(pattern.parts) in after:
                    yield path
                elif after and entry.is_folder and not (entry.is_link and _known(path, seen)):
                    waiting.append((path, after))

    def _entries(self, folder: str) -> Sequence[_Entry]:
        try:
            stamp = stamp_of(os.stat(folder))
            known = self._known.get(folder)
            if known is not None and known[0] == stamp:
                return known[1]
            is_settled = stamp.is_settled()
            with os.scandir(folder) as entries:
                found = tuple(
                    _Entry(entry.name, _is_folder(entry), entry.is_symlink()) for entry in entries
                )
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as e:  # unlistable, but its files can still be opened by name
            raise AgentError(
                "tool",
                (
                    f"{folder!r} cannot be listed ({e.strerror or e}), so that rules for files "
                    "cannot be kept there: make it readable"
                ),
            ) from e
        if is_settled:
            self._known[folder] = stamp, found
        return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return True for a directory or a link to one. `entry.is_dir()` would raise for a link to
    itself.
    """
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir(follow_symlinks=False)


def _known(path: str, seen: set[str]) -> bool:
    real = os.path.realpath(path)
    if real in seen:
        return True
    seen.add(real)
    return False


def _pattern(text: str, root: str, home: str) -> _Pattern:
    if text == "~" or text.startswith("~/"):
        text = home + text[1:]
    path = os.path.normpath(os.path.join(root, text))
    if path == root or path.startswith(f"{root}/"):
        base, rest = root, path[len(root) :].strip("/")
    else:
        fixed = re.match(r"(?:/[^/*?]*(?=/|$))*", path)
        base = fixed[0] if fixed is not None and fixed[0] else "/"
        rest = path[len(base) :].strip("/")
    parts = rest.split("/") if rest else []
    return _Pattern(
        base,
        tuple(
            None if part == "**" else re.compile(wildcards(part, "[^/]"), re.IGNORECASE)
            for part in parts
        ),
    )


def _after(name: str, states: frozenset[int], parts: Sequence[Part]) -> frozenset[int]:
    """Return the possible positions in the pattern after one more component."""
    found: set[int] = set()
    for state in states:
        if state == len(parts):
            continue
        part = parts[state]
        if part is None:
            found.add(state)
        elif part.fullmatch(name):
            found.add(state + 1)
    return _further(found, parts)


def _further(states: set[int], parts: Sequence[Part]) -> frozenset[int]:
    """Add the positions after each `**`, which may match no directory at all."""
    found = set(states)
    for state in sorted(states):
        while state < len(parts) and parts[state] is None:
            state += 1
            found.add(state)
    return frozenset(found)


def _topmost(paths: Iterable[str]) -> Iterator[str]:
    """Yield paths in sorted order, without those below another of them."""
    last = None
    for path in sorted(set(paths)):
        if last is None or not path.startswith(f"{last.rstrip('/')}/"):
            last = path
            yield path

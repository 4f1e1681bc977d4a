"""Rules for the calls of a run, in addition to its mode. Entry points: `Permissions`,
`permissions_of`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from treadle.config.rule import BadRule
from treadle.config.rules import NO_RULES, Rules
from treadle.errors import AgentError


def _nothing() -> Sequence[Path]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """Rules for a run's calls, in addition to its mode."""

    rules: Rules = NO_RULES
    home: str = ""
    """The user's home directory. Empty if unknown; `~` is then not expanded."""
    readable: Callable[[], Sequence[Path]] = _nothing
    """Directories outside the workspace that may be read: stored long outputs and skills."""
    sealed: Callable[[], tuple[str, ...]] = tuple
    """Read-only directories: Treadle's own."""

    def also_reading(self, readable: Callable[[], Sequence[Path]]) -> Permissions:
        """Return a copy, for one run, in which these directories may also be read."""
        return Permissions(
            rules=self.rules,
            home=self.home,
            readable=lambda: (*readable(), *self.readable()),
            sealed=self.sealed,
        )


NO_PERMISSIONS = Permissions()


class _Own:
    """Paths of Treadle's own directory: its location, and the paths that have led to it."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(folder)
        self._names = (self._folder,)
        self.names()

    def names(self) -> tuple[str, ...]:
        """Return every path that has led to the directory, after adding the current one. Earlier
        ones stay sealed.
        """
        if (real := os.path.realpath(self._folder)) not in self._names:
            self._names = (*self._names, real)
        return self._names


def permissions_of(
    *,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
    own: str | None = None,
    withheld: Container[str] = (),
) -> Permissions:
    """Build permissions from a configuration. Raises AgentError(invalid) for an invalid rule.

    `own`: Treadle's own directory, which only Treadle writes, and from which skills are read.
    `withheld`: rules whose text is not quoted in reasons, because the model reads them.
    """
    try:
        rules = Rules.read(allow=allow, ask=ask, deny=deny).withholding(withheld)
    except BadRule as e:
        raise AgentError("invalid", f"permissions: {e.text!r} is not a rule: write one {e}") from e
    home = os.path.expanduser("~")
    if own is None:
        return Permissions(rules=rules, home=home)
    skills = (Path(own) / "skills",)
    return Permissions(rules=rules, home=home, readable=lambda: skills, sealed=_Own(own).names)


def withholds(permissions: Permissions, cwd: Path) -> Callable[[str], bool] | None:
    """Return a predicate that is true if a rule denies reading a file or requires approval; None if
    no rule concerns reading.

    Directory searches use it to omit such files, because they are checked only by their directory.
    Paths are absolute, without links.
    """
    rules = permissions.rules
    if not rules.deny and not rules.ask:
        return None
    about = tuple(rule for rule in (*rules.deny, *rules.ask) if rule.about == "read")
    root = str(cwd)
    return (
        (lambda path: rules.of_path(about, "read", (path,), root, permissions.home) is not None)
        if about
        else None
    )


def granted(permissions: Permissions, cwd: Path) -> Callable[[str], bool]:
    """Return a predicate that is true if a rule allows reading a file that probably contains a
    secret. Paths are absolute, without links.
    """
    rules, root = permissions.rules, os.path.realpath(cwd)
    return lambda path: (
        rules.of_path(rules.allow, "read", (path,), root, permissions.home) is not None
    )

"""Rules for the calls of a run, besides its mode. Entry points: `Permissions`, `permissions_of`."""

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
    """Rules for a run's calls, besides its mode."""

    rules: Rules = NO_RULES
    home: str = ""
    """The user's home folder; empty if unknown, and `~` stands for nothing."""
    readable: Callable[[], Sequence[Path]] = _nothing
    """Folders outside the workspace that may be read: stored long outputs and skills."""
    sealed: Callable[[], tuple[str, ...]] = tuple
    """Folders that nothing may write: Treadle's own."""

    def also_reading(self, readable: Callable[[], Sequence[Path]]) -> Permissions:
        """Return a copy for one run in which these folders may be read too."""
        return Permissions(
            rules=self.rules,
            home=self.home,
            readable=lambda: (*readable(), *self.readable()),
            sealed=self.sealed,
        )


NO_PERMISSIONS = Permissions()


class _Own:
    """Treadle's own folder and the paths it is known by."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(folder)
        self._names = (self._folder,)
        self.names()

    def names(self) -> tuple[str, ...]:
        """Return every path the folder has led to: earlier targets stay sealed, and the current one
        is added.
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
    """Build permissions from a configuration. `own`: Treadle's own folder, which only Treadle
    writes, and from which skills are read. `withheld`: rules whose text is not quoted in reasons,
    since a model reads reasons.

    Raises AgentError(invalid) for an invalid rule.
    """
    try:
        rules = Rules.read(allow=allow, ask=ask, deny=deny).withholding(withheld)
    except BadRule as e:
        raise AgentError(
            "invalid", f"permissions: {e.text!r} is not a rule; a rule is one {e}"
        ) from e
    home = os.path.expanduser("~")
    if own is None:
        return Permissions(rules=rules, home=home)
    skills = (Path(own) / "skills",)
    return Permissions(rules=rules, home=home, readable=lambda: skills, sealed=_Own(own).names)


def withholds(permissions: Permissions, cwd: Path) -> Callable[[str], bool] | None:
    """Return a predicate that is true if a rule denies reading a file or asks before it; None if no
    rule concerns reading.

    Used by searches, which are judged by their folder alone, to leave such files out. Paths are
    absolute, without links.
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
    """Return a predicate that is true if a rule allows reading a file that likely holds a secret.
    Paths are absolute, without links.
    """
    rules, root = permissions.rules, os.path.realpath(cwd)
    return lambda path: (
        rules.of_path(rules.allow, "read", (path,), root, permissions.home) is not None
    )

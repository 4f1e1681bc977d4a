"""Findings about a command line and its commands. Entry points: `Judgement`."""

from __future__ import annotations

from dataclasses import dataclass, field

from treadle.policy.decision import CallFinding, FindingKind


@dataclass(frozen=True, slots=True)
class JudgedWords:
    """A simple command and the findings about it."""

    argv: tuple[str, ...]
    findings: tuple[CallFinding, ...]
    pattern: str | None = None
    """The rule to offer for this and similar commands; None if there is none."""


@dataclass(slots=True)
class Judgement:
    commands: list[JudgedWords] = field(default_factory=list[JudgedWords])
    findings: list[CallFinding] = field(default_factory=list[CallFinding])
    """Findings about the whole line, in addition to those about its commands."""

    def all(self) -> list[CallFinding]:
        return [
            *self.findings,
            *(finding for command in self.commands for finding in command.findings),
        ]

    @property
    def patterns(self) -> list[str] | None:
        """Rules that would together allow the line; None if rules cannot allow it."""
        wanting = [c for c in self.commands if any(f.kind not in _UNASKED for f in c.findings)]
        if (
            any(f.kind not in _UNASKED for f in self.findings)
            or not wanting
            or any(c.pattern is None for c in wanting)
        ):
            return None
        return list(dict.fromkeys(c.pattern for c in wanting if c.pattern is not None))


_UNASKED = frozenset(
    {
        FindingKind.READS,
        FindingKind.HELD,
        FindingKind.PERMITTED,
        FindingKind.PARTLY_ASKED,
        FindingKind.PARTLY_DENIED,
    }
)
"""Needed by: `ls; npm test` (ask, "a rule for 'npm test' would allow it")."""

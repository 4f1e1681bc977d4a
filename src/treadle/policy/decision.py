"""Decisions of the policy, and how findings about a call combine into a decision in each mode.

paths.py makes findings about paths, shell/ about commands. Entry points: `CallFinding`, `settle`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

from treadle.types import Mode

Verdict: TypeAlias = Literal["allow", "contained", "ask", "deny"]
"""Verdict about a call, from the most permissive to the least. contained: runs without approval
only inside the sandbox; without a working sandbox, it needs approval.
"""

STRICTNESS: tuple[Verdict, ...] = ("allow", "contained", "ask", "deny")


class FindingKind(StrEnum):
    """Classification of one part of a call, independent of the mode."""

    READS = "reads"
    """Call that provably only reads, inside the workspace and outside guarded files."""
    HELD = "held"
    """A command that only reads, as far as analysis shows; the sandbox confines the rest."""
    PERMITTED = "permitted"
    """A command that a user's rule allows: it may do anything the sandbox permits."""
    GRANTED = "granted"
    """A tool, or a path of a tool, that a user's rule allows."""
    EDITS = "edits"
    """A file tool that writes inside the workspace, outside guarded files."""
    SHELL_EDITS = "shell edits"
    """A command that writes inside the workspace, outside guarded files."""
    READS_BEYOND = "reads beyond"
    """A read outside the workspace, or of a file that probably contains a secret."""
    PARTLY_ASKED = "partly asked"
    """A read of a directory that an `ask` rule covers in part.

    The sandbox hides that part; without a sandbox, the command needs approval.
    """
    PARTLY_DENIED = "partly denied"
    """A read of a directory that a `deny` rule covers in part.

    The sandbox hides that part; without a sandbox, the command is denied.
    """
    CONNECTS = "connects"
    """A tool connects to a host that no rule allows."""
    UNSURE = "unsure"
    """Call that may change or send anything."""
    NEEDS_A_PERSON = "needs a person"
    """Call that needs approval in every mode, because of a rule, a tool or a guarded file."""
    FORBIDDEN = "forbidden"
    """Call that is denied by a rule, or because no rule or mode can allow it."""


VERDICTS: dict[FindingKind, tuple[Verdict, Verdict, Verdict, Verdict]] = {
    # plan, ask, accept-edits, full
    FindingKind.READS: ("allow", "allow", "allow", "allow"),
    FindingKind.HELD: ("contained", "contained", "contained", "allow"),
    FindingKind.PERMITTED: ("deny", "contained", "contained", "allow"),
    FindingKind.GRANTED: ("deny", "allow", "allow", "allow"),
    FindingKind.EDITS: ("deny", "ask", "allow", "allow"),
    FindingKind.SHELL_EDITS: ("deny", "ask", "contained", "allow"),
    FindingKind.READS_BEYOND: ("ask", "ask", "ask", "allow"),
    FindingKind.PARTLY_ASKED: ("contained", "contained", "contained", "contained"),
    FindingKind.PARTLY_DENIED: ("contained", "contained", "contained", "contained"),
    FindingKind.CONNECTS: ("ask", "ask", "ask", "allow"),
    FindingKind.UNSURE: ("deny", "ask", "ask", "allow"),
    FindingKind.NEEDS_A_PERSON: ("ask", "ask", "ask", "ask"),
    FindingKind.FORBIDDEN: ("deny", "deny", "deny", "deny"),
}
LOOKING = frozenset(
    {
        FindingKind.READS,
        FindingKind.HELD,
        FindingKind.READS_BEYOND,
        FindingKind.PARTLY_ASKED,
        FindingKind.PARTLY_DENIED,
    }
)
"""Kinds of findings that change nothing. A command that has only these runs without write access or
network.
"""
MODES: tuple[Mode, ...] = ("plan", "ask", "accept-edits", "full")


class CallFinding(NamedTuple):
    kind: FindingKind
    why: str = ""
    """Reason for the model and the user, as the end of a sentence that begins with "Not run: "."""


def verdict_of(kind: FindingKind, mode: Mode) -> Verdict:
    return VERDICTS[kind][MODES.index(mode)]


class Settled(NamedTuple):
    verdict: Verdict
    why: str


def reasons(findings: Iterable[CallFinding], verdict: Verdict, mode: Mode) -> list[str]:
    """Return the reasons for a verdict, in order and without duplicates."""
    return list(
        dict.fromkeys(
            finding.why
            for finding in findings
            if finding.why and verdict_of(finding.kind, mode) == verdict
        )
    )


def settle(findings: Iterable[CallFinding], mode: Mode) -> Settled:
    """Return the strictest verdict on the findings and the first reason for it; `allow` if there
    are no findings.
    """
    verdict: Verdict = "allow"
    why = ""
    for finding in findings:
        found = verdict_of(finding.kind, mode)
        if STRICTNESS.index(found) > STRICTNESS.index(verdict) or (found == verdict and not why):
            verdict, why = found, finding.why
    return Settled(verdict, why)

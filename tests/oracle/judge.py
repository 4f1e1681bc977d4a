"""The decisions of the policy on generated lines, through its public function. Entry: `Judge`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from treadle.config.rules import Rules
from treadle.policy.decision import Verdict
from treadle.policy.permissions import Permissions
from treadle.policy.policy import decide_command
from treadle.types import Mode

DENIED = ("read(private/**)", "write(prod/**)", "rm", "git push")
Decide: TypeAlias = Callable[[Mode, str, Path, Permissions], Verdict]


@dataclass(frozen=True, slots=True)
class Judged:
    """A line and the decision on it."""

    line: str
    verdict: Verdict
    mode: Mode
    is_ruled: bool = False
    """True if it is also decided so under the rules of DENIED."""
    problem: str = ""
    """The exception that came instead of a decision; `verdict` is then `deny`."""


def decided(mode: Mode, line: str, cwd: Path, permissions: Permissions) -> Verdict:
    return decide_command(mode, line, cwd, permissions).verdict


class Judge:
    """Decides for one workspace."""

    def __init__(self, base: str, decide: Decide = decided) -> None:
        self._decide = decide
        self.cwd = Path(base) / "work"
        self._free = Permissions(home=f"{base}/home")
        self._ruled = Permissions(home=f"{base}/home", rules=Rules.read(deny=DENIED))

    def of(self, line: str, mode: Mode) -> Judged:
        """The decision without rules; if that is `allow`, also whether the rules change it."""
        try:
            verdict = self._decide(mode, line, self.cwd, self._free)
            ruled = (
                verdict == "allow" and self._decide(mode, line, self.cwd, self._ruled) == "allow"
            )
        except Exception as e:
            return Judged(line, "deny", mode, problem=repr(e))
        return Judged(line, verdict, mode, ruled)

    def in_full(self, line: str, *, ruled: bool) -> Judged:
        """The decision in mode full, under the rules of DENIED or under none."""
        try:
            return Judged(
                line,
                self._decide("full", line, self.cwd, self._ruled if ruled else self._free),
                "full",
                ruled,
            )
        except Exception as e:
            return Judged(line, "deny", "full", problem=repr(e))

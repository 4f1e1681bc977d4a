"""Grants for the rest of a session, and changes of its mode during a run, effective from the next
call.

approvals.py defines the grants; the policy applies them to a call. Entry point: `Grants`.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from treadle.loop.plan import Plan
from treadle.loop.toolbox import Toolbox
from treadle.policy.approvals import for_session
from treadle.policy.permissions import NO_PERMISSIONS, Permissions
from treadle.types import Mode


class Grants:
    """Grants of a runtime, by family: a session with all runs that it starts."""

    def __init__(self) -> None:
        self._patterns: dict[str, list[str]] = {}
        self._modes: dict[str, Mode] = {}
        """Modes of families that changed since their run began."""
        self._open: dict[str, WeakSet[Toolbox]] = {}

    def allow(self, family: str, pattern: Sequence[str]) -> None:
        """Add a grant. Raises AgentError(invalid) for a rule that is never offered."""
        for_session(NO_PERMISSIONS, pattern)
        self._patterns.setdefault(family, []).extend(pattern)
        for toolbox in self._open.get(family, ()):
            toolbox.permissions = for_session(toolbox.permissions, pattern)

    def use_mode(self, family: str, mode: Mode) -> None:
        self._modes[family] = mode
        for toolbox in self._open.get(family, ()):
            toolbox.mode = mode
            toolbox.mode_changed(mode)

    def over(self, family: str, permissions: Permissions) -> Permissions:
        """Return the permissions of a new run, including grants."""
        patterns = self._patterns.get(family)
        return permissions if patterns is None else for_session(permissions, patterns)

    def follow(self, plan: Plan, toolbox: Toolbox) -> Toolbox:
        """Return a toolbox that applies later grants too.

        A run that a user starts has its own mode; a child run has its parent's.
        """
        if plan.family == plan.run_id:  # without a session there are no later grants
            return toolbox
        if plan.depth == 0:
            self._modes.pop(plan.family, None)
        toolbox.mode = self._modes.get(plan.family, toolbox.mode)
        self._open.setdefault(plan.family, WeakSet()).add(toolbox)
        return toolbox

    def forget(self, family: str) -> None:
        for kept in (self._patterns, self._modes, self._open):
            kept.pop(family, None)

"""Calls that hand a run to another agent.

Entry point: `HandoffCalls`, a base class of `Toolbox`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.loop.call_values import Prepared, Ready, refused
from treadle.tools.tool import Tool

SECOND = "Not run: another call of this response hands the conversation to {}."


class HandoffCalls:
    """Calls of a run whose agent has handoffs."""

    __slots__ = ()

    def hands_to(self, tool: Tool[Any]) -> str:
        """Return the name of the agent to which a call of the tool hands the run; empty if none."""
        return getattr(tool, "hands_to", "")

    def one_handoff(self, prepared: Sequence[Prepared]) -> list[Prepared]:
        """Refuse every handoff after the first."""
        admitted: list[Prepared] = []
        first = ""
        for one in prepared:
            to = self.hands_to(one.tool) if isinstance(one, Ready) else ""
            admitted.append(refused(one.call, SECOND.format(first)) if to and first else one)
            first = first or to
        return admitted

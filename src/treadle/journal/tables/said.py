"""How many messages a run adds to its session's view, counted while it is appended, so that nobody
need fold it for a list. Entry: `SaidCount`.
"""

from __future__ import annotations

from typing import cast

from treadle.journal.entries import (
    Compaction,
    Entry,
    InputAdded,
    ModelResponded,
    RunStarted,
    ToolFinished,
    ToolLate,
)
from treadle.journal.receipts import Cleared, Summary, Withdrawn, read_receipt


class SaidCount:
    """Of a run that was seen from its beginning."""

    __slots__ = ("_open", "count")

    def __init__(self, started: RunStarted) -> None:
        self.count = len(started.messages) + (started.fork is None or started.fork.asks)
        self._open = 0
        """Calls of the last response that have no result."""

    def add(self, entry: Entry) -> None:
        """Raises AgentError for a receipt of a newer version."""
        kind = type(entry)
        if kind is ModelResponded:
            message = cast("ModelResponded", entry).message
            self.count += bool(message.parts)
            self._open = (
                len(message.tool_calls)
                if cast("ModelResponded", entry).stop_reason is not None
                else 0
            )
        elif kind is ToolFinished:
            self._open -= 1
            self.count += self._open == 0
        elif kind is ToolLate or kind is InputAdded:
            self.count += 1
        elif kind is Compaction:
            receipt = read_receipt(cast("Compaction", entry).receipt)
            self.count -= (
                0
                if isinstance(receipt, Cleared)
                else receipt.dropped - isinstance(receipt, Summary | Withdrawn)
            )

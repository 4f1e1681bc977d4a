"""What the checker reads out of a journal, and what it finds wrong. Entry:

`Run`, `Entry`, `Violation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Violation(NamedTuple):
    rule: str
    text: str


class Entry(NamedTuple):
    seq: int
    type: str
    column: str | None
    """The call, as the table has it."""
    body: dict[str, Any]

    @property
    def call(self) -> str | None:
        """The call, as the entry itself has it."""
        return (
            self.body["result"]["call_id"]
            if self.type == "tool.finished"
            else self.body.get("call_id")
        )


@dataclass
class Run:
    id: str
    head: int
    fence: int
    finished: int | None
    entries: list[Entry]

    def of(self, *types: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.type in types]

    @property
    def started(self) -> dict[str, Any]:
        return self.entries[0].body

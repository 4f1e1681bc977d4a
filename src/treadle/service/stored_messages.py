"""Messages of users as the service stores them. conversation_store.py reads and writes them.

Entry points: `StoredMessage`, `Unsettled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from treadle.service.application import PastMessage
from treadle.service.database.tables import ChatMessage

TITLE_CHARS: Final = 60


class Unsettled(Exception):
    """Raised if the previous run has no reply yet."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """Stored message of a user, with the run that answers it."""

    conversation_id: str
    message: str
    number: int
    """Position of the message in its conversation."""
    run_id: str
    history: tuple[PastMessage, ...] = ()
    """Earlier messages, oldest first."""
    answer: ChatMessage | None = None
    """Reply; None if there is none yet."""
    note: Any = None
    """Note kept by the application (`ChatBackend.on_message`)."""


def title_of(message: str) -> str:
    """Return the first line of a message, cut at a word."""
    line = " ".join(message.split())
    if len(line) <= TITLE_CHARS:
        return line
    cut = line[: TITLE_CHARS - 1]
    return f"{cut.rpartition(' ')[0] or cut}…"


def as_history(rows: Sequence[Any]) -> tuple[PastMessage, ...]:
    """Convert rows, given newest first, to messages, oldest first."""
    return tuple(
        PastMessage("user" if row.role == "user" else "assistant", row.content, row.created_at)
        for row in reversed(rows)
    )

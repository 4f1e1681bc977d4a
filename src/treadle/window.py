"""What of a long conversation is in view of its next run: decided between runs only, at a closed turn, and written down.

Making room inside a run, and summaries, are no part of it. Entry: `window`, `Window`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from treadle.message import Message
from treadle.types import Value

MAX_SESSION_MESSAGES = 100
"""Messages that a session keeps in view; above it, the view shrinks to half, so that it stays the same for many runs."""


class Window(Value, frozen=True, kw_only=True):
    """The receipt: which messages stayed in view. What left it is stored all the same."""

    pinned: str
    """The id of the first message that makes sense by itself, which stays."""
    kept_from: str
    """The id of the oldest other message that stayed."""
    dropped: int
    """How many left."""
    kind: Literal["window"] = "window"

    def of(self, messages: Sequence[Message]) -> list[Message]:
        """What stayed of them. Where they are others than those it was made for, all stay."""
        start = next((i for i, message in enumerate(messages) if message.id == self.kept_from), None)
        first = next((message for message in messages[:start] if message.id == self.pinned), None)
        return [*messages] if start is None or first is None else [first, *messages[start:]]


def window(messages: Sequence[Message], most: int = MAX_SESSION_MESSAGES) -> Window | None:
    """None: all of them stay. Only whole exchanges leave: what stays begins with words of a person."""
    if len(messages) <= most:
        return None
    oldest = len(messages) - most // 2 + 1
    start = next((i for i in range(oldest, len(messages)) if messages[i].role == "user"), None)
    if start is None:  # one long exchange at the end: it stays whole
        start = next((i for i in range(oldest - 1, 1, -1) if messages[i].role == "user"), None)
    pinned = next((message for message in messages[:start] if message.role != "tool" and not message.tool_calls), None)
    return None if start is None or pinned is None else Window(pinned=pinned.id, kept_from=messages[start].id, dropped=start - 1)

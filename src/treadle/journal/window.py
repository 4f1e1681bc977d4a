"""The part of a long conversation that its next run sees. Selected only between runs, at a closed
turn, and recorded.

receipts.py compacts inside a run. Entry points: `window`, `WindowReceipt`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from treadle.messages.message import Message
from treadle.types import Value

MAX_SESSION_MESSAGES = 100
"""Maximum number of messages in view of a session; above it, the view shrinks to half, so that it
stays stable for many runs.
"""


class KeptMessages(NamedTuple):
    """Remaining part of a list of messages: some at its front, one that replaces the removed ones,
    and its end.
    """

    front: Sequence[int]
    """Ascending indices, all below `start`."""
    start: int
    added: Message | None = None

    def of(self, messages: Sequence[Message]) -> list[Message]:
        return [
            *(messages[i] for i in self.front),
            *(() if self.added is None else (self.added,)),
            *messages[self.start :],
        ]

    def moved(self, boundary: int) -> int:
        """Return the number of messages before the boundary that remain."""
        if boundary < self.start:
            return bisect_left(self.front, boundary)
        return len(self.front) + (self.added is not None) + boundary - self.start


class WindowReceipt(Value, frozen=True, kw_only=True):
    """Receipt of the messages that remained in view. The others stay in storage."""

    pinned: str
    """Id of the first self-contained message, which is kept."""
    also: tuple[str, ...] = ()
    """Ids of other kept messages: the summary of those removed earlier."""
    kept_from: str
    """Id of the oldest other kept message."""
    dropped: int
    """Number of removed messages."""
    kind: Literal["window"] = msgspec.field(default_factory=lambda: "window")
    """Always written. If missing, this value applies."""

    def kept(self, messages: Sequence[Message]) -> KeptMessages | None:
        """Return the remaining messages. None: the receipt was made for other messages, and all
        remain.
        """
        return kept_of(messages, (self.pinned, *self.also), self.kept_from)

    def of(self, messages: Sequence[Message]) -> list[Message]:
        """Return the remaining messages."""
        return [*messages] if (kept := self.kept(messages)) is None else kept.of(messages)


def kept_of(
    messages: Sequence[Message], pinned: Sequence[str], kept_from: str, added: Message | None = None
) -> KeptMessages | None:
    """Return the remaining messages. `pinned`: ids, of which the first must be present. None if
    these are other messages.
    """
    start = next((i for i, message in enumerate(messages) if message.id == kept_from), None)
    wanted = {*pinned}
    front: list[int] = []
    for i, message in enumerate(messages[:start]):
        if message.id in wanted:
            wanted.discard(message.id)
            front.append(i)
    return (
        None
        if start is None or (pinned and pinned[0] in wanted)
        else KeptMessages(front, start, added)
    )


def window(messages: Sequence[Message], most: int = MAX_SESSION_MESSAGES) -> WindowReceipt | None:
    """Return the window, or None if all messages remain. Only whole exchanges are removed: the rest
    begins with a user's message.
    """
    if len(messages) <= most:
        return None
    oldest = len(messages) - most // 2 + 1
    start = next((i for i in range(oldest, len(messages)) if _is_asking(messages[i])), None)
    if start is None:  # a long exchange at the end is kept whole
        start = next((i for i in range(oldest - 1, 1, -1) if _is_asking(messages[i])), None)
    pinned = first_words(messages[:start])
    if start is None or pinned is None:
        return None
    also = tuple(
        message.id for message in messages[:start] if message.is_summary and message is not pinned
    )
    if start - 1 - len(also) < 1:
        return None
    return WindowReceipt(
        pinned=pinned.id, also=also, kept_from=messages[start].id, dropped=start - 1 - len(also)
    )


def _is_asking(message: Message) -> bool:
    return message.role == "user" and not message.is_summary


def first_words(messages: Sequence[Message]) -> Message | None:
    """Return the first self-contained message."""
    return next(
        (message for message in messages if message.role != "tool" and not message.tool_calls), None
    )

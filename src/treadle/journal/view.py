"""Messages that a model sees in place of others, as stored in the journal: the remaining ranges,
and the new or changed messages.

Entry points: `View`, `view_of`.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.messages.message import Message
from treadle.types import Value


class View(Value, frozen=True, kw_only=True):
    """A list of messages, defined relative to another one that the reader has."""

    parts: tuple[tuple[int, int] | Message, ...]
    """In order: ranges of the other list (first index, index after the last), ascending and without
    overlaps, and its own messages.
    """

    def over(self, messages: Sequence[Message]) -> list[Message]:
        """Return the view of these messages. It has at most one message more for each part."""
        shown: list[Message] = []
        done = 0
        for part in self.parts:
            if isinstance(part, Message):
                shown.append(part)
            else:
                start, stop = max(part[0], done), part[1]
                shown += messages[start:stop]
                done = max(done, stop)
        return shown


def view_of(messages: Sequence[Message], wanted: Sequence[Message]) -> View | None:
    """Return the view of `messages` that yields `wanted`; None if they are equal."""
    if len(messages) == len(wanted) and all(
        a is b or a == b for a, b in zip(messages, wanted, strict=True)
    ):
        return None
    places = {message.id: i for i, message in enumerate(messages)}
    parts: list[tuple[int, int] | Message] = []
    done = 0
    for one in wanted:
        at = places.get(one.id, -1)
        if at < done or not (messages[at] is one or messages[at] == one):
            parts.append(one)
            continue
        last = parts[-1] if parts else None
        if isinstance(last, tuple) and last[1] == at:
            parts[-1] = (last[0], at + 1)
        else:
            parts.append((at, at + 1))
        done = at + 1
    return View(parts=tuple(parts))

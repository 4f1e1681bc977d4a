"""Shorter queues for slow readers: adjacent deltas are joined, and older progress is dropped.

Entry points: `joined`, `drop_older`.
"""

from __future__ import annotations

from collections import deque

import msgspec

from treadle.messages import events
from treadle.messages.events import Event

JOINED_CHARS = 16_384
"""Length at which a joined delta stops growing, so that the cost of joining stays linear."""


def drop_older(waiting: deque[Event], new: events.ToolProgress) -> None:
    """Drop the call's older progress from the end of the queue, back to the last event of another
    type. Trailing progress is thus bounded by the number of calls.
    """
    for i in range(len(waiting) - 1, -1, -1):
        older = waiting[i]
        if not isinstance(older, events.ToolProgress):
            return
        if older.call_id == new.call_id:
            del waiting[i]
            return


def joined(last: Event, new: Event) -> Event | None:
    """Join two deltas; None if `new` does not continue `last`, or `last` has `JOINED_CHARS`."""
    match last, new:
        case (events.TextDelta(), events.TextDelta()) | (
            events.ReasoningDelta(),
            events.ReasoningDelta(),
        ):
            if (
                last.message_id == new.message_id
                and last.attempt == new.attempt
                and len(last.text) < JOINED_CHARS
            ):
                return msgspec.structs.replace(new, text=last.text + new.text)
        case events.ToolCallDelta(), events.ToolCallDelta():
            if (
                last.call_id == new.call_id
                and last.attempt == new.attempt
                and len(last.arguments) < JOINED_CHARS
            ):
                return msgspec.structs.replace(new, arguments=last.arguments + new.arguments)
        case _:
            pass
    return None

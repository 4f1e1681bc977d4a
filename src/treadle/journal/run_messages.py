"""Messages derived from a run's entries, independent of time.

Entry points: `tool_message`, `late_message`, `failover_message`.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.journal.entries import RunResumed, ToolLate
from treadle.messages.message import Message, TextPart, ToolResult
from treadle.types import Time

FAILOVER = (
    "The database that records this conversation failed over to another server, and its newest "
    "records may be missing. Tools may have been called that you do not see here: check before you "
    "do something that must not happen twice."
)


def tool_message(asked: Message, results: Sequence[ToolResult], at: Time) -> Message:
    """Return the message with the results of a message's calls, in the order of `results`."""
    return Message(id=f"{asked.id}_results", role="tool", parts=tuple(results), created_at=at)


def late_message(late: ToolLate) -> Message:
    """Return the message to the model about a result that arrived after `unknown`."""
    text = (
        f"A result came late for the call {late.call_id}, whose outcome was not known before: "
        f"{late.text}"
    )
    return Message(
        id=f"msg_late_{late.call_id}", role="user", parts=(TextPart(text=text),), created_at=late.at
    )


def failover_message(resumed: RunResumed) -> Message:
    """Return the message to the model about entries that a failover may have lost."""
    return Message(
        id=f"msg_failover_{resumed.fence}_{int(resumed.at.timestamp() * 1_000_000)}",
        role="user",
        parts=(TextPart(text=FAILOVER),),
        created_at=resumed.at,
    )

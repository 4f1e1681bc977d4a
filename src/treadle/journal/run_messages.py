"""Messages that a run makes out of its entries, the same whenever they are made. Entry:

`tool_message`, `late_message`.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.journal.entries import ToolLate
from treadle.messages.message import Message, TextPart, ToolResult
from treadle.types import Time


def tool_message(asked: Message, results: Sequence[ToolResult], at: Time) -> Message:
    """Results of a message with calls, in the order of `results`."""
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

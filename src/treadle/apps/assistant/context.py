"""What a runner is given for one message, and what it gives back. Entry:

`AgentContext`, `AgentResult`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self

from treadle.types import now


@dataclass(frozen=True, slots=True)
class MessageHistory:
    """One message of the conversation so far."""

    role: Literal["user", "assistant"]
    content: str
    timestamp: datetime
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    """Of an assistant's message, as its records were stored. For people: a model is told the words.
    """


@dataclass(frozen=True, slots=True)
class AgentContext:
    """Who says something, where, and what was said before it.

    Nothing of it is kept between two runs.
    """

    user_id: str
    """Of somebody whom the caller has verified."""
    conversation_id: str
    message_history: tuple[MessageHistory, ...] = ()
    """Oldest first."""

    @classmethod
    def from_request(
        cls, user_id: str, conversation_id: str, messages: Sequence[Mapping[str, Any]]
    ) -> Self:
        """From messages as mappings:

        `role`, `content`, and where known `timestamp` and `tool_calls`.
        """
        history = (
            MessageHistory(
                m["role"], m["content"], m.get("timestamp") or now(), m.get("tool_calls")
            )
            for m in messages
        )
        return cls(user_id, conversation_id, tuple(history))


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """A call that ran. No user id stands in it, and no secret."""

    tool_name: str
    parameters: Mapping[str, Any]
    result: Mapping[str, Any]
    """`{success, data, error}`."""
    duration_ms: int


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What came of one message. `response` is always fit to be shown."""

    success: bool
    response: str
    tool_calls: tuple[ToolCallRecord, ...] = ()
    """In the order in which they ran; those that ran also where it failed."""
    error: str | None = None
    """In words for a person; None where it went well."""

    @property
    def has_tool_calls(self) -> bool:
        return bool(self.tool_calls)

"""Input and result of a runner for one message. Entry points: `AgentContext`, `AgentResult`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Self

from treadle._internal.terminal_text import plain
from treadle.messages.message import Message
from treadle.types import now


@dataclass(frozen=True, slots=True)
class MessageHistory:
    """Earlier message of the conversation."""

    role: Literal["user", "assistant"]
    content: str
    timestamp: datetime
    tool_calls: Sequence[Mapping[str, Any]] | None = None
    """Records of an assistant message's calls, as stored, for display. A model receives only the
    text.
    """


@dataclass(frozen=True, slots=True)
class AgentContext:
    """User, conversation and history of a message. Runs share none of it."""

    user_id: str
    """Id of a user that the caller has verified."""
    conversation_id: str
    message_history: tuple[MessageHistory, ...] = ()
    """Earlier messages, oldest first."""

    @classmethod
    def from_request(
        cls, user_id: str, conversation_id: str, messages: Sequence[Mapping[str, Any]]
    ) -> Self:
        """Return a context from mappings with `role`, `content`, and optionally `timestamp` and
        `tool_calls`.
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
    """Record of an executed call, without user ids and secrets."""

    tool_name: str
    parameters: Mapping[str, Any]
    result: Mapping[str, Any]
    """Result as `{success, data, error}`."""
    duration_ms: int


@dataclass(frozen=True, slots=True)
class AgentResult:
    """Result of one message. `response` is always fit for display."""

    success: bool
    response: str
    tool_calls: tuple[ToolCallRecord, ...] = ()
    """Executed calls in order, including those before a failure."""
    error: str | None = None
    """Error message for a person; None on success."""

    @property
    def has_tool_calls(self) -> bool:
        return bool(self.tool_calls)


HISTORY_MOST: Final = 20
HISTORY_CHARS: Final = 8_000
"""Maximum characters of history for a model; only whole messages are included."""


def earlier(history: tuple[MessageHistory, ...]) -> list[Message]:
    """Return the last messages for the model, oldest first.

    They contain text only: tool results and confirmations are not included.
    """
    kept: list[Message] = []
    left = HISTORY_CHARS
    for one in _last_said(history):
        left -= len(one.content)
        if left < 0:
            break
        text = plain(one.content)
        kept.append(Message.user(text) if one.role == "user" else Message.assistant(text))
    return kept[::-1]


def _last_said(history: tuple[MessageHistory, ...]) -> Iterator[MessageHistory]:
    """Return the messages with text, newest first."""
    said = [
        one
        for one in history[-HISTORY_MOST:]
        if one.role in ("user", "assistant") and plain(one.content).strip()
    ]
    return reversed(said)

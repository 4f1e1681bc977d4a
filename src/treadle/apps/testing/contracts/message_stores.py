"""Contract of stores of messages, over the fixture `message_store`: an empty `MessageStore`. Import
its tests: `from treadle.testing.contracts.message_stores import *`.
"""

from __future__ import annotations

from treadle.journal.run_messages import tool_message
from treadle.messages.message import (
    MediaPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from treadle.runtime.stored_session import MessageStore


def conversation() -> list[Message]:
    """Return messages with a part of each common kind."""
    call = ToolCall(id="call_1", name="look", arguments_json='{"at": "\u00e9\u4e16"}')
    result = ToolResult(call_id="call_1", name="look", content=(TextPart(text="a line\n\ttwo"),))
    asked = Message.assistant([ReasoningPart(text="hm"), call])
    return [
        Message.user([TextPart(text="Zo\u00eb \U0001f9f5"), MediaPart.from_bytes(b"%PDF-1.4\n")]),
        asked,
        tool_message(asked, [result], asked.created_at),
        Message.assistant("done"),
    ]


async def test_an_unknown_session_is_empty(message_store: MessageStore) -> None:
    assert [*await message_store.load("nowhere")] == []


async def test_messages_return_unchanged_and_in_order(message_store: MessageStore) -> None:
    first, second = conversation(), [Message.user("more"), Message.assistant("yes")]
    await message_store.append("s", "run_1", first)
    await message_store.append("s", "run_2", second)
    assert [*await message_store.load("s")] == [*first, *second]


async def test_a_run_is_appended_once(message_store: MessageStore) -> None:
    said = conversation()
    await message_store.append("s", "run_1", said)
    await message_store.append("s", "run_1", said)
    assert [*await message_store.load("s")] == said


async def test_a_run_without_messages_changes_nothing(message_store: MessageStore) -> None:
    await message_store.append("s", "run_1", [])
    assert [*await message_store.load("s")] == []


async def test_sessions_are_separate(message_store: MessageStore) -> None:
    await message_store.append("a", "run_1", [Message.user("of a")])
    await message_store.append("a/b", "run_2", [Message.user("of b")])
    assert [m.text for m in await message_store.load("a")] == ["of a"]
    assert [m.text for m in await message_store.load("a/b")] == ["of b"]

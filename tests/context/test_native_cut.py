"""Where a provider's own summary ends: at a change between the model and the other side, and after
enough of the conversation.
"""

from __future__ import annotations

import pytest

from treadle.context.compaction_work import CompactionWork, TokenRoom
from treadle.journal.run_state import RunState
from treadle.messages.message import Message, Role


def conversation(*roles: Role) -> list[Message]:
    return [Message.of(role, "word " * 300) for role in roles]


def cut(messages: list[Message]) -> int | None:
    room = TokenRoom(limit=6_000, target=4_000)
    return CompactionWork(RunState(messages), 0, 4_000, 8_000, room).to_compact()


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (("user", "assistant", "user", "user", "user", "assistant", "user"), 5),
        (("user", "assistant", "user", "user", "assistant", "user", "system", "user"), 4),
    ],
)
def test_the_cut_is_where_the_sides_change(roles: tuple[Role, ...], expected: int) -> None:
    assert cut(conversation(*roles)) == expected


def test_there_is_no_cut_in_a_conversation_of_one_side() -> None:
    assert cut(conversation("user", "user", "user", "user")) is None

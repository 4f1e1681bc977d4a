"""Messages that a function of an agent's definition shows to the model in place of the history.

Entry points: `Processor`, `checked_messages`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, cast

from treadle.errors import AgentError
from treadle.messages.message import Message
from treadle.messages.validate import check_history

Processor: TypeAlias = Callable[[list[Message]], Awaitable[Sequence[Message]]]
"""Returns the messages that the model sees in the place of the history."""


def checked_messages(given: object, label: str) -> Sequence[Message]:
    """Return the messages. Raises AgentError(invalid) if they are not a valid history."""
    if not isinstance(given, list | tuple) or not all(
        isinstance(one, Message) for one in cast("Sequence[object]", given)
    ):
        raise AgentError(
            "invalid", f"{label} returned {given!r:.80}: return a list of treadle.Message"
        )
    messages = cast("Sequence[Message]", given)
    if not messages:
        raise AgentError(
            "invalid", f"{label} returned no messages: keep at least the newest message"
        )
    if wrong := check_history(messages):
        raise AgentError(
            "invalid",
            f"{label} returned messages that are not a valid history: {wrong[0]}. Remove a tool "
            "call only together with its results, or return treadle.repair_history(messages)",
        )
    return messages

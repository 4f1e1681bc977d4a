"""Selection of what leaves a conversation that outgrows its model, or that its provider refuses:
old and long results, images, an exchange. Entry points: `newest`, `old_results`, `long_results`,
`with_images`, `withdrawn`.

Nothing is changed here: journal/receipts.py records the selection and applies it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from treadle.journal.receipts import (
    AGAIN,
    IMAGE,
    LINES,
    RAN,
    TOO_LONG,
    Cut,
    Withdrawn,
    has_media,
)
from treadle.messages.message import PDF, Message, TextPart, ToolResult
from treadle.messages.size import BYTES_PER_TOKEN, result_size, size_of
from treadle.types import new_id, now

HEAD_CHARS = 300
"""Number of characters that stay of a cleared result that cannot be produced again."""
LEAST_BYTES = 300
"""Minimum gain in bytes of clearing one result."""
WITHDRAWN = "refused"
"""Prefix of the id of a message that replaces an exchange which the provider refused."""
REFUSED = (
    "[The provider refused to answer a request here. The request, and the messages that led to "
    "the refusal, were removed from the conversation.]"
)


def with_images(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the ids of the messages with images or PDF documents that the model has not answered
    yet, or else of all messages with any.
    """
    start = next((i for i in range(len(messages), 0, -1) if messages[i - 1].role == "assistant"), 0)
    return _with_images(messages[start:]) or _with_images(messages)


def _with_images(messages: Iterable[Message]) -> tuple[str, ...]:
    return tuple(
        message.id
        for message in messages
        if any(has_media(part, IMAGE) or has_media(part, PDF) for part in message.parts)
    )


def withdrawn(messages: Sequence[Message], refused_id: str) -> Withdrawn | None:
    """Return the receipt for a refused response: the response, the unanswered messages before it,
    and the calls that led to them.

    If only an earlier refusal precedes them, one exchange more, which may contain what the provider
    refuses. None for an empty conversation.
    """
    at = next((i for i, message in enumerate(messages) if message.id == refused_id), len(messages))
    start = _unanswered(messages, at)
    if 0 < start < len(messages) and messages[start].id.startswith(WITHDRAWN):
        start = _unanswered(messages, start - (messages[start - 1].role == "assistant"))
    if start == len(messages):
        return None
    marker = Message(
        id=new_id(WITHDRAWN), role="user", parts=(TextPart(text=REFUSED),), created_at=now()
    )
    return Withdrawn(since=messages[start].id, dropped=len(messages) - start, message=marker)


def _unanswered(messages: Sequence[Message], end: int) -> int:
    """Return the index at which the unanswered part before `end` starts, including the calls that
    its results answer.
    """
    start = end
    while start and messages[start - 1].role != "assistant":
        start -= 1
    return start - 1 if start and messages[start - 1].tool_calls else start


def last_turn(messages: Sequence[Message]) -> int:
    """Return the index of the first message that the model has not answered, including the calls
    whose results it has not read.
    """
    for i in range(len(messages) - 1, -1, -1):
        if messages[i].role == "assistant":
            return i if messages[i].tool_calls or i == len(messages) - 1 else i + 1
    return 0


def newest(messages: Sequence[Message], tokens_max: int) -> int:
    """Return the index of the newest whole turns that fit into `tokens_max`. The last turn is
    always included.
    """
    start = last_turn(messages)
    tokens = size_of(messages[start:]).tokens
    for i in range(start - 1, -1, -1):
        tokens += size_of(messages[i : i + 1]).tokens
        if tokens > tokens_max:
            break
        if messages[i].role != "tool":  # nothing separates a call from its result
            start = i
    return start


def old_results(
    messages: Sequence[Message], is_repeatable: Callable[[str], bool]
) -> tuple[Cut, ...]:
    """Return results that can be shortened. `is_repeatable`: by call id, whether the call can
    simply be repeated.

    The beginning of the others stays: it may be the only trace of their effects. A result with an
    unknown outcome stays whole.
    """
    return _worth(
        (
            Cut(call_id=result.call_id, line=AGAIN)
            if is_repeatable(result.call_id)
            else Cut(call_id=result.call_id, line=RAN, kept=HEAD_CHARS),
            result,
        )
        for message in messages
        for result in message.tool_results
        if not result.unknown
    )


def long_results(messages: Sequence[Message], tokens_max: int) -> tuple[Cut, ...]:
    """Return cuts that shorten the results of the last turn, which the model has not read yet, to
    about `tokens_max` tokens in total. Their beginnings stay.
    """
    results = [
        result for message in messages for result in message.tool_results if not result.unknown
    ]
    kept = max(
        tokens_max * BYTES_PER_TOKEN // max(len(results), 1) - len(LINES[TOO_LONG]), HEAD_CHARS
    )
    return _worth(
        (Cut(call_id=result.call_id, line=TOO_LONG, kept=kept), result) for result in results
    )


def _worth(cuts: Iterable[tuple[Cut, ToolResult]]) -> tuple[Cut, ...]:
    """Return the cuts that reduce the size."""
    return tuple(
        cut
        for cut, result in cuts
        if _weight(result) - _weight(cut.of(result, LINES)) >= LEAST_BYTES
    )


def _weight(result: ToolResult) -> int:
    return result_size(result).tokens * BYTES_PER_TOKEN

"""Explanations of runs that did not complete, for the user of a chat. Entry points: `ended`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from treadle._internal.terminal_text import plain
from treadle.messages.events import ErrorInfo, RunEnd
from treadle.types import Outcome

_WORDS: Final[Mapping[Outcome, str]] = {
    Outcome.TURN_LIMIT: "Stopped at the turn limit. Say how to continue, or start with a higher --max-turns.",  # noqa: E501
    Outcome.CALL_LIMIT: (
        "Stopped at the tool call limit. Say how to continue, or start with a higher "
        "--max-tool-calls."
    ),
    Outcome.TOKEN_LIMIT: "Stopped at the token limit. Say how to continue, or start with a higher --max-tokens.",  # noqa: E501
    Outcome.COST_LIMIT: "Stopped at the cost limit. Say how to continue, or start with a higher --max-cost.",  # noqa: E501
    Outcome.TIMEOUT: "Stopped at the time limit. Say how to continue, or start with a higher --timeout.",  # noqa: E501
    Outcome.TRUNCATED: (
        "The answer was truncated at the output token limit. Say “continue”, or start with a "
        "higher --max-output-tokens."
    ),
    Outcome.LOOPING: "Stopped: the model repeated the same call with the same result.",
    Outcome.INVALID_OUTPUT: "The answer is not a valid output.",
    Outcome.REFUSED: "The model refused to answer.",
    Outcome.CONTEXT_OVERFLOW: "The conversation is larger than the model's window: /compact it, or start a /new one.",  # noqa: E501
    Outcome.APPROVAL_NEEDED: "Waiting for your answer: /resume asks again.",
    Outcome.CANCELLED: "Interrupted. Its work so far is kept; say how to continue.",
}


def ended(event: RunEnd) -> str:
    if isinstance(event.error, ErrorInfo):
        if event.outcome is Outcome.INVALID_OUTPUT:
            return f"{_WORDS[event.outcome][:-1]}: {plain(event.error.message)}"
        where = f" (request {event.error.request_id})" if event.error.request_id else ""
        return f"{event.error.kind}: {plain(event.error.message)}{where}"
    words, spent = (
        _WORDS.get(event.outcome, event.outcome.value),
        event.total.spent_of(event.outcome),
    )
    return f"{words} Spent: {spent}." if spent else words

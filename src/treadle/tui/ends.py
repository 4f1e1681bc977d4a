"""Explanations of runs that did not complete, for the user of a chat. Entry points: `ended`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from treadle._internal.terminal_text import plain
from treadle.messages.events import ErrorInfo, RunEnd
from treadle.types import Outcome

_WORDS: Final[Mapping[Outcome, str]] = {
    Outcome.TURN_LIMIT: "Stopped at its limit of turns. Say how to go on, or start with a higher --max-turns.",  # noqa: E501
    Outcome.CALL_LIMIT: (
        "Stopped at its limit of tool calls. Say how to go on, or start with a higher "
        "--max-tool-calls."
    ),
    Outcome.TOKEN_LIMIT: "Stopped at its limit of tokens. Say how to go on, or start with a higher --max-tokens.",  # noqa: E501
    Outcome.COST_LIMIT: "Stopped at its limit of money. Say how to go on, or start with a higher --max-cost.",  # noqa: E501
    Outcome.TIMEOUT: "Stopped at its time limit. Say how to go on, or start with a higher --timeout.",  # noqa: E501
    Outcome.TRUNCATED: (
        "The answer was cut at its limit of output tokens. Say “go on”, or start with a higher "
        "--max-output-tokens."
    ),
    Outcome.LOOPING: "Stopped: the model repeated the same call with the same result.",
    Outcome.INVALID_OUTPUT: "The answer does not fit the schema that was asked for.",
    Outcome.REFUSED: "The model refused to answer.",
    Outcome.CONTEXT_OVERFLOW: "The conversation is larger than the model's window: /compact it, or begin a /new one.",  # noqa: E501
    Outcome.APPROVAL_NEEDED: "Waiting for an answer of yours: /resume asks again.",
    Outcome.CANCELLED: "Interrupted. What it did so far is kept; say how to go on.",
}


def ended(event: RunEnd) -> str:
    if isinstance(event.error, ErrorInfo):
        where = f" (request {event.error.request_id})" if event.error.request_id else ""
        return f"{event.error.kind}: {plain(event.error.message)}{where}"
    words, spent = (
        _WORDS.get(event.outcome, event.outcome.value),
        event.total.spent_of(event.outcome),
    )
    return f"{words} Spent: {spent}." if spent else words

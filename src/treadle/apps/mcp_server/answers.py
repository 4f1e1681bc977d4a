"""The end of a run as a tool result: its answer, or the reason that there is none and the next
step. Entry points: `answer_of`, `waiting`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, cast

from mcp.types import CallToolResult, TextContent

from treadle.messages.result import RunResult
from treadle.types import Outcome

RUN_ID: Final = "treadle/run_id"
"""Key of the run's id in a result's `_meta`."""
MAX_TEXT_CHARS: Final = 2000
"""Maximum length of an agent's partial text in the result of an uncompleted run."""

_WHY: Final = {
    Outcome.COMPLETED: "gave an answer that does not fit its schema,",
    Outcome.TURN_LIMIT: "stopped at its limit of turns",
    Outcome.CALL_LIMIT: "stopped at its limit of tool calls",
    Outcome.TOKEN_LIMIT: "stopped at its limit of tokens",
    Outcome.COST_LIMIT: "stopped at its limit of money",
    Outcome.TIMEOUT: "stopped at its time limit",
    Outcome.TRUNCATED: "was cut at its limit of output tokens",
    Outcome.LOOPING: "stopped, because its model repeated the same call with the same result",
    Outcome.REFUSED: "ended, because its model refused to answer",
    Outcome.INVALID_OUTPUT: "ended, because its model's answer did not fit the schema that was asked for",  # noqa: E501
    Outcome.CONTEXT_OVERFLOW: "ended, because its conversation is larger than its model's window",
    Outcome.APPROVAL_NEEDED: "ended, because calls were denied for lack of an approver",
    Outcome.CANCELLED: "was stopped",
}
_NEXT: Final = {
    Outcome.REFUSED: "Ask for something else.",
    Outcome.CONTEXT_OVERFLOW: "Ask for less at a time.",
    Outcome.APPROVAL_NEEDED: (
        "Use a client that offers elicitation, or start the server with --mode accept-edits or "
        "--mode full."
    ),
    Outcome.CANCELLED: "Call it again to start over.",
}
_SMALLER: Final = "Ask for a smaller part of it, or start the server with a higher limit."
_LIMITS: Final = (
    Outcome.TURN_LIMIT,
    Outcome.CALL_LIMIT,
    Outcome.TOKEN_LIMIT,
    Outcome.COST_LIMIT,
    Outcome.TIMEOUT,
    Outcome.TRUNCATED,
)


def answer_of(
    agent: str, result: RunResult[Any], structured: object | None, redact: Callable[[str], str]
) -> CallToolResult:
    """Build the result. `structured`: the typed answer as an object; None if the agent has no type.

    `redact` removes secrets from all texts.
    """
    if result.success and structured is None and result.validated:
        return _result(result, redact(result.text))
    if result.success and structured is not None:
        clean = _inside(structured, redact)
        return _result(result, json.dumps(clean, ensure_ascii=False), structured=clean)
    said = result.text.strip()
    cut = said if len(said) <= MAX_TEXT_CHARS else f"{said[:MAX_TEXT_CHARS]}…"
    parts = [_why(agent, result), _next(result), f"Its text so far: {cut}" if cut else ""]
    return _result(result, redact("\n".join(part for part in parts if part)), is_error=True)


def waiting(agent: str, result: RunResult[Any]) -> CallToolResult:
    """Return an error for a run that waits for an approval that this client cannot request."""
    words = (
        f"The agent {agent} waits for an approval, which this client cannot request. "
        f"To see how to give it, run `treadle runs resume {result.run_id}`."
    )
    return _result(result, words, is_error=True)


def _why(agent: str, result: RunResult[Any]) -> str:
    if result.error is not None:
        return f"The agent {agent} failed ({result.error.kind}): {result.error.message}"
    return (
        f"The agent {agent} {_WHY.get(result.outcome, f'ended as {result.outcome.value}')} after "
        f"{result.turn_count} turn(s)."
    )


def _next(result: RunResult[Any]) -> str:
    if result.error is not None:
        return "Trying again later may help." if result.error.retryable else ""
    return _SMALLER if result.outcome in _LIMITS else _NEXT.get(result.outcome, "")


def _result(
    result: RunResult[Any], text: str, *, structured: object | None = None, is_error: bool = False
) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=text)],
        structured_content=structured,
        is_error=is_error,
        _meta={RUN_ID: result.run_id},
    )


def _inside(value: object, redact: Callable[[str], str]) -> object:
    """Redact the texts of JSON data."""
    match value:
        case str():
            return redact(value)
        case list():
            return [_inside(item, redact) for item in cast("list[object]", value)]
        case dict():
            return {
                name: _inside(item, redact)
                for name, item in cast("dict[str, object]", value).items()
            }
        case _:
            return value

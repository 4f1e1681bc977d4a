"""What a run gives: the same fields whatever the outcome, and one way to insist on success."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import AgentError
from treadle.messages.metrics import RunMetrics, RunTotals
from treadle.messages.result import RunResult
from treadle.types import Outcome, Usage

KIND_OF = {
    Outcome.TURN_LIMIT: "limit",
    Outcome.CALL_LIMIT: "limit",
    Outcome.TOKEN_LIMIT: "limit",
    Outcome.COST_LIMIT: "limit",
    Outcome.TRUNCATED: "limit",
    Outcome.TIMEOUT: "timeout",
    Outcome.CANCELLED: "cancelled",
    Outcome.CONTEXT_OVERFLOW: "context_overflow",
    Outcome.LOOPING: "agent",
    Outcome.REFUSED: "agent",
    Outcome.INVALID_OUTPUT: "agent",
    Outcome.APPROVAL_NEEDED: "agent",
    Outcome.ERROR: "agent",
}


def ended(outcome: Outcome, **more: Any) -> RunResult[str]:
    known: dict[str, Any] = {
        "run_id": "run_1",
        "session_id": None,
        "output": None,
        "validated": False,
        "text": "so far",
        "error": None,
    }
    total = RunTotals(turns=3, tool_calls=2, usage=Usage(input_tokens=9), cost_usd=0.5)
    return RunResult(
        outcome=outcome,
        messages=[],
        new_messages=[],
        metrics=RunMetrics(turns=3, total=total),
        **(known | more),
    )


def test_only_a_completed_run_is_a_success() -> None:
    assert [outcome for outcome in Outcome if ended(outcome).success] == [Outcome.COMPLETED]


def test_a_completed_run_gives_its_output() -> None:
    assert ended(Outcome.COMPLETED, output="warm").unwrap() == "warm"
    assert ended(Outcome.COMPLETED, output="").unwrap() == ""


@pytest.mark.parametrize("outcome", KIND_OF)
def test_every_other_end_is_raised_with_its_kind_and_what_there_was(outcome: Outcome) -> None:
    spent = {
        Outcome.CALL_LIMIT: "2 tool calls",
        Outcome.TOKEN_LIMIT: "9 tokens",
        Outcome.COST_LIMIT: r"\$0.50",
    }.get(outcome, "3 turns")
    with pytest.raises(
        AgentError,
        match=rf"run run_1 ended {outcome.value} after {spent}; its text so far: 'so far'",
    ) as caught:
        ended(outcome).unwrap()
    assert caught.value.kind == KIND_OF[outcome]


def test_every_outcome_has_its_place_here() -> None:
    assert KIND_OF.keys() | {Outcome.COMPLETED} == set(Outcome), (
        "a new outcome has a kind of error in messages/result.py, and in KIND_OF"
    )


def test_the_error_that_ended_a_run_is_what_is_raised() -> None:
    error = AgentError("auth", "no key")
    with pytest.raises(AgentError) as caught:
        ended(Outcome.ERROR, error=error).unwrap()
    assert caught.value is error


def test_old_names_and_short_ways() -> None:
    result = ended(Outcome.TIMEOUT)
    assert result.terminate_reason is Outcome.TIMEOUT
    assert result.turn_count == 3

"""What comes next for a prompt, from what its runs came to."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from treadle.apps.batch.batch import Terms
from treadle.apps.batch.report import GateResult
from treadle.apps.batch.steps import GO_ON, Past, attempts_of, left_of, next_step
from treadle.errors import AgentError
from treadle.journal.run_info import RunInfo, RunStatus
from treadle.messages.metrics import RunMetrics, RunTotals
from treadle.messages.result import RunResult
from treadle.types import Limits, Outcome, Usage, now


def past(
    outcome: Outcome = Outcome.COMPLETED,
    *,
    status: RunStatus = "finished",
    error: AgentError | None = None,
    more: RunTotals | None = None,
    **metrics: Any,
) -> Past:
    """`more`: what runs that it started took."""
    spent = RunMetrics(**metrics)
    total = RunTotals(
        turns=spent.turns, tool_calls=spent.tool_calls, usage=spent.usage, cost_usd=spent.cost_usd
    ) + (more or RunTotals(runs=0))
    spent = structs.replace(spent, total=total)
    info = RunInfo(
        run_id="run_1",
        session_id="s",
        parent_run_id=None,
        forked_from=None,
        agent="treadle",
        model="script:x",
        mode="full",
        cwd="/",
        status=status,
        outcome=outcome if status == "finished" else None,
        started_at=now(),
        updated_at=now(),
        prompt="x",
        turns=spent.turns,
        tool_calls=spent.tool_calls,
        usage=spent.usage,
        entries=1,
    )
    return Past(
        info,
        RunResult(
            run_id="run_1",
            session_id="s",
            outcome=outcome,
            output=None,
            validated=False,
            text="",
            error=error,
            messages=[],
            new_messages=[],
            metrics=spent,
        ),
    )


def terms(**more: Any) -> Terms:
    return Terms(model="script:x", cwd="/", mode="full", **more)


FAILED = GateResult(command="make test", passed=False, exit_code=2, output="two tests failed")
PASSED = GateResult(command="make test", passed=True, exit_code=0)


def test_a_prompt_without_a_run_begins_with_its_text_and_all_limits() -> None:
    step = next_step([], (), "do it", terms(limits=Limits(turns=3)), entering=True)
    assert step is not None
    assert (step.text, step.run_id, step.limits) == ("do it", None, Limits(turns=3))


@pytest.mark.parametrize("status", ["stopped", "running"])
def test_a_run_that_is_open_goes_on(status: RunStatus) -> None:
    step = next_step([past(status=status)], (), "do it", terms(), entering=True)
    assert step is not None
    assert step.run_id == "run_1"


def test_a_run_that_waits_for_a_person_is_left_alone() -> None:
    assert next_step([past(status="waiting")], (), "do it", terms(retries=3), entering=True) is None


def test_a_run_that_was_interrupted_goes_on_within_the_same_attempt() -> None:
    runs = [past(Outcome.CANCELLED)]
    step = next_step(runs, (), "do it", terms(), entering=True)
    assert step is not None
    assert step.text == GO_ON
    assert attempts_of([*runs, past()]) == 1


def test_a_run_that_somebody_killed_is_not_gone_on_with() -> None:
    assert next_step([past(Outcome.CANCELLED)], (), "do it", terms(retries=3)) is None


def test_a_failed_gate_is_told_as_long_as_there_are_retries() -> None:
    step = next_step([past()], (PASSED, FAILED), "do it", terms(retries=1))
    assert step is not None
    assert all(said in step.text for said in ("make test", "exit code 2", "two tests failed"))
    assert next_step([past(), past()], (FAILED,), "do it", terms(retries=1)) is None
    assert next_step([past()], (PASSED,), "do it", terms(retries=1)) is None


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_ends_that_another_attempt_may_mend_are_tried_again(outcome: Outcome) -> None:
    mendable = outcome in (
        Outcome.ERROR,
        Outcome.TRUNCATED,
        Outcome.LOOPING,
        Outcome.INVALID_OUTPUT,
    )
    step = next_step([past(outcome)], (), "do it", terms(retries=5))
    assert (step is not None) is mendable
    assert step is None or outcome.value in step.text


@pytest.mark.parametrize(
    ("kind", "again"),
    [("auth", False), ("invalid", False), ("network", True), ("rate_limit", True), ("agent", True)],
)
def test_an_error_that_would_only_come_again_is_not_tried_again(kind: str, again: bool) -> None:
    assert (
        next_step(
            [past(Outcome.ERROR, error=AgentError(kind, "no"))], (), "do it", terms(retries=5)
        )
        is not None
    ) is again


def test_what_is_left_of_limits_is_what_all_runs_have_left() -> None:
    limits = Limits(turns=10, tool_calls=5, tokens=100, seconds=60, cost_usd=1.0)
    spent = past(
        turns=3,
        tool_calls=1,
        usage=Usage(input_tokens=20, output_tokens=10),
        duration_s=20.0,
        cost_usd=0.25,
    )
    assert left_of(limits, [spent, spent]) == Limits(
        turns=4, tool_calls=3, tokens=40, seconds=20.0, cost_usd=0.5
    )
    assert left_of(limits, [spent] * 3) is None
    assert left_of(Limits(), [spent]) == Limits()


@pytest.mark.parametrize(
    "limits",
    [
        Limits(turns=3),
        Limits(tool_calls=1),
        Limits(tokens=30),
        Limits(seconds=20),
        Limits(cost_usd=0.25),
    ],
)
def test_nothing_is_tried_where_a_limit_is_used_up(limits: Limits) -> None:
    spent = past(
        turns=3,
        tool_calls=1,
        usage=Usage(input_tokens=20, output_tokens=10),
        duration_s=20.0,
        cost_usd=0.25,
    )
    assert next_step([spent], (FAILED,), "do it", terms(retries=3, limits=limits)) is None


def test_what_a_run_started_counts_against_the_limits_of_its_prompt() -> None:
    spent = past(
        turns=2,
        cost_usd=0.25,
        usage=Usage(input_tokens=10),
        more=RunTotals(turns=3, tool_calls=1, usage=Usage(input_tokens=30), cost_usd=0.5),
    )
    left = left_of(Limits(turns=10, tool_calls=4, tokens=100, cost_usd=1.0), [spent])
    assert left == Limits(turns=5, tool_calls=3, tokens=60, cost_usd=0.25)

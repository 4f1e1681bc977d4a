"""Choice of a prompt's next step from the results of its runs, without files or processes. Entry
points: `next_step`, `attempts_of`, `left_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from treadle.apps.batch.batch import Terms
from treadle.apps.batch.report import GateResult
from treadle.errors import ErrorKind
from treadle.journal.run_info import RunInfo
from treadle.messages.result import RunResult
from treadle.types import Limits, Outcome

MENDABLE = frozenset({Outcome.ERROR, Outcome.TRUNCATED, Outcome.LOOPING, Outcome.INVALID_OUTPUT})
"""Outcomes after which another attempt may succeed.

A limit, a refusal or an unapproved call would only recur.
"""
HOPELESS = frozenset({ErrorKind.AUTH, ErrorKind.INVALID, ErrorKind.LIMIT, ErrorKind.BUSY})

GO_ON = "You were stopped before this was done. Check the current state, and continue."
ENDED = "The last attempt did not finish ({why}). Check the current state, and finish the task."
FAILED = """The task is not done yet: the check `{command}` fails ({how}). The end of its output:

{output}

Find the cause and fix it there. Do not change the check itself."""


class Past(NamedTuple):
    """Run of a prompt with its result so far."""

    info: RunInfo
    result: RunResult[object]


class NextStep(NamedTuple):
    """Next step of a prompt: the text for a new run, or a run to resume."""

    text: str
    run_id: str | None = None
    limits: Limits = Limits()


def next_step(
    past: Sequence[Past],
    gates: Sequence[GateResult],
    prompt: str,
    terms: Terms,
    *,
    entering: bool = False,
) -> NextStep | None:
    """Return the next step, or None if there is nothing more to do now. `past`: oldest first;
    `gates`: results for the last run.

    `entering`: True if this process has not worked on the prompt yet. A cancelled run was then
    cancelled because the last process ended, not by a person.
    """
    if not past:
        return NextStep(prompt, limits=terms.limits)
    last = past[-1]
    match last.info.status:
        case "queued" | "running" | "stopped":
            return NextStep("", run_id=last.info.run_id)
        case "waiting":
            return None
        case "finished":
            text = (
                GO_ON
                if entering and last.result.outcome is Outcome.CANCELLED
                else _another_attempt(past, gates, terms)
            )
            limits = left_of(terms.limits, past)
            return None if text is None or limits is None else NextStep(text, limits=limits)


def _another_attempt(past: Sequence[Past], gates: Sequence[GateResult], terms: Terms) -> str | None:
    if attempts_of(past) > terms.retries:
        return None
    if failed := next((gate for gate in gates if gate.failed), None):
        return FAILED.format(
            command=failed.command,
            how=how_it_failed(failed),
            output=failed.output.strip() or "(no output)",
        )
    result = past[-1].result
    if result.outcome in MENDABLE and (result.error is None or result.error.kind not in HOPELESS):
        return ENDED.format(
            why=result.outcome.value
            if result.error is None
            else f"{result.outcome.value}: {result.error.message}"
        )
    return None


def attempts_of(past: Sequence[Past]) -> int:
    """Return the number of attempts. A run that follows a cancelled one belongs to the same
    attempt.
    """
    return sum(
        index == 0 or past[index - 1].result.outcome is not Outcome.CANCELLED
        for index in range(len(past))
    )


def how_it_failed(gate: GateResult) -> str:
    return (
        "timed out, or could not be run"
        if gate.exit_code is None
        else f"exit code {gate.exit_code}"
    )


def left_of(limits: Limits, past: Sequence[Past]) -> Limits | None:
    """Return the remaining limits of a prompt; None if one is used up."""
    spent = [each.result.metrics.total for each in past]
    left = {
        "turns": _less(limits.turns, sum(m.turns for m in spent)),
        "tool_calls": _less(limits.tool_calls, sum(m.tool_calls for m in spent)),
        "tokens": _less(limits.tokens, sum(m.usage.total_tokens for m in spent)),
        "seconds": _less(limits.seconds, sum(each.result.metrics.duration_s for each in past)),
        "cost_usd": _less(limits.cost_usd, sum(m.cost_usd or 0 for m in spent)),
        "repeats": limits.repeats,
    }
    if any(value is not None and value <= 0 for value in left.values()):
        return None
    return Limits(**left)


def _less(limit: float | None, spent: float) -> float | None:
    return None if limit is None else limit - spent

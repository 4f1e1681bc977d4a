"""Results of runs, from their state and their end.

Entry points: `result_of`, `with_output`, `after_run`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio

from treadle.agents.agent import Agent
from treadle.journal.projection import shown_arguments
from treadle.journal.run_state import RunState
from treadle.loop.ending import Ending
from treadle.loop.plan import Plan
from treadle.messages.result import Out, PendingCall, RunResult

HOOK_GRACE_S = 5.0
"""Seconds for the hooks after a run, also while the task is being cancelled."""


def result_of(state: RunState, ending: Ending) -> RunResult[Any]:
    started = state.started
    assert started is not None, "a run begins with run.started"
    # a request cannot end with a call that waits
    closed = len(state.context.history) - bool(state.current.open_calls)
    return RunResult(
        run_id=started.run_id,
        agent=state.agent.name,
        session_id=started.session_id,
        tags=started.tags,
        metadata={**started.metadata},
        outcome=ending.outcome,
        output=ending.output,
        validated=ending.validated,
        output_json=ending.output_json,
        waiting=ending.waiting,
        pending=_pending(state) if ending.waiting else (),
        text=ending.text,
        error=ending.error,
        messages=state.context.history[:closed],
        new_messages=state.context.history[state.context.prompt_at : closed],
        metrics=ending.metrics,
    )


def _pending(state: RunState) -> tuple[PendingCall, ...]:
    return tuple(
        [
            PendingCall(
                call_id=asked.call_id,
                name=asked.name,
                arguments=shown_arguments(asked.arguments_json),
                reason=asked.reason,
                deferred=asked.deferred,
            )
            for asked in state.approvals.asked.values()
        ]
    )


def with_output(result: RunResult[Any], agent: Agent[Any, Out]) -> RunResult[Out]:
    """Return the result with its output as a value of the agent's type, if it was valid when the
    run ended.
    """
    return (
        replace(result, output=agent.answer.again(result.output))
        if agent.answer is not None and result.validated
        else result
    )


async def after_run(plan: Plan, result: RunResult[Any]) -> None:
    """Run the hooks after a run, also while the task is being cancelled."""
    if "after_run" in plan.hooks.points:
        with anyio.move_on_after(HOOK_GRACE_S, shield=True):
            await plan.hooks.after_run(result)

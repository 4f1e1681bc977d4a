"""Concurrent runs of the cases of a dataset, within a budget. Entry points: `evaluate`,
`review`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from msgspec import structs
from typing_extensions import Unpack

from treadle.agents.agent import Agent, Deps
from treadle.apps.evals.case import Case, Evaluator
from treadle.apps.evals.dataset import Dataset
from treadle.apps.evals.evaluators import Judge
from treadle.apps.evals.report import CaseReport, EvalReport, Score
from treadle.errors import AgentError
from treadle.messages.result import RunResult
from treadle.runtime.options import limits_over
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import ForkOptions, SessionOptions
from treadle.types import Limits


async def evaluate(
    runtime: Runtime,
    agent: Agent[Deps, Any],
    dataset: Dataset,
    *,
    deps: Deps = None,
    at_once: int = 8,
    cost_usd: float | None = None,
    **options: Unpack[SessionOptions],
) -> EvalReport:
    """Run an agent on every case, and score the results.

    Cases of runs are evaluated by forks of them, with the agent's model, settings and limits; what
    these leave open is as in the run. `at_once`: number of cases that run at the same
    time. `cost_usd`: hard limit on the cost of all cases, in equal parts; judges are not included.
    `options`: those of each run. A case that fails or cannot start does not affect the others.
    Cancellation cancels the active runs. Raises AgentError(invalid) for an invalid `at_once`.
    """
    if cost_usd is not None:
        share = cost_usd / max(len(dataset.cases), 1)
        own = limits_over(options.get("limits"), agent.limits or Limits())
        most = share if own.cost_usd is None else min(share, own.cost_usd)
        options["limits"] = structs.replace(own, cost_usd=most)

    async def run(case: Case) -> RunResult[Any]:
        if case.run_id is not None:
            own = ForkOptions(
                model=agent.model or runtime.config.models.large,
                settings=agent.settings,
                limits=agent.limits or Limits(),
            )
            return await runtime.fork(
                case.run_id, turn=0, agent=agent, deps=deps, **{**own, **options}
            )
        text = case.inputs if isinstance(case.inputs, str) else json.dumps(case.inputs)
        return await runtime.run(agent, text, deps=deps, **options)

    named = agent.model if isinstance(agent.model, str | None) else agent.model.name
    cases = await _scored(runtime, dataset, run, at_once)
    return EvalReport(dataset=dataset.name, agent=agent.name, model=named or "", cases=cases)


async def review(runtime: Runtime, dataset: Dataset, *, at_once: int = 8) -> EvalReport:
    """Score the runs that the cases come from, as the journal has them, without running anything
    again. Raises AgentError(invalid) for a case without a run.
    """

    async def stored(case: Case) -> RunResult[Any]:
        if case.run_id is None:
            raise AgentError("invalid", "the case comes from no run: use evaluate")
        return await runtime.replay(case.run_id)

    cases = await _scored(runtime, dataset, stored, at_once)
    return EvalReport(dataset=dataset.name, agent="stored runs", cases=cases)


async def _scored(
    runtime: Runtime,
    dataset: Dataset,
    result_of: Callable[[Case], Awaitable[RunResult[Any]]],
    at_once: int,
) -> tuple[CaseReport, ...]:
    if at_once < 1:
        raise AgentError("invalid", f"at_once={at_once} must be at least 1")
    found = dict[str, CaseReport]()
    slots = anyio.Semaphore(at_once)

    async def one(case: Case) -> None:
        async with slots:
            try:
                result = await result_of(case)
            except AgentError as e:
                found[case.name] = CaseReport(name=case.name, passed=False, error=e.message)
                return
            evaluators = (*dataset.evaluators, *case.evaluators)
            scores = [await _score(each, case, result, runtime) for each in evaluators]
        found[case.name] = CaseReport(
            name=case.name,
            passed=result.success and all(score.passed for score in scores),
            outcome=result.outcome,
            run_id=result.run_id,
            output=result.output_text,
            error="" if result.success else _why(result),
            scores=tuple(scores),
            cost_usd=result.metrics.total.cost_usd,
            seconds=result.metrics.duration_s,
            turns=result.metrics.total.turns,
        )

    async with anyio.create_task_group() as group:
        for case in dataset.cases:
            group.start_soon(one, case)
    return tuple(found[case.name] for case in dataset.cases)


def _why(result: RunResult[Any]) -> str:
    return result.outcome.value if result.error is None else result.error.message


async def _score(
    evaluator: Evaluator, case: Case, result: RunResult[Any], runtime: Runtime
) -> Score:
    try:
        passed, reason = await evaluator.score(case, result, runtime)
    except Exception as e:  # noqa: BLE001  user code, or a judge that failed; the other scores count
        reason = e.message if isinstance(e, AgentError) else f"{type(e).__name__}: {e}"
        return Score(evaluator=evaluator.name, passed=False, reason=reason)
    shown = reason if not passed or isinstance(evaluator, Judge) else ""
    return Score(evaluator=evaluator.name, passed=bool(passed), reason=shown)

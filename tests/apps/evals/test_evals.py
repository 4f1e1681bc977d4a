"""Evaluation of agents: what each evaluator accepts, datasets in files and from journals, and
reports.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from treadle import Agent, AgentError, Limits, Outcome, RunResult, Runtime, Settings, tool
from treadle.apps.evals import (
    CalledTools,
    Case,
    Check,
    Contains,
    Dataset,
    EvalReport,
    Evaluator,
    Exact,
    Fields,
    Judge,
    WithinLimits,
    evaluate,
    review,
)
from treadle.config import Config, Price
from treadle.testing import ScriptedModel


def atlas(*answers: str | dict[str, Any]) -> Agent[object, str]:
    script = [{"text": one} if isinstance(one, str) else one for one in answers]
    return Agent(name="atlas", model=ScriptedModel(script, name="script:atlas"))


TINY = Limits(cost_usd=1e-5)
CAPITALS = [
    Case("Capital of Portugal?", "Lisbon"),
    Case("Capital of Norway?", "Oslo", name="norway"),
]


async def test_a_report_says_which_cases_passed_and_why_others_did_not() -> None:
    async with Runtime.open() as runtime:
        report = await evaluate(
            runtime, atlas("Lisbon ", "Bergen"), Dataset(CAPITALS, [Exact()]), at_once=1
        )
    assert [(case.name, case.passed) for case in report.cases] == [
        ("case 1", True),
        ("norway", False),
    ]
    assert str(report).splitlines()[:2] == [
        "✓ case 1  Lisbon",
        "✗ norway  Exact: expected 'Oslo', not 'Bergen'",
    ]
    assert report.summary.startswith("atlas on script:atlas: 1 of 2 cases, ")
    assert EvalReport.from_json(report.to_json()) == report


@dataclass
class Booking:
    day: str
    guest: dict[str, str]


@pytest.mark.parametrize(
    ("evaluator", "expected", "passes"),
    [
        (Exact(), {"day": "Friday", "guest": {"name": "Ada", "phone": "1"}}, True),
        (Exact(), {"day": "Friday"}, False),
        (Fields(), {"guest": {"name": "Ada"}}, True),
        (Fields(), {"guest": {"name": "Bob"}}, False),
        (Fields(), {"hour": 8}, False),
        (Fields(), {"day": {"of": "week"}}, False),
        (Contains("friday", case_sensitive=False), None, True),
        (Contains("friday"), None, False),
        (WithinLimits(turns=2), None, True),
        (WithinLimits(turns=0), None, False),
        (WithinLimits(seconds=60, tokens=10_000), None, True),
        (WithinLimits(cost_usd=1), None, False),
    ],
)
async def test_an_evaluator_accepts_what_it_describes(
    evaluator: Evaluator, expected: Any, passes: bool
) -> None:
    answer = {"day": "Friday", "guest": {"name": "Ada", "phone": "1"}}
    agent = Agent(name="a", model=ScriptedModel([{"text": json.dumps(answer)}]), output=Booking)
    async with Runtime.open() as runtime:
        report = await evaluate(runtime, agent, Dataset([Case("Book.", expected)], [evaluator]))
    [case] = report.cases
    assert (case.passed, bool(case.reasons)) == (passes, not passes)


@pytest.mark.parametrize(
    ("evaluator", "passes"),
    [
        (CalledTools(["find", "read"]), True),
        (CalledTools(["read", "find"]), False),
        (CalledTools(["find"]), True),
        (CalledTools(["find"], exactly=True), False),
        (CalledTools(["find", "read"], exactly=True), True),
    ],
)
async def test_calls_are_compared_in_their_order(evaluator: Evaluator, passes: bool) -> None:
    @tool(effect="pure")
    def find() -> str:
        """Find."""
        return "x"

    @tool(effect="pure")
    def read() -> str:
        """Read."""
        return "y"

    calls = [{"tool_calls": [{"name": name}]} for name in ("find", "read")]
    agent = atlas(*calls, "Done.").with_(tools=[find, read])
    async with Runtime.open() as runtime:
        report = await evaluate(runtime, agent, Dataset([Case("Go.")], [evaluator]))
    assert report.cases[0].passed is passes


async def test_functions_and_judges_score_and_an_exception_is_a_failed_check() -> None:
    async def is_short(case: Case, result: RunResult[Any]) -> bool | str:
        return len(result.text) < 10 or "too long"

    def broken(case: Case, result: RunResult[Any]) -> bool:
        raise KeyError(case.name)

    verdict = {"text": '{"passed": false, "reason": "It is rude."}'}
    judge = Judge("Is it kind?", ScriptedModel([verdict]))
    evaluators = [Check(is_short), Check(broken), judge]
    async with Runtime.open() as runtime:
        report = await evaluate(runtime, atlas("No!"), Dataset([Case("Hi.")], evaluators))
    assert [(one.evaluator, one.passed, one.reason) for one in report.cases[0].scores] == [
        ("is_short", True, ""),
        ("broken", False, "KeyError: 'case 1'"),
        ("Judge", False, "It is rude."),
    ]


async def test_a_case_that_cannot_start_or_fails_leaves_the_others_alone() -> None:
    failing = {"error": {"kind": "invalid"}}
    async with Runtime.open() as runtime:
        cases = [Case("One."), Case("Two.", run_id="run_none"), Case("Three.")]
        report = await evaluate(runtime, atlas("Fine.", failing), Dataset(cases), at_once=1)
    assert [case.passed for case in report.cases] == [True, False, False]
    assert "run_none" in report.cases[1].error
    assert report.cases[2].outcome is Outcome.ERROR


async def test_the_budget_is_divided_among_the_cases() -> None:
    answer = {"text": "Hello.", "usage": {"input_tokens": 2_000, "output_tokens": 100}}
    config = Config(prices={"script:*": Price(input=3, output=15)})
    async with Runtime.open(config=config) as runtime:
        agent = atlas(*[answer] * 4)
        rich = await evaluate(runtime, agent, Dataset([Case("Hi."), Case("Ho.")]), cost_usd=10)
        poor = await evaluate(runtime, agent, Dataset([Case("Hi."), Case("Ho.")]), cost_usd=1e-5)
        low = await evaluate(runtime, agent, Dataset([Case("Hi.")]), cost_usd=10, limits=TINY)
        given = (await runtime.journal.load(rich.cases[0].run_id)).limits
    assert [case.outcome for case in low.cases] == [Outcome.COST_LIMIT]
    assert (rich.passed, round(rich.cost_usd, 4), given.cost_usd) == (2, 0.015, 5)
    assert [case.outcome for case in poor.cases] == [Outcome.COST_LIMIT] * 2


async def test_no_more_cases_run_at_once_than_asked_for() -> None:
    running, most = 0, 0

    @tool(effect="pure")
    async def wait() -> str:
        """Wait."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1
        return ""

    def answer(request: Any) -> dict[str, Any]:
        done = request.messages[-1].role == "tool"
        return {"text": "Done."} if done else {"tool_calls": [{"name": "wait"}]}

    agent = Agent(name="a", model=ScriptedModel(answer), tools=[wait])
    async with Runtime.open() as runtime:
        cases = [Case(f"{number}") for number in range(9)]
        report = await evaluate(runtime, agent, Dataset(cases), at_once=3)
    assert (report.passed, most) == (9, 3)


async def test_finished_runs_become_cases_that_are_reviewed_and_run_again() -> None:
    async with Runtime.open() as runtime:
        first = await runtime.run(atlas("Lisbon"), "Capital of Portugal?")
        failed = await runtime.run(atlas({"error": {"kind": "invalid"}}), "What?")
        dataset = await Dataset.from_runs(
            runtime, [first.run_id, failed.run_id], [Exact()], name="october"
        )
        assert [(case.inputs, case.expected_output) for case in dataset.cases] == [
            ("Capital of Portugal?", "Lisbon")
        ]
        before = await review(runtime, dataset)
        now = await evaluate(runtime, atlas("Porto"), dataset)
        info = await runtime.journal.load(now.cases[0].run_id)
    assert (before.passed, now.passed) == (1, 0)
    assert info.started is not None
    assert info.started.fork is not None
    lines = now.compared_with(before).splitlines()
    assert lines[0] == f"✗ {first.run_id} fails now: Exact: expected 'Lisbon', not 'Porto'"
    assert lines[1].startswith("before  stored runs: 1 of 1 case")


async def test_a_case_of_a_run_is_evaluated_with_the_model_and_limits_of_the_agent(
    tmp_path: Path,
) -> None:
    for name in ("old", "new"):
        (tmp_path / f"{name}.json").write_text(json.dumps([{"text": name}]))
    old = Agent(name="a", model=f"script:{tmp_path / 'old.json'}", limits=Limits(turns=3))
    new = old.with_(
        model=f"script:{tmp_path / 'new.json'}",
        limits=Limits(turns=9),
        settings=Settings(max_tokens=77),
    )
    async with Runtime.open() as runtime:
        first = await runtime.run(old, "Hi.")
        report = await evaluate(runtime, new, await Dataset.from_runs(runtime, [first.run_id]))
        state = await runtime.journal.load(report.cases[0].run_id)
    assert (report.cases[0].output, report.model) == ("new", new.model)
    assert state.started is not None
    assert (state.limits.turns, state.started.settings.max_tokens) == (9, 77)


def test_a_comparison_names_cases_that_are_new_gone_or_mended() -> None:
    one = EvalReport.from_json(
        b'{"dataset":"d","agent":"a","cases":[{"name":"x","passed":false},{"name":"y","passed":true}]}'
    )
    two = EvalReport.from_json(
        b'{"dataset":"d","agent":"a","cases":[{"name":"x","passed":true},{"name":"z","passed":true}]}'
    )
    assert two.compared_with(one).splitlines()[:3] == [
        "✓ x passes now",
        "+ z: passes",
        "- y is gone",
    ]


async def test_the_page_escapes_what_models_write() -> None:
    async with Runtime.open() as runtime:
        report = await evaluate(runtime, atlas("<script>alert(1)</script>"), Dataset([Case("Hi.")]))
    page = report.to_html()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_files_are_those_of_pydantic_evals(tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    evaluators: list[Evaluator] = [
        Contains("s"),
        WithinLimits(seconds=2.0),
        Judge("Is it kind?"),
        CalledTools(["find"]),
    ]
    Dataset([Case("Capital?", "Oslo", name="n", evaluators=[Exact()])], evaluators).to_yaml(path)
    written = yaml.safe_load(path.read_text())
    assert written == {
        "name": "dataset",
        "cases": [
            {
                "name": "n",
                "inputs": "Capital?",
                "expected_output": "Oslo",
                "evaluators": ["EqualsExpected"],
            }
        ],
        "evaluators": [
            {"Contains": {"value": "s"}},
            {"MaxDuration": {"seconds": 2.0}},
            {"LLMJudge": {"rubric": "Is it kind?"}},
            {"CalledTools": {"tools": ["find"]}},
        ],
    }
    read = Dataset.from_yaml(path)
    assert (read.evaluators, read.cases[0].evaluators) == (evaluators, [Exact()])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cases: 3", "has no list of cases"),
        ("[", "cannot read"),
        ("cases: [{name: x}]", "case 1 has no inputs"),
        ("cases: [{inputs: x, evaluators: [IsInstance]}]", "there is no evaluator 'IsInstance'"),
        ("cases: [{inputs: x, evaluators: [{Contains: {text: y}}]}]", "no argument 'text'"),
        ("cases: [{inputs: x, evaluators: [CalledTools]}]", "missing 1 required"),
        ("cases: [{inputs: x, name: a}, {inputs: y, name: a}]", "two cases are named 'a'"),
    ],
)
def test_a_wrong_file_is_an_error_that_says_where(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(text)
    with pytest.raises(AgentError) as raised:
        Dataset.from_yaml(path)
    assert says in raised.value.message


def test_a_function_cannot_be_written_to_a_file(tmp_path: Path) -> None:
    dataset = Dataset([Case("x")], [Check(lambda case, result: True)])
    with pytest.raises(AgentError, match="cannot be written to a file"):
        dataset.to_yaml(tmp_path / "cases.yaml")


async def test_at_once_must_be_positive() -> None:
    async with Runtime.open() as runtime:
        with pytest.raises(AgentError, match="at_once=0 must be at least 1"):
            await evaluate(runtime, atlas(), Dataset([]), at_once=0)

"""Scores of an evaluation as text, JSON and HTML, and what changed since another one. Entry point:
`EvalReport`.
"""

from __future__ import annotations

from html import escape

from treadle._internal.terminal_text import one_line
from treadle._internal.units import count, lasting, money
from treadle.types import Outcome, Value


class Score(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Verdict of one evaluator on one case.

    Attributes:
        evaluator: Name of the evaluator.
        passed: True if the result passes.
        reason: Reason why it does not; a judge gives one in any case.
    """

    evaluator: str
    passed: bool
    reason: str = ""


class CaseReport(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Result of one case.

    Attributes:
        name: Name of the case.
        passed: True if the run completed and all its scores passed.
        outcome: Outcome of the run; None if it could not start.
        run_id: Id of the run, or empty.
        output: Output of the run as text.
        error: Error that prevented or ended the run, or empty.
        scores: Scores, in the order of the evaluators.
        cost_usd: Cost of the run and the runs that it started; None if unknown.
        seconds: Active time of the run.
        turns: Turns of the run and the runs that it started.
    """

    name: str
    passed: bool
    outcome: Outcome | None = None
    run_id: str = ""
    output: str = ""
    error: str = ""
    scores: tuple[Score, ...] = ()
    cost_usd: float | None = None
    seconds: float = 0.0
    turns: int = 0

    @property
    def reasons(self) -> str:
        """Why the case failed; empty if it passed."""
        failed = [f"{one.evaluator}: {one.reason}" for one in self.scores if not one.passed]
        return "; ".join([*([self.error] if self.error else []), *failed])


class EvalReport(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Results of an evaluation. `to_json` and `from_json` store it; `str()` is a table.

    Attributes:
        dataset: Name of the dataset.
        agent: Name of the agent.
        model: Name of its model; empty for that of the configuration.
        cases: Results, in the order of the cases.
    """

    dataset: str
    agent: str
    model: str = ""
    cases: tuple[CaseReport, ...] = ()

    @property
    def passed(self) -> int:
        """Number of cases that passed."""
        return sum(case.passed for case in self.cases)

    @property
    def cost_usd(self) -> float:
        """Sum of the known costs of the cases. Judges are not included."""
        return sum(case.cost_usd or 0.0 for case in self.cases)

    def __str__(self) -> str:
        """Return the report as lines of text."""
        width = max((len(one_line(case.name, 40)) for case in self.cases), default=0)
        lines = [
            f"{'✓' if case.passed else '✗'} {one_line(case.name, 40):<{width}}  "
            f"{one_line(case.reasons or case.output)}"
            for case in self.cases
        ]
        return "\n".join([*lines, self.summary])

    @property
    def summary(self) -> str:
        """One line: how many passed, with time and costs."""
        model = f" on {self.model}" if self.model else ""
        seconds = lasting(sum(case.seconds for case in self.cases))
        priced = any(case.cost_usd is not None for case in self.cases)
        cost = f", {money(self.cost_usd)}" if priced else ""
        cases = count(len(self.cases), "case")
        return f"{self.agent}{model}: {self.passed} of {cases}, {seconds}{cost}"

    def compared_with(self, before: EvalReport) -> str:
        """Return what has changed since another report of the same cases, as lines of text: cases
        that pass or fail now, cases that are new or gone, and the totals.
        """
        old = {case.name: case for case in before.cases}
        new = {case.name: case for case in self.cases}
        lines = list[str]()
        for name, case in new.items():
            if name not in old:
                lines.append(f"+ {name}: {'passes' if case.passed else case.reasons}")
            elif case.passed and not old[name].passed:
                lines.append(f"✓ {name} passes now")
            elif old[name].passed and not case.passed:
                lines.append(f"✗ {name} fails now: {one_line(case.reasons)}")
        lines += [f"- {name} is gone" for name in old if name not in new]
        return "\n".join([*lines, f"before  {before.summary}", f"now     {self.summary}"])

    def to_html(self) -> str:
        """Return a complete page, without scripts or references to other files."""
        rows = "".join(
            f"<tr class={'passed' if case.passed else 'failed'}><td>{escape(case.name)}</td>"
            f"<td>{'passed' if case.passed else 'failed'}</td><td>{escape(case.output)}</td>"
            f"<td>{escape(case.reasons)}</td><td>{case.seconds:.2f}</td>"
            f"<td>{'' if case.cost_usd is None else escape(money(case.cost_usd))}</td>"
            f"<td>{escape(case.run_id)}</td></tr>"
            for case in self.cases
        )
        heads = "".join(
            f"<th>{name}</th>"
            for name in ("case", "result", "output", "reasons", "seconds", "cost", "run")
        )
        title = escape(f"{self.dataset}: {self.summary}")
        return (
            f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
            f"<style>{_STYLE}</style><h1>{title}</h1>"
            f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></html>\n"
        )


_STYLE = (
    ":root{color-scheme:light dark;font:15px/1.45 system-ui,sans-serif}body{margin:2rem}"
    "h1{font-size:1.2rem}table{border-collapse:collapse;width:100%}"
    "td,th{border-bottom:1px solid #8886;padding:.4rem .6rem;text-align:left;vertical-align:top}"
    "td{white-space:pre-wrap;overflow-wrap:anywhere}.failed td:nth-child(2){color:#c33}"
    ".passed td:nth-child(2){color:#2a7}"
)

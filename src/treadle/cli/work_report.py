"""The report of a batch as text. Entry points: `as_text`, `summary`."""

from __future__ import annotations

from collections.abc import Iterator

from treadle._internal.terminal_text import one_line
from treadle._internal.units import count, lasting, money, tokens
from treadle.apps.batch.markdown import changes, gates_passed, verdict
from treadle.apps.batch.report import Report, ReportRow
from treadle.cli.terminal import Ink, Style, table, width
from treadle.types import Outcome

PROMPT_CHARS = 400


def as_text(report: Report, *, to_file: bool) -> str:
    """Return the report: a table, notes on prompts that need attention, and the totals."""
    head = [
        "#",
        "outcome",
        "gates",
        "tries",
        "turns",
        "tokens",
        "cost",
        "time",
        "changes",
        "prompt",
    ]
    rows = [_cells(row) for row in report.rows]
    for name in ("gates", "cost", "changes"):
        at = head.index(name)
        if not any(row[at] for row in rows):
            head, rows = head[:at] + head[at + 1 :], [row[:at] + row[at + 1 :] for row in rows]
    styles: dict[str, Style] = {verdict(row): style_of(row) for row in report.rows}

    def style(column: int, text: str) -> Style:
        return styles.get(text, "") if head[column] == "outcome" else ""

    lines = table(
        head,
        rows,
        right=frozenset({"#", "tries", "turns", "tokens", "cost", "time"}),
        ink=Ink(colour=False if to_file else None),
        style=style,
    )
    notes = [note for row in report.rows for note in _notes(row)]
    return "\n".join([*lines, *(["", *notes] if notes else []), "", _sum(report)]) + "\n"


def summary(row: ReportRow) -> str:
    """Return the result of a prompt in a few words."""
    cost = [] if row.cost_usd is None else [money(row.cost_usd)]
    changed = [changes(row.diff)] if row.diff is not None and row.diff.files else []
    tries = [f"attempt {row.attempts}"] if row.attempts > 1 else []
    return " · ".join(
        [
            verdict(row),
            *tries,
            count(row.turns, "turn"),
            f"{tokens(row.tokens)} tokens",
            *cost,
            lasting(row.duration_s),
            *changed,
        ]
    )


def style_of(row: ReportRow) -> Style:
    if row.passed:
        return "green"
    return "yellow" if row.outcome in (None, Outcome.CANCELLED, Outcome.APPROVAL_NEEDED) else "red"


def _cells(row: ReportRow) -> list[str]:
    cost = "" if row.cost_usd is None else money(row.cost_usd)
    numbers = [
        str(row.attempts),
        str(row.turns),
        tokens(row.tokens),
        cost,
        lasting(row.duration_s) if row.run_id else "",
    ]
    return [
        str(row.number),
        verdict(row),
        gates_passed(row),
        *numbers,
        changes(row.diff),
        one_line(row.prompt, 200),
    ]


def _notes(row: ReportRow) -> Iterator[str]:
    if row.error:
        yield one_line(f"{row.number}: {row.error}", width() * 3)
    for gate in row.gates:
        if gate.failed and gate.log:
            yield one_line(f"{row.number}: its output: {gate.log}", 1000)
    if row.folder:
        yield one_line(f"{row.number}: {row.branch} in {row.folder}", 1000)


def _sum(report: Report) -> str:
    totals = report.totals
    cost = [] if totals.cost_usd is None else [money(totals.cost_usd)]
    counts = [
        count(totals.turns, "turn"),
        f"{tokens(totals.tokens)} tokens",
        *cost,
        lasting(totals.duration_s),
    ]
    return " · ".join([f"{totals.passed} of {totals.prompts} passed", *counts, report.id])

"""Rendering of a report as Markdown, for people and pull requests. Entry point: `markdown`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from treadle._internal.terminal_text import plain
from treadle.apps.batch.report import Diff, GateResult, Report, ReportRow

PROMPT_CHARS = 80
HEAD = (
    "#",
    "outcome",
    "gates",
    "attempts",
    "turns",
    "tokens",
    "cost",
    "seconds",
    "changes",
    "prompt",
)


def markdown(report: Report) -> str:
    """Return the report as Markdown: a table, followed by a section for each prompt with
    details.
    """
    totals = report.totals
    lines = [
        f"# {totals.passed} of {totals.prompts} passed",
        "",
        f"Batch `{report.id}`.{_open(report)}",
        "",
    ]
    lines += [
        _table_row(HEAD),
        _table_row(["---"] * len(HEAD)),
        *(_table_row(_cells(row)) for row in report.rows),
    ]
    for row in report.rows:
        lines += ["", *_section(row)]
    return "\n".join(lines) + "\n"


def _open(report: Report) -> str:
    return (
        f" {report.pending} not finished: continue with `treadle work --resume {report.id}`."
        if report.pending
        else ""
    )


def verdict(row: ReportRow) -> str:
    """Return the verdict on a prompt, in one or two words."""
    if row.outcome is None:
        return "not done" if row.run_id else "not begun"
    return (
        "passed"
        if row.passed
        else "gate failed"
        if any(gate.failed for gate in row.gates)
        else row.outcome.value
    )


def changes(diff: Diff | None) -> str:
    if diff is None:
        return ""
    return (
        "none"
        if diff.files == 0
        else f"{diff.files} {'file' if diff.files == 1 else 'files'} +{diff.added} -{diff.removed}"
    )


def gates_passed(row: ReportRow) -> str:
    return f"{sum(gate.passed is True for gate in row.gates)}/{len(row.gates)}" if row.gates else ""


def _cells(row: ReportRow) -> list[str]:
    cost = "" if row.cost_usd is None else f"${row.cost_usd:.4f}"
    numbers = [
        str(row.attempts),
        str(row.turns),
        str(row.tokens),
        cost,
        f"{row.duration_s:.1f}",
        changes(row.diff),
    ]
    return [str(row.number), verdict(row), gates_passed(row), *numbers, _inline(row.prompt)]


def _section(row: ReportRow) -> Iterator[str]:
    yield f"## {row.number}. {_inline(row.prompt)}"
    yield ""
    if row.run_id:
        yield f"- run {_code(row.run_id)}, session {_code(row.session_id or '')}"
    if row.folder:
        yield f"- branch {_code(row.branch or '')} in {_code(row.folder)}"
    if row.error:
        yield f"- {_inline(row.error, 2000)}"
    for gate in row.gates:
        yield f"- gate {_code(gate.command)}: {_said(gate)}"
    for gate in row.gates:
        if gate.failed and gate.output.strip():
            yield from ("", *_fenced(gate.output.strip()))
    if row.text.strip():
        # As plain text, because each reader of the report would load an image in it.
        yield from ("", *_fenced(row.text.strip()))


def _said(gate: GateResult) -> str:
    if gate.passed is None:
        return "not run"
    how = (
        "passed"
        if gate.passed
        else "failed, no exit code"
        if gate.exit_code is None
        else f"failed, exit code {gate.exit_code}"
    )
    return f"{how}, {gate.duration_s:.1f} s"


def _table_row(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _inline(text: str, most: int = PROMPT_CHARS) -> str:
    """Escape text to one line that contains no Markdown and cannot end a table cell."""
    line = " ".join(plain(text).split())
    line = line if len(line) <= most else line[: most - 1] + "…"
    escaped = re.sub(r"([\\`*_{}\[\]<>#|!~])", r"\\\1", line.replace("&", "&amp;"))
    return escaped.replace("@", "&#64;")


def _code(text: str) -> str:
    text = plain(text)
    fence = _longer("`", text)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{' '.join(text.split())}{pad}{fence}"


def _fenced(text: str) -> list[str]:
    text = plain(text)
    fence = _longer("`", text, least=3)
    return [f"{fence}text", *text.splitlines(), fence]


def _longer(mark: str, text: str, *, least: int = 1) -> str:
    """Return a run of the mark that is longer than any run in the text."""
    return mark * max(least, 1 + max((len(run) for run in re.findall(f"{mark}+", text)), default=0))

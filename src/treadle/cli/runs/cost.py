"""`treadle runs cost`: tokens and cost by day, model, session, user, agent or tag.

Prices are in treadle.models. Entry points: `cost`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import click
import msgspec

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import cut, one_line
from treadle._internal.units import count, money, tokens
from treadle.budget.costs import By, Cost, Costs, Tally
from treadle.cli.help import HELP
from treadle.cli.journal_option import OpenedJournal, journal_option, on_journal
from treadle.cli.terminal import Ink, Style, limit_option, put, put_json, table

NUMBERS = frozenset({"runs", "responses", "input", "cache read", "cache write", "output", "cost"})
NAME_COLUMNS = 32


@click.command(context_settings=HELP)
@click.option(
    "--by",
    type=click.Choice(get_args(By)),
    default="day",
    show_default=True,
    help="Grouping of the rows. Days begin at midnight UTC.",
)
@click.option(
    "--last",
    "days",
    type=click.IntRange(1, 36500),
    metavar="DAYS",
    help="Only the last DAYS days, including today. Default: all.",
)
@limit_option("Maximum number of rows; the total covers all.")
@click.option("--all", "everything", is_flag=True, help="All rows, without a limit.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: by, rows, total.")
@journal_option
def cost(
    by: By, days: int | None, limit: int, everything: bool, as_json: bool, journal: str | None
) -> None:
    """Sum up the tokens and cost of runs, newest days first, otherwise most expensive first.

    Responses without a known price are listed as unknown and excluded from costs. Child runs count
    for the session of their parent, and each for its own agent. A run counts for each of its tags,
    and once in the total.
    """
    since = None if days is None else (datetime.now(UTC) - timedelta(days=days - 1)).date()

    def show(found: Costs, titles: Mapping[str, str], secrets: Redactor) -> None:
        rows = found.rows if everything else found.rows[:limit]
        if as_json:
            shown = [_object(row, by, titles) for row in rows]
            put_json({"by": by, "rows": shown, "total": _numbers(found.total)}, secrets)
        elif rows:
            _print(rows, found, by, titles, secrets)
        else:
            put(
                "No run has used any tokens"
                + (" yet." if days is None else f" in the last {count(days, 'day')}.")
            )

    async def work(place: OpenedJournal) -> None:
        found = await place.journal.costs(by, since=since)
        sessions = (
            [
                row.key
                for row in (found.rows if everything else found.rows[:limit])
                if row.key is not None
            ]
            if by == "session"
            else []
        )
        known = {key: place.journal.sessions.get(key) for key in sessions}
        show(
            found,
            {key: info.title for key, info in known.items() if info is not None},
            place.secrets,
        )

    on_journal(journal, work, absent=lambda secrets: show(Tally(by).costs(), {}, secrets))


def _object(row: Cost, by: By, titles: Mapping[str, str]) -> dict[str, Any]:
    name = (
        {"session_id": row.key, "title": titles.get(row.key or "")}
        if by == "session"
        else {by: row.key}
    )
    return {**name, **_numbers(row)}


def _numbers(row: Cost) -> dict[str, Any]:
    numbers = msgspec.structs.asdict(row)
    del numbers["key"]
    return numbers


def _print(
    rows: Sequence[Cost], found: Costs, by: By, titles: Mapping[str, str], secrets: Redactor
) -> None:
    def shown(text: str) -> str:
        return one_line(secrets.text(text), 200)

    hidden = len(found.rows) - len(rows)
    head = [by, "runs", "responses", "input", "cache read", "cache write", "output", "cost"]
    cells = [[cut(shown(row.key or f"(no {by})"), NAME_COLUMNS), *_cells(row)] for row in rows]
    total = ["total", *_cells(found.total)]
    if by == "session":
        head, total = [*head, "title"], [*total, ""]
        cells = [
            [*line, shown(titles.get(row.key or "", ""))]
            for line, row in zip(cells, rows, strict=True)
        ]

    def style(column: int, text: str) -> Style:
        return "dim" if text == "unknown" else "cyan" if column == 0 and text != "total" else ""

    for line in table(head, [*cells, total], right=NUMBERS, ink=Ink(), style=style):
        put(line)
    if hidden:
        put(f"And {count(hidden, 'more row')}, included in the total: --all shows them.")
    if found.total.unpriced:
        put(
            f"{count(found.total.unpriced, 'response')} had no known price: set `prices` in "
            "the configuration."
        )


def _cells(row: Cost) -> list[str]:
    usage = row.usage
    for_an_hour = (
        f" ({tokens(usage.cache_write_1h_tokens)} 1h)" if usage.cache_write_1h_tokens else ""
    )
    written = tokens(usage.cache_write_tokens) + for_an_hour
    counted = (
        tokens(usage.input_tokens),
        tokens(usage.cache_read_tokens),
        written,
        tokens(usage.output_tokens),
    )
    return [
        str(row.runs),
        str(row.responses),
        *counted,
        money(row.cost_usd, more=bool(row.unpriced)),
    ]

"""`treadle runs list`: lists runs, newest first. Entry points: `list_`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import cast, get_args

import click

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import cut, one_line
from treadle._internal.units import ago, count, money, tokens
from treadle.cli.help import HELP
from treadle.cli.journal_option import OpenedJournal, journal_option, on_journal
from treadle.cli.runs.finding import is_own
from treadle.cli.runs.row import PREFIX, SHORT_CHARS, model_name, row_of, status_of, style_of
from treadle.cli.terminal import Ink, Style, limit_option, put, put_json, table
from treadle.journal.journal import Journal
from treadle.journal.queue import DEFAULT_QUEUE
from treadle.journal.run_info import RunFilter, RunInfo, RunStatus
from treadle.types import Outcome

MODEL_COLUMNS = 18
AGENT_COLUMNS = 12
CHILDREN_SHOWN = 3
_CONDITIONS = {"session": "session_id", "user": "user_id"}
"""Conditions of `Journal.runs` by option, where the names differ."""
USUAL_AGENT = "treadle"
NUMBERS = frozenset({"age", "turns", "calls", "tokens", "cost"})


@click.command("list", context_settings=HELP)
@click.option("--json", "as_json", is_flag=True, help="As JSON: a list of runs.")
@limit_option("Maximum number of runs, not counting those that they started.")
@click.option("--all", "everything", is_flag=True, help="All runs, without a limit.")
@click.option("--session", metavar="ID", help="Only runs of this conversation.")
@click.option("--agent", metavar="NAME", help="Only runs of this agent.")
@click.option("--user", metavar="ID", help="Only runs of this user.")
@click.option("--tag", metavar="TAG", help="Only runs with this tag.")
@click.option(
    "--status",
    type=click.Choice((*get_args(RunStatus), *(outcome.value for outcome in Outcome))),
    metavar="STATUS",
    help="Only runs with this status or outcome.",
)
@journal_option
def list_(
    as_json: bool,
    limit: int,
    everything: bool,
    journal: str | None,
    **named: str | None,
) -> None:
    """List the newest runs. ↳ marks a run that another run started, ⑂ a fork, ⇩ an imported run.

    Messages to the task assistant are left out; `--agent tasks`, `--session` and `--all` list them.
    For each run, the table shows the newest three runs that it started; `treadle runs show` has all
    of them. A second figure, as in 1.2k/3.4k, is the total of a run and every run that it started.
    """

    def show(found: list[RunInfo], id_chars: int, secrets: Redactor) -> None:
        if as_json:
            put_json([row_of(info, secrets) for info in found], secrets)
        elif found:
            _print_table(found, id_chars, secrets)
        else:
            put(_nothing(named))

    async def work(place: OpenedJournal) -> None:
        def is_wanted(info: RunInfo) -> bool:
            return is_own(info) or everything or bool(named["session"] or named["agent"])

        only = {_CONDITIONS.get(name, name): value for name, value in named.items()}
        found, id_chars = await _newest(
            place.journal, None if everything else limit, cast("RunFilter", only), is_wanted
        )
        show(found, id_chars, place.secrets)

    on_journal(journal, work, absent=lambda secrets: show([], SHORT_CHARS, secrets))


def _nothing(named: Mapping[str, str | None]) -> str:
    if set_ := {name: value for name, value in named.items() if value is not None}:
        what = " and ".join(f"{name} {value!r}" for name, value in sorted(set_.items()))
        return f"There are no runs with the {what}."
    return 'There are no runs yet. Start one: treadle run "what to do"'


async def _newest(
    journal: Journal, limit: int | None, only: RunFilter, is_wanted: Callable[[RunInfo], bool]
) -> tuple[list[RunInfo], int]:
    """Return the newest `limit` runs without a parent, the child runs among them, and the length of
    id prefixes that are unique in the listing.
    """
    if limit is None:
        every = await journal.runs(**only)
        return [info for info in every if is_wanted(info)], _telling(every)
    size = 2 * limit
    while True:
        every = await journal.runs(limit=size, **only)
        found = [info for info in every if is_wanted(info)]
        begun = [n for n, info in enumerate(found, 1) if info.parent_run_id is None]
        if len(begun) > limit or len(every) < size:
            shown = begun[limit - 1] if len(begun) >= limit else None
            return found[:shown], _telling(every)
        size *= 4


def _print_table(found: list[RunInfo], id_chars: int, secrets: Redactor) -> None:
    found, others = _few_of_each(found)
    head = [
        "run",
        "age",
        "status",
        "queue",
        "tenant",
        "agent",
        "model",
        "turns",
        "calls",
        "tokens",
        "cost",
        "prompt",
    ]
    rows = [_cells(info, secrets, id_chars) for info in found]
    says_nothing = {
        "queue": all(info.queue in (None, DEFAULT_QUEUE) for info in found),
        "tenant": all(info.tenant is None for info in found),
        "agent": all(info.agent == USUAL_AGENT for info in found),
        "cost": all(info.cost_usd is None for info in found),
    }
    for name in (name for name, empty in says_nothing.items() if empty):
        at = head.index(name)
        head, rows = head[:at] + head[at + 1 :], [row[:at] + row[at + 1 :] for row in rows]

    def style(column: int, text: str) -> Style:
        return style_of(text) if head[column] == "status" else _STYLES.get(head[column], "")

    for line in table(head, rows, right=NUMBERS, ink=Ink(), style=style):
        put(line)
    for parent, number in others.items():
        put(
            f"{count(number, 'more run')} of {one_line(parent.removeprefix(PREFIX)[:id_chars])}: "
            f"treadle runs show {one_line(parent)}"
        )


def _few_of_each(found: list[RunInfo]) -> tuple[list[RunInfo], Counter[str]]:
    """Drop all but the newest child runs of each run, so that they do not hide other runs. Also
    return how many were dropped, by parent.
    """
    seen, shown = Counter[str](), list[RunInfo]()
    for info in found:
        if info.parent_run_id is not None:
            seen[info.parent_run_id] += 1
        if info.parent_run_id is None or seen[info.parent_run_id] <= CHILDREN_SHOWN:
            shown.append(info)
    return shown, Counter(
        {
            parent: number - CHILDREN_SHOWN
            for parent, number in seen.items()
            if number > CHILDREN_SHOWN
        }
    )


def _telling(found: list[RunInfo]) -> int:
    """Return the length at which all id prefixes are unique. Runs started in the same millisecond
    need more characters.
    """
    ids = {info.run_id.removeprefix(PREFIX) for info in found}
    return next(
        (
            size
            for size in range(SHORT_CHARS, 40)
            if len({run_id[:size] for run_id in ids}) == len(ids)
        ),
        40,
    )


_STYLES: dict[str, Style] = {
    "run": "cyan",
    "age": "dim",
    "queue": "dim",
    "tenant": "dim",
    "agent": "dim",
    "model": "dim",
}


def _cells(info: RunInfo, secrets: Redactor, id_chars: int) -> list[str]:
    def shown(text: str) -> str:
        return one_line(secrets.text(text), 200)

    alone = info.total.runs == 1
    mark = (
        "⇩ " if info.imported else "↳ " if info.parent_run_id else "⑂ " if info.forked_from else ""
    )
    return [
        one_line(info.run_id.removeprefix(PREFIX)[:id_chars]),
        ago(info.started_at, datetime.now(UTC)),
        status_of(info),
        cut(shown(info.queue or ""), AGENT_COLUMNS),
        cut(shown(info.tenant or ""), AGENT_COLUMNS),
        cut(shown(info.agent), AGENT_COLUMNS),
        cut(shown(model_name(info.model)), MODEL_COLUMNS),
        str(info.turns),
        str(info.tool_calls),
        tokens(info.usage.total_tokens)
        + ("" if alone else f"/{tokens(info.total.usage.total_tokens)}"),
        money(info.cost_usd) + ("" if alone else f"/{money(info.total.cost_usd)}"),
        mark + shown(secrets.shortened(info.prompt)),
    ]

"""`treadle runs prune`: deletes old runs after showing what that frees. Entry points: `prune`."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import click

from treadle._internal.redaction import Redactor
from treadle._internal.units import count, size
from treadle.cli.exits import CommandFailed
from treadle.cli.help import HELP
from treadle.cli.journal_option import OpenedJournal, journal_option, on_journal
from treadle.cli.terminal import confirm, put, put_json
from treadle.config import home
from treadle.config.readers import span_of
from treadle.journal.run_info import Freed
from treadle.runtime.closing_runs import close_orphans
from treadle.tools.file_history import UNDO_FOLDER, Undo


@click.command(context_settings=HELP)
@click.option(
    "--older-than",
    "age",
    metavar="AGE",
    required=True,
    help="Only runs without activity for this long: 12h, 30d or 8w (hours, days, weeks).",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: what was freed; needs --yes.")
@journal_option
def prune(age: str, yes: bool, as_json: bool, journal: str | None) -> None:
    """Delete old finished runs with their content, after showing what that frees and asking.

    Runs on which a kept fork is based are kept too.
    """
    before = datetime.now(UTC) - _span(age)
    if as_json and not yes:
        raise CommandFailed("--json needs --yes, because it cannot ask for confirmation")

    async def work(place: OpenedJournal) -> None:
        would = await place.journal.prune(before, apply=False)
        if not as_json:
            _tell(would, age)
        if would.runs and not yes:
            confirm(f"Delete {count(len(would.runs), 'run')}?")
        await close_orphans(place.journal)
        freed = await place.journal.prune(before, apply=True) if would.runs else would
        Undo(home(os.environ) / UNDO_FOLDER).forget(freed.runs if would.runs else ())
        if as_json:
            put_json(freed, place.secrets)
        elif freed.runs:
            put(f"Deleted {count(len(freed.runs), 'run')}.")

    def absent(secrets: Redactor) -> None:
        none = Freed(runs=(), kept=(), size_bytes=0)
        put_json(none, secrets) if as_json else _tell(none, age)

    on_journal(journal, work, absent=absent)


def _tell(would: Freed, age: str) -> None:
    if would.runs:
        put(f"{count(len(would.runs), 'run')} older than {age}: {size(would.size_bytes)}.")
    else:
        put(f"No finished run is older than {age}: nothing to delete.")
    if would.kept:
        put(
            f"Kept, because remaining runs need {'it' if len(would.kept) == 1 else 'them'}: "
            f"{count(len(would.kept), 'run')} of that age."
        )


def _span(age: str) -> timedelta:
    try:
        return span_of(age)
    except ValueError:
        raise CommandFailed(
            f"--older-than {age!r}: write a number followed by h, d or w, like 12h, 30d, 8w"
        ) from None

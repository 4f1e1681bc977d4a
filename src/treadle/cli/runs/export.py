"""`treadle runs export`: prints a run as JSON lines. The format is defined in lines.py. Entry
points: `export`.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from treadle.cli.help import HELP
from treadle.cli.journal_option import OpenedJournal, journal_option, on_journal
from treadle.cli.output_file import write_out
from treadle.cli.runs.finding import find_run, no_runs, run_argument
from treadle.cli.runs.lines import export_lines
from treadle.cli.runs.signing import signed
from treadle.config import home


@click.command(context_settings=HELP)
@run_argument
@click.option(
    "-o",
    "output_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to FILE instead of standard output.",
)
@click.option(
    "--sign",
    is_flag=True,
    help=(
        "Add a signature, with which `runs import` on this installation restores the run unchanged."
    ),
)
@journal_option
def export(run: str, output_file: Path | None, sign: bool, journal: str | None) -> None:
    """Print a run as JSON lines, one per entry: seq, type, call_id if it belongs to a call, and the
    entry as it is stored.

    These lines hold everything the model was given. Known secrets were removed before they were
    stored.
    """

    async def work(place: OpenedJournal) -> bytes:
        info = await find_run(place.journal, run)
        lines = b"".join(
            line + b"\n" for line in export_lines(await place.journal.read_bytes(info.run_id))
        )
        return signed(lines, home(os.environ)) if sign else lines

    data = on_journal(journal, work, absent=lambda _: no_runs(run))
    write_out(data, output_file)

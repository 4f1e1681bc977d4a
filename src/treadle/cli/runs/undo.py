"""`treadle runs undo`: restores files that a run changed. Entry points: `undo`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import one_line, plain
from treadle._internal.units import count
from treadle.cli.exits import CommandFailed
from treadle.cli.help import HELP
from treadle.cli.journal_option import OpenedJournal, journal_option, on_journal
from treadle.cli.runs.finding import find_run, no_runs, run_argument
from treadle.cli.terminal import Ink, Style, put, put_json
from treadle.errors import AgentError, ErrorKind
from treadle.runtime import undo as undoing
from treadle.runtime.undo import UndoneRun
from treadle.tools.builtin.files import shown
from treadle.tools.builtin.restore import Action

PATHS_SHOWN = 20
_STYLES: dict[Action, Style] = {
    "restored": "green",
    "removed": "green",
    "unchanged": "dim",
    "refused": "yellow",
}


@click.command(context_settings=HELP)
@run_argument
@click.option(
    "--turn",
    type=click.IntRange(1),
    metavar="N",
    help="Only what turn N changed; `runs show` counts them. Default: all turns.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option(
    "--json", "as_json", is_flag=True, help="As JSON: files, not_undoable, changed_meanwhile."
)
@journal_option
def undo(run: str, turn: int | None, dry_run: bool, as_json: bool, journal: str | None) -> None:
    """Restore the files that write and edit changed in a run.

    A file that has been changed since is not touched. Changes made by commands cannot be undone;
    they are listed. Exits with 1 if a file was not restored.
    """

    async def work(place: OpenedJournal) -> UndoneRun:
        info = await find_run(place.journal, run)
        try:
            undone = await undoing.undone(place.journal, info, turn=turn, apply=not dry_run)
        except AgentError as e:
            raise CommandFailed(e.message, 2 if e.kind is ErrorKind.INVALID else 1) from e
        put_json(undone, place.secrets) if as_json else _tell(
            undone, Path(info.cwd), place.secrets, journal
        )
        return undone

    undone = on_journal(journal, work, absent=lambda _: no_runs(run))
    if any(file.action == "refused" for file in undone.files):
        raise SystemExit(1)


# ---------------------------------------------------------------- text output


def _tell(undone: UndoneRun, cwd: Path, secrets: Redactor, journal: str | None) -> None:
    ink = Ink()

    def said(text: str) -> str:
        return plain(secrets.text(text))

    for file in undone.files:
        why = (
            f": {file.why}"
            if file.why
            else ": already restored"
            if file.action == "unchanged"
            else ""
        )
        verb = (
            file.action
            if undone.applied or file.action in ("unchanged", "refused")
            else f"would be {file.action}"
        )
        put(f"{ink(verb, _STYLES[file.action])} {said(shown(file.path, cwd))}{said(why)}")
    if not undone.files:
        put("No file was changed by write or edit.")
    if any(file.action == "refused" for file in undone.files):
        put(
            "A refused file is not changed. If a later run or turn changed it, undo that one "
            "first; otherwise change it by hand:"
        )
        put(f"  {_what_it_wrote(undone.run_id, journal)} contains what this run wrote")
    if undone.not_undoable:
        put(f"Cannot be undone ({count(len(undone.not_undoable), 'call')}):")
    for call in undone.not_undoable:
        put(
            f"  turn {call.turn}: {one_line(said(f'{call.name} {_in_words(call.arguments)}'), 100)}"
        )
    _tell_traces([said(shown(path, cwd)) for path in undone.changed_meanwhile])
    for run_id in undone.other_runs:
        put(f"It started run {run_id}, which must be undone separately: treadle runs undo {run_id}")


def _what_it_wrote(run_id: str, journal: str | None) -> str:
    return shlex.join(
        [
            "treadle",
            "runs",
            "export",
            run_id,
            *(("--journal", journal) if journal is not None else ()),
        ]
    )


def _tell_traces(paths: Sequence[str]) -> None:
    if not paths:
        return
    put("Files that changed while these ran, possibly because of them; they are left unchanged:")
    for path in paths[:PATHS_SHOWN]:
        put(f"  {path}")
    if len(paths) > PATHS_SHOWN:
        put(f"  … and {len(paths) - PATHS_SHOWN} more; --json names them all")


def _in_words(arguments: Any) -> str:
    if isinstance(arguments, dict) and "command" in arguments:
        return str(arguments["command"])  # pyright: ignore[reportUnknownArgumentType]  JSON
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()

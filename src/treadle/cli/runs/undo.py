"""`treadle runs undo`: files as they were before a run changed them. Putting back is tools/restore.py's, keeping undo.py's. Entry: `undo`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from treadle.cli.exits import Failed
from treadle.cli.help import HELP
from treadle.cli.journal_option import Place, journal_option, on_journal
from treadle.cli.runs.finding import find_run, no_runs, run_argument
from treadle.cli.terminal import Ink, Style, put, put_json
from treadle.config import home
from treadle.entries import ModelResponded, Record, ToolFinished, ToolStarted
from treadle.journal import Journal, RunInfo
from treadle.plain import one_line, plain
from treadle.projection import shown_arguments
from treadle.redaction import Redactor
from treadle.tools.files import shown
from treadle.tools.restore import Action, Restored, restore
from treadle.tools.traces import Traces, changed_at
from treadle.types import Time, Value
from treadle.undo import UNDO_FOLDER, Change, Undo
from treadle.units import count

KEPT = ("write", "edit")
"""Tools whose changes are kept."""
PATHS_SHOWN = 20
_CRASHED_AFTER = timedelta(minutes=10)
"""How long a call may have run of which nobody knows the end."""
_STYLES: dict[Action, Style] = {"restored": "green", "removed": "green", "unchanged": "dim", "refused": "yellow"}


class Call(NamedTuple):
    turn: int
    started: ToolStarted
    finished: ToolFinished | None
    ended_by: Time
    """At the latest."""


class Left(Value, frozen=True, kw_only=True, omit_defaults=False):
    """A call that cannot be undone."""

    turn: int
    call_id: str
    name: str
    arguments: object
    why: str


class Undone(Value, frozen=True, kw_only=True, omit_defaults=False):
    """What the command says as JSON."""

    run_id: str
    turn: int | None
    applied: bool
    files: tuple[Restored, ...]
    not_undoable: tuple[Left, ...]
    changed_meanwhile: tuple[str, ...]
    """Files that bear a time at which one of these calls ran."""
    other_runs: tuple[str, ...]
    """Started by this one; their changes are their own."""


@click.command(context_settings=HELP)
@run_argument
@click.option("--turn", type=click.IntRange(1), metavar="N", help="Only what turn N changed; `runs show` counts them. Default: all turns.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: files, not_undoable, changed_meanwhile.")
@journal_option
def undo(run: str, turn: int | None, dry_run: bool, as_json: bool, journal: str | None) -> None:
    """Put files back to what they were before write and edit changed them in a run.

    A file that was changed since is left as it is. What commands did cannot be undone, and is listed. Exits with 1 where a file was left.
    """

    async def work(place: Place) -> Undone:
        from anyio import to_thread  # noqa: PLC0415  the help needs none

        info = await find_run(place.journal, run)
        if info.status == "running":
            raise Failed(f"run {info.run_id} is under way: wait for its end, or `treadle runs kill` it", 1)
        if turn is not None and turn > info.turns:
            raise Failed(f"run {info.run_id} has {count(info.turns, 'turn')}: there is no turn {turn}")
        calls = [call for call in _calls(await place.journal.read(info.run_id)) if turn in (None, call.turn)]
        others = await _children(place.journal, info.run_id)
        undone = await to_thread.run_sync(partial(_undone, info, calls, turn, apply=not dry_run, others=others))
        put_json(undone, place.secrets) if as_json else _tell(undone, Path(info.cwd), place.secrets, journal)
        return undone

    undone = on_journal(journal, work, absent=lambda _: no_runs(run))
    if any(file.action == "refused" for file in undone.files):
        raise SystemExit(1)


def _undone(info: RunInfo, calls: Sequence[Call], turn: int | None, *, apply: bool, others: tuple[str, ...]) -> Undone:
    store = Undo(home(os.environ) / UNDO_FOLDER)
    try:
        kept = store.changes(info.run_id)
    except OSError as e:
        raise Failed(f"what was kept in {str(store.folder)!r} cannot be read: {e.strerror or e}", 1) from e
    left = tuple(one for call in calls if (one := _left(call, kept)) is not None)
    changes = [kept[call.started.call_id] for call in calls if call.started.call_id in kept]
    traces = _traces(info, [call for call in calls if call.started.call_id in {one.call_id for one in left}])
    failed = {call.started.call_id for call in calls if call.finished is not None and call.finished.status == "error"}
    files = restore(changes, partial(store.content, info.run_id), failed=failed, apply=apply)
    theirs = {change.path for change in changes}
    return Undone(
        run_id=info.run_id,
        turn=turn,
        applied=apply,
        files=tuple(files),
        not_undoable=left,
        changed_meanwhile=tuple(path for path in traces.paths if path not in theirs),
        other_runs=others,
    )


def _calls(records: Iterable[Record]) -> list[Call]:
    """Those that began, in the order in which they did; a call that a person had run again is one."""
    turn, starts, ends, turns = 0, dict[str, ToolStarted](), dict[str, ToolFinished](), dict[str, int]()
    after: dict[str, Time] = {}
    for record in records:
        entry = record.entry
        for call_id in starts.keys() - ends.keys() - after.keys():
            after[call_id] = entry.at
        match entry:
            case ModelResponded():
                turn = entry.turn
            case ToolStarted():
                starts.setdefault(entry.call_id, entry)
                turns.setdefault(entry.call_id, turn)
            case ToolFinished():
                ends[entry.result.call_id] = entry
            case _:
                continue
    return [
        Call(turns[call_id], started, ends.get(call_id), ends[call_id].at if call_id in ends else after.get(call_id, started.at + _CRASHED_AFTER))
        for call_id, started in starts.items()
    ]


def _left(call: Call, kept: dict[str, Change]) -> Left | None:
    """Of a call that may have changed something of which nothing is kept."""
    started, finished = call.started, call.finished
    if started.effect == "pure" or started.call_id in kept:
        return None
    if started.name not in KEPT:
        why = "what it changed is not known"
    elif finished is not None and (finished.status != "ok" or "nothing was changed" in finished.result.text):
        return None
    else:
        why = "what the file was before was not kept"
    return Left(turn=call.turn, call_id=started.call_id, name=started.name, arguments=shown_arguments(started.arguments_json), why=why)


def _traces(info: RunInfo, calls: Sequence[Call]) -> Traces:
    times = [(call.started.at.timestamp(), call.ended_by.timestamp()) for call in calls if call.started.name not in KEPT]
    return changed_at(Path(os.path.realpath(info.cwd)), times) if times else Traces([], all=True)


async def _children(journal: Journal, run_id: str) -> tuple[str, ...]:
    return tuple(info.run_id for info in await journal.runs() if info.parent_run_id == run_id)


# ---------------------------------------------------------------- in words


def _tell(undone: Undone, cwd: Path, secrets: Redactor, journal: str | None) -> None:
    ink = Ink()

    def said(text: str) -> str:
        return plain(secrets.text(text))

    for file in undone.files:
        why = f": {file.why}" if file.why else ", as it was before" if file.action == "unchanged" else ""
        verb = file.action if undone.applied or file.action in ("unchanged", "refused") else f"would be {file.action}"
        put(f"{ink(verb, _STYLES[file.action])} {said(shown(file.path, cwd))}{said(why)}")
    if not undone.files:
        put("No file was changed by write or edit.")
    if any(file.action == "refused" for file in undone.files):
        put("A refused file stays as it is. Where a later run or turn changed it, undo that one first; else change it by hand:")
        put(f"  {_what_it_wrote(undone.run_id, journal)} holds what this run wrote")
    if undone.not_undoable:
        put(f"Cannot be undone ({count(len(undone.not_undoable), 'call')}):")
    for call in undone.not_undoable:
        put(f"  turn {call.turn}: {one_line(said(f'{call.name} {_in_words(call.arguments)}'), 100)}")
    _tell_traces([said(shown(path, cwd)) for path in undone.changed_meanwhile])
    for run_id in undone.other_runs:
        put(f"It started run {run_id}, which is undone by itself: treadle runs undo {run_id}")


def _what_it_wrote(run_id: str, journal: str | None) -> str:
    return shlex.join(["treadle", "runs", "export", run_id, *(("--journal", journal) if journal is not None else ())])


def _tell_traces(paths: Sequence[str]) -> None:
    if not paths:
        return
    put("Files that were changed while these ran, by them or by somebody else, and stay as they are:")
    for path in paths[:PATHS_SHOWN]:
        put(f"  {path}")
    if len(paths) > PATHS_SHOWN:
        put(f"  … and {len(paths) - PATHS_SHOWN} more; --json names them all")


def _in_words(arguments: Any) -> str:
    if isinstance(arguments, dict) and "command" in arguments:
        return str(arguments["command"])  # pyright: ignore[reportUnknownArgumentType]  JSON
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()

"""Undo of file changes made by runs: the affected calls, the files to restore, and those that
cannot be.

tools/builtin/restore.py restores a file, file_history.py keeps the originals, and each front end
has its own words. Entry points: `undone`, `undone_since`, `changed_files`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread
from msgspec import structs

from treadle.config import home
from treadle.errors import AgentError
from treadle.journal.journal import Journal
from treadle.journal.projection import shown_arguments
from treadle.journal.run_info import RunInfo
from treadle.runtime.undo_calls import RecordedCall, RunCalls, calls_of_run, calls_of_trees
from treadle.tools.builtin.restore import ChangedFile, Restored, compare, restore
from treadle.tools.builtin.walk import walk
from treadle.tools.file_history import UNDO_FOLDER, FileChange, Undo
from treadle.types import Value

MAX_FILES = 1_000
MAX_SECONDS = 5.0
_SLACK_S = 0.05
"""Seconds by which file times may lag, because file systems use the time of the last tick."""


class Traces(NamedTuple):
    paths: list[str]
    """Absolute paths."""
    all: bool
    """False if there may be more."""


def changed_at(top: Path, times: Sequence[tuple[float, float]]) -> Traces:
    """Return the files that were last changed within one of the intervals `times`, each a start and
    an end in epoch seconds. Skips files that .gitignore excludes. Blocks.
    """
    found: list[str] = []
    deadline = time.monotonic() + MAX_SECONDS
    try:
        for file in walk(str(top)):
            if len(found) == MAX_FILES or time.monotonic() > deadline:
                return Traces(found, all=False)
            changed = _changed(file.folder.stat(file.name).st_ctime, times)
            if changed:
                found.append(str(top / file.path))
    except OSError:  # the directory was removed, or a file disappeared while it was examined
        return Traces(found, all=False)
    return Traces(found, all=True)


def _changed(at: float, times: Sequence[tuple[float, float]]) -> bool:
    return any(begun - _SLACK_S <= at <= ended + _SLACK_S for begun, ended in times)


KEPT = ("write", "edit", "apply_patch")
"""Tools whose changes can be undone."""


class IrreversibleCall(Value, frozen=True, kw_only=True, omit_defaults=False):
    """A call that cannot be undone."""

    run_id: str
    turn: int
    call_id: str
    name: str
    arguments: object
    why: str


class UndoneRun(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Result of undoing one run, or one turn of it."""

    run_id: str
    turn: int | None
    applied: bool
    files: tuple[Restored, ...]
    not_undoable: tuple[IrreversibleCall, ...]
    changed_meanwhile: tuple[str, ...]
    """Files whose modification time lies within one of these calls."""
    other_runs: tuple[str, ...]
    """Child runs, whose changes are not included."""


class Rewound(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Result of undoing several runs and their children."""

    runs: tuple[str, ...]
    """All runs, in the order in which they began."""
    applied: bool
    files: tuple[Restored, ...]
    """Files, whose `calls` are qualified by run: `run_id/call_id`."""
    not_undoable: tuple[IrreversibleCall, ...]
    changed_meanwhile: tuple[str, ...]


class _Kept(NamedTuple):
    """Original file contents of several runs.

    Calls of different runs may have the same id, so each is qualified by its run.
    """

    changes: list[FileChange]
    """Changes in the order in which they were made."""
    failed: frozenset[str]
    where: dict[str, str]
    """Return the run that stored a content, by its hash."""
    left: tuple[IrreversibleCall, ...]


async def undone(
    journal: Journal, info: RunInfo, *, turn: int | None = None, apply: bool
) -> UndoneRun:
    """Undo the changes of `write` and `edit` in a run, or in one `turn` of it. With `apply` false,
    only report them.

    Files that have changed since then are left unchanged and reported as refused. Effects of
    commands remain and are listed; child runs are only named. Raises AgentError: busy while the run
    is in progress, invalid for an unknown turn, agent if the stored content cannot be read.
    Cancellation waits for files that are being restored.
    """
    _check_ended([info])
    if turn is not None and turn > info.turns:
        raise AgentError(
            "invalid",
            (
                f"run {info.run_id} has {info.turns} turn{'' if info.turns == 1 else 's'}: there "
                f"is no turn {turn}"
            ),
        )
    told = await calls_of_run(journal, info, turn)
    others = tuple(each.run_id for each in await journal.children(info.run_id))
    back = await to_thread.run_sync(partial(_put_back, [told], apply=apply))
    files = tuple(
        structs.replace(
            file, calls=tuple(call.removeprefix(f"{info.run_id}/") for call in file.calls)
        )
        for file in back.files
    )
    return UndoneRun(
        run_id=info.run_id,
        turn=turn,
        applied=apply,
        files=files,
        not_undoable=back.not_undoable,
        changed_meanwhile=back.changed_meanwhile,
        other_runs=others,
    )


async def undone_since(journal: Journal, runs: Sequence[RunInfo], *, apply: bool) -> Rewound:
    """Undo the changes of several runs of a session, and of runs that they started, in one step:
    each file returns to its state before the first of them.

    `runs` can be in any order. Everything else is as in `undone`: preview with `apply` false first.
    """
    told = await calls_of_trees(journal, runs)
    _check_ended([each.info for each in told])
    return await to_thread.run_sync(partial(_put_back, told, apply=apply))


async def changed_files(journal: Journal, runs: Sequence[RunInfo]) -> list[ChangedFile]:
    """Return the files that `write` and `edit` changed in these runs and their children, with their
    content before the first of them and now.

    By path, without files that are unchanged overall. Runs may be active. Raises AgentError(agent)
    if the original contents cannot be read.
    """
    told = await calls_of_trees(journal, runs)

    def compared() -> list[ChangedFile]:
        store = _store()
        kept = _kept(store, told)
        return compare(
            kept.changes,
            lambda hashed: store.content(kept.where[hashed], hashed),
            failed=kept.failed,
        )

    return await to_thread.run_sync(compared)


def _check_ended(runs: Iterable[RunInfo]) -> None:
    for info in runs:
        if info.status == "running":
            raise AgentError(
                "busy",
                (
                    f"run {info.run_id} is under way: wait for its end, or stop it with `treadle "
                    f"runs kill {info.run_id}`"
                ),
            )


def _put_back(told: Sequence[RunCalls], *, apply: bool) -> Rewound:
    store = _store()
    kept = _kept(store, told)
    meanwhile = _meanwhile(told, {(one.run_id, one.call_id) for one in kept.left})
    files = restore(
        kept.changes,
        lambda hashed: store.content(kept.where[hashed], hashed),
        failed=kept.failed,
        apply=apply,
    )
    theirs = {change.path for change in kept.changes}
    return Rewound(
        runs=tuple(each.info.run_id for each in told),
        applied=apply,
        files=tuple(files),
        not_undoable=kept.left,
        changed_meanwhile=tuple(path for path in meanwhile if path not in theirs),
    )


# ---------------------------------------------------------------- calls in the journal


# ---------------------------------------------------------------- stored contents


def _store() -> Undo:
    return Undo(home(os.environ) / UNDO_FOLDER)


def _kept(store: Undo, told: Sequence[RunCalls]) -> _Kept:
    """Read the stored contents. Raises AgentError(agent)."""
    changes, failed, where, left = (
        list[FileChange](),
        set[str](),
        dict[str, str](),
        list[IrreversibleCall](),
    )
    for info, calls in told:
        try:
            kept = store.changes(info.run_id)
        except OSError as e:
            raise AgentError(
                "agent",
                f"cannot read the stored copies in {str(store.folder)!r}: {e.strerror or e}",
            ) from e
        left += (one for call in calls if (one := _left(info, call, kept)) is not None)
        for call in calls:
            name = f"{info.run_id}/{call.started.call_id}"
            for change in kept.get(call.started.call_id, ()):
                changes.append(structs.replace(change, call_id=name))
                where[change.before or ""] = info.run_id
            if call.finished is not None and call.finished.status == "error":
                failed.add(name)
    if len(told) > 1:  # child runs ran in between
        changes.sort(key=lambda change: change.at)
    return _Kept(changes, frozenset(failed), where, tuple(left))


def _left(info: RunInfo, call: RecordedCall, kept: Collection[str]) -> IrreversibleCall | None:
    """Return a call that may have changed files for which no original content is stored."""
    started, finished = call.started, call.finished
    if started.effect == "pure" or started.call_id in kept:
        return None
    if started.name not in KEPT:
        why = "its changes are unknown"
    elif finished is not None and (
        finished.status != "ok" or "nothing was changed" in finished.result.text
    ):
        return None
    else:
        why = "what the file was before was not kept"
    arguments = shown_arguments(started.arguments_json)
    return IrreversibleCall(
        run_id=info.run_id,
        turn=call.turn,
        call_id=started.call_id,
        name=started.name,
        arguments=arguments,
        why=why,
    )


def _meanwhile(told: Iterable[RunCalls], left: Collection[tuple[str, str]]) -> list[str]:
    """Return files whose modification time lies within a command, searching each directory once."""
    times: dict[str, list[tuple[float, float]]] = {}
    for info, calls in told:
        for call in calls:
            if call.started.name not in KEPT and (info.run_id, call.started.call_id) in left:
                times.setdefault(info.cwd, []).append(
                    (call.started.at.timestamp(), call.ended_by.timestamp())
                )
    found = (
        path
        for cwd, ran in times.items()
        for path in changed_at(Path(os.path.realpath(cwd)), ran).paths
    )
    return [*dict.fromkeys(found)]

"""Calls of runs, as their journal records them, for an undo: each with its turn, and the time by
which it had ended. Entry points: `calls_of_run`, `calls_of_trees`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from treadle.journal.entries import ModelResponded, Record, ToolFinished, ToolStarted
from treadle.journal.journal import Journal
from treadle.journal.run_info import RunInfo
from treadle.types import Time

_CRASHED_AFTER = timedelta(minutes=10)
"""Age after which a call without a known end counts as crashed."""


class RecordedCall(NamedTuple):
    turn: int
    started: ToolStarted
    finished: ToolFinished | None
    ended_by: Time
    """Latest time at which it can have ended."""


class RunCalls(NamedTuple):
    """Changes of one run, as its journal records them."""

    info: RunInfo
    calls: list[RecordedCall]


async def calls_of_trees(journal: Journal, runs: Iterable[RunInfo]) -> list[RunCalls]:
    """Return the runs and their children, each once, in the order in which they began."""
    found: dict[str, RunInfo] = {}
    open_ = [*runs]
    while open_:
        info = open_.pop()
        if info.run_id not in found:
            found[info.run_id] = info
            open_.extend(await journal.children(info.run_id))
    return [
        await calls_of_run(journal, info, None)
        for info in sorted(found.values(), key=lambda each: each.started_at)
    ]


async def calls_of_run(journal: Journal, info: RunInfo, turn: int | None) -> RunCalls:
    return RunCalls(
        info,
        [call for call in _calls(await journal.read(info.run_id)) if turn in (None, call.turn)],
    )


def _calls(records: Iterable[Record]) -> list[RecordedCall]:
    """Return the calls that began, in order; a call that was run again counts once."""
    turn, starts, ends, turns = (
        0,
        dict[str, ToolStarted](),
        dict[str, ToolFinished](),
        dict[str, int](),
    )
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
        RecordedCall(
            turns[call_id],
            started,
            ends.get(call_id),
            ends[call_id].at
            if call_id in ends
            else after.get(call_id, started.at + _CRASHED_AFTER),
        )
        for call_id, started in starts.items()
    ]

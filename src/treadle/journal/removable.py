"""Runs that can be deleted: old ones, and trees given their roots. Entry points: `aged`,
`removable`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final, TypeVar

from treadle.errors import AgentError
from treadle.types import Time

AHEAD_MOST: Final = timedelta(days=1)
"""Maximum plausible time in the future: a run that seems to have ended later was written with a
wrong clock.
"""

_Run = TypeVar("_Run")


def aged(
    finished: Sequence[tuple[_Run, Time]],
    before: Time,
    *,
    now: Time,
    is_imported: Callable[[_Run], bool],
) -> list[_Run]:
    """Return the finished runs that ended before a time, in their order.

    `finished`: runs and their ends, in the order in which they began or were imported. A run that
    ended more than `AHEAD_MOST` from now counts as old if one that began later is old. The times of
    an imported run come from a file and show the age of no other run.
    """
    old = list[_Run]()
    is_shown = False
    for run, ended in reversed(finished):
        if ended < before:
            old.append(run)
            is_shown = is_shown or not is_imported(run)
        elif is_shown and ended > now + AHEAD_MOST:
            old.append(run)
    return old[::-1]


def removable(
    trees: Mapping[str, Collection[str]], forks_of: Callable[[str], Collection[str]]
) -> set[str]:
    """Return the ids of the runs that may be deleted: those in trees from which no remaining run was
    forked. A tree is deleted or kept as a whole.

    `trees`: root id -> ids of the root and all its descendants. `forks_of`: function that returns
    the ids of a run's forks.
    """
    going = dict(trees)
    while True:
        ids = {run_id for tree in going.values() for run_id in tree}
        needed = [
            root
            for root, tree in going.items()
            if any(fork not in ids for run_id in tree for fork in forks_of(run_id))
        ]
        if not needed:
            return ids
        for root in needed:
            del going[root]


def unfinished(run_id: str) -> AgentError:
    return AgentError(
        "busy",
        f"run {run_id} is not finished: end it with `treadle runs kill {run_id}`, then delete it",
    )

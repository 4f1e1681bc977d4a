"""Trees of runs that can be deleted, given their roots. Entry point: `removable`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from treadle.errors import AgentError


def removable(
    trees: Mapping[str, Collection[str]], forks_of: Callable[[str], Collection[str]]
) -> set[str]:
    """Return the ids of all runs in trees that no remaining run was forked from. A tree goes or
    stays as a whole.

    `trees`: root id -> ids of the root and all runs below it. `forks_of`: returns the ids of a
    run's forks.
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

"""`make guards`: breaks each guard of guards.toml in a copy of the tree, and sees that a test turns
red. Exits with 1 where none does.

`python -m tests.guards --only NAME` takes those whose name or file holds NAME. Entry: `main`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.guards.catalogue import Guard, guards
from tests.guards.trial import Ran, Tree, Verdict

ALL_S = 600.0
"""For all tests with nothing broken."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="make guards", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument(
        "--only", default="", metavar="NAME", help="guards whose name or file holds this"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(os.cpu_count() or 1, 4),
        help="copies of the tree that are worked in at once",
    )
    options = parser.parse_args(arguments)
    chosen, begun = guards(options.only), time.monotonic()
    if not chosen:
        parser.error(f"no guard is called so: {options.only!r}")
    with tempfile.TemporaryDirectory(prefix="treadle-guards-") as folder:
        trees = [Tree(Path(folder) / str(n)) for n in range(min(options.jobs, len(chosen)))]
        tried = _told(chosen, _tried(trees, chosen))
        anyway = _red_anyway(trees[0], tried, options.jobs)
    unwell = sum(not ran.verdict.is_well for ran in tried)
    print(
        f"\n{len(chosen)} guards, {unwell} without a test that sees them go; {time.monotonic() - begun:.0f} s"
    )
    if anyway:
        print(f"with nothing broken, and so no proof of anything: {anyway}")
    return int(unwell > 0 or anyway != "")


def _tried(trees: Sequence[Tree], chosen: Iterable[Guard]) -> Iterator[Ran]:
    """In the order of the guards."""
    free = SimpleQueue[Tree]()
    for tree in trees:
        free.put(tree)

    def one(guard: Guard) -> Ran:
        tree = free.get()
        try:
            return tree.without(guard)
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        yield from pool.map(one, chosen)


def _told(chosen: Iterable[Guard], tried: Iterable[Ran]) -> list[Ran]:
    """Prints a table, a row as soon as it is known."""
    print("| guard | file | red test | s |\n|---|---|---|---|", flush=True)
    all_of_them: list[Ran] = []
    for guard, ran in zip(chosen, tried, strict=True):
        all_of_them.append(ran)
        print(
            f"| {guard.name} | {guard.file} | {ran.red[0] if ran.red else ran.verdict} | {ran.took_s:.1f} |",
            flush=True,
        )
        if ran.verdict is Verdict.TROUBLE:
            print(ran.said, flush=True)
    return all_of_them


def _red_anyway(tree: Tree, tried: Iterable[Ran], jobs: int) -> str:
    """Red says something only of tests that are green as long as nothing is broken: those that are
    not, or why that cannot be told.
    """
    red = list(dict.fromkeys(ran.red[0] for ran in tried if ran.red))
    ran = tree.run(red, f"-n{jobs}", within_s=ALL_S) if red else None
    return (
        ""
        if ran is None or ran.verdict in (Verdict.GREEN, Verdict.SKIPPED)
        else ", ".join(ran.red) or ran.said
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`make oracle`: decides generated command lines and runs the allowed ones in a jail. Exits with 1
if one did harm, with 2 if there is no jail.

Chunks of lines follow from the seed and their number alone: a large run is split by `--chunks
FROM:TO`. Entry: `main`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cache
from multiprocessing import get_context, parent_process
from pathlib import Path

from tests.oracle import layout
from tests.oracle.jail import BWRAP
from tests.oracle.lines import CHUNK, CORPUS, corpus
from tests.oracle.sandboxed import is_possible
from tests.oracle.trial import Counts, Trial

DENIED_SHARE = 0.05
"""Lines about denied commands, for each line that is run without rules."""

CONFINED_SHARE = 0.01
"""Sessions in our own sandbox, the same."""


def main(arguments: Sequence[str]) -> int:
    """Run the command line of this module and give its exit code."""
    options = _parser().parse_args(arguments)
    if not BWRAP:
        print("bubblewrap is not installed: nothing can be run", file=sys.stderr)
        return 2
    if not corpus():
        print(
            f"without the attack corpus, which is not at {CORPUS.name} beside the checkout",
            file=sys.stderr,
        )
    if not is_possible():
        print(
            "without sessions in our own sandbox: no user namespace can be made here",
            file=sys.stderr,
        )
    begun = time.monotonic()
    with Place() as base:
        counts = _driven(base, options)
    for effect, count in Counter(harm.effect for harm in counts.harms).most_common():
        print(f"{count:6} {effect}")
    print(
        f"decided {counts.decided:,}, allowed {counts.allowed:,}, ran {counts.ran:,}, harm {len(counts.harms):,}; {time.monotonic() - begun:.0f} s"
    )
    return int(bool(counts.harms))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make oracle", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--decide", type=int, default=100_000, metavar="N", help="lines to decide")
    parser.add_argument(
        "--run", type=int, default=15_000, metavar="M", help="allowed lines to run, at most"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument(
        "--chunks",
        default="",
        metavar="FROM:TO",
        help=f"only these of the chunks of {CHUNK:,} lines, to split or resume a run",
    )
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 2), metavar="W")
    parser.add_argument(
        "--programs",
        default="",
        metavar="DIR",
        help="a folder with usr/bin and usr/lib of more programs, for the jail only",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="append each harmful line to it, as JSON"
    )
    return parser


class Place:
    """A folder with the layout that the judge looks at, of a name with a fixed length."""

    def __enter__(self) -> str:
        self.base = tempfile.mkdtemp(prefix="treadle-oracle-", dir="/tmp")
        os.chmod(self.base, 0o755)
        layout.build(self.base)
        return self.base

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.base)


def _driven(base: str, options: argparse.Namespace) -> Counts:
    total = -(-options.decide // CHUNK)
    first, _, end = options.chunks.partition(":")
    numbers = range(int(first or 0), min(int(end or total), total))
    share = options.run / options.decide
    counts = Counts()
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.oracle.prepared"])
    with ProcessPoolExecutor(options.workers, context, initializer=_end_with_parent) as pool:
        confined = CONFINED_SHARE * is_possible()
        jobs = [
            (
                base,
                options.programs,
                options.seed,
                n,
                min(CHUNK, options.decide - n * CHUNK),
                share,
                confined,
            )
            for n in numbers
        ]
        for number, found in zip(numbers, pool.map(_chunk, jobs), strict=True):
            counts.add(found)
            _tell(counts, number, len(numbers), options.report, found)
    return counts


def _tell(counts: Counts, number: int, total: int, report: Path | None, found: Counts) -> None:
    if report is not None:
        with report.open("a") as file:
            for harm in found.harms:
                file.write(json.dumps({"effect": harm.effect, **asdict(harm)}) + "\n")
    if sys.stderr.isatty() or number % 50 == 49:
        end = "\r" if sys.stderr.isatty() else "\n"
        print(
            f"chunk {number} of {total}: decided {counts.decided:,}, ran {counts.ran:,}, harm {len(counts.harms):,}",
            end=end,
            file=sys.stderr,
            flush=True,
        )


def _end_with_parent() -> None:
    """Let this worker, and with it its jails, end at once if the driver is killed."""
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@cache
def _trial(base: str, programs: str) -> Trial:
    """One for each worker; its jail ends with the worker."""
    return Trial(base, programs=programs)


def _chunk(job: tuple[str, str, int, int, int, float, float]) -> Counts:
    base, programs, seed, number, decide, share, confined = job
    trial = _trial(base, programs)
    counts = trial.chunk(seed, number, most_decided=decide, most_run=round(share * decide))
    counts.add(trial.denied(seed, number, most_run=round(share * decide * DENIED_SHARE)))
    counts.add(
        trial.confined(seed, number, counts.contained, most_run=round(share * decide * confined))
    )
    return counts

"""Measure Treadle and the hand-written floors in one run, and print the table of
docs/performance.md.

    python benchmarks/run.py [--only NAME] [--reps N] [--quick] [--no-pin]

Each repetition of a row is a fresh process, and the peers take turns, so that other load on the
machine affects all of them. A missed limit is printed, not raised. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from processes import HERE, Bench, Failed, Skipped
from rows import ROWS, Row

RESULTS = HERE / "results" / "latest.json"
REPS = 5
QUICK_REPS = 2
BUSY = 0.15
"""A median this much above the lowest is the machine's doing."""


@dataclass
class Figures:
    """The figures of one row, by peer."""

    row: Row
    values: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    troubles: dict[str, str] = field(default_factory=dict[str, str])

    def reached(self, of_all: Callable[[list[float]], float] = statistics.median) -> float | None:
        """Return the project's figure in the unit of its limits, from medians or another selection
        by `of_all`; None if there is none.
        """
        row = self.row
        if row.peers[0] not in self.values or (row.of and row.of not in self.values):
            return None
        ours = of_all(self.values[row.peers[0]])
        return ours / of_all(self.values[row.of]) if row.of else ours

    @property
    def verdict(self) -> str:
        """Judge by the worse of median and minimum, because a busy machine improves one of the
        ratios.
        """
        both = self.reached(), self.reached(min)
        if None in both:
            return "not measured"
        reached = max(filter(None, both))
        return (
            "aim" if reached <= self.row.aim else "must" if reached <= self.row.must else "missed"
        )


def measure(row: Row, bench: Bench, reps: int) -> Figures:
    """Measure the peers in turn, `reps` times. A peer that cannot be measured is left out from then
    on.
    """
    figures = Figures(row)
    for _ in range(reps):
        for peer in row.peers:
            if peer in figures.troubles:
                continue
            try:
                figures.values.setdefault(peer, []).extend(row.sample(bench, peer))
            except (Skipped, Failed, OSError, subprocess.TimeoutExpired) as trouble:
                figures.troubles[peer] = f"{type(trouble).__name__.lower()}: {trouble}"
                figures.values.pop(peer, None)
    return figures


# ---------------------------------------------------------------- the table


def table(measured: list[Figures]) -> str:
    """Return a Markdown table of medians, with the minimum of all repetitions in brackets: the
    figure of a quiet machine.
    """
    lines = ["| | Treadle | beside it | reached | must | aim | |", "|---|---|---|---|---|---|---|"]
    lines += [_line(figures) for figures in measured]
    lines += [
        f"\n{figures.row.name}, {peer}: {text}"
        for figures in measured
        for peer, text in figures.troubles.items()
    ]
    return "\n".join(lines)


def _line(figures: Figures) -> str:
    row = figures.row
    ours, *others = row.peers
    beside = ", ".join(f"{_short(peer)} {_figure(figures, peer)}" for peer in others)
    unit = f" times {_short(row.of)}" if row.of else f" {row.unit}"
    reached, lowest = figures.reached(), figures.reached(min)
    shown = (
        f"{_number(reached)} ({_number(lowest)}){unit}"
        if reached is not None and lowest is not None
        else ""
    )
    cells = [
        row.what,
        _figure(figures, ours),
        beside,
        shown,
        f"{_number(row.must)}{unit}",
        f"{_number(row.aim)}{unit}",
        figures.verdict,
    ]
    return "| " + " | ".join(cells) + " |"


def _figure(figures: Figures, peer: str) -> str:
    if peer not in figures.values:
        return "-"
    values = figures.values[peer]
    return f"{_number(statistics.median(values))} ({_number(min(values))}) {figures.row.unit}"


def _short(peer: str) -> str:
    """Return the short name of a floor: `e` for floor_e_aiohttp_sse_cached."""
    return peer.split("_")[1] if peer.startswith("floor_") else peer.removeprefix("treadle-")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.2f}".rstrip("0").rstrip(".")


def _quietness(measured: list[Figures]) -> str:
    """Return how far the medians are above the minima: a few percent on a quiet machine."""
    above = [
        statistics.median(values) / min(values) - 1
        for figures in measured
        for values in figures.values.values()
    ]
    worst = max(above, default=0.0)
    busy = "; it was busy: the figures in brackets say more about the code" if worst > BUSY else ""
    return f"The machine added up to {worst:.0%}{busy}."


# ---------------------------------------------------------------- the record


def record(measured: list[Figures], *, pinned: bool, reps: int) -> dict[str, object]:
    """Write all figures to a file, for later comparisons."""
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "pinned": pinned,
        "reps": reps,
        "rows": {
            figures.row.name: {
                "unit": figures.row.unit,
                "reached": figures.reached(),
                "reached_lowest": figures.reached(min),
                "of": figures.row.of,
                "must": figures.row.must,
                "aim": figures.row.aim,
                "verdict": figures.verdict,
                "values": figures.values,
                "troubles": figures.troubles,
            }
            for figures in measured
        },
    }


def _commit() -> str:
    git = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(
        description="Measures Treadle and the floors, and prints a table."
    )
    options.add_argument(
        "--only", action="append", choices=[row.name for row in ROWS], help="this row; repeatable"
    )
    options.add_argument(
        "--reps", type=int, default=0, help=f"processes for each row and peer (default {REPS})"
    )
    options.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_REPS} processes for each: a first look, not figures to quote",
    )
    options.add_argument(
        "--no-pin", action="store_true", help="leave it to the system which core runs what"
    )
    return options.parse_args()


def main() -> None:
    options = _options()
    reps = max(1, options.reps or (QUICK_REPS if options.quick else REPS))
    measured: list[Figures] = []
    with Bench(pin=not options.no_pin) as bench:
        for row in ROWS:
            if options.only and row.name not in options.only:
                continue
            print(f"{row.name} …", file=sys.stderr, flush=True)
            measured.append(measure(row, bench, reps))
        document = record(measured, pinned=bench.pinned, reps=reps)
    print(table(measured))
    print(
        f"\nMedians over {reps} processes each, in brackets the lowest; Python {document['python']}, commit {document['commit']}. {_quietness(measured)}"
    )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print(f"All figures: {Path(os.path.relpath(RESULTS))}", file=sys.stderr)


if __name__ == "__main__":
    main()

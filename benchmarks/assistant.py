"""Measure the coding assistant's own work: decisions about commands, and reading a few lines of a
huge file. Prints tables.

    python benchmarks/assistant.py [--gib N]

The commands, harmless and hostile ones, have about 20 KB each. A missed limit is printed, not
raised. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from treadle.policy.permissions import permissions_of
from treadle.policy.policy import decide_command
from treadle.tools.builtin.read import Read
from treadle.tools.tool import ToolContext

DECIDED_MS, NEVER_MS = 50.0, 100.0
SIZE = 20_000
COMMANDS = {
    "a script of 300 commands": "grep -rn 'needle in a haystack of many words' src tests docs | head -20\n",
    "many words": "a_file_with_a_name.txt ",
    "one long word": "a",
    "commands in a row": "true && ",
    "wrappers": "env ",
    "pipes": "| cat ",
    "substitutions in each other": "$(",
    "scripts in scripts": "bash -c \"bash -c 'ls'\"; ",
    "quotes": "'",
    "brackets": "[[ a =~ (",
    "arrays in arrays": "a=(",
    "globs": "*/?[a-z]* ",
    "redirections": "> x < y ",
    "a here-document": "cat <<E\n",
}


def commands() -> dict[str, str]:
    return {
        name: ("echo " if name in ("many words", "one long word", "globs") else "")
        + piece * (SIZE // len(piece))
        for name, piece in COMMANDS.items()
    }


def decisions(place: Path, times: int) -> None:
    print(f"| a command of {SIZE // 1000} KB | decided | median | most |\n|---|---|---|---|")
    worst = 0.0
    for name, command in commands().items():
        took, verdict = list[float](), ""
        for _ in range(times):
            begun = time.process_time()
            verdict = decide_command("ask", command, place, permissions_of(deny=("curl",))).verdict
            took.append((time.process_time() - begun) * 1000)
        median, most = statistics.median(took), max(took[1:])  # the first call reads the tables
        worst = max(worst, most)
        print(
            f"| {name} | {verdict} | {median:.1f} ms{'' if median <= DECIDED_MS else ' (missed)'} | {most:.1f} ms |"
        )
    print(
        f"\nAt most {worst:.1f} ms (within {NEVER_MS:.0f}{'' if worst <= NEVER_MS else ': missed'})\n"
    )


async def read(place: Path, gib: int) -> None:
    """Measure reading lines of 100 bytes."""
    path, line = place / "huge.log", b"x" * 99 + b"\n"
    block = line * 10_000
    with path.open("wb") as file:
        for _ in range((gib << 30) // len(block)):
            file.write(block)
    lines, before = path.stat().st_size // len(line), peak_mib()
    print(f"| 200 lines of {gib} GiB | took |\n|---|---|")
    for where, offset in (
        ("from the beginning", 1),
        ("a million lines in", 1_000_000),
        ("from the end", lines - 199),
    ):
        begun = time.process_time()
        await Read().execute(
            context(place),
            Read().parse(f'{{"path": "huge.log", "offset": {offset}, "limit": 200}}'),
        )
        print(f"| {where} | {(time.process_time() - begun) * 1000:,.0f} ms |")
    print(f"\nMemory grew by {peak_mib() - before:.1f} MiB")


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def context(workspace: Path) -> ToolContext[Any]:
    named = dict.fromkeys(("run_id", "call_id", "idempotency_key"), "x")
    return ToolContext(
        deps=None,
        session_id=None,
        user_id=None,
        cwd=workspace,
        deadline=None,
        attempt=1,
        spill=lambda text: workspace / "spilled",
        **named,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measures decisions about commands, and reading from a huge file."
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--gib", type=int, default=2, help="0: no huge file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        decisions(Path(folder), given.times)
        if given.gib:
            anyio.run(read, Path(folder), given.gib)


if __name__ == "__main__":
    main()

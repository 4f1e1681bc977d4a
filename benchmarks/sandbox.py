"""Measure the latency that the sandbox adds to a command of the `bash` tool, and how soon a process
tree is dead after its timeout. Prints a table.

    python benchmarks/sandbox.py [--reps N]

Confined and unconfined commands take turns, in a workspace with control files. A missed limit is
printed, not raised. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from treadle.policy.sandboxes import find_sandbox
from treadle.tools.builtin.bash import Bash, BashArguments
from treadle.tools.confinement import CommandRoom, Confinement
from treadle.tools.spill import Spill
from treadle.tools.tool import ToolContext, ToolFailed

ADDED_MS, DEAD_MS = 15.0, 100.0
TREE = "trap '' TERM; (setsid sleep 60 &); sleep 60 & for i in 1 2 3; do (sleep 60 & wait) & done; while :; do sleep 1; done"


def context(workspace: Path, spill: Spill, sandbox: Confinement | None) -> ToolContext[Any]:
    named = dict.fromkeys(("run_id", "call_id", "idempotency_key"), "x")
    return ToolContext(
        deps=None,
        session_id=None,
        user_id=None,
        cwd=workspace,
        deadline=None,
        attempt=1,
        spill=spill.write,
        sandbox=sandbox,
        environment=dict(os.environ),
        **named,
    )


def processor_s() -> float:
    return sum(
        r.ru_utime + r.ru_stime
        for r in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


async def timed(bash: Bash, ctx: ToolContext[Any]) -> tuple[float, float]:
    """Return the elapsed milliseconds and the CPU milliseconds."""
    begun, used = time.perf_counter(), processor_s()
    await bash.execute(ctx, BashArguments(command="true"))
    return (time.perf_counter() - begun) * 1000, (processor_s() - used) * 1000


async def death(bash: Bash, ctx: ToolContext[Any]) -> float:
    """Return the milliseconds from the timeout to the end of the call, at which no process of the
    tree runs any more.
    """
    begun = time.perf_counter()
    try:
        await bash.execute(ctx, BashArguments(command=TREE, timeout_s=0.5))
    except ToolFailed:
        return (time.perf_counter() - begun - 0.5) * 1000
    raise RuntimeError("the tree ended before its time")


async def measure(reps: int) -> None:
    sandbox = find_sandbox(None)
    begun = time.perf_counter()
    standing = await sandbox.standing()
    print(f"{standing.text} (tried in {(time.perf_counter() - begun) * 1000:.0f} ms)\n")
    if not standing.works:
        return
    spill, place = Spill(), Path(tempfile.mkdtemp(prefix="treadle-bench-", dir=Path.home()))
    for file in (
        ".git/config",
        ".git/hooks/a.sample",
        ".treadle/config.yaml",
        "AGENTS.md",
        ".env",
        *(f"src/p{i}/m{j}.py" for i in range(40) for j in range(25)),
    ):
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text("x\n")
    room = CommandRoom(
        workspace=place,
        scratch=lambda: spill.folder("tmp"),
        quarantine=lambda: Path(tempfile.mkdtemp()),
    )
    confined, free = context(place, spill, Confinement(sandbox, room)), context(place, spill, None)
    bash = Bash()
    try:
        pairs = [(await timed(bash, free), await timed(bash, confined)) for _ in range(reps)][2:]
        deaths = [
            (await death(bash, free), await death(bash, confined))
            for _ in range(max(reps // 10, 3))
        ]
    finally:
        spill.close()
        shutil.rmtree(place)
    rows = {
        name: sorted(p[i][0] for p in pairs) for i, name in enumerate(("unconfined", "confined"))
    }
    print(
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n\n| `bash true` | median | p95 | processor |\n|---|---|---|---|"
    )
    for i, (name, row) in enumerate(rows.items()):
        print(
            f"| {name} | {statistics.median(row):.1f} ms | {row[int(len(row) * 0.95)]:.1f} ms | {statistics.median(p[i][1] for p in pairs):.1f} ms |"
        )
    added = statistics.median(rows["confined"]) - statistics.median(rows["unconfined"])
    print(
        f"| **added** | **{added:.1f} ms** ({'within' if added <= ADDED_MS else 'MISSES'} {ADDED_MS:.0f}) | | |"
    )
    for i, name in enumerate(("unconfined", "confined")):
        worst = max(d[i] for d in deaths)
        print(
            f"\nA tree of 8 processes, {name}: dead {statistics.median(d[i] for d in deaths):.0f} ms after its time, at most {worst:.0f}",
            end="",
        )
        print(f" ({'within' if worst <= DEAD_MS else 'MISSES'} {DEAD_MS:.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=60)
    anyio.run(measure, parser.parse_args().reps)


if __name__ == "__main__":
    main()

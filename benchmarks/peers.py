"""The CPU time of a turn by the length of its run: Treadle, the floors and other libraries, each in
an environment of its own.

    cp -r ../shared/bench FOLDER && FOLDER/setup.sh      # installs the other libraries
    python benchmarks/peers.py FOLDER --svg docs/pictures/turn-cost.svg

A library without an environment is left out with a note, and so is a length that took longer than
the limit. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from processes import HERE, Bench

LENGTHS = (10, 50, 200, 500, 1000)


@dataclass(frozen=True, kw_only=True)
class Peer:
    label: str
    environment: str
    """Folder below `venvs`; empty for the environment of this command."""
    runner: str
    variables: dict[str, str] = field(default_factory=dict[str, str])


PEERS = (
    Peer(label="Treadle", environment="", runner="treadle_runner"),
    Peer(
        label="loop by hand, aiohttp",
        environment="floor",
        runner="floors",
        variables={"FLOOR": "floor_e_aiohttp_sse_cached"},
    ),
    Peer(label="agno", environment="agno", runner="agno_runner"),
    Peer(label="pydantic-ai", environment="pydantic_ai", runner="pydantic_ai_runner"),
    Peer(label="inspect-ai", environment="inspect_ai", runner="inspect_ai_runner"),
    Peer(label="LangChain", environment="langchain", runner="langchain_runner"),
    Peer(label="smolagents", environment="smolagents", runner="smolagents_runner"),
    Peer(label="openai-agents", environment="openai_agents", runner="openai_agents_runner"),
    Peer(label="Strands", environment="strands", runner="strands_runner"),
)

Costs = dict[str, dict[int, float]]
"""Microseconds of CPU for a turn, by library and turns of the run."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    folder: Path
    turns: list[int]
    reps: int
    limit_s: float
    """Limit of one measurement; longer runs of that library are left out."""
    pin: bool


def measured(bench: Bench, plan: Plan, peer: Peer, turns: int) -> float | str:
    """Return the median of the repetitions in microseconds, or why there is none."""
    folder = plan.folder
    own = not peer.environment
    python = Path(sys.executable) if own else folder / "venvs" / peer.environment / "bin/python"
    if not python.exists():
        return f"no environment: {folder.name}/setup.sh {peer.environment}"
    runner = (HERE if own else folder / "runners") / f"{peer.runner}.py"
    command = [str(python), str(runner), *(["treadle"] if own else [])]
    command += ["turns", "--n", str(turns), "--reps", str(plan.reps), "--port", str(bench.serve())]
    environment = {**os.environ, **peer.variables, "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=plan.limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"longer than {plan.limit_s:.0f} s"
    if done.returncode:
        return next(iter(done.stderr.strip().splitlines()[-1:]), "it failed")[:160]
    per_run = [rep["cpu_s"] for rep in json.loads(done.stdout.splitlines()[-1])["reps"]]
    return statistics.median(per_run) * 1e6 / (turns + 1)


def all_measured(plan: Plan) -> Costs:
    """Measure every library; print a line for each length."""
    costs: Costs = {}
    with Bench(pin=plan.pin) as bench:
        for peer in PEERS:
            for turns in plan.turns:
                found = measured(bench, plan, peer, turns)
                if isinstance(found, str):
                    print(f"{peer.label:24} {turns:6,} turns  {found}", flush=True)
                    break  # longer runs take even longer
                print(f"{peer.label:24} {turns:6,} turns  {found:10,.0f} µs a turn", flush=True)
                costs.setdefault(peer.label, {})[turns] = found
    return costs


# ---------------------------------------------------------------- the plot

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 40, 50
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.grid { stroke: #d0d7de } .line { fill: none; stroke: #8c959f; stroke-width: 1.5 }
.ours { stroke: #0969da; stroke-width: 3 } .floor { stroke-dasharray: 5 4 }
.name { font-weight: 600; fill: #0969da }
.page { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .grid { stroke: #30363d } .ours { stroke: #58a6ff }
  .name { fill: #58a6ff } .page { fill: #0d1117 }
}"""


def plot(costs: Costs) -> str:
    """Return an SVG with a line for each library, both axes logarithmic."""
    lengths = sorted({turns for by_turns in costs.values() for turns in by_turns})
    values = [cost for by_turns in costs.values() for cost in by_turns.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(turns: int) -> float:
        share = math.log(turns / lengths[0]) / (math.log(lengths[-1] / lengths[0]) or 1)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(cost: float) -> float:
        share = (math.log10(cost) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>CPU time of a turn by the number of turns of its run</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text x="{LEFT}" y="22">CPU time of a turn, by the number of turns of its run</text>',
    ]
    for power in range(low, high + 1):
        at, micro = y(10**power), 10**power
        label = f"{micro:g} µs" if micro < 1000 else f"{micro / 1000:g} ms"
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    parts += [
        f'<text x="{x(turns):.1f}" y="{HEIGHT - BOTTOM + 22}" text-anchor="middle">{turns:,}</text>'
        for turns in lengths
    ]
    free = HEIGHT  # names from the bottom up, none over another
    for label, by_turns in sorted(costs.items(), key=lambda item: item[1][max(item[1])]):
        points = " ".join(f"{x(turns):.1f},{y(cost):.1f}" for turns, cost in by_turns.items())
        kind = "ours" if label == "Treadle" else "floor" if "by hand" in label else ""
        last = max(by_turns)
        free = min(y(by_turns[last]) + 4, free - 16)
        parts.append(f'<polyline class="line {kind}" points="{points}"/>')
        parts.append(
            f'<text class="{"name" if kind == "ours" else ""}" x="{x(last) + 8:.1f}" '
            f'y="{free:.1f}">{escape(label)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a copy of shared/bench, with its environments")
    parser.add_argument("--turns", type=int, nargs="+", default=[*LENGTHS])
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for one measurement")
    parser.add_argument("--no-pin", action="store_true")
    parser.add_argument("--svg", type=Path, help="write a plot")
    parser.add_argument("--json", type=Path, help="write the figures; read them if they are there")
    chosen = parser.parse_args()
    if chosen.json and chosen.json.exists():
        read = json.loads(chosen.json.read_text())
        costs: Costs = {
            label: {int(n): cost for n, cost in some.items()} for label, some in read.items()
        }
    else:
        costs = all_measured(
            Plan(
                folder=chosen.folder.resolve(),
                turns=sorted(chosen.turns),
                reps=chosen.reps,
                limit_s=chosen.limit,
                pin=not chosen.no_pin,
            )
        )
        if chosen.json:
            chosen.json.write_text(json.dumps(costs, indent=1))
    if chosen.svg:
        chosen.svg.write_text(plot(costs), encoding="utf-8")


if __name__ == "__main__":
    main()

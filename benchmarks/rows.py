"""The rows of the benchmark: what is measured, in which unit, and its limits. The limits are
promises of the project, not of this machine.

processes.py starts the processes. Entry point: `ROWS`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from processes import LOOP_ALONE, Bench, Failed, command

TREADLE = "treadle"
ON_DISK = "treadle-disk"
"""With its journal in a SQLite file."""
OVER_OPENAI = "treadle-openai"
"""Over the Responses API."""
OVER_CHAT = "treadle-chat"
"""Over Chat Completions."""
OVER_GEMINI = "treadle-gemini"
"""Over Google's, whose every chunk repeats the counts so far: some 300 bytes for a word."""
FLOOR_C = "floor_c_aiohttp"
"""A hand-written loop on aiohttp that encodes its whole history each turn and does not stream its
turns.
"""
FLOOR_E = "floor_e_aiohttp_sse_cached"
"""The fairest: aiohttp, every answer streamed and folded, the history's encoding kept."""
FLOOR_F = "floor_f_llhttp_sse_cached"
"""The same work over `asyncio.Protocol` and llhttp, without an HTTP library."""
FLOORS = (FLOOR_E, FLOOR_F)

Sample = Callable[[Bench, str], list[float]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement, made with each of its peers in turn."""

    name: str
    what: str
    unit: str
    must: float
    aim: float
    of: str = ""
    """The floor whose multiple the limits are; "": they are in `unit`."""
    peers: tuple[str, ...] = (TREADLE,)
    """The project first."""
    sample: Sample
    """One process: the figures of its repetitions. Raises Skipped or Failed."""


def _per_turn(turns: int, reps: int) -> Sample:
    def sample(bench: Bench, peer: str) -> list[float]:
        return [
            rep["cpu_s"] * 1e6 / (turns + 1)
            for rep in bench.reps(peer, "turns", "--n", str(turns), "--reps", str(reps))
        ]

    return sample


def _per_delta(bench: Bench, peer: str) -> list[float]:
    deltas = 20_000
    return [
        rep["cpu_s"] * 1e6 / deltas
        for rep in bench.reps(peer, "stream", "--n", str(deltas), "--reps", "5")
    ]


def _parallel(bench: Bench, peer: str) -> list[float]:
    return [rep["wall_s"] * 1e3 for rep in bench.reps(peer, "par", "--n", "32", "--reps", "5")]


def _concurrent(bench: Bench, peer: str) -> list[float]:
    reps = bench.reps(peer, "conc", "--runs", "1000", "--n", "10", "--delay", "100")
    for rep in reps:
        if rep["ok"] != rep["runs"]:
            raise Failed(
                f"{rep['runs'] - rep['ok']} of {rep['runs']} runs failed: {rep['errors'] or 'they did not end in time'}"
            )
    return [rep["cpu_s"] for rep in reps]


def _idle(bench: Bench, peer: str) -> list[float]:
    return [rep["kb_per_session"] for rep in bench.reps(peer, "idle", "--runs", "1000")]


# ---------------------------------------------------------------- fresh processes

_AGENT = """from treadle import Agent, tool
@tool
async def look(key: str) -> str:
    'Looks a key up.'
    return key
Agent(name='a', description='d', instructions='i', model='anthropic:claude-opus-5-5', tools=[look])
"""
_PEAK = "print([x.split()[1] for x in open('/proc/self/status') if x.startswith('VmHWM')][0])"
_BARE = "python"
"""The interpreter alone, beside the rows of whole processes."""


def _code(peer: str) -> str:
    return "pass\n" if peer == _BARE else _AGENT


def _import_ms(bench: Bench, peer: str) -> list[float]:
    return [bench.start_cpu_s([sys.executable, "-c", _code(peer)])[0] * 1e3]


def _import_mb(bench: Bench, peer: str) -> list[float]:
    return [int(bench.start_cpu_s([sys.executable, "-c", _code(peer) + _PEAK])[1]) / 1024]


def _command_ms(option: str) -> Sample:
    def sample(bench: Bench, peer: str) -> list[float]:
        return [bench.start_cpu_s([command(), option])[0] * 1e3]

    return sample


def _first_request_ms(bench: Bench, peer: str) -> list[float]:
    return [
        bench.first_request_cpu_s([command(), "run", "hi", "--model", "anthropic:claude-opus-5-5"])
        * 1e3
    ]


def _row(
    name: str, what: str, unit: str, limits: tuple[float, float], sample: Sample, **more: Any
) -> Row:
    return Row(
        name=name, what=what, unit=unit, must=limits[0], aim=limits[1], sample=sample, **more
    )


ROWS = (
    _row(
        "turn-50",
        "CPU of a turn, run of 50",
        "µs",
        (1.1, 0.9),
        _per_turn(50, 7),
        of=FLOOR_E,
        peers=(TREADLE, *FLOORS, FLOOR_C, LOOP_ALONE),
    ),
    _row(
        "turn-1000",
        "CPU of a turn, run of 1,000",
        "µs",
        (1.1, 0.9),
        _per_turn(1000, 2),
        of=FLOOR_E,
        peers=(TREADLE, *FLOORS, FLOOR_C, LOOP_ALONE),
    ),
    _row(
        "turn-disk",
        "the same with the journal on disk, run of 50",
        "µs",
        (1.6, 1.3),
        _per_turn(50, 7),
        of=FLOOR_E,
        peers=(ON_DISK, *FLOORS, TREADLE),
    ),
    _row(
        "delta",
        "CPU of a streamed delta",
        "µs",
        (1.4, 1.0),
        _per_delta,
        of=FLOOR_E,
        peers=(TREADLE, *FLOORS, FLOOR_C),
    ),
    _row(
        "turn-openai",
        "CPU of a turn over the Responses API, run of 50",
        "µs",
        (1.25, 1.1),
        _per_turn(50, 7),
        of=TREADLE,
        peers=(OVER_OPENAI, TREADLE, *FLOORS),
    ),
    _row(
        "delta-openai",
        "CPU of a streamed delta over it",
        "µs",
        (4.5, 3.0),
        _per_delta,
        peers=(OVER_OPENAI, TREADLE, *FLOORS),
    ),
    _row(
        "turn-chat",
        "CPU of a turn over Chat Completions, run of 50",
        "µs",
        (1.25, 1.1),
        _per_turn(50, 7),
        of=TREADLE,
        peers=(OVER_CHAT, TREADLE, *FLOORS),
    ),
    _row(
        "delta-chat",
        "CPU of a streamed delta over it",
        "µs",
        (4.5, 3.0),
        _per_delta,
        peers=(OVER_CHAT, TREADLE, *FLOORS),
    ),
    _row(
        "turn-gemini",
        "CPU of a turn over Google's API, run of 50",
        "µs",
        (1.25, 1.1),
        _per_turn(50, 7),
        of=TREADLE,
        peers=(OVER_GEMINI, TREADLE, *FLOORS),
    ),
    _row(
        "delta-gemini",
        "CPU of a streamed delta over it",
        "µs",
        (4.5, 3.0),
        _per_delta,
        peers=(OVER_GEMINI, TREADLE, *FLOORS),
    ),
    _row(
        "turn-1000-openai",
        "CPU of a turn over the Responses API, run of 1,000",
        "µs",
        (1.25, 1.1),
        _per_turn(1000, 1),
        of=TREADLE,
        peers=(OVER_OPENAI, TREADLE, *FLOORS),
    ),
    _row(
        "turn-1000-chat",
        "CPU of a turn over Chat Completions, run of 1,000",
        "µs",
        (1.25, 1.1),
        _per_turn(1000, 1),
        of=TREADLE,
        peers=(OVER_CHAT, TREADLE, *FLOORS),
    ),
    _row(
        "turn-1000-gemini",
        "CPU of a turn over Google's API, run of 1,000",
        "µs",
        (1.25, 1.1),
        _per_turn(1000, 1),
        of=TREADLE,
        peers=(OVER_GEMINI, TREADLE, *FLOORS),
    ),
    _row(
        "parallel-32",
        "32 tools of 50 ms in one turn, wall",
        "ms",
        (60, 53),
        _parallel,
        peers=(TREADLE, *FLOORS),
    ),
    _row(
        "concurrent-1000",
        "1,000 concurrent runs of 10 turns, CPU",
        "s",
        (1.25, 0.9),
        _concurrent,
        of=FLOOR_E,
        peers=(TREADLE, *FLOORS, FLOOR_C),
    ),
    _row("idle", "idle session of 20 messages", "KB", (12, 5), _idle, peers=(TREADLE, *FLOORS)),
    _row(
        "import",
        "import and an agent with a tool, CPU",
        "ms",
        (80, 60),
        _import_ms,
        peers=(TREADLE, _BARE),
    ),
    _row(
        "import-memory", "the same, peak memory", "MB", (40, 40), _import_mb, peers=(TREADLE, _BARE)
    ),
    _row("version", "`treadle --version`, CPU", "ms", (30, 20), _command_ms("--version")),
    _row("help", "`treadle --help`, CPU", "ms", (60, 45), _command_ms("--help")),
    _row(
        "first-request",
        "`treadle run` to its first request, CPU",
        "ms",
        (215, 170),
        _first_request_ms,
    ),
)

"""A turn, a delta and an append cost no more Python calls than when they were last counted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOLERANCE = 1.02
AGAIN = 6
COUNTED = {
    "append-sqlite": 35,
    "run-memory": 529,
    "turn-memory": 469,
    "run-memory-wire": 764,
    "turn-memory-wire": 404,
    "delta-memory-wire": 7,
    "run-sqlite": 687,
    "turn-sqlite": 567,
    "run-sqlite-wire": 922,
    "turn-sqlite-wire": 478,
    "delta-sqlite-wire": 7,
}
"""Calls by row of `python -m benchmarks.calls`, on Python 3.11. Newer versions need fewer."""


def test_no_turn_delta_or_append_costs_more_calls_than_counted() -> None:
    calls = _counted()
    assert calls.keys() == COUNTED.keys()
    for _ in range(AGAIN):  # on a busy machine, a turn waits more often: the lowest count holds
        if not _too_many(calls):
            break
        again = _counted()
        calls = {name: min(count, again[name]) for name, count in calls.items()}
    more = _too_many(calls)
    assert not more, f"find out which functions: python -m benchmarks.calls --of ROW; {more}"


def _counted() -> dict[str, float]:
    counting = [sys.executable, "-m", "benchmarks.calls", "--json"]
    counted = subprocess.run(counting, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(counted.stdout)


def _too_many(calls: Mapping[str, float]) -> dict[str, str]:
    return {
        name: f"{calls[name]:.0f} instead of {at_most}"
        for name, at_most in COUNTED.items()
        if calls[name] > at_most * TOLERANCE
    }

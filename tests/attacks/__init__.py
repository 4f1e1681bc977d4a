"""Attacks that are generated, not listed: each module makes hostile input of one kind from a seed,
and its tests fire it at the product.

`TREADLE_TEST_ATTACKS` is the number of seeds for each test, `TREADLE_TEST_ATTACKS_FROM` the first
one. Without them there are six; CI has sixteen, which take two minutes of a processor. `make
attack` fires other seeds for any time (__main__.py), in CI for an hour each night.
"""

from __future__ import annotations

import os
from random import Random

FIRST = int(os.environ.get("TREADLE_TEST_ATTACKS_FROM", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("TREADLE_TEST_ATTACKS", "6")))


def chance(seed: int, name: str) -> Random:
    """Deterministic choices for one attack of one test."""
    return Random(f"{name}:{seed}")

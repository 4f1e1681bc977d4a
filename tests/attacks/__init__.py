"""Attacks that are generated, not listed: each module makes hostile input of one kind from a seed,
and its tests fire it at the product.

`TREADLE_TEST_ATTACKS` is the number of seeds for each test, `TREADLE_TEST_ATTACKS_FROM` the first one; without
them there are few, so that the whole package takes two minutes at most. `make attack` fires other
seeds for as long as one likes (__main__.py).
"""

from __future__ import annotations

import os
from random import Random

FIRST = int(os.environ.get("TREADLE_TEST_ATTACKS_FROM", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("TREADLE_TEST_ATTACKS", "6")))


def chance(seed: int, name: str) -> Random:
    """Deterministic choices for one attack of one test."""
    return Random(f"{name}:{seed}")

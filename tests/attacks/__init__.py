"""Attacks that are generated, not listed: each module makes hostile input of one kind from a seed,
and its tests fire it at the product.

`TREADLE_ATTACKS` is the number of seeds for each test; without it there are few, so that the whole
package takes two minutes at most.
"""

from __future__ import annotations

import os
from random import Random

SEEDS = range(int(os.environ.get("TREADLE_ATTACKS", "6")))


def chance(seed: int, name: str) -> Random:
    """Deterministic choices for one attack of one test."""
    return Random(f"{name}:{seed}")

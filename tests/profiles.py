"""Profiles of Hypothesis. Entry point: `BY_CHANCE`.

Runs draw examples at random, except in CI (the variable `CI`), where Hypothesis's own profile draws
the same ones each time. `make fuzz` draws more of them.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

BY_CHANCE = (HealthCheck.too_slow, HealthCheck.data_too_large)
"""Health checks that depend on the load of the machine or on the draw. A test that suppresses
others lists these too, because its own list replaces the profile's.
"""

settings.register_profile(
    "treadle",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=BY_CHANCE,
)
settings.register_profile(
    "fuzz", deadline=None, max_examples=1_000, suppress_health_check=BY_CHANCE, print_blob=True
)
settings.load_profile("treadle")

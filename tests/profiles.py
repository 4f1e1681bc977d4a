"""Profiles of Hypothesis. Entry: `BY_CHANCE`.

A test run draws the same examples every time, so that a change is refused only for what it changed.
`make fuzz` explores at random.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

BY_CHANCE = (HealthCheck.too_slow, HealthCheck.data_too_large)
"""Health checks that depend on the load of the machine or on the draw. A test that suppresses
others lists these too, because its own list replaces the profile's.
"""

settings.register_profile(
    "treadle", deadline=None, derandomize=True, suppress_health_check=BY_CHANCE
)
settings.register_profile(
    "fuzz", deadline=None, max_examples=1_000, suppress_health_check=BY_CHANCE, print_blob=True
)
settings.load_profile("treadle")

"""What each run of a random test does, turn by turn. Entry: `turns_of`."""

from __future__ import annotations

FIRST_TURN, LATER_TURNS = (
    ("charge", "look"),
    (("charge", "stamp", "look"), ("alone", "charge"), ("checked", "look"), ("charge", "charge")),
)
WITHOUT_PROBE = tuple(turn for turn in LATER_TURNS if "checked" not in turn)
"""Where runs are taken from the living, a probe is no answer: the one it was taken from may still
do it.
"""


def turns_of(turns: int, *, probes: bool) -> list[tuple[str, ...]]:
    """The tools of each."""
    later = LATER_TURNS if probes else WITHOUT_PROBE
    return [FIRST_TURN, *(later[turn % len(later)] for turn in range(turns - 1))]

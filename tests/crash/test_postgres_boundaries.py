"""The same over PostgreSQL: whatever the boundary at which a process is killed, and whoever wakes
up after its run moved on.

Every boundary of every story is `make chaos`'s.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.nursery import Nursery
from tests.crash.postgres import ChaosServer
from tests.crash.sweep import MOST, sweep, sweep_twice
from tests.crash.zombies import zombie


def test_one_once_call_after_the_other_is_unknown_where_it_was_cut_and_happens_once(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer
) -> None:
    swept = sweep(nursery, tmp_path, "one", at=range(1, MOST, 2), server=chaos_server)
    assert not swept.violations
    assert swept.points > 8
    assert 0 < swept.had_happened < swept.unknown, (
        "only `unknown` is honest: some had happened, some had not"
    )
    assert max(swept.unknown_at_once) == 1


@pytest.mark.parametrize("story", ["parallel", "mixed", "approval", "long", "delegation"])
def test_a_killed_run_goes_on_to_its_end(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer, story: str
) -> None:
    swept = sweep(nursery, tmp_path, story, at=range(2, MOST, 7), server=chaos_server)
    assert not swept.violations
    assert swept.points


def test_a_run_is_killed_again_while_it_goes_on(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer
) -> None:
    swept = sweep_twice(nursery, tmp_path, "one", at=[15], server=chaos_server)
    assert not swept.violations
    assert swept.points > 3


@pytest.mark.parametrize("stop_at", ["model", "look", "effect"])
def test_a_driver_that_wakes_up_after_its_run_moved_on_writes_nothing(
    nursery: Nursery, tmp_path: Path, chaos_server: ChaosServer, stop_at: str
) -> None:
    verdict, said = zombie(nursery, tmp_path / "x", stop_at, server=chaos_server)
    assert not verdict.violations
    assert verdict.finished == verdict.runs == 1
    assert "is no longer held by this driver" in said
    assert verdict.unknown == (stop_at == "effect"), "whoever took it over cannot know"
    assert verdict.had_happened == verdict.unknown, "the sleeper did it late, and once"

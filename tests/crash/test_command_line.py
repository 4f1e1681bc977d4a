"""`TREADLE_CRASH_AT=N treadle run …`, then `treadle runs resume`: every boundary of one story in
processes of their own, and some of the others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.command_line import sweep_commands
from tests.crash.nursery import Nursery
from tests.crash.sweep import MOST


def test_a_command_that_was_killed_goes_on_with_runs_resume(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep_commands(None, tmp_path, "one", at=(1, 4, 7, 8, 11), afterwards=nursery)
    assert not swept.violations
    assert swept.points == 5
    assert (swept.unknown, swept.had_happened) == (2, 1)


@pytest.mark.parametrize("story", ["parallel", "wire", "person", "cancel", "timeout", "fork"])
def test_it_does_so_whatever_it_was_at(nursery: Nursery, tmp_path: Path, story: str) -> None:
    swept = sweep_commands(nursery, tmp_path, story, at=range(1, MOST, 5))
    assert not swept.violations
    assert swept.points > 1


def test_an_approved_call_is_killed_and_goes_on(nursery: Nursery, tmp_path: Path) -> None:
    swept = sweep_commands(nursery, tmp_path, "approval", at=[0], again=range(1, MOST, 3))
    assert not swept.violations
    assert 0 < swept.had_happened < swept.unknown


def test_a_resume_is_killed_too(nursery: Nursery, tmp_path: Path) -> None:
    swept = sweep_commands(nursery, tmp_path, "parallel", at=[9], again=range(1, MOST, 2))
    assert not swept.violations
    assert swept.points > 4

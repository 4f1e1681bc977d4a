"""Whatever the boundary at which a process is killed: nothing acknowledged is lost, nothing happens
twice, and the run comes to its end.

Every boundary of the longer stories is `make chaos`'s.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.checker import journal_of
from tests.crash.nursery import Nursery
from tests.crash.sweep import MOST, STORY, Stage, sweep, sweep_twice

EVERY_FOURTH = range(1, MOST, 4)


def test_one_once_call_after_the_other_is_unknown_where_it_was_cut_and_happens_once(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path, "one", kills=True)
    assert not swept.violations
    assert swept.points > 15
    assert 0 < swept.had_happened < swept.unknown, (
        "only `unknown` is honest: some had happened, some had not"
    )
    assert max(swept.unknown_at_once) == 1


@pytest.mark.parametrize(("story", "every_nth"), [("one", 1), ("sequential", 2), ("delegation", 6)])
def test_a_copy_of_a_stopped_process_is_what_a_kill_leaves(
    nursery: Nursery, tmp_path: Path, story: str, every_nth: int
) -> None:
    whole = Stage(nursery, tmp_path / STORY, story)
    numbers = range(1, MOST, every_nth)
    for number, (copy, ended) in zip(
        numbers, whole.stopped(whole.task, numbers, named="copy-"), strict=False
    ):
        stage = Stage(nursery, tmp_path / f"{number}", story)
        assert stage.start(crash_at=number).killed == ended.killed
        assert left_by(copy) == left_by(stage), number


def left_by(stage: Stage) -> tuple[list[list[str]], list[str]]:
    """The types of entries in each run, and of the lines that tools and models wrote."""
    broken, runs = journal_of(stage.journal)
    assert not broken
    seen = stage.witness.read_text().splitlines() if stage.witness.exists() else []
    words = [line.partition(" ")[0] for line in seen]
    return [[entry.type for entry in run.entries] for run in runs], [
        word for word in words if word not in ("published", "ending")
    ]


def test_a_run_in_an_encrypted_journal_goes_on_wherever_it_is_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path, "one", at=range(1, MOST, 2), key=bytes(range(32)))
    assert not swept.violations
    assert 0 < swept.had_happened < swept.unknown


def test_parallel_once_calls_may_all_be_unknown(nursery: Nursery, tmp_path: Path) -> None:
    swept = sweep(nursery, tmp_path, "parallel", at=range(1, MOST, 2))
    assert not swept.violations
    assert 0 < swept.had_happened < swept.unknown
    assert max(swept.unknown_at_once) == 3


def test_of_sequential_once_calls_exactly_the_one_that_was_cut_is_unknown(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path, "sequential")
    assert not swept.violations
    assert 0 < swept.had_happened < swept.unknown
    assert max(swept.unknown_at_once) == 1, "those behind it had not started, and run normally"


@pytest.mark.parametrize(
    "story",
    [
        "mixed",
        "approval",
        "person",
        "timeout",
        "timeout, person",
        "cancel",
        "steering",
        "fork",
        "long",
    ],
)
def test_a_killed_run_goes_on_to_its_end(nursery: Nursery, tmp_path: Path, story: str) -> None:
    swept = sweep(nursery, tmp_path, story, at=EVERY_FOURTH)
    assert not swept.violations
    assert swept.points


def test_an_output_is_corrected_once_wherever_the_run_is_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path, "corrected", at=range(1, MOST, 2))
    assert not swept.violations
    assert swept.points > 5


def test_a_run_is_handed_over_once_wherever_it_is_killed(nursery: Nursery, tmp_path: Path) -> None:
    swept = sweep(nursery, tmp_path, "handoff")
    assert not swept.violations
    assert swept.points > 15


def test_hooks_send_an_output_back_once_wherever_the_run_is_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path, "guarded", at=range(1, MOST, 2))
    assert not swept.violations
    assert swept.points > 8


def test_a_run_that_a_hook_ended_stays_ended_wherever_it_is_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path, "blocked", at=range(1, MOST, 2))
    assert not swept.violations
    assert swept.points > 5
    for stage in tmp_path.iterdir():
        seen = [
            line for line in (stage / "witness").read_text().splitlines() if line[:7] == "result "
        ]
        assert '"outcome":"refused"' in seen[-1].replace(" ", "")[6:], stage.name


def test_a_run_whose_history_is_trimmed_goes_on_wherever_it_is_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path, "trimmed", at=range(1, MOST, 2))
    assert not swept.violations
    assert swept.points > 8


def test_instructions_of_a_function_stay_the_same_wherever_the_run_is_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path, "dynamic", at=range(1, MOST, 2))
    assert not swept.violations
    assert swept.points > 5
    for stage in tmp_path.iterdir():
        said = (stage / "instructions").read_text().splitlines()
        assert len({*said}) == 1, stage.name


@pytest.mark.parametrize(("story", "first"), [("one", 7), ("approval", 0), ("person", 6)])
def test_a_run_is_killed_again_while_it_goes_on(
    nursery: Nursery, tmp_path: Path, story: str, first: int
) -> None:
    swept = sweep_twice(nursery, tmp_path, story, at=[first])
    assert not swept.violations
    assert swept.points > 3


def test_a_run_goes_on_with_the_runs_that_it_had_started_wherever_it_is_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path, "delegation", at=range(1, MOST, 2))
    assert not swept.violations
    assert swept.points > 15
    assert swept.had_happened < swept.unknown


def test_answers_reach_the_runs_below_wherever_it_is_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep_twice(nursery, tmp_path, "asking family", at=[0])
    assert not swept.violations
    assert swept.points > 15


def test_a_tree_of_runs_is_killed_at_many_places_and_again_while_it_goes_on(
    nursery: Nursery, tmp_path: Path
) -> None:
    swept = sweep(nursery, tmp_path / "once", "family", at=range(1, MOST, 4))
    again = sweep_twice(nursery, tmp_path / "twice", "delegation", at=[15])
    assert not swept.violations + again.violations
    assert swept.points > 15
    assert again.points > 20

"""Disks that are full, broken, locked or torn under a whole run: it stops before the tool, says
why, corrupts nothing, and goes on afterwards.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from tests.crash.accounts import Bounds
from tests.crash.checker import check
from tests.crash.faults import Locked, cuts
from tests.crash.nursery import Ended, Nursery
from tests.crash.sweep import Stage, Swept, robbed
from tests.crash.witness import read_witness
from tests.crash.zombies import Sleeper

SAID = {
    "full": "there is no space left",
    "broken": "the disk failed",
    "unsynced": "the disk failed",
}


@pytest.fixture(scope="module")
def used(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Its journal holds a run already. To be copied."""
    made = robbed(nursery, tmp_path_factory.mktemp("used") / "stage", "one")
    assert nursery.drive(msgspec.structs.replace(made.task, name="before")).said == "completed\n"
    return made


@pytest.fixture
def stage(used: Stage, tmp_path: Path) -> Stage:
    """The same, for one test."""
    return used.copied(tmp_path / "stage")


def whole(stage: Stage, last: Ended, *, crashes: int) -> None:
    """Everything comes to its end now."""
    swept = Swept()
    verdict = stage.judge(swept, last, crashes=stage.story.requests + crashes)
    assert not swept.violations
    assert verdict.finished == verdict.runs


@pytest.mark.parametrize("lasting", [True, False], ids=["for good", "once"])
@pytest.mark.parametrize("fault", ["full", "broken", "unsynced"])
def test_a_disk_that_fails_at_any_write_stops_the_run_before_its_next_call(
    nursery: Nursery, used: Stage, tmp_path: Path, fault: str, lasting: bool
) -> None:
    outcomes: set[str] = set()
    for number in range(1, 60, 1 if fault == "unsynced" else 7):
        stage = used.copied(tmp_path / f"{number}")
        ended = nursery.drive(
            msgspec.structs.replace(
                stage.task, fault=f"{fault}:{number}{'' if lasting else f'-{number}'}"
            )
        )
        assert ended.said == "completed\n" or SAID[fault] in ended.said
        assert not stage.judge_open().violations
        outcomes.add(ended.said.split()[0])
        whole(stage, ended, crashes=2)
        if ended.said == "completed\n":
            break
    assert {"refused", "error"} <= outcomes


def test_where_the_system_refuses_to_write_the_call_does_not_run(
    nursery: Nursery, used: Stage, tmp_path: Path
) -> None:
    outcomes: set[str] = set()
    for size in range(4_000, 140_000, 12_000):
        stage = used.copied(tmp_path / f"{size}")
        ended = nursery.drive(msgspec.structs.replace(stage.task, fault=f"limit:{size}"))
        assert (
            ended.said == "completed\n"
            or SAID["broken"] in ended.said
            or SAID["full"] in ended.said
        )
        outcomes.add(ended.said.split()[0])
        whole(stage, ended, crashes=2)
    assert {"refused", "error"} <= outcomes


def test_a_result_that_cannot_be_stored_is_unknown_afterwards(
    nursery: Nursery, tmp_path: Path
) -> None:
    """Stopped in the middle of its call, while the disk is well; then it is full for good."""
    stage = robbed(nursery, tmp_path / "x", "one")
    with (
        Sleeper(
            nursery, msgspec.structs.replace(stage.task, stop_at="effect", busy_timeout_s=0.1)
        ) as sleeper,
        Locked(stage.journal),
    ):
        said = sleeper.wake()
    assert said.startswith("error another process keeps the journal")
    assert set(read_witness(stage.witness).did) == {"mark-x-0-0"}, "the next call did not begin"
    whole(stage, Ended(0, said), crashes=1)
    assert check(stage.journal, stage.witness).had_happened == 1


def test_a_journal_that_somebody_keeps_locked_stops_the_run_before_its_call(
    nursery: Nursery, tmp_path: Path
) -> None:
    stage = robbed(nursery, tmp_path / "x", "one")
    with (
        Sleeper(
            nursery, msgspec.structs.replace(stage.task, stop_at="model", busy_timeout_s=0.1)
        ) as sleeper,
        Locked(stage.journal),
    ):
        said = sleeper.wake()
    assert said.startswith("error another process keeps the journal")
    assert not read_witness(stage.witness).did
    whole(stage, Ended(0, said), crashes=1)


@pytest.mark.skipif(sys.platform != "linux" and os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("new", [True, False], ids=["a new journal", "one that is there"])
def test_a_directory_that_cannot_be_written_is_told_before_the_model_is_asked(
    nursery: Nursery, stage: Stage, new: bool
) -> None:
    if new:
        stage.journal.unlink()
    asked = read_witness(stage.witness).asked
    stage.folder.chmod(0o500)
    try:
        said = nursery.drive(msgspec.structs.replace(stage.task, fault="powerless")).said
    finally:
        stage.folder.chmod(0o700)
    assert said.startswith(
        f"refused the directory {str(stage.folder)!r} of the journal cannot be written: make it writable"
    )
    assert read_witness(stage.witness).asked == asked


# ---------------------------------------------------------------- torn files


@pytest.mark.parametrize("crash_at", [6, 10], ids=["the start of a call", "its result"])
def test_a_log_that_is_cut_in_its_last_transaction_is_as_if_that_had_not_been(
    nursery: Nursery, tmp_path: Path, crash_at: int
) -> None:
    """Killed right after the commit, before anybody was told of it: what a loss of power may take
    away of what was not synced.
    """
    stage = robbed(nursery, tmp_path / "x", "one")
    assert stage.start(crash_at=crash_at).killed
    files = {
        name: (stage.folder / name).read_bytes()
        for name in ("journal.db", "journal.db-wal", "witness")
    }
    for number, place in enumerate(cuts(files["journal.db-wal"], 1_500)):
        cut = robbed(nursery, tmp_path / f"{place}", "one")
        cut.bounds = Bounds(cut_off=True, torn=True)
        for name, data in files.items():
            (cut.folder / name).write_bytes(data[:place] if name.endswith("-wal") else data)
        assert not cut.judge_open().violations
        if number % 5 == 0:
            whole(cut, Ended(0, ""), crashes=1)


@pytest.mark.parametrize("tear", ["half of it", "zeros"])
def test_a_file_whose_last_page_is_torn_is_told_and_nothing_runs(stage: Stage, tear: str) -> None:
    size = stage.journal.stat().st_size
    assert not stage.journal.with_name("journal.db-wal").exists()
    done = read_witness(stage.witness).did
    with stage.journal.open("r+b") as file:
        file.seek(size - 4096)
        file.write(b"\0" * 4096)
        file.truncate(size - 2048 if tear == "half of it" else size)
    said = stage.start().said
    assert said.startswith("refused")
    assert "is damaged" in said
    assert "sqlite3 FILE .recover" in said
    assert read_witness(stage.witness).did == done, "nothing ran"

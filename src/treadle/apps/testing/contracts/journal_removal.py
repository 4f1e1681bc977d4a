"""Contract of every journal: removal of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.apps.testing.contracts.kinds import JournalKind
from treadle.apps.testing.contracts.runs import (
    AT,
    asks,
    late,
    refuses,
    resumed,
    says,
    started,
)
from treadle.journal.entries import (
    ApprovalAsked,
    Fork,
    ToolLate,
)
from treadle.journal.journal import Journal
from treadle.journal.queue import QueuePlace

# ---------------------------------------------------------------- export and import


# ---------------------------------------------------------------- removing


async def test_runs_that_are_named_go_with_those_that_they_started(journal: Journal) -> None:
    await says(journal, "run_1", "hello", "hello", minute=1)
    await says(journal, "its child", "hello", "hello", minute=1, parent="run_1")
    await says(journal, "run_2", "hello", "hello", minute=1)
    freed = await journal.remove(["run_1", "never was"])
    assert (set(freed.runs), freed.kept) == ({"run_1", "its child"}, ())
    assert freed.size_bytes > 100
    assert [run.run_id for run in await journal.runs()] == ["run_2"]
    assert (await journal.remove(["run_1"])).runs == ()


async def test_what_is_not_finished_is_not_removed_nor_anything_with_it(journal: Journal) -> None:
    await says(journal, "run_1", "hello", "hello", minute=1)
    await journal.begin(started("run_2", minute=1))
    with refuses("busy", "run_2"):
        await journal.remove(["run_1", "run_2"])
    assert len(await journal.runs()) == 2


async def test_what_a_fork_needs_is_kept_with_its_tree_unless_the_fork_goes_too(
    journal: Journal,
) -> None:
    await says(journal, "root", "hello", "hello", minute=1)
    await says(journal, "its child", "hello", "hello", minute=1, parent="root")
    await says(journal, "branch", "and?", "so", minute=1, fork=Fork(run_id="root", turn=1, seq=2))
    freed = await journal.remove(["root"])
    assert (freed.runs, set(freed.kept)) == ((), {"root", "its child"})
    freed = await journal.remove(["root", "branch"])
    assert (set(freed.runs), freed.kept) == ({"root", "its child", "branch"}, ())


async def test_a_run_that_is_taken_in_goes_on_under_higher_fences(
    kind: JournalKind, journal: Journal, tmp_path: Path
) -> None:
    await (await journal.begin(started())).release()
    for _ in range(2):
        writer = await journal.take_over("run_1")
        await writer.append([resumed(fence=writer.fence)])
        await writer.release()
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        await other.add_run(await journal.read_bytes("run_1"))
        assert (await other.take_over("run_1")).fence == 4
    finally:
        await other.aclose()


async def test_a_run_that_is_taken_in_with_a_late_result_waits_for_nobody(
    kind: JournalKind, journal: Journal, tmp_path: Path
) -> None:
    writer = await journal.begin(started())
    question = ApprovalAsked(at=AT, call_id="c1", name="t", arguments_json="{}", reason="asks")
    await writer.append([*asks(1, "c1"), question])
    await writer.append([ToolLate(at=AT, call_id="c1", text="sent", status="ok")])
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        info = await other.add_run(await journal.read_bytes("run_1"))
        assert info.status == "stopped"
        assert (await other.load("run_1")).asked == {}
    finally:
        await other.aclose()


@pytest.mark.parametrize("queued", [True, False])
async def test_a_late_result_that_wakes_a_run_is_all_that_it_waited_for(
    journal: Journal, *, queued: bool
) -> None:
    if queued:
        await journal.queue.add([started()], QueuePlace())
        writer = await journal.take_over("run_1")
    else:
        writer = await journal.begin(started())
    question = ApprovalAsked(at=AT, call_id="c1", name="t", arguments_json="{}", reason="asks")
    await writer.append([*asks(1, "c1"), question])
    await writer.release(waiting=True)
    await writer.append([late("c2", "another")])
    assert (await journal.info("run_1")).status == "waiting"
    await writer.append([ToolLate(at=AT, call_id="c1", text="sent", status="ok")], wakes=True)
    assert (await journal.info("run_1")).status == ("queued" if queued else "stopped")
    tickets = await journal.queue.claim(["default"], engine="local", most=1)
    assert [ticket.run_id for ticket in tickets] == (["run_1"] if queued else [])


@pytest.mark.parametrize("asked", [True, False])
async def test_a_run_that_is_taken_in_with_a_question_waits_for_its_person(
    kind: JournalKind, journal: Journal, tmp_path: Path, *, asked: bool
) -> None:
    writer = await journal.begin(started())
    await writer.append(asks(1, "c1"))
    if asked:
        await writer.append(
            [ApprovalAsked(at=AT, call_id="c1", name="t", arguments_json="{}", reason="asks")]
        )
    (tmp_path / "other").mkdir()
    other = await kind.open(tmp_path / "other")
    try:
        info = await other.add_run(await journal.read_bytes("run_1"))
        assert info.status == ("waiting" if asked else "stopped")
        assert await other.left_behind(limit=10) == ([] if asked else ["run_1"])
    finally:
        await other.aclose()

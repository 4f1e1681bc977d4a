"""Contract of every journal: appends, cancellation, and one driver at a time."""

from __future__ import annotations

import asyncio

import anyio
import anyio.lowlevel
import pytest

from treadle.apps.testing.contracts.runs import (
    AT,
    asks,
    entries_of,
    fact,
    finished,
    late,
    refuses,
    resumed,
    started,
)
from treadle.journal.entries import (
    Fork,
    RunStarted,
)
from treadle.journal.journal import Journal
from treadle.messages.message import decode_message

FINISHED = finished()


# ---------------------------------------------------------------- what is appended


async def test_a_run_begins_with_what_started_it(journal: Journal) -> None:
    writer = await journal.begin(started())
    assert (writer.run_id, writer.fence) == ("run_1", 1)
    (record,) = await journal.read("run_1")
    assert (record.seq, record.entry) == (1, started())


async def test_entries_stand_in_order_without_gaps(journal: Journal) -> None:
    writer = await journal.begin(started())
    assert await writer.append([fact("a"), fact("b")]) == 2
    assert await writer.append([fact("c")]) == 4
    assert await writer.append([FINISHED]) == 5
    records = await journal.read("run_1")
    assert [record.seq for record in records] == [1, 2, 3, 4, 5]
    assert [record.entry for record in records] == [
        started(),
        fact("a"),
        fact("b"),
        fact("c"),
        FINISHED,
    ]


async def test_what_a_newer_version_wrote_into_a_message_is_still_there(journal: Journal) -> None:
    stored = b'{"id":"m", "role":"user","parts":[{"type":"hologram","x":1e400}],"created_at":"2026-11-20T10:00:00Z","mood":1.50}'
    begun = RunStarted(
        at=AT,
        run_id="run_1",
        agent="a",
        agent_hash="h",
        model="m",
        mode="full",
        cwd="/",
        input=decode_message(stored),
    )
    writer = await journal.begin(begun)
    await writer.append([FINISHED])
    await writer.release()
    (read, _) = await entries_of(journal)
    assert isinstance(read, RunStarted)
    assert read.input.to_json() == stored


async def test_what_was_read_is_the_readers_own(journal: Journal) -> None:
    writer = await journal.begin(started())
    records = await journal.read("run_1")
    await writer.append([fact("a")])
    assert len(records) == 1
    records.clear()
    assert len(await journal.read("run_1")) == 2


async def test_many_runs_are_appended_to_at_once(journal: Journal) -> None:
    async def drive(run_id: str) -> None:
        writer = await journal.begin(started(run_id))
        for n in range(5):
            await writer.append([fact(f"{run_id} {n} a"), fact(f"{run_id} {n} b")])
        await writer.append([FINISHED])
        await writer.release()

    names = [f"run_{n}" for n in range(20)]
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(drive, name)
    for name in names:
        records = await journal.read(name)
        assert [record.seq for record in records] == list(range(1, 13))
        assert [record.entry for record in records[1:-1]] == [
            fact(f"{name} {n} {half}") for n in range(5) for half in "ab"
        ]


# ---------------------------------------------------------------- cancelling


async def test_an_append_in_a_cancelled_scope_is_all_or_nothing(journal: Journal) -> None:
    writer = await journal.begin(started())
    returned = False
    with anyio.CancelScope() as scope:
        scope.cancel()
        await writer.append([fact("a"), fact("b")])
        returned = True
    left = await entries_of(journal, after=1)
    assert left == [fact("a"), fact("b")] or (left == [] and not returned)
    assert await writer.append([fact("c")]) == 2 + len(left)


@pytest.mark.parametrize("how", ["scope", "task", "task, many times"])
async def test_an_append_that_began_is_finished_and_then_the_cancellation_comes(
    journal: Journal, how: str
) -> None:
    writer = await journal.begin(started())
    tasks: list[asyncio.Task[object]] = []
    came: list[str] = []

    async def append() -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        came.append(f"appended as {await writer.append([fact('a')])}")
        await writer.append([fact("b")])
        try:
            await anyio.sleep_forever()
        finally:
            came.append("cancelled")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(append)
            await anyio.lowlevel.checkpoint()  # it has begun by now
            if how == "scope":
                group.cancel_scope.cancel()
            for _ in range(0 if how == "scope" else 1 if how == "task" else 5):
                tasks[0].cancel()
                if how != "task":
                    await anyio.lowlevel.checkpoint()
    assert came[0] == "appended as 2"
    words = await entries_of(journal, after=1)
    assert words in ([fact("a")], [fact("a"), fact("b")])
    assert await writer.append([fact("c")]) == len(words) + 2


# ---------------------------------------------------------------- one driver at a time


async def test_a_run_that_exists_cannot_begin_again(journal: Journal) -> None:
    writer = await journal.begin(started())
    with refuses("busy"):
        await journal.begin(started())
    await writer.append([FINISHED])
    await writer.release()
    with refuses("busy"):
        await journal.begin(started())
    assert await entries_of(journal) == [started(), FINISHED]


async def test_a_run_that_is_driven_cannot_be_taken_over(journal: Journal) -> None:
    writer = await journal.begin(started())
    with refuses("busy"):
        await journal.take_over("run_1")
    assert await writer.append([fact("a")]) == 2


async def test_who_takes_a_run_over_goes_on_where_it_was_left(journal: Journal) -> None:
    first = await journal.begin(started())
    await first.append([fact("a")])
    await first.release()
    second = await journal.take_over("run_1")
    assert (second.run_id, second.fence) == ("run_1", 2)
    assert await second.append([resumed(second.fence), fact("b")]) == 3
    with refuses("busy"):
        await journal.take_over("run_1")
    await second.release()
    third = await journal.take_over("run_1")
    assert await third.append([FINISHED]) == 5
    assert await entries_of(journal) == [started(), fact("a"), resumed(2), fact("b"), FINISHED]


async def test_a_run_whose_prompt_is_long_is_gone_on_with(journal: Journal) -> None:
    prompt = "warm " * 5_000
    await (await journal.begin(started(text=prompt))).release()
    writer = await journal.take_over("run_1")
    await writer.append([resumed(2), finished()])
    assert (await journal.info("run_1")).prompt.startswith("warm warm")
    assert (await entries_of(journal))[0] == started(text=prompt)


async def test_a_driver_can_verify_that_the_run_is_still_its_own(journal: Journal) -> None:
    first = await journal.begin(started())
    await first.verify()
    second = await journal.take_over("run_1", force=True)
    with refuses("busy", "run_1 is no longer held"):
        await first.verify()
    await second.verify()
    await second.release()
    with refuses("busy", "run_1 is no longer held"):
        await second.verify()
    assert await entries_of(journal) == [started()]


@pytest.mark.parametrize("force", [False, True])
async def test_the_driver_before_is_fenced_off(journal: Journal, force: bool) -> None:
    first = await journal.begin(started())
    if not force:
        await first.release()
    second = await journal.take_over("run_1", force=force)
    for entries in ([fact("too late")], [fact("too late"), FINISHED], [late("c")]):
        with refuses("busy"):
            await first.append(entries)
    assert await second.append([fact("b")]) == 2
    assert await entries_of(journal) == [started(), fact("b")]


async def test_the_forks_of_a_run_are_listed_by_themselves(journal: Journal) -> None:
    for run_id in ("run_1", "run_2"):
        await (await journal.begin(started(run_id))).append([FINISHED])
    for number, origin in enumerate(("run_1", "run_2", "run_1"), 3):
        await journal.begin(started(f"run_{number}", fork=Fork(run_id=origin, turn=0, seq=1)))
    assert [info.run_id for info in await journal.runs(forked_from="run_1")] == ["run_5", "run_3"]
    assert [info.run_id for info in await journal.runs(forked_from="run_1", limit=1)] == ["run_5"]
    assert await journal.runs(forked_from="unknown") == []


async def test_who_let_go_of_a_run_cannot_append_to_it(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    await writer.release()
    with refuses("busy"):
        await writer.append([fact("too late")])
    assert await entries_of(journal, after=1) == [fact("a")]


async def test_a_run_waits_until_its_next_driver_appends(journal: Journal) -> None:
    await (await journal.begin(started())).release(waiting=True)
    assert (await journal.info("run_1")).status == "waiting"
    writer = await journal.take_over("run_1")
    assert (await journal.info("run_1")).status == "running"
    await writer.release(waiting=None)
    assert (await journal.info("run_1")).status == "waiting"
    writer = await journal.take_over("run_1")
    await writer.append([resumed(writer.fence)])
    await writer.release(waiting=None)
    assert (await journal.info("run_1")).status == "stopped"


async def test_a_fenced_driver_cannot_let_go_of_anothers_run(journal: Journal) -> None:
    first = await journal.begin(started())
    await journal.take_over("run_1", force=True)
    await first.release()
    with refuses("busy"):
        await journal.take_over("run_1")


async def test_letting_go_twice_is_letting_go_once(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([FINISHED])
    for _ in range(3):
        await writer.release()
    assert await entries_of(journal) == [started(), FINISHED]


async def test_an_ended_run_is_over(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([FINISHED])
    await writer.release()
    with refuses("busy"):
        await writer.append([fact("too late")])
    with refuses("invalid", "run_1.*finished"):
        await journal.take_over("run_1")


async def test_what_comes_late_is_appended_after_the_end(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([*asks(1, "c"), FINISHED])
    await writer.release()
    assert await writer.append([late("c")]) == 6
    assert (await entries_of(journal, after=4)) == [FINISHED, late("c")]
    assert (await journal.info("run_1")).status == "finished"

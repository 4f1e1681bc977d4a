"""What processes of one machine tell each other: at once inside a process, and soon between two of
them; nothing is lost by not listening well.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.journal.runs import fact, started
from treadle.errors import AgentError
from treadle.journal.memory.notifier import KEPT_MAX, LocalNotifier
from treadle.journal.notifier import QUEUE, delta_topic, run_topic
from treadle.journal.queue import QueuePlace
from treadle.journal.sqlite import SqliteJournal


@pytest.fixture
async def notifier() -> AsyncIterator[LocalNotifier]:
    made = LocalNotifier()
    yield made
    made.close()


def lookers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "treadle-notifier"]


async def test_who_listens_to_several_topics_hears_all_of_them_in_order(
    notifier: LocalNotifier,
) -> None:
    async with notifier.listen("a", "b") as listening, notifier.listen("b") as other:
        for topic, payload in (("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4")):
            notifier.tell(topic, payload)
        assert await listening.wait() == [b"1", b"2", b"3"]
        assert await other.wait() == [b"2"]


async def test_what_came_before_the_wait_ends_it_at_once(notifier: LocalNotifier) -> None:
    async with notifier.listen("a") as listening:
        notifier.tell("a")
        with anyio.fail_after(20):
            assert await listening.wait() == []


async def test_a_wait_that_is_cancelled_loses_nothing(notifier: LocalNotifier) -> None:
    async with notifier.listen("a") as listening:
        heard: list[bytes] = []
        notifier.tell("a", b"1")
        with anyio.CancelScope() as scope:
            scope.cancel()
            heard = await listening.wait()
        notifier.tell("a", b"2")
        assert [*heard, *await listening.wait()] == [b"1", b"2"]


async def test_of_too_many_the_oldest_go(notifier: LocalNotifier) -> None:
    async with notifier.listen("a") as listening:
        for n in range(KEPT_MAX + 5):
            notifier.tell("a", b"%d" % n)
        heard = await listening.wait()
        assert (len(heard), heard[0], heard[-1]) == (KEPT_MAX, b"5", b"%d" % (KEPT_MAX + 4))


async def test_where_nothing_comes_the_wait_ends_by_itself() -> None:
    notifier = LocalNotifier(poll_s=0)
    async with notifier.listen("a") as listening:
        assert await listening.wait() == []
    notifier.close()


async def test_any_thread_may_tell(notifier: LocalNotifier) -> None:
    async with notifier.listen("a") as listening:
        await anyio.to_thread.run_sync(notifier.tell, "a", b"from afar")
        with anyio.fail_after(20):
            while not (heard := await listening.wait()):
                pass
        assert heard == [b"from afar"]


async def test_a_topic_is_wanted_while_somebody_listens(notifier: LocalNotifier) -> None:
    assert not notifier.wanted("a")
    async with notifier.listen("a"):
        async with notifier.listen("a", "b"):
            assert notifier.wanted("b")
        assert (notifier.wanted("a"), notifier.wanted("b")) == (True, False)
    assert not notifier.wanted("a")


async def test_who_waits_when_it_closes_is_woken(notifier: LocalNotifier) -> None:
    async with notifier.listen("a") as listening:
        notifier.close()
        with anyio.fail_after(20):
            assert await listening.wait() == []


# ---------------------------------------------------------------- what other processes change


class Broken:
    def changed(self, topics: Collection[str], /) -> Collection[str]:
        raise AssertionError("nobody looks")

    def close(self) -> None: ...


def broken() -> Broken:
    raise AgentError("agent", "the file is gone")


async def test_what_is_only_in_a_process_is_not_looked_for() -> None:
    notifier = LocalNotifier(Broken)
    async with notifier.listen(delta_topic("run_1")):
        assert lookers() == []
    notifier.close()


async def test_what_cannot_be_looked_at_is_looked_at_by_who_waits() -> None:
    notifier = LocalNotifier(broken, poll_s=0.01)
    async with notifier.listen("a") as listening:
        assert await listening.wait() == []
        notifier.tell("a", b"1")
        assert await listening.wait() == [b"1"]
    notifier.close()
    assert lookers() == []


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[SqliteJournal, SqliteJournal]]:
    both = SqliteJournal.open(tmp_path / "journal.db"), SqliteJournal.open(tmp_path / "journal.db")
    yield both
    for journal in both:
        await journal.aclose()


Two = tuple[SqliteJournal, SqliteJournal]


async def test_it_is_looked_only_while_somebody_listens(two: Two) -> None:
    here, _ = two
    assert lookers() == []
    async with here.notifier.listen(QUEUE), here.notifier.listen(run_topic("run_1")):
        assert lookers() == ["treadle-notifier"]
    with anyio.fail_after(20):
        while lookers():
            await anyio.sleep(0.01)


async def test_entries_of_another_process_wake_who_follows_that_run_and_nobody_else(
    two: Two,
) -> None:
    here, there = two
    writer, other = await there.begin(started("run_1")), await there.begin(started("run_2"))
    async with (
        here.notifier.listen(run_topic("run_1")) as first,
        here.notifier.listen(run_topic("run_2")) as second,
    ):
        first._poll_s = second._poll_s = 20  # pyright: ignore[reportPrivateUsage]  what ends these waits is news alone
        with anyio.fail_after(20):
            await first.wait()  # the first look tells everybody
            await second.wait()
            await writer.append([fact("a")])
            await first.wait()
        with anyio.move_on_after(0.2) as scope:
            await second.wait()
        assert scope.cancelled_caught
        await other.append([fact("b")])
        with anyio.fail_after(20):
            await second.wait()


async def test_runs_that_another_process_adds_wake_who_wants_them(two: Two) -> None:
    here, there = two
    async with here.notifier.listen(QUEUE) as listening:
        listening._poll_s = 20  # pyright: ignore[reportPrivateUsage]  as above
        with anyio.fail_after(20):
            await listening.wait()
            await there.queue.add([started("run_1")], QueuePlace())
            await listening.wait()
            assert await here.queue.claim(["default"], engine="local", most=1)

"""Runs whose parent has ended, and whose process died before it could close them."""

from __future__ import annotations

import pytest

from tests.doubles import agent, check_history, open_runtime, says
from tests.journal.runs import asks, finished, started
from tests.stores import new_journal, postgres_server, postgres_template, store  # noqa: F401  fixtures
from tests.workers.worker.conftest import until, working
from treadle.config import Config
from treadle.journal.journal import Journal
from treadle.journal.memory.journal import MemoryJournal
from treadle.runtime.closing_runs import close_orphans
from treadle.types import Outcome, now

pytestmark = pytest.mark.usefixtures("store")


async def _families(journal: Journal) -> None:
    """A finished run with a part that nobody drives, one whose part is driven, and one that goes on."""
    for name in ("over", "driven", "open"):
        parent = await journal.begin(started(name))
        child = await journal.begin(started(f"part_{name}", parent=name))
        await child.append(asks(1, "c1"))
        grandchild = await journal.begin(started(f"below_{name}", parent=f"part_{name}"))
        await grandchild.release()
        if name != "driven":
            await child.release()
        if name != "open":
            await parent.append([finished()])


async def test_a_part_of_a_finished_run_that_nobody_drives_is_an_orphan() -> None:
    journal = new_journal()
    await _families(journal)
    assert await journal.orphans(limit=10) == ["part_over"]
    assert await journal.orphans(limit=0) == []


async def test_a_worker_ends_orphans_and_those_below_them() -> None:
    async with open_runtime() as rt:
        await _families(rt.journal)
        async with working(rt):
            part = await until(rt, "part_over")
            below = await until(rt, "below_over")
        assert part.outcome == below.outcome == Outcome.CANCELLED
        check_history((await rt.replay("part_over")).messages)
        for name in ("part_driven", "part_open", "open"):
            assert (await rt.journal.info(name)).status != "finished"


async def test_orphans_are_ended_before_old_runs_are_deleted() -> None:
    journal = new_journal()
    await _families(journal)
    async with open_runtime(journal=journal, config=Config(keep_runs="0h")) as rt:
        await rt.run(agent([says("hello")]), "go")
        await rt._forget_old_runs()  # pyright: ignore[reportPrivateUsage]  the journal is closed with it
        left = {info.run_id for info in await journal.runs()}
        assert not left & {"over", "part_over", "below_over"}
        assert {"part_driven", "part_open", "open"} <= left


async def test_an_orphan_that_another_process_deletes_in_that_moment_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Deletes(MemoryJournal):
        """Another process ends the orphans and prunes, right after they were listed here."""

        looked = False

        async def orphans(self, *, limit: int) -> list[str]:
            found = await super().orphans(limit=limit)
            if found and not self.looked:
                self.looked = True
                await close_orphans(self)
                await self.prune(now(), apply=True)
            return found

    journal = Deletes()
    await _families(journal)
    await close_orphans(journal)
    assert "part_over" not in {info.run_id for info in await journal.runs()}
    assert "could not be closed" not in caplog.text

"""Runs that go from one claim or driver to the next in one process, and what may be lost there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.journal.runs import resumed, started
from tests.journal.test_queue_contract import shared_by
from tests.service.database.postgres import postgres_server as postgres_server
from tests.stores import journal_urls as journal_urls
from treadle.journal import open_journal
from treadle.journal.journal import Journal
from treadle.journal.queue import QueuePlace


@pytest.fixture(params=["memory", "sqlite", "postgres", "shards"])
async def two(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Journal, Journal]]:
    """A journal as two processes see it; in memory, one does."""
    if request.param == "memory":
        here = there = open_journal("memory:")
    else:
        shared = shared_by(request.param, request, tmp_path)
        here, there = open_journal(shared.url), open_journal(shared.url)
    yield here, there
    await here.aclose()
    await there.aclose()


async def test_a_former_drivers_release_does_not_make_its_successor_deaf(
    two: tuple[Journal, Journal],
) -> None:
    here, there = two
    heard: list[str] = []
    here.on_stop(heard.append)
    await here.queue.add([started("run_1")], QueuePlace())
    first = await here.take_over("run_1")
    other = await there.take_over("run_1", force=True)
    await other.append([resumed(other.fence)])
    await other.release()
    second = await here.take_over("run_1")
    await first.release()
    assert await there.ask_to_stop("run_1")
    with anyio.fail_after(20):
        while not heard:
            await anyio.sleep(0.01)
    await second.release()


async def test_a_claim_that_is_cancelled_loses_no_run(two: tuple[Journal, Journal]) -> None:
    here, _ = two
    run_ids = [f"run_{number}" for number in range(8)]
    for run_id in run_ids:
        await here.queue.add([started(run_id)], QueuePlace())
    shards = getattr(here, "_shards", None)
    queues: list[Any] = (
        [here.queue] if shards is None else [shard.journal.queue for shard in shards]
    )
    scope, found = anyio.CancelScope(), list[str]()
    for queue in queues:

        async def claiming(*what: Any, claim: Any = queue.claim, **more: Any) -> Any:
            tickets = await claim(*what, **more)
            scope.cancel()
            return tickets

        queue.claim = claiming
    with scope:
        found += [one.run_id for one in await here.queue.claim(["default"], engine="local", most=9)]
        await anyio.lowlevel.checkpoint()
    for queue in queues:
        del queue.claim
    found += [one.run_id for one in await here.queue.claim(["default"], engine="local", most=9)]
    assert sorted(found) == run_ids


@pytest.mark.parametrize("two", ["postgres"], indirect=True)
async def test_a_run_that_is_put_back_is_not_moved_back(
    two: tuple[Journal, Journal], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Somebody moves it between the look at its place and the change."""
    psycopg = pytest.importorskip("psycopg")
    here, _ = two
    await here.queue.add([started("run_1")], QueuePlace())
    url = request.getfixturevalue("journal_urls")(tmp_path)
    with psycopg.connect(url) as db, psycopg.connect(url, autocommit=True) as other:
        db.execute("update treadle.runs set tenant = tenant where id = 'run_1'")
        async with anyio.create_task_group() as group:
            group.start_soon(here.queue.put_back, "run_1")
            with anyio.fail_after(20):
                while other.execute("select 1 from pg_locks where not granted").fetchone() is None:
                    await anyio.sleep(0.01)
            db.execute("update treadle.runs set queue = 'nightly' where id = 'run_1'")
            db.commit()
    place = await here.queue.place("run_1")
    assert place is not None
    assert place.queue == "nightly"

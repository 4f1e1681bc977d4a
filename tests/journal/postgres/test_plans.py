"""What is asked often is looked up in an index, however many runs there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from tests.journal.postgres.conftest import Look
from tests.journal.runs import asks, finished, started
from tests.service.database.postgres import postgres_url as postgres_url
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.journal import Journal
from treadle.journal.queue import QueuePlace

_WORKERS = """
insert into treadle.workers(id, host, pid, since_us, seen_at_us, lease_until_us, name, version, engine, queues, card)
select 'w' || i, 'h', 1, 0, treadle.now_us(), treadle.now_us() + case when i > 5 then 3600000000 else -1 end, 'w' || i, '1', 'local', '[]', 1
from generate_series(1, 10) as i
"""
_RUNS = """
insert into treadle.runs(id, session, schema, fence, head, started_at_us, updated_at_us, summary, counted, indexed, finished, queue, owner, sent_to, parked)
select 'run' || i, i, 1, 1, 3, i, i, seed.summary, 1, 1, case when i <= 12000 then 3 end, case when i %% 3 = 0 then 'default' end,
    case when i > 19950 then 'w' || (i %% 10) end, case when i > 19900 then 'w' || (i %% 10) when i > 19800 then 'engine:other' end,
    case when i between 13000 and 13100 then 'why' end
from generate_series(1, 20000) as i, (select summary from treadle.runs limit 1) as seed
"""


async def _drive(journal: Journal) -> None:
    run = await journal.begin(started("run_new", session="session_new"))
    await run.append(asks(1, "call"))
    await run.release()
    run = await journal.take_over("run_new")
    await run.append([finished()])


async def _unknown(journal: Journal) -> None:
    with pytest.raises(AgentError, match="unknown run"):
        await journal.info("nobody's")


ASKED: dict[str, Callable[[Journal], Awaitable[object]]] = {
    "claim": lambda journal: journal.queue.claim(["default"], engine="local", most=8),
    "with_engine": lambda journal: journal.queue.with_engine(engine="other", most=20),
    "parked": lambda journal: journal.queue.parked(limit=20),
    "workers": lambda journal: journal.queue.workers(),
    "put_back": lambda journal: journal.queue.put_back("run13002"),
    "add": lambda journal: journal.queue.add(
        [started("run_queued", session="session_queued")], QueuePlace()
    ),
    "runs": lambda journal: journal.runs(limit=20),
    "runs of a session": lambda journal: journal.runs(limit=20, session_id="session_seed"),
    "info": lambda journal: journal.info("run500"),
    "unknown": _unknown,
    "children": lambda journal: journal.children("run500"),
    "under_way": lambda journal: journal.under_way(limit=20),
    "left_behind": lambda journal: journal.left_behind(limit=20),
    "orphans": lambda journal: journal.orphans(limit=20),
    "holder": lambda journal: journal.holder("session_seed"),
    "drive": _drive,
}


@pytest.fixture
async def filled(postgres_url: str, look: Look) -> str:
    journal = open_journal(postgres_url)
    await (await journal.begin(started("seed", session="session_seed"))).release()
    await journal.aclose()
    for statement in (_WORKERS, _RUNS, "analyze"):
        look(statement)
    return postgres_url


async def test_no_common_question_reads_all_runs(filled: str, look: Look) -> None:
    slow: list[str] = []
    for name, ask in ASKED.items():
        before = await _scans(look)
        journal = open_journal(filled)
        await ask(journal)
        await journal.aclose()
        if await _scans(look) != before:
            slow.append(name)
    assert slow == []


async def _scans(look: Look) -> int:
    """How often all runs were read so far; a connection tells it when it ends."""
    while look(
        "select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
    ):
        await anyio.sleep(0.01)
    ((scans,),) = look(
        "select seq_scan from pg_stat_user_tables where schemaname = 'treadle' and relname = 'runs'"
    )
    return int(scans)

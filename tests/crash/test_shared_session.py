"""Several processes run in one session at once: each run's replay is its result, every request is
valid, and lists count what is in view.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.crash.session_mate import SESSION
from tests.doubles import check_history
from tests.fork_server import command
from tests.service.database.postgres import postgres_server, postgres_urls  # noqa: F401  fixtures
from treadle.journal import open_journal
from treadle.journal.journal import Journal

PROCESSES, RUNS = 3, 25
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    urls: Callable[[object], str] = request.getfixturevalue("postgres_urls")
    return urls(tmp_path)


async def test_runs_of_several_processes_in_one_session_go_on_from_what_is_there(url: str) -> None:
    journal = open_journal(url)
    journal.sessions.create(session_id=SESSION)
    found: list[dict[str, object]] = []

    async def process(seed: int) -> None:
        done = await anyio.run_process(
            command("tests.crash.session_mate", url, str(seed), str(RUNS)),
            cwd=ROOT,
            stderr=sys.stderr,
        )
        found.extend(json.loads(line) for line in done.stdout.splitlines())

    with anyio.fail_after(240):
        async with anyio.create_task_group() as group:
            for seed in range(PROCESSES):
                group.start_soon(process, seed)
    assert len(found) == PROCESSES * RUNS
    assert [
        one["run_id"]
        for one in found
        if await _replay(journal, str(one["run_id"])) != one["messages"]
    ] == []
    view, info = (await journal.view(SESSION)).messages, journal.sessions.get(SESSION)
    check_history(view)
    assert info is not None
    assert info.message_count == len(view)
    await journal.aclose()


async def _replay(journal: Journal, run_id: str) -> list[str]:
    history = (await journal.load(run_id)).context.history[:]
    check_history(history)
    return [message.id for message in history]

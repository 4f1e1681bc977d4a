"""A batch whose process is killed at each of its boundaries, and continued by another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread

from tests.models.providers.speech import Call
from tests.vendors.batches import batch_server, last_text
from treadle.journal import open_journal
from treadle.types import Outcome

ROOT = Path(__file__).parents[2]
EVERY = 5


def reply(text: str) -> str | Call:
    return f"Wet: {text}" if "rain" in text else Call("c1", "look", (json.dumps({"place": text}),))


def batch(
    journal: Path, port: int, wire: str, crash_at: int = 0
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TREADLE_CRASH_AT": str(crash_at), "HOME": "/nonexistent"}
    given = (f"sqlite:///{journal}", str(port), wire)
    return subprocess.run(
        [sys.executable, "-m", "tests.crash.batch_run", *given],
        cwd=ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(("wire", "first"), [("anthropic", 4), ("openai", 6)])
async def test_a_batch_that_is_killed_is_continued_and_paid_for_once(
    tmp_path: Path, wire: str, first: int
) -> None:
    for number in range(first, 100, EVERY):
        journal = tmp_path / f"{number}.db"
        async with batch_server(reply=reply, looks=1) as server:
            run = partial(batch, journal, server.port, wire)
            killed = await to_thread.run_sync(partial(run, number))
            done = await to_thread.run_sync(run)
            assert done.stdout.splitlines() == ["Wet: rain in Rome", "Wet: rain in Oslo"], number
            paid = Counter(
                last_text(body) for held in server.held for body in held.requests.values()
            )
            assert paid == dict.fromkeys(["Rome", "Oslo", "rain in Rome", "rain in Oslo"], 1), (
                number
            )
            assert server.ordinary == []
        opened = open_journal(f"sqlite:///{journal}")
        assert {info.outcome for info in await opened.runs()} == {Outcome.COMPLETED}
        await opened.aclose()
        if killed.returncode == 0:
            assert number > 12
            return
    pytest.fail("the batch did not come to its end")

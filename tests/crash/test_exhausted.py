"""Processes that run out of descriptors, threads or processes after a `once` call: nothing
is repeated or lost, what was not made is told, and another process ends the run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.exhausted import KINDS, payer
from tests.service.database.postgres import postgres_server as postgres_server
from tests.service.database.postgres import postgres_urls as postgres_urls
from treadle import Runtime, check_history
from treadle.config import Config
from treadle.journal.entries import ToolStarted

CAUSES = {
    "descriptors": ("Too many open files",),
    "processes": ("Resource temporarily unavailable", "can't start new thread"),
    "threads": ("can't start new thread",),
}
"""Words of what ran out, in the result of a call or in the error of the process."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that a process of another user reaches too."""
    made = Path(tempfile.mkdtemp(prefix="treadle-exhausted-"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


@pytest.mark.timeout(300)  # the journal tries for half a minute to reach PostgreSQL again
@pytest.mark.parametrize(
    ("store", "kind"),
    # a server in memory lets in no process of another user, which no limit of processes holds for
    [*(("sqlite", kind) for kind in KINDS), ("postgres", "descriptors"), ("postgres", "threads")],
)
async def test_a_process_that_runs_out_repeats_and_loses_nothing(
    request: pytest.FixtureRequest, folder: Path, store: str, kind: str
) -> None:
    url = f"sqlite:///{folder}/runs.db"
    if store == "postgres":
        urls: Callable[[object], str] = request.getfixturevalue("postgres_urls")
        url = urls(folder)
    witness = folder / "witness"
    witness.touch()
    witness.chmod(0o666)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.exhausted", kind, url, str(witness)],
        env=os.environ | {"HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    done_before = witness.read_text().split()
    async with Runtime.open(url, config=Config()) as runtime:
        result = await runtime.resume("r1", payer("", str(witness)))
        entries = [record.entry for record in await runtime.journal.read("r1")]
    done = Counter(witness.read_text().split())
    results = {part.call_id: part for m in result.messages for part in m.tool_results}
    assert check_history(result.messages) == []
    assert (result.outcome, {*results}) == ("completed", {"c_pay", "c_sign", "c_bash"}), (
        entries,
        ended,
    )
    assert done_before[0] == "pay"
    assert {*done.values()} == {1}, ended.stderr
    for call_id, told in results.items():
        has_run = done[call_id.removeprefix("c_")] == 1
        assert told.unknown or told.is_error is not has_run, told
    starts = Counter(entry.call_id for entry in entries if isinstance(entry, ToolStarted))
    assert {*starts.values()} == {1}
    assert results["c_pay"].text == "paid"
    texts = [ended.stdout, ended.stderr, *(told.text for told in results.values())]
    assert any(word in text for word in CAUSES[kind] for text in texts), texts

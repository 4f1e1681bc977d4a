"""Processes that run out of descriptors, threads, processes or memory after a `once` call: nothing
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

import msgspec
import pytest

from tests.crash.exhausted import KINDS, payer
from tests.crash.nursery import Nursery
from tests.crash.sweep import Swept, robbed
from tests.fork_server import command
from tests.service.database.postgres import postgres_server as postgres_server
from tests.service.database.postgres import postgres_urls as postgres_urls
from treadle import Runtime, check_history
from treadle.config import Config
from treadle.journal.entries import ToolStarted

OUT_OF_MEMORY = "the process is out of memory: "
SHOWN_NOT = "The tool ran, but "
EACH_CALL = {"c_pay", "c_sign", "c_bash"}
CAUSES = {
    "descriptors": ("Too many open files",),
    "processes": ("Resource temporarily unavailable", "can't start new thread"),
    "threads": ("can't start new thread",),
    "memory:result": ("MemoryError",),
    "memory:response": (OUT_OF_MEMORY,),
}
"""Words of what ran out, in the result of a call or in the error of the process."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that a process of another user reaches too."""
    made = Path(tempfile.mkdtemp(prefix="treadle-exhausted-"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


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
        command("tests.crash.exhausted", kind, url, str(witness)),
        env=os.environ | {"HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=290,
        check=False,
    )
    done_before = witness.read_text().split()
    async with Runtime.open(url, config=Config()) as runtime:
        result = await runtime.resume("r1", payer("", str(witness)))
        entries = [record.entry for record in await runtime.journal.read("r1")]
    done = Counter(witness.read_text().split())
    results = {part.call_id: part for m in result.messages for part in m.tool_results}
    assert check_history(result.messages) == []
    assert (result.outcome, {*results}) == ("completed", EACH_CALL), (entries, ended)
    assert done_before[0] == "pay"
    assert {*done.values()} == {1}, ended.stderr
    for call_id, told in results.items():
        has_run = done[call_id.removeprefix("c_")] == 1
        assert told.unknown or told.is_error is not has_run or SHOWN_NOT in told.text, told
    starts = Counter(entry.call_id for entry in entries if isinstance(entry, ToolStarted))
    assert {*starts.values()} == {1}
    assert kind == "memory:result" or results["c_pay"].text == "paid"
    texts = [ended.stdout, ended.stderr, *(told.text for told in results.values())]
    assert any(word in text for word in CAUSES[kind] for text in texts), texts


@pytest.mark.parametrize(
    ("where", "last", "times"), [("thread", 260, 5), ("here", 160, 1), ("close", 60, 1)]
)
def test_an_allocation_that_fails_leaves_no_append_without_its_true_answer(
    tmp_path: Path, where: str, last: int, times: int
) -> None:
    """Where CPython itself loses a wakeup, the process may wait until it is ended (Limits), which
    happens seldom and only in some runs; whatever it answered is true.

    `times`: every other process takes the memory between a commit and its answer from a free list,
    so that the allocation there cannot fail.
    """
    pytest.importorskip("_testcapi")
    waited = list[int]()
    for number in range(times):
        folder, first = tmp_path / str(number), 0
        folder.mkdir()
        command = [sys.executable, "-m", "tests.crash.allocations", str(folder), where]
        while True:
            ended = subprocess.run(
                [*command, str(first), str(last), "1"],
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
            if ended.returncode == 0:
                break
            assert "Timeout (0:" in ended.stderr, (ended.stdout[-9:], ended.stderr)
            waited.append(int(ended.stdout.split()[-1]))
            assert len(waited) < 3, waited
            first = waited[-1] + 1


@pytest.mark.parametrize("lasting", [True, False], ids=["for good", "once"])
def test_memory_that_is_out_at_any_boundary_repeats_and_loses_nothing(
    nursery: Nursery, tmp_path: Path, lasting: bool
) -> None:
    said: list[str] = []
    for number in range(2, 22, 3) if lasting else (1, 2, 5, 6, 7, 8, 10):
        stage = robbed(nursery, tmp_path / f"{number}", "one")
        until = "" if lasting else f"-{number}"
        ended = nursery.drive(msgspec.structs.replace(stage.task, fault=f"memory:{number}{until}"))
        said.append(ended.said)
        assert not stage.judge_open().violations
        swept = Swept()
        verdict = stage.judge(swept, ended, crashes=1)
        assert not swept.violations
        assert verdict.finished == verdict.runs
    *stopped, last = said
    stored = () if lasting else (1, 3)
    assert all((OUT_OF_MEMORY in one) is (n not in stored) for n, one in enumerate(stopped)), said
    assert last == "completed\n", "after the last boundary, or after a commit"

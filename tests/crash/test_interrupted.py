"""Three Ctrl-C under plain `asyncio.run`: the process ends, and another one resumes its run."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.interrupted import payer
from treadle import Runtime, check_history
from treadle.config import Config


@pytest.mark.parametrize(
    ("place", "outcome"),
    [
        ("_cancel_all_tasks", "completed"),  # the run has not heard of the first one yet
        ("Runtime.aclose", "cancelled"),
        ("WorkerThread.stop", "cancelled"),  # the runtime is closed
    ],
)
async def test_a_process_that_is_interrupted_three_times_ends_and_leaves_its_run_resumable(
    tmp_path: Path, place: str, outcome: str
) -> None:
    url, witness = f"sqlite:///{tmp_path}/runs.db", tmp_path / "witness"
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.interrupted", url, str(witness), place],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == -signal.SIGINT, ended.stderr
    async with Runtime.open(url, config=Config()) as runtime:
        result = await runtime.resume("r1", payer(str(witness)))
    assert result.outcome == outcome, result.error
    assert check_history(result.messages) == []
    paid = next(part for message in result.messages for part in message.tool_results)
    assert paid.unknown
    assert witness.read_text() == "pay\n"

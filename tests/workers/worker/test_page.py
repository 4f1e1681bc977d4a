"""The programs of docs/how-to/python-workers.md, as they stand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.test_docs import ROOT, blocks_of
from treadle import Runtime
from treadle.journal.run_info import RunInfo

pytest.importorskip("fastapi", reason="needs FastAPI: pip install 'treadle[service]'")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM")

PORT = 0
"""uvicorn takes a free one, and prints it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for block in blocks_of(ROOT / "docs/how-to/python-workers.md"):
        if block.said == "worker":
            name = block.text.splitlines()[0].removeprefix("# ")
            (tmp_path / name).write_text(block.text, encoding="utf-8")
    return tmp_path


@contextmanager
def running(folder: Path, arguments: Sequence[str]) -> Generator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if "running on " in line:
            return line.split("running on ")[1].split()[0]
    raise AssertionError("it ended before it served")


def asked(url: str, method: str) -> Any:
    request = urllib.request.Request(url, method=method)
    with urllib.request.urlopen(request, timeout=20) as response:
        return json.load(response)


async def until(runtime: Runtime, run_id: str, *statuses: str) -> RunInfo:
    with anyio.fail_after(30):
        while (info := await runtime.journal.info(run_id)).status not in statuses:
            await anyio.sleep(0.05)
    return info


async def test_sigterm_releases_the_runs_of_the_application_to_the_worker(folder: Path) -> None:
    async with Runtime.open(f"sqlite:///{folder / 'shop.db'}") as runtime:
        with running(folder, ["-m", "uvicorn", "app:app", "--port", str(PORT)]) as app:
            address = address_of(app)
            run_id = asked(f"{address}/parcels/ada", "POST")
            await until(runtime, run_id, "running")
            assert asked(f"{address}/runs/{run_id}", "GET") == "running"
            app.send_signal(signal.SIGTERM)
            assert app.wait(30) in (0, -signal.SIGTERM)
        await until(runtime, run_id, "queued")
        (folder / "shipped.txt").touch()
        with running(folder, ["worker.py"]) as worker:
            info = await until(runtime, run_id, "finished")
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0
        result = await runtime.replay(run_id)
    assert info.outcome == "completed"
    assert result.text == "The parcel for ada is on its way."

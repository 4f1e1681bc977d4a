"""The programs of docs/how-to/engines.md, as they stand, in real engines: each is killed inside of
a `once` tool and started again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from tests.peers.conftest import absent
from tests.test_docs import ROOT, blocks_of
from tests.workers.engines.needs import need_dbos
from treadle import Outcome, Runtime

TICKET = "4711"
CELERY = """
from celery_tickets import app
app.conf.broker_url = "filesystem://"
app.conf.broker_transport_options = {"data_folder_in": "queue", "data_folder_out": "queue"}
"""
SEND = [sys.executable, "-c", f"{CELERY}\napp.send_task('celery_tickets.answer', ['{TICKET}'])"]
WORK = [sys.executable, "-m", "celery", "-A", "crew", "worker", "--pool", "solo"]
PATHS = [str(ROOT / ".peers/celery"), *filter(None, [os.environ.get("PYTHONPATH")])]
"""It pins another version of a library than ours, so it has a folder of its own."""
PROGRAMS = {
    "cron": [sys.executable, "tickets.py", TICKET],
    "dbos": [sys.executable, "dbos_tickets.py", TICKET],
    "celery": WORK,
    "prefect": [os.environ.get("TREADLE_TEST_PREFECT", ""), "prefect_tickets.py", TICKET],
}
"""TREADLE_TEST_PREFECT: a Python with Prefect and Treadle, which `make peers` does not install."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for block in blocks_of(ROOT / "docs/how-to/engines.md"):
        if block.said == "engine":
            name = block.text.splitlines()[0].removeprefix("# ")
            (tmp_path / name).write_text(block.text, encoding="utf-8")
    (tmp_path / "crew.py").write_text(CELERY, encoding="utf-8")
    (tmp_path / "queue").mkdir()
    return tmp_path


def environment(folder: Path, engine: str) -> dict[str, str]:
    own = {"HOME": str(folder), "PREFECT_HOME": str(folder / "prefect")}
    if engine == "celery":
        own["PYTHONPATH"] = os.pathsep.join(PATHS)
    return os.environ | own


@contextmanager
def running(
    folder: Path, command: Sequence[str], environment: Mapping[str, str]
) -> Generator[None]:
    """Started in a group of its own, which is killed at the end."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    with process:
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("engine", PROGRAMS)
async def test_a_run_whose_process_is_killed_in_a_once_tool_ends_with_one_effect(
    folder: Path, engine: str
) -> None:
    command = PROGRAMS[engine]
    if engine == "celery" and not Path(PATHS[0]).exists():
        absent("Celery is not installed; `make peers` installs it")
    if engine == "dbos":
        need_dbos("sqlite:///j")
    if not command[0]:
        pytest.skip("TREADLE_TEST_PREFECT names no Python with Prefect")
    (folder / "bank_is_slow").touch()
    book = folder / "refunds.txt"
    for last in (False, True):
        if engine == "celery":
            subprocess.run(
                SEND, cwd=folder, env=environment(folder, engine), check=True, timeout=200
            )
        with running(folder, command, environment(folder, engine)):
            with anyio.fail_after(80):
                while not (book.exists() if not last else await ended(folder)):
                    await anyio.sleep(0.05)
        (folder / "bank_is_slow").unlink(missing_ok=True)
    assert book.read_text() == "12.5\n"


async def ended(folder: Path) -> bool:
    async with Runtime.open(f"sqlite:///{folder / 'tickets.db'}") as runtime:
        return (await runtime.journal.info(f"ticket-{TICKET}")).outcome is Outcome.COMPLETED

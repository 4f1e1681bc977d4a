"""Two versions on one journal: old workers go on with old runs and leave the new ones alone, until
they drain; nothing is lost.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from tests.crash.checker import check
from tests.crash.crew_worker import Plan, Share
from tests.crash.next_version import NUMBER, next_version
from tests.crash.nursery import ROOT
from tests.crash.postgres import ChaosServer
from tests.crash.turns import turns_of
from tests.fork_server import command
from treadle import AgentError, __version__
from treadle.journal.sqlite import SqliteJournal

PLAN = Plan(runs=4, turns=25, workers=2, seconds=0, lease_s=2, twice=False, pause_s=0.02)


class Versions:
    """Processes of two versions over one journal."""

    def __init__(self, folder: Path, server: ChaosServer) -> None:
        self._folder, self._server = folder, server
        self._newer = next_version(folder / "next")
        self.url, self.witness = server.journal(), folder / "witness"
        self._processes: list[subprocess.Popen[bytes]] = []

    def begin(
        self, what: Literal["submit", "work"], version: str, *, names: str = "r"
    ) -> subprocess.Popen[bytes]:
        share = Share(
            url=self._server.past_the_proxy(self.url),
            witness=self.witness,
            parent=os.getpid(),
            plan=msgspec.structs.replace(PLAN, names=names),
        )
        file = self._folder / f"{len(self._processes)}.json"
        file.write_bytes(msgspec.json.encode(share, enc_hook=str))
        words = ("tests.crash.crew_worker", what, str(file))
        environment = os.environ | ({"PYTHONPATH": str(self._newer)} if version == NUMBER else {})
        # workers look after their parents
        forked = what == "submit" and version != NUMBER
        process = subprocess.Popen(
            command(*words) if forked else [sys.executable, "-m", *words], cwd=ROOT, env=environment
        )
        self._processes.append(process)
        return process

    def submit(self, version: str, names: str) -> None:
        assert self.begin("submit", version, names=names).wait(60) == 0

    def wait_for(self, condition: str, *, within_s: float = 60) -> None:
        """SQL over `runs`."""
        deadline = time.monotonic() + within_s
        while self.asked(f"select {condition} from treadle.runs") != [(True,)]:
            assert time.monotonic() < deadline, (
                condition,
                self.asked("select id, head, owner, sent_to, deliveries, parked from treadle.runs"),
            )
            time.sleep(0.02)

    def asked(self, statement: str) -> list[tuple[object, ...]]:
        return self._server.sql_of(self.url, statement)

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self._server.drop(self.url)


@pytest.fixture
def versions(tmp_path: Path, chaos_server: ChaosServer) -> Iterator[Versions]:
    made = Versions(tmp_path, chaos_server)
    yield made
    made.end()


def test_workers_of_two_versions_share_a_journal_until_the_old_ones_drain(
    versions: Versions,
) -> None:
    versions.submit(__version__, "old")
    old = [versions.begin("work", __version__) for _ in range(2)]
    versions.wait_for("bool_or(head > 10)")

    versions.submit(NUMBER, "new")  # which changes the tables under the old workers
    versions.submit(__version__, "older")  # what is submitted later, and can be driven, is
    versions.wait_for("bool_or(head > 10) filter (where id like 'older%')")
    untouched = versions.asked(
        "select distinct head, deliveries from treadle.runs where id like 'new%'"
    )
    assert untouched == [(1, 0)], "old workers leave what a newer version wrote"

    new = [versions.begin("work", NUMBER) for _ in range(2)]
    versions.wait_for("bool_or(head > 10) filter (where id like 'new%')")
    assert versions.asked(
        "select distinct version from treadle.workers where card = 1 order by 1"
    ) == [(__version__,), (NUMBER,)]
    for process in old:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(30) for process in old] == [0, 0]
    versions.wait_for("bool_and(finished is not null)")
    for process in new:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(30) for process in new] == [0, 0]

    verdict = check(versions.url, versions.witness)
    assert not verdict.violations, verdict
    assert verdict.finished == 3 * PLAN.runs
    assert verdict.calls == verdict.finished * sum(map(len, turns_of(PLAN.turns, probes=False)))
    assert verdict.unknown == 0, (
        "who drains waits for the calls that are under way, or they are none of ours"
    )


def test_a_sqlite_file_belongs_to_one_version_at_a_time_and_the_older_one_says_so(
    tmp_path: Path,
) -> None:
    """Its processes are on one machine: they are ended, and begin again as the newer version."""
    journal = tmp_path / "journal.db"
    SqliteJournal.open(journal)
    opening = f"from treadle.journal import open_journal; open_journal('sqlite:///{journal}')"
    subprocess.run(
        [sys.executable, "-c", opening],
        env=os.environ | {"PYTHONPATH": str(next_version(tmp_path / "next"))},
        check=True,
    )
    with pytest.raises(AgentError, match=r"was written by a newer Treadle.*upgrade to read it"):
        SqliteJournal.open(journal)

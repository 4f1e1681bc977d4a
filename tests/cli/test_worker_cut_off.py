"""`treadle worker` whose network takes everything and hands nothing on, while it drives a run."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Cli
from tests.cli.test_worker import detached, held
from tests.cli.workers import a_worker
from tests.crash.postgres import ChaosServer, chaos_server

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")

__all__ = ["chaos_server"]


def test_a_worker_that_is_cut_off_ends_when_it_is_told_to(
    cli: Cli, chaos_server: ChaosServer
) -> None:
    assert chaos_server.proxy is not None
    url = chaos_server.journal()
    (cli.home / ".treadle").mkdir()
    (cli.home / ".treadle" / "config.yaml").write_text("workers: {grace_s: 0.2, lease_s: 2}\n")
    run_id = detached(
        cli,
        "x",
        "--mode",
        "full",
        "--model",
        cli.script(held(cli, "call"), {"text": "done"}),
        TREADLE_JOURNAL=url,
    )
    with a_worker(cli, TREADLE_JOURNAL=url) as worker:
        worker.until(f"> {run_id}")
        chaos_server.proxy.swallow()
        try:
            assert worker.drained() == 0, worker.said
        finally:
            chaos_server.proxy.spit()
    assert "the journal could not record it" in worker.said
    assert chaos_server.sql_of(url, "select finished from treadle.runs") == [(None,)], (
        "others go on with it"
    )

"""The programs of docs/how-to/temporal.md, as they stand, against the real server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio

from tests.peers.temporal import TemporalServer
from tests.test_docs import ROOT, blocks_of


def test_the_programs_of_the_page_run(temporal_server: TemporalServer, tmp_path: Path) -> None:
    anyio.run(temporal_server.client)
    printed: dict[str, str | None] = {}
    for block in blocks_of(ROOT / "docs/how-to/temporal.md"):
        if block.said == "temporal":
            name = block.text.splitlines()[0].removeprefix("# ")
            program = block.text.replace("localhost:7233", temporal_server.address)
            (tmp_path / name).write_text(program, encoding="utf-8")
            printed[name] = block.printed
    environment = {"HOME": str(tmp_path), "PATH": ""}
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "worker.py"], cwd=tmp_path, env=environment, stdout=log, stderr=log
        )
        try:
            client = subprocess.run(
                [sys.executable, "client.py"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
        finally:
            worker.kill()
            worker.wait()
    assert client.stdout == printed["client.py"], client.stderr + (tmp_path / "log").read_text()

"""The end of fork servers."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.fork_server import BARE, ROOT, ForkServer, forked_servers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has abstract sockets")


def test_one_that_another_has_forked_runs_commands_and_ends_when_it_is_closed() -> None:
    with closing(ForkServer(BARE, arguments=["json"])) as first:
        second = ForkServer(BARE, forked_by=first.address)
        process = Path(f"/proc/{forked_servers.pop()}")
        code, _, _ = second.run(["--version"], cwd=ROOT, environment={}, stdin=None, timeout_s=100)
        assert code == 0
        assert process.exists()
        second.close()
        assert not process.exists()


def test_one_that_is_loading_ends_when_it_is_closed() -> None:
    server = ForkServer(BARE)
    server.close()
    assert server._process.returncode is not None

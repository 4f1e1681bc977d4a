"""A run goes on, whatever an MCP server does: it ends with its own answer, and the terminal obeys
nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.attacks import SEEDS
from tests.attacks.names import leaks
from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli

PROGRAM = Path(__file__).with_name("servers.py")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_ends_with_its_own_answer_whatever_a_server_does(cli: Cli, seed: int) -> None:
    servers = {
        "evil": {"command": [sys.executable, str(PROGRAM), str(seed)], "timeout_s": 5},
    }
    config = {"mcp_servers": servers, "defaults": {"mode": "full"}}
    (cli.home / ".treadle").mkdir()
    (cli.home / ".treadle" / "config.yaml").write_text(json.dumps(config))
    call: dict[str, object] = {"name": "evil_good", "arguments": {}}
    model = cli.script(
        {"tool_calls": [call]}, {"tool_calls": [call, call]}, {"text": "done all the same"}
    )
    done = cli("run", "hello", "--model", model, "--timeout", "180")
    assert (done.code, done.out) == (0, "done all the same\n"), done
    assert leaks(done.err) == ""
    assert leaks(cli("tools", "list").out) == ""
    assert leaks(cli("runs", "show", "last").out) == ""

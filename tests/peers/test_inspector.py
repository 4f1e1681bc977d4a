"""MCP Inspector's command line, which many try a server with: against `treadle tasks mcp` on stdio,
and against `/mcp` of `treadle serve` with a token.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.fork_server import command
from tests.peers.child import ROOT
from tests.peers.conformance.suite import COMPILED, MODULES
from tests.peers.conftest import absent
from tests.service.unlimited import unlimited

NODE, PROGRAM = (
    MODULES / ".bin" / "node",
    MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js",
)
TOOLS = [
    "add_task",
    "complete_all",
    "complete_task",
    "delete_completed",
    "delete_task",
    "list_tasks",
    "undo",
    "update_task",
]


class Inspector:
    """Looks at one server."""

    def __init__(self, folder: Path, target: list[str]) -> None:
        if not PROGRAM.is_file():
            absent(f"{PROGRAM} is not there: `make peers` installs it")
        self._target = target
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "NODE_COMPILE_CACHE": str(COMPILED),
        }

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        wait = (
            "--connect-timeout",
            "60000",
        )  # milliseconds; its own limit is short for a busy machine
        command = [NODE, PROGRAM, "--cli", *self._target, *wait, *options]
        return subprocess.run(
            command,
            cwd=self._env["HOME"],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=200,
        )

    def ask(self, *options: str) -> Any:
        done = self.run(*options)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def call(self, tool: str, *arguments: str) -> Any:
        return self.ask(
            "--method",
            "tools/call",
            "--tool-name",
            tool,
            *(part for pair in arguments for part in ("--tool-arg", pair)),
        )


@pytest.fixture(params=["stdio", "http"])
def inspector(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Inspector]:
    if request.param == "stdio":
        yield Inspector(
            tmp_path,
            command("treadle", "tasks", "mcp", "--database", f"sqlite:///{tmp_path}/tasks.db"),
        )
        return
    with unlimited(tmp_path) as url:
        token = httpx2.post(
            f"{url}/auth/register", json={"username": "ada", "password": "correct horse"}
        ).json()["access_token"]
        yield Inspector(
            tmp_path,
            [f"{url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {token}"],
        )


def test_the_inspector_lists_the_tools_finds_their_schemas_fit_and_calls_them(
    inspector: Inspector,
) -> None:
    listed = inspector.ask("--method", "tools/list", "--strict")["tools"]
    assert sorted(tool["name"] for tool in listed) == TOOLS
    assert not [
        tool["name"] for tool in listed if "user" in json.dumps(tool["inputSchema"]["properties"])
    ]
    added = inspector.call("add_task", "title=Buy milk")
    assert added["structuredContent"]["data"]["task"]["title"] == "Buy milk"
    found = inspector.call("list_tasks")
    assert [task["title"] for task in found["structuredContent"]["data"]["tasks"]] == ["Buy milk"]
    asked = inspector.call("delete_task", "task=Buy milk")
    assert asked["structuredContent"]["success"] is False, "nobody has said yes"
    assert len(inspector.call("list_tasks")["structuredContent"]["data"]["tasks"]) == 1


def test_the_inspector_without_a_token_sees_nothing(tmp_path: Path) -> None:
    with unlimited(tmp_path) as url:
        done = Inspector(tmp_path, [f"{url}/mcp", "--transport", "http"]).run(
            "--method", "tools/list"
        )
    assert done.returncode != 0
    assert "add_task" not in done.stdout

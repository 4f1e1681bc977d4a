"""Servers of MCP as tests want them, each in a process of its own, and one runtime's worth of
connections.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server import command
from tests.tools.conftest import MakeContext
from treadle.tools.mcp import McpServer, McpServers
from treadle.tools.mcp.tool import McpTool

HERE = Path(__file__).parent
READY_WITHIN_S = 60

Use = Callable[..., Coroutine[Any, Any, Any]]


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[McpServers]:
    async with McpServers(home=tmp_path / "home") as servers:
        yield servers


@contextlib.contextmanager
def listening(words: list[str], port: int, log: Path, **environment: str) -> Generator[str]:
    """Its address, once somebody listens there. It ends with all that it has started."""
    env = {**os.environ, **environment}
    with (
        log.open("wb") as said,
        subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=env,
            start_new_session=True,
        ) as process,
    ):
        try:
            until = time.monotonic() + READY_WITHIN_S
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                assert process.poll() is None, log.read_text(errors="replace")
                assert time.monotonic() < until, (
                    f"{words} does not listen: {log.read_text(errors='replace')}"
                )
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="session")
def our_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with listening(
        command("tests.tools.mcp.a_server", "http", str(port)),
        port,
        tmp_path_factory.mktemp("mcp") / "log",
    ) as url:
        yield url


def ours(**more: Any) -> McpServer:
    """The server of a_server.py, on stdio."""
    fields: dict[str, Any] = {
        "name": "ours",
        "command": command("tests.tools.mcp.a_server", "stdio"),
        "start_timeout_s": 60,
        "wait_s": 60,
    }
    return McpServer(**fields | more)


def bad(how: str, *more: str, **other: Any) -> McpServer:
    """The server of a_bad_server.py that is bad in this way."""
    fields: dict[str, Any] = {
        "name": "bad",
        "command": [sys.executable, str(HERE / "a_bad_server.py"), how, *more],
        "start_timeout_s": 30,
        "timeout_s": 20,
        "protocol": "legacy",
    }
    return McpServer(**fields | other)


@pytest.fixture
def call(make_context: MakeContext, tmp_path: Path) -> Use:
    """Calls a tool of theirs by its name there, with arguments, and gives what it gives."""

    async def use(
        tools: list[McpTool], name: str, /, context: dict[str, Any] | None = None, **arguments: Any
    ) -> Any:
        tool = next(tool for tool in tools if tool.name.partition("_")[2] == name)
        return await tool.execute(
            make_context(tmp_path, **(context or {})), tool.parse(json.dumps(arguments))
        )

    return use

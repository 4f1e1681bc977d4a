"""Each plug-in of the template passes the contract of its kind."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import click
import pytest
from treadle.testing.contracts.agents import *  # noqa: F403  every test of the contract
from treadle.testing.contracts.commands import *  # noqa: F403  every test of the contract
from treadle.testing.contracts.engines import *  # noqa: F403  every test of the contract
from treadle.testing.contracts.models import *  # noqa: F403  every test of the contract
from treadle.testing.contracts.tools import *  # noqa: F403  every test of the contract
from treadle_acme import agents, wire
from treadle_acme.command import acme
from treadle_acme.engine import opened

from treadle import Agent
from treadle.journal.engine import Engine
from treadle.models.model import Model
from treadle.tools.tool import Tool


class Acme(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = json.dumps({"text": f"heard {said['text']}", "tokens": 2}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Acme)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
async def model(url: str) -> AsyncIterator[Model]:
    connection = wire.connect(api_key="k", auth_token=None, base_url=url, timeout_s=9, headers={})
    yield wire.AcmeModel("acme:one", connection)
    await connection.aclose()


@pytest.fixture
def tool() -> Tool[Any]:
    return agents.tide


@pytest.fixture
def arguments() -> dict[str, str]:
    return {"place": "Lisbon"}


@pytest.fixture
def agent() -> Agent[Any, Any]:
    return agents.pilot


@pytest.fixture
def command() -> click.Command:
    return acme


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with opened("memory:") as belt:
        yield belt

"""Servers on HTTP that go, come back, hang, cut their answers or pack them: each costs one call."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from anyio import to_thread
from typing_extensions import override

from tests.tools.mcp.conftest import Use
from treadle.tools.mcp import McpServer, McpServers
from treadle.tools.tool import ToolFailed

pytestmark = [pytest.mark.anyio]


class _Host(http.server.ThreadingHTTPServer):
    """A server with sessions, of 2025, whose tool `do` answers as its test says.

    What it is told about `other` it does.
    """

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Answers)
        self.sessions = self.connections = 0
        self.is_gone = False
        self.session = ""
        self.cancelled = threading.Event()
        self.do: Callable[[_Answers, int], None] = _Answers.nothing

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"

    @override
    def handle_error(self, request: Any, client_address: Any) -> None: ...


class _Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @override
    def setup(self) -> None:
        cast("_Host", self.server).connections += 1
        super().setup()

    def do_POST(self) -> None:
        host = cast("_Host", self.server)
        if host.is_gone:
            self.connection.shutdown(2)
            return
        message: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if message.get("method") == "initialize":
            host.sessions += 1
            host.session = f"session-{host.sessions}"
            info = {"name": "host", "version": "1"}
            self.result(
                message["id"],
                {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                },
            )
        elif self.headers.get("mcp-session-id") != host.session:
            self.whole(404, b"")
        elif message.get("method") == "tools/list":
            self.result(
                message["id"],
                {
                    "tools": [
                        {"name": name, "inputSchema": {"type": "object"}}
                        for name in ("do", "other")
                    ]
                },
            )
        elif message.get("method") == "tools/call":
            if message["params"]["name"] == "do":
                host.do(self, message["id"])
            else:
                self.text(message["id"], "well")
        else:
            if message.get("method") == "notifications/cancelled":
                host.cancelled.set()
            self.whole(202, b"")

    def do_GET(self) -> None:
        self.whole(405, b"")

    do_DELETE = do_GET

    def nothing(self, request: int) -> None:
        self.text(request, "nothing")

    def text(self, request: int, text: str) -> None:
        self.result(request, {"content": [{"type": "text", "text": text}]})

    def result(self, request: int, result: dict[str, Any]) -> None:
        self.whole(200, json.dumps({"jsonrpc": "2.0", "id": request, "result": result}).encode())

    def whole(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("mcp-session-id", cast("_Host", self.server).session)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def host() -> Iterator[_Host]:
    with _Host() as host:
        threading.Thread(target=host.serve_forever, daemon=True).start()
        yield host
        host.shutdown()


def server(host: _Host, **more: Any) -> McpServer:
    return McpServer(name="h", url=host.url, protocol="legacy", **more)


def _packed(answers: _Answers, request: int) -> None:
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": request,
            "result": {"content": [{"type": "text", "text": "x" * 100_000_000}]},
        }
    ).encode()
    answers.whole(200, gzip.compress(body, 1), content_encoding="gzip")


def _cut(answers: _Answers, request: int) -> None:
    answers.send_response(200)
    answers.send_header("content-type", "application/json")
    answers.send_header("content-length", "1000")
    answers.end_headers()
    answers.wfile.write(b'{"jsonrpc"')
    answers.close_connection = True


def _cut_events(answers: _Answers, request: int) -> None:
    answers.send_response(200)
    answers.send_header("content-type", "text/event-stream")
    answers.end_headers()
    answers.wfile.write(b"event: message\ndata: {")
    answers.close_connection = True


def _long_event(answers: _Answers, request: int) -> None:
    answers.send_response(200)
    answers.send_header("content-type", "text/event-stream")
    answers.end_headers()
    for _ in range(20):
        answers.wfile.write(b"data: " + b"x" * (1 << 20))
    answers.close_connection = True


WAYS: list[tuple[Callable[[_Answers, int], None], str, bool | None]] = [
    (
        lambda answers, request: answers.text(request, "x" * 9_000_000),
        "its answer is longer than 8 MiB",
        None,
    ),
    (_packed, "its response is compressed, which was not requested", None),
    (_cut, "its answer was cut", None),
    (_cut_events, "SSE stream", None),
    (_long_event, "SSE stream", None),
    (lambda answers, _: answers.connection.shutdown(2), "the connection broke", None),
    (lambda answers, _: answers.whole(200, b"hello"), "Failed to parse JSON response", None),
    (lambda answers, _: answers.whole(202, b""), "202 Accepted", False),
]


@pytest.mark.parametrize(
    ("do", "says", "happened"),
    WAYS,
    ids=["long", "packed", "cut", "cut-events", "long-event", "broken", "nonsense", "accepted"],
)
async def test_a_bad_answer_costs_its_call(
    servers: McpServers, host: _Host, call: Use, do: Any, says: str, happened: bool | None
) -> None:
    host.do = do
    tools = await servers.tools([server(host)], warn=print)
    with pytest.raises(ToolFailed) as failed:
        await call(tools, "do")
    assert says in failed.value.message
    assert failed.value.happened is happened
    assert await call(tools, "other") == "well"
    assert host.sessions == 1, "the connection is the same one"


async def test_a_call_that_hangs_is_cut_while_others_go_on(
    servers: McpServers, host: _Host, call: Use
) -> None:
    let_go = threading.Event()
    host.do = lambda answers, _: cast("None", let_go.wait(60))
    tools = await servers.tools([server(host, timeout_s=2.0)], warn=print)
    failures: list[ToolFailed] = []

    async def hang() -> None:
        with pytest.raises(ToolFailed, match="no answer within 2 s") as failed:
            await call(tools, "do")
        failures.append(failed.value)

    async with anyio.create_task_group() as group:
        group.start_soon(hang)
        for _ in range(10):
            assert await call(tools, "other") == "well"
    assert failures[0].happened is None
    assert await to_thread.run_sync(host.cancelled.wait, 30)
    assert await call(tools, "other") == "well"
    let_go.set()


async def test_no_call_is_sent_over_a_connection_that_a_server_may_be_closing(
    servers: McpServers, host: _Host, call: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = await servers.tools([server(host)], warn=print)
    before, made = time.monotonic, list[int]()
    for later_s in (0, 2, 6):  # many close a connection that was idle for 5 seconds
        clock = SimpleNamespace(monotonic=lambda later_s=later_s: before() + later_s)
        monkeypatch.setattr("httpcore2._async.http11.time", clock)
        assert await call(tools, "other") == "well"
        made.append(host.connections)
    assert made == [made[0], made[0], made[0] + 1]


async def test_a_session_that_the_server_has_forgotten_is_begun_anew(
    servers: McpServers, host: _Host, call: Use
) -> None:
    tools = await servers.tools([server(host)], warn=print)
    host.session = "none that was given"
    assert await call(tools, "other") == "well"
    assert host.sessions == 2


async def test_a_server_that_has_gone_ran_nothing_and_is_there_when_it_is_back(
    servers: McpServers, call: Use
) -> None:
    with _Host() as first:
        threading.Thread(target=first.serve_forever, daemon=True).start()
        tools = await servers.tools([server(first)], warn=print)
        port = first.server_port
        first.is_gone = True  # to connections that are open
        first.shutdown()
    failures: list[ToolFailed] = []
    # a connection that was open already may live a moment longer
    while not failures or failures[-1].happened is None:
        try:
            await call(tools, "other")
        except ToolFailed as e:
            failures.append(e)
    assert "it cannot be reached (ConnectError). Nothing was run." in failures[-1].message
    with _Host(port) as second:
        threading.Thread(target=second.serve_forever, daemon=True).start()
        assert await call(tools, "other") == "well"
        second.shutdown()

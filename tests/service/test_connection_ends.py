"""The end of a connection with requests under way: each hears of it, none begins, and nothing is left
for the garbage collector to find.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override
from uvicorn.server import ServerState

from tests.service.at_hand import opened
from tests.service.test_connections import Wire
from treadle.service import connection
from treadle.service.connection import BoundedConnection
from treadle.service.connection_table import ConnectionTable
from treadle.service.serving import bound, serve_app

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class OpenWire(Wire):
    """Takes what is written, and notes whether it is read from."""

    is_read = True
    unread = 0
    written = b""

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    @override
    def get_write_buffer_size(self) -> int:
        return self.unread

    @override
    def pause_reading(self) -> None:
        self.is_read = False

    @override
    def resume_reading(self) -> None:
        self.is_read = True

    @override
    def can_write_eof(self) -> bool:
        return True

    @override
    def write_eof(self) -> None: ...

    @override
    def close(self) -> None:
        self.is_open = False


class HeldApp:
    """Notes each request that begins, and answers none before its client is gone."""

    def __init__(self) -> None:
        self.begun = 0
        self.heard: list[Message] = []
        self.changed = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        self._change()
        while (message := await receive())["type"] != "http.disconnect":
            pass
        self.heard.append(message)
        self._change()

    def _change(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


def connected(app: ASGIApp) -> BoundedConnection:
    return on_wire(app, OpenWire("192.0.2.1"))[0]


def on_wire(app: ASGIApp, wire: OpenWire) -> tuple[BoundedConnection, ConnectionTable]:
    table = ConnectionTable([])
    made = table.protocol(uvicorn.Config(app), ServerState(), {})
    made.connection_made(wire)
    return made, table


async def test_each_request_hears_that_the_client_is_gone() -> None:
    app = HeldApp()
    line = connected(app)
    line.data_received(REQUEST * 3)
    with anyio.fail_after(5):
        while not app.begun:
            await app.changed.wait()
        line.connection_lost(None)
        while not app.heard:
            await app.changed.wait()
    assert app.begun == 1


async def _ended(line: BoundedConnection) -> None:
    with anyio.fail_after(5):
        while line.tasks:
            await asyncio.wait(line.tasks)


async def test_no_request_begins_of_a_client_that_sends_too_many_at_once() -> None:
    app = HeldApp()
    line = connected(app)
    line.data_received(REQUEST * (connection.PIPELINED_MOST + 2))
    await _ended(line)
    assert app.begun == 0


async def test_no_request_begins_of_a_connection_that_was_closed() -> None:
    app = HeldApp()
    line = connected(app)
    line.data_received(REQUEST)
    line.transport.abort()
    await _ended(line)
    assert app.begun == 0


@pytest.mark.parametrize("sent", [REQUEST * 99, b"no HTTP\r\n\r\n"], ids=["too-many", "no-http"])
async def test_a_refused_client_is_read_once_at_each_sweep(sent: bytes) -> None:
    wire = OpenWire("192.0.2.1")
    line, table = on_wire(HeldApp(), wire)
    line.data_received(sent)
    await _ended(line)
    assert not wire.is_read
    for _ in range(3):
        table.sweep()
        assert wire.is_read
        line.data_received(b"and more")
        assert not wire.is_read
    assert wire.is_open


CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize("begin", [b"1;x=", b"0\r\nXn: "], ids=["extension", "trailer"])
async def test_framing_without_content_is_refused(begin: bytes) -> None:
    wire = OpenWire("192.0.2.1")
    line, _ = on_wire(HeldApp(), wire)
    line.data_received(CHUNKED + b"\r\n" + begin)
    for _ in range(connection.HEAD_BYTES_MOST // 1_000):
        assert wire.written == b""
        line.data_received(b"y" * 1_000)
    line.data_received(b"y" * 1_000)
    assert wire.written.startswith(b"HTTP/1.1 431 ")
    await _ended(line)


async def test_trailers_together_are_no_longer_than_headers() -> None:
    wire = OpenWire("192.0.2.1")
    line, _ = on_wire(HeldApp(), wire)
    trailers = b"Xn: y\r\n" * (connection.HEAD_BYTES_MOST // 3 + 9)
    line.data_received(CHUNKED + b"\r\n0\r\n" + trailers)
    assert wire.written.startswith(b"HTTP/1.1 431 ")
    await _ended(line)


async def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "READING_S", -1)  # no time is short enough
    wire = OpenWire("192.0.2.1")
    line, table = on_wire(HeldApp(), wire)
    line.data_received(REQUEST)
    line.pause_writing()
    table.sweep()
    assert wire.is_open
    wire.unread = 100_000
    table.sweep()
    assert not wire.is_open
    await _ended(line)


async def test_a_refused_client_is_not_asked_for_its_body() -> None:
    begun, refused = anyio.Event(), anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await refused.wait()
        assert (await receive())["type"] == "http.disconnect"

    wire = OpenWire("192.0.2.1")
    line, _ = on_wire(app, wire)
    line.data_received(CHUNKED + b"Expect: 100-continue\r\n\r\n")
    with anyio.fail_after(5):
        await begun.wait()
    line.data_received(b"no size\r\n")
    answer = wire.written
    assert answer.startswith(b"HTTP/1.1 400 ")
    refused.set()
    await _ended(line)
    assert wire.written == answer


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "sent",
    [b"", b"G", REQUEST, REQUEST * 3, REQUEST * 99, b"no HTTP\r\n\r\n"],
    ids=["nothing", "head", "one", "some", "too-many", "refused"],
)
async def test_what_a_lost_connection_held_goes_with_it(sent: bytes) -> None:
    app = HeldApp()
    line = connected(app)
    if sent:
        line.data_received(sent)
    line.connection_lost(None)
    await _ended(line)
    gone = weakref.ref(line)
    del line
    assert gone() is None


async def test_a_server_leaves_what_it_has_loaded_out_of_collections(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        served = FastAPI()
        served.state.service = here.service
        before, kept = gc.get_freeze_count(), list[int]()

        def ready() -> None:
            kept.append(gc.get_freeze_count())
            here.service.stopping.set()

        with anyio.fail_after(20):
            await serve_app(served, bound("127.0.0.1", 0), ready=ready)
    assert kept[0] > before
    assert gc.get_freeze_count() == 0

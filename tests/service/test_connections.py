"""Bounds on a connection before anything is known of its client: trailers, bytes behind a refusal,
slow readers, places by address.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
import uvicorn
from typing_extensions import override
from uvicorn.server import ServerState

from tests.service.at_hand import PASSWORD, opened, problem
from tests.service.on_the_wire import ask, said
from tests.service.unlimited import unlimited
from treadle.service import border, connection, connection_table
from treadle.service.connection import BoundedConnection
from treadle.service.connection_table import ConnectionTable

LOGIN = b"POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = LOGIN + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
ELSEWHERE = b"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 99999999\r\n\r\n"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with unlimited(
        tmp_path, program="tests.service.hasty", config={"service": {"hosts": []}}
    ) as url:
        yield urlsplit(url).port or 0


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def rest_of(line: socket.socket) -> bytes:
    """All that comes until the server closes. Fails by the socket's timeout if it never does."""
    answer = b""
    try:
        while piece := line.recv(65_536):
            answer += piece
    except ConnectionError:
        pass
    return answer


def poured(line: socket.socket, piece: bytes, most: int) -> int:
    """Bytes that the server took before it closed, or `most`."""
    taken = 0
    try:
        while taken < most:
            line.sendall(piece)
            taken += len(piece)
    except ConnectionError:
        pass
    return taken


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize("host", [b"localhost", b"evil.example"])
def test_trailers_without_end_are_refused(port: int, host: bytes) -> None:
    with connected(port) as line:
        line.sendall(CHUNKED.replace(b"localhost", host))
        assert poured(line, b"Xn: " + b"y" * 8_000 + b"\r\n", 16 << 20) < 16 << 20
    with connected(port) as line:  # one field, whose value does not end
        line.sendall(CHUNKED.replace(b"localhost", host) + b"Xn: ")
        assert poured(line, b"y" * 8_000, 16 << 20) < 16 << 20


def test_a_client_that_awaits_100_continue_and_sends_no_http_is_refused_without_an_error(
    port: int, tmp_path: Path
) -> None:
    head = LOGIN + b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    assert said(port, head + b"no size\r\n").status == 400
    assert ask(port, "GET", "/healthz").status == 200
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_chunk_extensions_without_end_are_refused(port: int) -> None:
    with connected(port) as line:
        line.sendall(LOGIN + b"Transfer-Encoding: chunked\r\n\r\n1;")
        assert poured(line, b"x=" + b"y" * 8_000, 16 << 20) < 16 << 20


def test_a_body_of_one_byte_chunks_is_read(port: int) -> None:
    body = b'{"username": "ada", "password": "not the password"}'
    chunks = b"".join(b"1\r\n%c\r\n" % one for one in body)
    whole = LOGIN + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks
    assert said(port, whole + b"0\r\nX-Trailer: a\r\n\r\n").status == 401


def test_what_stands_in_a_trailer_is_no_header(tmp_path: Path) -> None:
    """B9: behind a proxy that hands trailers on, they named another address each time."""
    content = b'{"username": "ada", "password": "not the password"}'
    settings = {"service": {"proxies": ["127.0.0.1"]}}
    serve = ("serve", "--port", "0")
    with unlimited(tmp_path, *serve, program="treadle", config=settings) as url:
        port = urlsplit(url).port or 0
        statuses = [
            said(
                port,
                LOGIN
                + b"X-Forwarded-For: 192.0.2.1\r\nTransfer-Encoding: chunked\r\n"
                + b"Connection: close\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(content), content)
                + b"X-Forwarded-For: 198.51.100.%d\r\n\r\n" % number,
            ).status
            for number in range(24)
        ]
    assert statuses[0] == 401
    assert statuses[-1] == 429


async def test_a_strangers_body_is_small_and_an_expired_token_is_told_of_as_such(
    tmp_path: Path,
) -> None:
    long = {"message": "x" * (border.STRANGERS_BODY_BYTES + 1)}
    async with opened(tmp_path) as hand:
        ada = await hand.registered("ada")
        assert (await hand.http.post("/chat", json=long, headers=ada)).status_code not in (413, 401)
        problem(await hand.http.post("/chat", json=long), 413)
        over = {"Authorization": "Bearer a.b.c"}
        problem(await hand.http.post("/chat", json=long, headers=over), 401)


async def test_a_made_up_token_lifts_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C4."""
    monkeypatch.setattr("treadle.service.limits.STRANGERS_PER_MINUTE", 5)
    made_up = {"Authorization": "Bearer x"}
    async with opened(tmp_path, limits={"requests_per_minute": 5}) as hand:
        ada = await hand.registered("ada")
        nowhere = [await hand.http.get("/nowhere", headers=made_up) for _ in range(6)]
        assert [one.status_code for one in nowhere[:3]] == [404] * 3
        problem(nowhere[-1], 429)
        signed_in = [await hand.http.get("/nowhere", headers=ada) for _ in range(6)]
        assert [one.status_code for one in signed_in[:3]] == [404] * 3
        problem(signed_in[-1], 429)


# ---------------------------------------------------------------- seconds


@pytest.mark.parametrize("more", [b"x", b"", b"{" * 1000])
def test_a_refused_client_does_not_stay(port: int, more: bytes) -> None:
    with connected(port) as line:
        line.sendall(ELSEWHERE)
        assert line.recv(16).startswith(b"HTTP/1.1 421 ")
        poured(line, more, len(more))
        rest_of(line)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n",
        b"GET / HTTP/1.1\r\nHost: local",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nG",
        LOGIN + b"Content-Length: 50\r\n\r\n{",
        CHUNKED,
        CHUNKED + b"X: y\r\n",
        ELSEWHERE + b"x",
    ],
    ids=range(10),
)
def test_a_client_that_stops_is_shown_out_wherever_it_stops(port: int, sent: bytes) -> None:
    with connected(port) as line:
        line.sendall(sent)
        rest_of(line)


def test_a_client_that_does_not_read_is_shown_out(port: int) -> None:
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(20)
        line.connect(("127.0.0.1", port))
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        line.sendall(request * connection.PIPELINED_MOST)
        assert poured(line, b"\r\n", 64 << 20) < 64 << 20


# ---------------------------------------------------------------- places


@pytest.mark.skipif(sys.platform == "win32", reason="it has other limits on sockets")
def test_where_all_places_are_taken_idle_connections_go(port: int) -> None:
    with ExitStack() as held:
        for _ in range(200):
            held.enter_context(connected(port))
        for _ in range(3):
            assert ask(port, "GET", "/readyz").status == 200


class Wire(asyncio.Transport):
    """Of a client at this address, which sends and reads nothing."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1)})
        self.is_open = True

    @override
    def abort(self) -> None:
        self.is_open = False

    @override
    def is_closing(self) -> bool:
        return not self.is_open

    @override
    def get_write_buffer_size(self) -> int:
        return 0


async def app(scope: object, receive: object, send: object) -> None: ...


def table_of(**settings: int) -> tuple[ConnectionTable, uvicorn.Config, ServerState]:
    return ConnectionTable(["192.0.2.9"]), uvicorn.Config(app), ServerState()


async def test_places_are_those_of_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_table, "CONNECTIONS_OF_ADDRESS", 3)
    table, config, state = table_of()

    def come(address: str) -> Wire:
        wire = Wire(address)
        table.protocol(config, state, {}).connection_made(wire)
        return wire

    household = [come(f"2001:db8::{number:x}") for number in range(1, 5)]
    assert [wire.is_open for wire in household] == [False, True, True, True]
    neighbours = [come(f"2001:db8:0:1::{number}") for number in range(3)]
    exempt = [come(one) for one in ("127.0.0.1", "::1", "192.0.2.9") for _ in range(5)]
    mapped = [come(one) for one in ("::ffff:192.0.2.1", "192.0.2.1") * 2]
    assert all(wire.is_open for wire in (*neighbours, *exempt, *household[1:]))
    assert [wire.is_open for wire in mapped] == [False, True, True, True]


async def test_where_the_server_is_full_the_largest_network_loses_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_table, "CONNECTIONS_MOST", 4)
    table, config, state = table_of()
    made: list[tuple[BoundedConnection, Wire]] = []
    for address in ("192.0.2.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "192.0.2.2"):
        one, wire = table.protocol(config, state, {}), Wire(address)
        one.connection_made(wire)
        made.append((one, wire))
    assert [wire.is_open for _, wire in made] == [True, False, True, True, True]
    assert len(table) == 4
    for one, _ in made:
        one.connection_lost(ConnectionError())
    assert len(table) == 0


def test_a_person_signs_in_while_others_pour(port: int) -> None:
    with ExitStack() as held:
        for _ in range(60):
            line = held.enter_context(connected(port))
            line.sendall(LOGIN + b"Content-Length: 16000\r\n\r\n")
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            answer = http.post("/auth/register", json={"username": "ada", "password": PASSWORD})
            assert answer.status_code == 201

"""A server and a proxy on loopback that answer, stall, cut and redirect as they are told."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import trustme
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSListener

PING = b'event: ping\ndata: {"type": "ping"}\n\n'
GONE = (
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.IncompleteRead,
)


class Step(Enum):
    CUT = "close the connection here"
    HANG = "say nothing until the client goes"
    PINGS = "send signs of life until the client goes"
    CROWD = "wait until as many requests as `crowd` have come"


@dataclass
class Answer:
    """Written step by step, chunked; where there is one step of bytes only, with its length."""

    steps: Sequence[bytes | Step] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    type: str = "text/event-stream"
    chunked: bool = True
    ping: bytes = PING


SILENT_CUT = Answer(steps=(Step.CUT,), status=0)
"""The connection is closed without a byte."""


def stream(*events: Mapping[str, object], **answer: object) -> Answer:
    return Answer(steps=tuple(sse(e) for e in events), **answer)  # pyright: ignore[reportArgumentType]  the fields of Answer


def document(body: object, **answer: object) -> Answer:
    return Answer(
        steps=(json.dumps(body).encode(),), type="application/json", chunked=False, **answer
    )  # pyright: ignore[reportArgumentType]  the same


def sse(event: Mapping[str, object], *, named: bool = True) -> bytes:
    name = f"event: {event['type']}\n" if named else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


@dataclass
class Seen:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """Counted from 1."""

    @property
    def json(self) -> dict[str, object]:
        return json.loads(self.body)


class Server:
    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.port = 0
        self.answers: list[Answer] = []
        self.seen: list[Seen] = []
        self.connections = 0
        self.asked = anyio.Event()
        self.crowd = 0
        self.crowded = anyio.Event()
        self.gone = anyio.Event()
        """A client went while an answer hung."""

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def handle(self, stream: ByteStream) -> None:
        self.connections += 1
        number = self.connections
        reader = BufferedByteReceiveStream(stream)
        async with stream:
            try:
                while True:
                    self.seen.append(await read_request(reader, number))
                    self.asked.set()
                    if len(self.seen) == self.crowd:
                        self.crowded.set()
                    if not await self._answer(stream, self.answers.pop(0)):
                        return
            except GONE:
                return

    async def _answer(self, stream: ByteStream, answer: Answer) -> bool:
        """False where the connection is done for."""
        if answer.status:
            length = (
                ""
                if answer.chunked
                else f"content-length: {sum(len(s) for s in answer.steps if isinstance(s, bytes))}\r\n"
            )
            chunked = "transfer-encoding: chunked\r\n" if answer.chunked else ""
            headers = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
            await stream.send(
                f"HTTP/1.1 {answer.status} X\r\ncontent-type: {answer.type}\r\n{headers}{length}{chunked}\r\n".encode()
            )
        for step in answer.steps:
            match step:
                case bytes():
                    await stream.send(
                        b"%x\r\n%b\r\n" % (len(step), step) if answer.chunked else step
                    )
                case Step.CUT:
                    return False
                case Step.CROWD:
                    await self.crowded.wait()
                case Step.HANG | Step.PINGS:
                    await self._until_gone(stream, answer.ping if step is Step.PINGS else b"")
                    return False
        if answer.chunked:
            await stream.send(b"0\r\n\r\n")
        return True

    async def _until_gone(self, stream: ByteStream, word: bytes) -> None:
        async def listen() -> None:
            with suppress(GONE):
                await stream.receive()
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            while True:
                try:
                    if word:
                        await stream.send(b"%x\r\n%b\r\n" % (len(word), word))
                except GONE:
                    group.cancel_scope.cancel()
                await anyio.sleep(0.01)
        self.gone.set()


async def read_request(reader: BufferedByteReceiveStream, number: int) -> Seen:
    head = (await reader.receive_until(b"\r\n\r\n", 1 << 20)).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
    }
    body = (
        await reader.receive_exactly(int(headers.get("content-length", "0")))
        if headers.get("content-length", "0") != "0"
        else b""
    )
    return Seen(method, target, headers, body, number)


@asynccontextmanager
async def serving(*answers: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Each request takes the next answer."""
    server = Server("https" if tls else "http")
    server.answers = list(answers)
    async with listening(server.handle, tls) as port:
        server.port = port
        yield server


@asynccontextmanager
async def listening(
    handle: Callable[[ByteStream], object], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port: int = listener.extra(SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        serve = (
            TLSListener(listener, tls, standard_compatible=False).serve if tls else listener.serve
        )
        group.start_soon(serve, handle)
        yield port
        group.cancel_scope.cancel()


class Authority:
    """A private certificate authority, in a file."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert("127.0.0.1").configure_cert(context)
        return context


class Proxy:
    """Forwards what is asked in absolute form, and opens tunnels."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []
        self.credentials: list[str | None] = []

    async def handle(self, client: ByteStream) -> None:
        reader = BufferedByteReceiveStream(client)
        async with client:
            try:
                request = await read_request(reader, 0)
            except GONE:
                return
            self.asked.append(f"{request.method} {request.target}")
            self.credentials.append(request.headers.get("proxy-authorization"))
            where = urlsplit(request.target if "//" in request.target else f"//{request.target}")
            async with await anyio.connect_tcp(where.hostname or "", where.port or 80) as origin:
                if request.method == "CONNECT":
                    await client.send(b"HTTP/1.1 200 Connected\r\n\r\n")
                else:
                    head = "".join(f"{n}: {v}\r\n" for n, v in request.headers.items())
                    await origin.send(
                        f"{request.method} {where.path} HTTP/1.1\r\n{head}\r\n".encode()
                        + request.body
                    )
                async with anyio.create_task_group() as group:
                    group.start_soon(_pipe, client, origin, group.cancel_scope)
                    group.start_soon(_pipe, origin, client, group.cancel_scope)


async def _pipe(source: ByteStream, target: ByteStream, scope: anyio.CancelScope) -> None:
    try:
        while True:
            await target.send(await source.receive())
    except GONE:
        scope.cancel()


@asynccontextmanager
async def proxying(tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    proxy = Proxy()
    async with listening(proxy.handle, tls) as port:
        proxy.port = port
        yield proxy

"""The proxy on real sockets: which hosts it reaches, what it answers, and that it relays every byte
and no more.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream, SocketStream

from treadle.config.hosts import HostList
from treadle.policy.sandboxes import connections as connections_module
from treadle.policy.sandboxes import lookups, proxy_streams
from treadle.policy.sandboxes import proxy as proxy_module
from treadle.policy.sandboxes.parent_proxy import ParentProxies
from treadle.policy.sandboxes.proxy import Proxy

PUBLIC = "93.184.216.34"
NAMES = {
    "example.org": [PUBLIC],
    "two.example.org": ["93.184.216.35", PUBLIC],
    "mixed.example.org": [PUBLIC, "10.0.0.1"],
    "mapped.example.org": ["::ffff:127.0.0.1"],
    "nat64.example.org": ["64:ff9b::7f00:1"],
    "six.example.org": ["2002:7f00:1::1"],
    "metadata.example.org": ["169.254.169.254"],
    "shared.example.org": ["100.64.0.1"],
    "link.example.org": ["fe80::1%eth0"],
    "nothing.example.org": [],
}
Handler = Callable[[SocketStream], Awaitable[None]]


class Place:
    """A proxy, and behind it a server that all public addresses lead to."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.refused: list[tuple[str, str]] = []
        self.resolved: list[str] = []
        self.answers: anyio.Event | None = None
        """For which the resolver waits."""
        self.routed: list[tuple[str, int]] = []
        self.received = b""
        """By the server."""
        self.ending = b"\r\n\r\n"
        """Of the request that the server waits for."""
        self.answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"
        self.is_closing = True
        self.names = {name: list(addresses) for name, addresses in NAMES.items()}
        self.unreachable: set[str] = set()

    async def resolve(self, host: str, port: int) -> list[str]:
        self.resolved.append(host)
        if self.answers is not None:
            await self.answers.wait()
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.names[host]

    def route(self, address: str, port: int) -> tuple[str, int]:
        self.routed.append((address, port))
        return ("127.0.0.1", 1) if address in self.unreachable else ("127.0.0.1", self.server_port)

    async def serve(self, stream: SocketStream) -> None:
        """Read one request, answer it and close. Where it begins with `echo`, send everything back."""
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await self._serve(stream)

    async def _serve(self, stream: SocketStream) -> None:
        self.received += await stream.receive()
        if self.received.startswith(b"echo"):
            await stream.send(self.received)
            async for data in stream:
                await stream.send(data)
            return
        while not self.received.endswith(self.ending):
            self.received += await stream.receive()
        await stream.send(self.answer)
        if self.is_closing:
            return
        async for data in stream:
            self.received += data

    async def connect(self) -> SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self.port)

    async def ask(self, data: bytes | str) -> bytes:
        async with await self.connect() as stream:
            await stream.send(data.encode() if isinstance(data, str) else data)
            return await everything(stream)

    async def get(self, host: str, more: str = "") -> str:
        return (
            await self.ask(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{more}\r\n")
        ).decode()


async def everything(stream: ByteStream) -> bytes:
    found = b""
    with anyio.fail_after(5):
        try:
            while True:
                found += await stream.receive()
        except anyio.EndOfStream:
            return found


@asynccontextmanager
async def placed(
    *hosts: str, environment: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Place]:
    listening = socket.create_server(("127.0.0.1", 0))
    place = Place(listening.getsockname()[1])
    server = await anyio.create_tcp_listener(local_host="127.0.0.1")
    place.server_port = server.extra(anyio.abc.SocketAttribute.local_port)
    environment = {
        name: value.replace("SERVER", str(place.server_port))
        for name, value in (environment or {}).items()
    }
    proxy = Proxy(
        HostList.of(hosts or ("*.example.org", "example.org"), {}).allows,
        lambda host, why: place.refused.append((host, why)),
        parents=ParentProxies(environment),
        resolve=place.resolve,
        route=place.route,
    )
    async with server, anyio.create_task_group() as running:
        running.start_soon(server.serve, place.serve)
        running.start_soon(proxy.serve, listening)
        place.proxy = proxy
        try:
            yield place
        finally:
            await proxy.stop()
            running.cancel_scope.cancel()


# ---------------------------------------------------------------- which hosts


async def test_a_listed_host_is_reached_at_the_address_that_was_checked() -> None:
    async with placed() as place:
        assert await place.get("example.org") == "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"
        assert place.received == b"GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n"
        assert (place.routed, place.refused) == ([(PUBLIC, 80)], [])


async def test_a_host_that_is_not_listed_is_not_even_resolved() -> None:
    async with placed() as place:
        answer = await place.get("evil.net")
        assert answer.startswith("HTTP/1.1 403 Forbidden\r\n")
        assert answer.endswith(
            "commands cannot reach evil.net:80: the setting permissions.network does not list it. The user can add it there.\n"
        )
        assert (await place.ask("CONNECT evil.net:443 HTTP/1.1\r\n\r\n")).startswith(
            b"HTTP/1.1 403 Forbidden\r\n"
        )
        assert (place.resolved, place.routed) == ([], [])
        assert [host for host, _ in place.refused] == ["evil.net", "evil.net"]


@pytest.mark.parametrize("host", ["mixed", "mapped", "nat64", "six", "metadata", "shared", "link"])
async def test_a_name_with_any_address_that_is_not_public_is_refused(host: str) -> None:
    async with placed() as place:
        answer = await place.get(f"{host}.example.org")
        assert answer.startswith("HTTP/1.1 403 ")
        assert "public" in answer
        assert (await place.ask(f"CONNECT {host}.example.org:443 HTTP/1.1\r\n\r\n")).startswith(
            b"HTTP/1.1 403 "
        )
        assert place.routed == []


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[fd00::1]",
        "0.0.0.0",
    ],
)
async def test_a_private_address_is_refused_even_where_it_is_listed(address: str) -> None:
    async with placed(address, "*") as place:
        assert (await place.get(address)).startswith("HTTP/1.1 403 ")
        assert place.routed == []


async def test_an_address_is_reached_only_where_it_is_listed_literally() -> None:
    async with placed("*") as place:
        assert (await place.get(PUBLIC)).startswith("HTTP/1.1 403 ")
    async with placed(PUBLIC) as place:
        assert (await place.get(PUBLIC)).startswith("HTTP/1.1 200 ")
        assert place.resolved == []


@pytest.mark.parametrize(
    "spelling",
    ["2130706433", "0x7f000001", "127.1", "0177.0.0.1", "127.0.0.1.", "1.0.0.127.in-addr", "%31"],
)
async def test_odd_spellings_of_addresses_reach_nothing(spelling: str) -> None:
    async with placed("*", "127.0.0.1") as place:
        assert (await place.get(spelling))[:12] in ("HTTP/1.1 400", "HTTP/1.1 403", "HTTP/1.1 502")
        assert place.routed == []


async def test_a_port_that_is_not_the_webs_is_listed_with_its_host() -> None:
    async with placed("example.org") as place:
        assert b" 403 " in await place.ask("CONNECT example.org:22 HTTP/1.1\r\n\r\n")
        assert place.resolved == []
    async with placed("example.org:8080") as place:
        assert "200 OK" in await place.get("example.org:8080")
        assert place.routed == [(PUBLIC, 8080)]


async def test_a_name_that_changes_its_address_is_checked_again_and_what_was_checked_is_used() -> (
    None
):
    async with placed() as place:
        assert "200 OK" in await place.get("example.org")
        place.names["example.org"] = ["127.0.0.1"]
        assert "200 OK" in await place.get("example.org")
        assert {address for address, _ in place.routed} == {PUBLIC}
        place.proxy.forget_addresses()
        assert " 403 " in await place.get("example.org")
        assert {address for address, _ in place.routed} == {PUBLIC}


async def test_a_name_is_asked_for_once_however_many_want_it_and_a_failure_is_kept_for_a_moment() -> (
    None
):
    async with placed("example.org", "*.example.org") as place:
        place.answers = anyio.Event()
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(place.get, "example.org")
            while (
                len([client for client in place.proxy.connections if client._head is not None]) < 10
                or not place.resolved
            ):
                await anyio.sleep(0)
            place.answers.set()
        assert place.resolved == ["example.org"]
        assert "502" in await place.get("gone.example.org")
        assert "502" in await place.get("gone.example.org")
        assert place.resolved == ["example.org", "gone.example.org"]
        place.proxy.forget_addresses()
        assert "502" in await place.get("gone.example.org")
        assert place.resolved[2:] == ["gone.example.org"]


async def test_a_proxy_asks_for_a_few_names_at_a_time_and_keeps_no_other_from_asking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, under_way = threading.Event(), set[str]()

    def ask(host: str, port: int, **_: Any) -> list[Any]:
        under_way.add(host)
        if host.startswith("slow"):
            answers.wait(60)
        return [(0, 0, 0, "", (PUBLIC, port))]

    monkeypatch.setattr(lookups.socket, "getaddrinfo", ask)
    async with anyio.create_task_group() as group:
        try:
            for number in range(4):
                hostile = lookups.Lookups(lookups.resolve, group.start_soon)
                for name in range(50):
                    group.start_soon(hostile.of, f"slow{number}x{name}.example.org", 443)
            with anyio.fail_after(20):
                while len(under_way) < 4 * lookups.AT_ONCE:
                    await anyio.sleep(0)
                assert await lookups.Lookups(lookups.resolve, group.start_soon).of(
                    "quick.example.org", 443
                ) == [PUBLIC]
            assert len(under_way) == 4 * lookups.AT_ONCE + 1
        finally:
            answers.set()


async def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    async with placed() as place:
        place.unreachable.add("93.184.216.35")
        assert "200 OK" in await place.get("two.example.org")


@pytest.mark.parametrize("host", ["unknown.example.org", "nothing.example.org"])
async def test_a_name_without_addresses_is_told(host: str) -> None:
    async with placed() as place:
        assert (await place.get(host)).startswith("HTTP/1.1 502 ")
        assert place.refused == []


async def test_a_host_that_refuses_the_connection_is_told() -> None:
    async with placed() as place:
        place.unreachable.add(PUBLIC)
        answer = await place.get("example.org")
        assert answer.startswith("HTTP/1.1 502 ")
        assert "example.org could not be reached" in answer


# ---------------------------------------------------------------- requests


@pytest.mark.parametrize(
    "data",
    [
        "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "nonsense\r\n\r\n",
        "GET http://a.example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
    ],
)
async def test_what_is_no_request_for_a_proxy_is_refused(data: str) -> None:
    async with placed() as place:
        assert (await place.ask(data)).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert place.resolved == []


async def test_a_head_that_does_not_end_is_refused() -> None:
    async with placed() as place:
        assert (await place.ask(b"GET http://example.org/" + b"a" * 40_000)).startswith(
            b"HTTP/1.1 431 "
        )


async def test_a_second_request_on_a_connection_is_not_forwarded() -> None:
    async with placed() as place:
        second = "GET http://other.org/ HTTP/1.1\r\nHost: other.org\r\n\r\n"
        place.ending = b"\r\n\r\nbody"
        request = f"POST http://example.org/ HTTP/1.1\r\nHost: example.org\r\nContent-Length: 4\r\n\r\nbody{second}"
        assert b"200 OK" in await place.ask(request)
        assert place.received.endswith(b"\r\n\r\nbody")


async def test_a_head_and_a_body_may_arrive_in_pieces() -> None:
    async with placed() as place, await place.connect() as stream:
        place.ending = b"0\r\n\r\n"
        for piece in (
            "POST http://exam",
            "ple.org/ HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r",
            "\n3\r\nabc",
            "\r\n0\r\n\r\nmore",
        ):
            await stream.send(piece.encode())
            await anyio.wait_all_tasks_blocked()
        assert b"200 OK" in await everything(stream)
        assert place.received.endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")


async def test_chunks_that_are_not_well_formed_end_the_connection() -> None:
    async with placed() as place:
        place.ending = b"never"
        with suppress(anyio.BrokenResourceError):
            assert (
                await place.ask(
                    "POST http://example.org/ HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nGET /x HTTP/1.1\r\n\r\n"
                )
                == b""
            )
        assert b"/x" not in place.received


# ---------------------------------------------------------------- tunnels


async def tunnel(place: Place) -> SocketStream:
    stream = await place.connect()
    await stream.send(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n")
    assert await stream.receive() == b"HTTP/1.1 200 Connection established\r\n\r\n"
    return stream


async def test_a_tunnel_carries_every_byte_both_ways_and_each_direction_ends_by_itself() -> None:
    sent = b"echo" + bytes(range(256)) * 16_384
    async with (
        placed() as place,
        await tunnel(place) as stream,
        anyio.create_task_group() as sending,
    ):

        async def send() -> None:
            await stream.send(sent)
            await stream.send_eof()

        sending.start_soon(send)
        assert await everything(stream) == sent


async def test_what_follows_the_request_at_once_is_carried_too() -> None:
    async with placed() as place, await place.connect() as stream:
        await stream.send(b"CONNECT example.org:443 HTTP/1.1\r\n\r\necho at once")
        await stream.send_eof()
        assert (await everything(stream)).endswith(b"established\r\n\r\necho at once")


async def test_a_reader_that_stops_reading_is_waited_for() -> None:
    """What is buffered for it stays bounded: the sender has to wait."""
    async with placed() as place, await tunnel(place) as stream:
        await stream.send(b"echo")
        (client,) = place.proxy.connections
        while client.transport.is_reading():
            with anyio.move_on_after(0.05):
                await stream.send(b"x" * 1_000_000)
            assert client.transport.get_write_buffer_size() < 1_000_000


async def test_the_end_of_the_server_ends_the_client() -> None:
    async with placed() as place, await tunnel(place) as stream:
        await stream.send(b"not an echo\r\n\r\n")
        assert (await everything(stream)).endswith(b"hello")
        await stream.aclose()
        assert await ended(place)


async def ended(place: Place) -> bool:
    with anyio.fail_after(5):
        while place.proxy.connections:
            await anyio.lowlevel.checkpoint()
    return True


async def test_a_client_that_goes_takes_its_connection_along() -> None:
    async with placed() as place:
        async with await tunnel(place) as stream:
            await stream.send(b"echo")
            assert await stream.receive() == b"echo"
        assert await ended(place)


async def test_a_client_that_goes_while_it_is_refused_ends_only_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transport: Any = asyncio.selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    write = transport.write
    async with placed() as place:
        with socket.create_connection(("127.0.0.1", place.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

            def write_and_be_left(self: Any, data: bytes) -> None:
                write(self, data)
                client.close()

            client.sendall(b"CONNECT evil.net:443 HTTP/1.1\r\n\r\n")
            with monkeypatch.context() as patched:
                patched.setattr(transport, "write", write_and_be_left)
                while not place.refused:
                    await anyio.lowlevel.checkpoint()
        assert await ended(place)
        assert "hello" in await place.get("example.org")


# ---------------------------------------------------------------- limits


async def test_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_streams, "CONNECTIONS_MAX", 2)
    async with (
        placed() as place,
        await tunnel(place),
        await tunnel(place),
        await place.connect() as third,
    ):
        assert (await everything(third)).startswith(b"HTTP/1.1 503 ")


@contextmanager
def descriptors(limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_all_proxies_share_the_descriptors_and_each_has_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with placed() as first, placed() as second, AsyncExitStack() as held:

        async def fill(place: Place) -> int:
            opened = 0
            for _ in range(100):
                stream = await held.enter_async_context(await place.connect())
                await stream.send(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
                if (await stream.receive()).startswith(b"HTTP/1.1 503"):
                    await stream.aclose()
                    break
                opened += 1
            return opened

        monkeypatch.setattr(connections_module, "connections_max", lambda: 40)
        assert (await fill(first), len(first.proxy.connections)) == (40, 40)
        assert (await fill(second), len(second.proxy.connections)) == (20, 20)
        assert len(first.proxy.connections) == 20


def test_half_of_the_descriptors_are_left_for_everything_else() -> None:
    with descriptors(400):
        assert connections_module.connections_max() == 100


async def test_a_proxy_without_a_descriptor_accepts_again_and_floods_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with placed() as place:
        async with await place.connect():  # what asyncio and the test need is there
            pass
        client = socket.socket()
        with client, descriptors(0):
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(("127.0.0.1", place.port))
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
        assert "200" in await place.get("example.org")
    assert not caplog.records


async def test_a_connection_on_which_nothing_moves_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_module, "IDLE_S", 0.0)
    monkeypatch.setattr(proxy_module, "_SWEEP_S", 0.01)
    async with placed() as place, await tunnel(place) as stream:
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)), anyio.fail_after(5):
            await stream.receive()


async def test_stopping_ends_every_connection() -> None:
    async with placed() as place, await tunnel(place) as stream:
        await place.proxy.stop()
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)), anyio.fail_after(5):
            await stream.receive()
        with pytest.raises(OSError):
            await place.connect()


# ---------------------------------------------------------------- proxies of the user


async def test_a_connection_that_comes_as_the_proxy_stops_is_closed_without_an_error() -> None:
    loop = asyncio.get_running_loop()
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, error: errors.append(error))
    async with anyio.create_task_group() as tasks:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            tasks.start_soon(connections_module.accept, listening, asyncio.Protocol)
            await anyio.wait_all_tasks_blocked()
            with socket.create_connection(listening.getsockname()) as client:
                # the next step of the loop cancels, and then finds the connection
                loop.call_soon(tasks.cancel_scope.cancel)
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
                listening.close()
                client.settimeout(10)
                with suppress(ConnectionResetError):
                    assert client.recv(1) == b""
    assert errors == []


async def test_the_users_own_proxy_is_asked_for_a_tunnel_with_its_password() -> None:
    async with placed(environment={"HTTPS_PROXY": "http://me:p%40ss@127.0.0.1:SERVER"}) as place:
        place.answer, place.is_closing = b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\nfirst", False
        async with await place.connect() as stream:
            await stream.send(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
            received = b""
            while not received.endswith(b"first"):
                received += await stream.receive()
            assert received == b"HTTP/1.1 200 Connection established\r\n\r\nfirst"
            assert (
                place.received
                == b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n\r\n"
            )
        assert place.resolved == []


async def test_the_users_own_proxy_gets_plain_requests_in_absolute_form() -> None:
    async with placed(environment={"http_proxy": "127.0.0.1:SERVER"}) as place:
        assert "hello" in await place.get("example.org")
        assert place.received.startswith(
            b"GET http://example.org:80/ HTTP/1.1\r\nHost: example.org\r\n"
        )


async def test_the_list_counts_before_the_users_own_proxy_and_so_do_addresses() -> None:
    async with placed("10.0.0.1", environment={"all_proxy": "http://127.0.0.1:SERVER"}) as place:
        assert " 403 " in await place.get("evil.net")
        assert " 403 " in await place.get("10.0.0.1")
        assert place.received == b""


async def test_a_proxy_that_refuses_is_told() -> None:
    async with placed(environment={"HTTPS_PROXY": "http://127.0.0.1:SERVER"}) as place:
        place.answer = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
        answer = await place.ask("CONNECT example.org:443 HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"407" in answer


async def test_a_host_of_no_proxy_is_reached_directly() -> None:
    async with placed(
        environment={"ALL_PROXY": "http://127.0.0.1:1", "NO_PROXY": "example.org"}
    ) as place:
        assert "hello" in await place.get("example.org")
        assert place.routed == [(PUBLIC, 80)]


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1080", "http://", "http://127.0.0.1:x"])
def test_a_proxy_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        ParentProxies({"HTTPS_PROXY": url})

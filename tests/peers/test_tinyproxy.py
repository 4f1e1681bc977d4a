"""Requests to models through Debian's tinyproxy."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from tests.models.providers.claude import WHOLE
from tests.models.providers.loopback import Authority, Server, serving, stream
from tests.models.providers.speech import HELLO, KEY, MODEL
from tests.peers.conftest import absent
from treadle.errors import AgentError, ErrorKind
from treadle.models.model import fold_stream
from treadle.models.providers.anthropic import AnthropicModel, connect

TINYPROXY = shutil.which("tinyproxy")

Start = Callable[..., AbstractAsyncContextManager[str]]


@pytest.fixture
def tinyproxy(tmp_path: Path) -> Start:
    """Start a proxy with lines of configuration; the value is its `host:port`."""
    if TINYPROXY is None:
        absent("there is no tinyproxy (Debian: apt install tinyproxy)")

    @asynccontextmanager
    async def start(*lines: str) -> AsyncIterator[str]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (tmp_path / "tinyproxy.conf").write_text(
            "\n".join((f"Port {port}", "Listen 127.0.0.1", "Timeout 20", *lines, ""))
        )
        command = [TINYPROXY, "-d", "-c", str(tmp_path / "tinyproxy.conf")]
        with (tmp_path / "tinyproxy.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            with anyio.fail_after(20):
                while not await _listens(port):
                    assert process.poll() is None, (tmp_path / "tinyproxy.log").read_text()
                    await anyio.sleep(0.02)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()

    return start


async def _listens(port: int) -> bool:
    try:
        async with await anyio.connect_tcp("127.0.0.1", port):
            return True
    except OSError:
        return False


async def ask(server: Server | str) -> str:
    url = server if isinstance(server, str) else server.url
    connection = connect(api_key=KEY, base_url=url)
    try:
        with anyio.fail_after(20):
            response = await fold_stream(AnthropicModel(MODEL, connection=connection).stream(HELLO))
    finally:
        await connection.aclose()
    return response.text


@pytest.mark.parametrize("speaks_tls", [False, True])
async def test_a_response_comes_through_the_proxy(
    tinyproxy: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, speaks_tls: bool
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    tls = authority.server() if speaks_tls else None
    async with serving(stream(*WHOLE), tls=tls) as server, tinyproxy() as proxy:
        monkeypatch.setenv("ALL_PROXY", f"http://{proxy}")
        assert await ask(server) == "Good day"
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    log = (tmp_path / "tinyproxy.log").read_text()
    assert (f"CONNECT 127.0.0.1:{server.port}" if tls else f"POST {server.url}") in log


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_takes_the_password_of_its_address(
    tinyproxy: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheme: str
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    tls = authority.server() if scheme == "https" else None
    async with (
        serving(stream(*WHOLE), tls=tls) as server,
        tinyproxy("BasicAuth ada secret") as proxy,
    ):
        monkeypatch.setenv("ALL_PROXY", f"http://ada:secret@{proxy}")
        assert await ask(server) == "Good day"
        assert "proxy-authorization" not in server.seen[0].headers

        monkeypatch.setenv("ALL_PROXY", f"http://ada:wrong@{proxy}")
        with pytest.raises(AgentError, match=r"\b(401|407)\b") as raised:
            await ask(server)
        assert len(server.seen) == 1
    assert "wrong" not in str(raised.value)


async def test_a_proxy_that_refuses_a_tunnel_is_named_with_its_reason(
    tinyproxy: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tinyproxy("ConnectPort 1") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy}")
        refused = r"the proxy of the environment refused to connect to .*403.*NO_PROXY"
        with pytest.raises(AgentError, match=refused) as raised:
            await ask("https://127.0.0.1:2")
    assert raised.value.kind is ErrorKind.INVALID


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_cannot_reach_the_server_is_a_network_error(
    tinyproxy: Start, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    async with tinyproxy() as proxy:
        monkeypatch.setenv("ALL_PROXY", f"http://{proxy}")
        with pytest.raises(AgentError) as raised:
            await ask(f"{scheme}://127.0.0.1:2")
    assert raised.value.kind in (ErrorKind.NETWORK,), raised.value
    assert "<html" not in str(raised.value).lower()

"""The network below the wire: proxies, certificates, kept connections, event loops.

What only our own connection promises is asked of it alone.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream

from tests.models.providers.claude import WHOLE, text
from tests.models.providers.conftest import ModelOn
from tests.models.providers.loopback import (
    SILENT_CUT,
    Answer,
    Authority,
    Server,
    Step,
    document,
    listening,
    proxying,
    serving,
    stream,
)
from tests.models.providers.speech import HELLO, KEY
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Message
from treadle.models.model import ModelRequest, fold_stream
from treadle.models.providers import exchange, http_pool
from treadle.models.providers.anthropic import AnthropicModel, connect
from treadle.models.providers.http import HttpConnection
from treadle.types import Settings


def answers(count: int = 1) -> list[Answer]:
    return [stream(*WHOLE)] * count


async def ask(model: AnthropicModel) -> str:
    with anyio.fail_after(20):
        return (await fold_stream(model.stream(HELLO))).text


# ---------------------------------------------------------------- proxies


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_proxy_of_the_environment_is_used(
    model_on: ModelOn, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async with serving(*answers()) as server, proxying() as proxy:
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert await ask(model_on(server)) == "Good day"
        assert proxy.asked == [f"POST {server.url}/v1/messages"]


async def test_a_proxy_is_given_its_own_credentials_and_the_server_never_sees_them(
    model_on: ModelOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(*answers()) as server, proxying() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://ada:secret@127.0.0.1:{proxy.port}")
        assert await ask(model_on(server)) == "Good day"
        assert proxy.credentials == ["Basic " + base64.b64encode(b"ada:secret").decode()]
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_proxy_may_be_named_without_a_scheme(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(*answers()) as server, proxying() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{proxy.port}")
        assert await ask(own(server)) == "Good day"
        assert len(proxy.asked) == 1


@pytest.mark.parametrize("value", ["127.0.0.1", "*", "localhost,127.0.0.1"])
async def test_no_proxy_goes_past_it(
    model_on: ModelOn, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    async with serving(*answers()) as server, proxying() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", value)
        assert await ask(model_on(server)) == "Good day"
        assert proxy.asked == []


async def test_https_goes_through_a_tunnel(
    model_on: ModelOn, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with serving(*answers(2), tls=authority.server()) as server, proxying() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        model = model_on(server)
        assert [await ask(model), await ask(model)] == ["Good day", "Good day"]
        assert proxy.asked == [f"CONNECT 127.0.0.1:{server.port}"]
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("server_speaks_tls", [True, False])
async def test_a_proxy_may_itself_speak_tls(
    model_on: ModelOn,
    monkeypatch: pytest.MonkeyPatch,
    authority: Authority,
    server_speaks_tls: bool,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    tls = authority.server() if server_speaks_tls else None
    async with (
        serving(*answers(2), tls=tls) as server,
        proxying(tls=authority.server()) as proxy,
    ):
        monkeypatch.setenv("ALL_PROXY", f"https://127.0.0.1:{proxy.port}")
        model = model_on(server)
        assert [await ask(model), await ask(model)] == ["Good day", "Good day"]
        assert proxy.asked[0] == (
            f"CONNECT 127.0.0.1:{server.port}" if tls else f"POST {server.url}/v1/messages"
        )


async def test_a_proxy_whose_certificate_is_not_trusted_is_named(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, authority: Authority
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with (
        serving(*answers(), tls=authority.server()) as server,
        proxying(tls=Authority(tmp_path / "other").server()) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", f"https://127.0.0.1:{proxy.port}")
        named = rf"the certificate of the proxy 127\.0\.0\.1:{proxy.port} .*SSL_CERT_FILE"
        with pytest.raises(AgentError, match=named) as raised:
            await ask(own(server))
        assert proxy.asked == []
    assert raised.value.kind is ErrorKind.INVALID


async def test_a_proxy_that_does_not_speak_tls_is_named(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer_at_once(client: ByteStream) -> None:
        async with client:
            await client.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    async with listening(answer_at_once) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"https://127.0.0.1:{port}")
        named = f"cannot speak TLS with the proxy 127.0.0.1:{port}"
        with pytest.raises(AgentError, match=named) as raised:
            await ask(own("https://127.0.0.1:1"))
    assert raised.value.kind is ErrorKind.NETWORK


async def test_a_proxy_that_is_not_there_is_named(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxying() as gone:
        port = gone.port
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
    async with serving(*answers()) as server:
        with pytest.raises(AgentError, match=f"the proxy 127.0.0.1:{port}") as raised:
            await ask(own(server))
    assert raised.value.kind is ErrorKind.NETWORK


async def test_a_proxy_that_refuses_a_tunnel_is_not_asked_again(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(Answer(status=407, chunked=False)) as refusing:
        monkeypatch.setenv("HTTPS_PROXY", refusing.url)
        with pytest.raises(AgentError, match=r"refused to connect to .*407") as raised:
            await ask(own("https://127.0.0.1:1"))
    assert raised.value.kind is ErrorKind.INVALID


@pytest.mark.parametrize("status", [401, 407])
async def test_a_page_that_asks_for_a_password_may_be_of_a_proxy(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    page = b"<html><title>Password wanted</title></html>"
    async with serving(
        Answer(status=status, steps=(page,), type="text/html", chunked=False)
    ) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        with pytest.raises(AgentError, match=r"Password wanted.*\bproxy\b.*") as raised:
            await ask(own("http://127.0.0.1:9"))
    assert "HTTP_PROXY" in str(raised.value)


async def test_a_kind_of_proxy_that_cannot_be_used_is_named(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(AgentError, match="'socks5' proxy") as raised:
        await ask(own("http://127.0.0.1:9"))
    assert raised.value.kind is ErrorKind.INVALID


async def test_a_netrc_file_does_not_replace_the_key(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("default login ada password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with serving(*answers()) as server:
        assert await ask(own(server)) == "Good day"
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


# ---------------------------------------------------------------- certificates


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def test_a_private_authority_is_trusted_where_ssl_cert_file_names_it(
    model_on: ModelOn, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with serving(*answers(), tls=authority.server()) as server:
        assert await ask(model_on(server)) == "Good day"


async def test_a_certificate_that_nobody_vouches_for_is_refused_with_what_to_do(
    model_on: ModelOn, authority: Authority
) -> None:
    async with serving(*answers(), tls=authority.server()) as server:
        with pytest.raises(AgentError, match="SSL_CERT_FILE") as raised:
            await ask(model_on(server))
        assert server.seen == []
    assert raised.value.kind is ErrorKind.INVALID


async def test_the_trust_store_is_read_once_for_many_first_requests(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    read, reading = list[str](), ssl.create_default_context

    def counted() -> ssl.SSLContext:
        read.append(threading.current_thread().name)
        return reading()

    monkeypatch.setattr(ssl, "create_default_context", counted)
    async with serving(*answers(4), tls=authority.server()) as server:
        model = own(server)
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(ask, model)
    assert len(read) == 1
    assert read[0] != threading.main_thread().name


async def test_a_server_that_is_not_there_is_told_in_the_words_of_the_system(own: ModelOn) -> None:
    async with serving() as server:
        pass
    with (
        anyio.fail_after(20),
        pytest.raises(
            AgentError,
            match=r"^cannot connect to 127\.0\.0\.1:\d+: Connection refused: check base_url, and that the server is running$",
        ),
    ):
        await ask(own(server))


# ---------------------------------------------------------------- kept connections


async def test_a_kept_connection_that_has_died_is_replaced_at_once(own: ModelOn) -> None:
    async with serving(*answers(), SILENT_CUT, *answers()) as server:
        model = own(server)
        assert [await ask(model), await ask(model)] == ["Good day", "Good day"]
        assert [seen.connection for seen in server.seen] == [1, 1, 2]
        assert server.seen[1].body == server.seen[2].body


async def test_a_large_body_is_sent_once_more_where_the_kept_connection_had_died(
    own: ModelOn,
) -> None:
    request = ModelRequest(
        messages=[Message.user(" ".join(map(str, range(300_000))))], settings=Settings(max_tokens=5)
    )
    async with serving(*answers(), SILENT_CUT, *answers()) as server:
        model = own(server)
        assert await ask(model) == "Good day"
        with anyio.fail_after(20):
            assert (await fold_stream(model.stream(request))).text == "Good day"
        assert [seen.connection for seen in server.seen] == [1, 1, 2]
        assert server.seen[1].body == server.seen[2].body


async def test_dead_connections_are_replaced_by_one_new_one_however_many_were_kept(
    own: ModelOn,
) -> None:
    async with serving(*answers(3)) as server:
        model = own(server)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask, model)
        kept = server.connections
        server.answers = [SILENT_CUT] * kept + answers()
        assert await ask(model) == "Good day"
        assert server.connections == kept + 1


async def test_a_connection_is_not_kept_after_an_answer_that_was_not_read_to_its_end(
    own: ModelOn,
) -> None:
    refused = document(
        {"type": "error", "error": {"type": "overloaded_error", "message": "x" * 300_000}},
        status=529,
    )
    async with serving(refused, *answers()) as server:
        model = own(server)
        with pytest.raises(AgentError):
            await ask(model)
        assert await ask(model) == "Good day"
        assert [seen.connection for seen in server.seen] == [1, 2]


async def test_more_than_a_hundred_answers_can_be_under_way(own: ModelOn) -> None:
    async with serving(*[Answer(steps=(Step.CROWD, *stream(*WHOLE).steps))] * 150) as server:
        server.crowd = 150
        model = own(server)
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for _ in range(150):
                    group.start_soon(fold_stream, model.stream(HELLO))


async def test_an_answer_that_does_not_end_is_left_after_its_last_event(own: ModelOn) -> None:
    unended = Answer(steps=(*stream(*WHOLE).steps, Step.HANG))
    async with serving(unended) as server:
        assert await ask(own(server)) == "Good day"
        with anyio.fail_after(20):
            await server.gone.wait()


async def test_a_response_without_end_is_cut_and_not_asked_for_again(
    model_on: ModelOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C5: it had no bound but the run's time."""
    monkeypatch.setattr(exchange, "RESPONSE_BYTES_MAX", 1 << 20)
    pieces = stream(*WHOLE[:2], *[text("x" * 10_000)] * 400)
    async with serving(Answer(steps=(*pieces.steps, Step.HANG))) as server:
        with anyio.fail_after(20), pytest.raises(AgentError, match="more than 1 MiB") as raised:
            await fold_stream(model_on(server).stream(HELLO))
        assert (raised.value.kind, raised.value.retryable) == (ErrorKind.NETWORK, False)


async def test_blanks_without_end_before_a_response_are_cut(
    model_on: ModelOn,
) -> None:
    blanks = Answer(steps=(*[b"\n" * 10_000] * 20, Step.HANG))
    async with serving(blanks) as server:
        with anyio.fail_after(20), pytest.raises(AgentError, match="too many blanks"):
            await fold_stream(model_on(server).stream(HELLO))


async def test_nothing_of_a_request_stays_behind(own: ModelOn) -> None:
    from treadle.models.providers.http_exchange import Exchange

    async with serving(*answers()) as server:
        await ask(own(server))
        gc.collect()
        assert not [thing for thing in gc.get_objects() if isinstance(thing, Exchange)]


# ---------------------------------------------------------------- event loops


def test_each_event_loop_has_its_own_connections() -> None:
    port, stop = _serve_in_a_thread(answers(4))
    try:
        connection = connect(api_key=KEY, base_url=f"http://127.0.0.1:{port}")
        model = AnthropicModel("claude-test", connection=connection)

        async def twice(close: bool) -> list[str]:
            said = [await ask(model), await ask(model)]
            if close:
                await connection.aclose()
            return said

        assert asyncio.run(twice(True)) == ["Good day"] * 2
        assert asyncio.run(twice(True)) == ["Good day"] * 2
    finally:
        stop()


async def test_a_closed_connection_opens_anew(own: ModelOn) -> None:
    async with serving(*answers(2)) as server:
        model = own(server)
        await ask(model)
        await model.aclose()
        await ask(model)
        assert [seen.connection for seen in server.seen] == [1, 2]


def _serve_in_a_thread(scripted: list[Answer]) -> tuple[int, Callable[[], None]]:
    ready, over = threading.Event(), threading.Event()
    servers: list[Server] = []

    async def serve() -> None:
        async with serving(*scripted) as server:
            servers.append(server)
            ready.set()
            await anyio.to_thread.run_sync(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(5)

    def stop() -> None:
        over.set()
        thread.join(5)

    return servers[0].port, stop


# ---------------------------------------------------------------- addresses and keys


BAD_ADDRESSES = [
    "",
    "api.anthropic.com",
    "ftp://host",
    "http://",
    "http://host:0",
    "http://host:99999",
    "http://host:8a",
    "http://[::1",
    "http://two..dots",
    "http://" + "a" * 64,
    "http://" + "ä" * 64,
    "http://a host",
    " http://host",
    "http://host/?key=secret",
    "http://host/#secret",
    "https://ada:secret@host",
]


@pytest.mark.parametrize("url", BAD_ADDRESSES)
def test_an_address_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(AgentError) as raised:
        HttpConnection(url, {})
    assert raised.value.kind is ErrorKind.INVALID
    assert "secret" not in raised.value.message


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://host", "host:443"),
        ("http://host.", "host.:80"),
        ("http://[::1]:8080/v", "[::1]:8080"),
        ("http://ho_st", "ho_st:80"),
        ("http://hö.st", "hö.st:80"),
    ],
)
def test_an_address_is_named_by_its_host_and_port(url: str, host: str) -> None:
    assert HttpConnection(url, {}).host == host


async def test_a_server_that_does_not_finish_connecting_times_out(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_pool, "CONNECT_TIMEOUT_S", 0.2)

    async def hang(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            while True:
                await stream.receive()

    async with listening(hang) as port:
        with pytest.raises(AgentError, match=r"no connection to .* check base_url") as raised:
            await ask(own(f"https://127.0.0.1:{port}"))
    assert raised.value.kind is ErrorKind.TIMEOUT


async def test_a_name_that_nobody_knows_is_a_network_error(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(AgentError, match=r"nowhere\.invalid") as raised:
        await fold_stream(own("http://nowhere.invalid").stream(HELLO))
    assert raised.value.kind is ErrorKind.NETWORK


async def test_a_server_that_does_not_speak_http_is_a_network_error(own: ModelOn) -> None:
    async def greet(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"220 mail.example ready\r\n")

    async with listening(greet) as port:
        for scheme in ("http", "https"):
            with pytest.raises(
                AgentError, match="check base_url: https if the server uses TLS"
            ) as raised:
                await ask(own(f"{scheme}://127.0.0.1:{port}"))
            assert raised.value.kind is ErrorKind.NETWORK


async def test_an_answer_in_an_encoding_that_nobody_can_read_is_told_as_that(own: ModelOn) -> None:
    for status in (200, 502):
        async with serving(
            Answer(
                steps=(b"(\xb5/\xfdgarbage",), status=status, headers={"content-encoding": "zstd"}
            )
        ) as server:
            with pytest.raises(AgentError, match="an encoding that was not requested") as raised:
                await ask(own(server))
        assert raised.value.kind is ErrorKind.NETWORK


async def test_a_path_of_the_address_is_kept(own: ModelOn) -> None:
    async with serving(*answers()) as server:
        await ask(own(f"{server.url}/gateway/"))
        assert server.seen[0].target == "/gateway/v1/messages"


def test_nothing_to_identify_with_is_an_auth_error_with_what_to_set() -> None:
    with pytest.raises(AgentError, match="ANTHROPIC_API_KEY") as raised:
        connect()
    assert raised.value.kind is ErrorKind.AUTH


def test_a_key_with_a_line_break_is_refused_without_being_shown() -> None:
    with pytest.raises(AgentError) as raised:
        connect(api_key="sk-secret\nx: y")
    assert raised.value.kind is ErrorKind.AUTH
    assert "secret" not in raised.value.message


async def test_a_server_of_ones_own_wants_no_key() -> None:
    async with serving(*answers()) as server:
        connection = connect(base_url=server.url)
        await ask(AnthropicModel("local", connection=connection))
        await connection.aclose()
        assert "authorization" not in server.seen[0].headers


async def test_a_token_goes_with_its_beta_to_the_vendor_alone() -> None:
    async with serving(*answers()) as server:
        connection = connect(auth_token="token", base_url=server.url)
        await ask(AnthropicModel("claude-test", connection=connection))
        await connection.aclose()
        assert server.seen[0].headers["authorization"] == "Bearer token"
        assert "anthropic-beta" not in server.seen[0].headers
    headers = connect(auth_token="token")._headers  # pyright: ignore[reportPrivateUsage]  a request to the vendor is not for a test
    assert headers["anthropic-beta"] == "oauth-2025-04-20"


async def test_the_betas_of_a_request_follow_those_of_the_connection() -> None:
    async with serving(*answers()) as server:
        connection = HttpConnection(server.url, {"anthropic-beta": "ours"})
        async with connection.post("/v1/messages", b"{}", {"anthropic-beta": "theirs"}) as reply:
            assert reply.status == 200
        await connection.aclose()
        assert server.seen[0].headers["anthropic-beta"] == "ours,theirs"


def test_no_proxy_alone_imports_nothing_to_find_a_proxy() -> None:
    found = (
        "import sys; from treadle.models.providers.http_dialing import proxy_for; "
        "print(proxy_for('https://api.example'), 'urllib.request' in sys.modules)"
    )
    alone = {"NO_PROXY": "*", "HTTP_PROXY": ""}
    done = subprocess.run(
        [sys.executable, "-c", found], env=alone, capture_output=True, text=True, check=True
    )
    if sys.platform not in ("darwin", "win32"):  # their settings have proxies too
        assert done.stdout == "None False\n"

"""`fetch` asks public hosts only, connects to what was checked, and shows pages as text."""

from __future__ import annotations

import gzip
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
import trustme
from aiohttp import web as server

from tests.tools.conftest import MakeContext
from treadle._internal.addresses import why_private
from treadle.tools.builtin import fetch as fetch_module
from treadle.tools.builtin import web
from treadle.tools.builtin.fetch import Fetch
from treadle.tools.tool import InvalidArguments, ToolFailed

PUBLIC = "93.184.216.34"
Answering = Callable[[server.Request], Awaitable[server.StreamResponse]]


class Net:
    """Names and addresses of a small internet of one server on the loopback, with what was asked of
    it.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.names: dict[str, list[list[str]]] = {}
        """The answers for each name in turn; the last one stays."""
        self.asked: list[str] = []
        self.requests: list[server.Request] = []
        self.tls: Callable[[], ssl.SSLContext] | None = None

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self.names.get(host, [[PUBLIC]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def route(self, address: str, port: int) -> tuple[str, int]:
        assert why_private(address) is None, "nothing else is ever connected to"
        return "127.0.0.1", self.port

    @property
    def fetch(self) -> Fetch:
        return Fetch(resolve=self.resolve, route=self.route, tls=self.tls)


@asynccontextmanager
async def serving(answer: Answering, tls: ssl.SSLContext | None = None) -> AsyncIterator[Net]:
    async def noted(request: server.Request) -> server.StreamResponse:
        net.requests.append(request)
        return await answer(request)

    app = server.Application()
    app.router.add_route("*", "/{path:.*}", noted)
    runner = server.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = server.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        net = Net(runner.addresses[0][1])
        yield net
    finally:
        await runner.cleanup()


def pages(**by_path: server.StreamResponse | Callable[[], server.StreamResponse]) -> Answering:
    async def answer(request: server.Request) -> server.StreamResponse:
        found = by_path[request.path.strip("/").replace("/", "_") or "index"]
        return found() if callable(found) else found

    return answer


def redirect(to: str, status: int = 302) -> Callable[[], server.Response]:
    return lambda: server.Response(status=status, headers={"Location": to})


def page(
    text: str = "<p>hello</p>", media_type: str = "text/html"
) -> Callable[[], server.Response]:
    return lambda: server.Response(text=text, content_type=media_type)


@pytest.fixture
def use(make_context: MakeContext, tmp_path: Path) -> Callable[[Fetch, str], Awaitable[str]]:
    async def use(tool: Fetch, url: str) -> str:
        with anyio.fail_after(10):
            return await tool.execute(make_context(tmp_path), tool.parse(json.dumps({"url": url})))

    return use


Use = Callable[[Fetch, str], Awaitable[str]]

# ---------------------------------------------------------------- what is asked


PRIVATE = """
127.0.0.1 127.255.255.254 0.0.0.0 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1 100.100.100.200 168.63.129.16
192.0.0.192 198.18.0.1 224.0.0.1 255.255.255.255 203.0.113.5 192.88.99.1 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:a9fe:a9fe 64:ff9b::a9fe:a9fe
64:ff9b::10.0.0.1 64:ff9b:1::1 2002:7f00:1:: 2002:a9fe:a9fe::1 2001:0:53aa:64c:0:0:0:1 fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 ff02::1
2001:db8::1 2606:4700::5efe:7f00:1 100::1 5f00::1 localhost 0x7f.1 127.1 2130706433
"""


@pytest.mark.parametrize("address", ["", *PRIVATE.split()])
def test_addresses_that_are_no_public_place_are_known(address: str) -> None:
    assert why_private(address)


@pytest.mark.parametrize(
    "address",
    [
        PUBLIC,
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "2606:2800:220:1::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2a00:1450::1",
    ],
)
def test_addresses_of_public_places_are_known(address: str) -> None:
    assert why_private(address) is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///etc/passwd", "must begin with https:// or http://"),
        ("gopher://127.0.0.1:6379/_x", "must begin with"),
        ("example.com", "must begin with"),
        ("", "must begin with"),
        ("http://good.example@127.0.0.1/", "name or password before its host"),
        ("http://@127.0.0.1/", "name or password before its host"),
        ("http://good.example\0.evil.test/", r"holds '\\x00'"),
        ("http://good.example\t/", "write it as %09"),
        ("http://good.example/a b", "write it as %20"),
        ("http://good.example\\@evil.test/", "holds"),
        ("http://good%00.example/", "has no host"),
        ("http:///x", "no host"),
        ("http://a..b/", "no host"),
        ("http://good.example:8080/", "only ports 80 and 443"),
        ("http://good.example:99999/", "is not a URL"),
        (f"http://good.example/{'x' * 2_000}", "at most 2,000"),
    ],
)
def test_what_is_no_plain_url_is_told(url: str, said: str) -> None:
    with pytest.raises(InvalidArguments, match=said):
        Fetch().parse(json.dumps({"url": url}))


async def test_no_known_attack_reaches_anything(use: Use, shared: Path) -> None:
    async with serving(pages(index=page("S3CRET"))) as net:
        net.names = {
            "redirect.test": [[PUBLIC]],
            "rebind.test": [["127.0.0.1"]],
            "evil-good.example": [["10.0.0.1"]],
        }
        for line in (shared / "attacks" / "http.jsonl").read_text().splitlines():
            case = json.loads(line)
            if case["class"] != "ssrf" or "redirect" in case["input"]["url"]:
                continue
            named = any(word in case["input"]["url"] for word in ("test", "example"))
            with pytest.raises(ToolFailed):
                await use(
                    Fetch(resolve=net.resolve if named else web.resolve), case["input"]["url"]
                )
        assert net.requests == []


@pytest.mark.parametrize(
    "host",
    ["0xa9fea9fe", "0251.0376.0251.0376", "2130706433", "127.1", "①②⑦.0.0.1", "[::1]", "localhost"],
)
async def test_however_an_address_is_written_it_is_known(use: Use, host: str) -> None:
    with pytest.raises(
        ToolFailed, match=r"only public addresses can be fetched|did not send|could not be found"
    ):
        await use(Fetch(), f"http://{host}/")


async def test_a_name_is_resolved_once_and_what_was_checked_is_connected_to(use: Use) -> None:
    async with serving(pages(index=page())) as net:
        net.names = {"rebind.test": [[PUBLIC], ["127.0.0.1"]]}
        assert "hello" in await use(net.fetch, "http://rebind.test/")
        assert net.asked == ["rebind.test"]


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["10.0.0.1", PUBLIC], ["::1"], []]
)
async def test_a_name_with_any_other_address_is_refused(use: Use, addresses: list[str]) -> None:
    async with serving(pages(index=page())) as net:
        net.names = {"mixed.test": [addresses]}
        with pytest.raises(
            ToolFailed, match=r"only public addresses can be fetched|has no address"
        ):
            await use(net.fetch, "http://mixed.test/")
        assert net.requests == []


def test_the_policy_is_told_the_host(tmp_path: Path) -> None:
    touched = Fetch().touches(
        Fetch().parse('{"url": "https://Docs.Example.org:443/a#b"}'), tmp_path
    )
    assert touched.hosts == ("docs.example.org",)


# ---------------------------------------------------------------- redirects


async def test_redirects_on_the_host_are_followed_and_checked_again(use: Use) -> None:
    async with serving(
        pages(
            index=redirect("/next", 301),
            next=redirect("http://www.good.example/there", 307),
            there=page(),
        )
    ) as net:
        assert "hello" in await use(net.fetch, "http://good.example/")
        assert net.asked == ["good.example", "good.example", "www.good.example"]
        net.names = {"good.example": [[PUBLIC], ["169.254.169.254"]]}
        with pytest.raises(ToolFailed, match="where clouds keep credentials"):
            await use(net.fetch, "http://good.example/")


@pytest.mark.parametrize(
    "target",
    [
        "http://evil.test/",
        "http://127.0.0.1/",
        "//evil.test/x",
        "http://good.example.evil.test/",
        "http://evil-good.example/",
    ],
)
async def test_a_redirect_to_another_host_is_told_and_not_followed(use: Use, target: str) -> None:
    async with serving(pages(index=redirect(target))) as net:
        shown = await use(net.fetch, "http://good.example/")
        assert "redirects to another host, which was not contacted" in shown
        assert net.asked == ["good.example"]
        assert len(net.requests) == 1


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "http://good.example:22/", "http://user@good.example/", "", "http://["],
)
async def test_a_redirect_to_what_is_no_page_is_told(use: Use, target: str) -> None:
    async with serving(pages(index=redirect(target))) as net:
        with pytest.raises(ToolFailed, match="which is not followed"):
            await use(net.fetch, "http://good.example/")


async def test_redirects_without_end_end(use: Use) -> None:
    async with serving(pages(index=redirect("/"))) as net:
        with pytest.raises(ToolFailed, match="redirects too often: stopped after 5 redirects"):
            await use(net.fetch, "http://good.example/")
        assert len(net.requests) == 6


# ---------------------------------------------------------------- what goes out


async def test_nothing_private_goes_along(
    use: Use, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine good.example login me password canary\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))

    def answer() -> server.Response:
        response = server.Response(status=302, headers={"Location": "/again"})
        response.set_cookie("session", "canary")
        return response

    async with serving(pages(index=answer, again=page())) as net:
        await use(net.fetch, "http://good.example/")
        assert [request.headers["Host"] for request in net.requests] == ["good.example"] * 2
        assert not any(
            "canary" in f"{request.headers}" or "Authorization" in request.headers
            for request in net.requests
        )


async def test_a_proxy_of_the_environment_is_not_used(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(pages(index=page("proxy"))) as proxy, serving(pages(index=page())) as net:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert "hello" in await use(net.fetch, "http://good.example/")
        assert proxy.requests == []


async def test_a_certificate_is_of_the_host_that_was_named(use: Use) -> None:
    authority, theirs, ours = (
        trustme.CA(),
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        ssl.create_default_context(),
    )
    authority.issue_cert("good.example").configure_cert(theirs)
    authority.configure_trust(ours)
    async with serving(pages(index=page()), tls=theirs) as net:
        net.tls = lambda: ours
        assert "hello" in await use(net.fetch, "https://good.example/")
        with pytest.raises(
            ToolFailed, match=r"The certificate of 'other.example' could not be trusted"
        ):
            await use(net.fetch, "https://other.example/")
        net.tls = None
        with pytest.raises(ToolFailed, match="could not be trusted"):
            await use(net.fetch, "https://good.example/")


# ---------------------------------------------------------------- what comes back


async def test_a_page_is_shown_as_text(use: Use) -> None:
    html = "<html><head><title>Looms</title></head><body><h1>Looms</h1><p>See <a href='a.html'>them</a>.</p><script>x()</script></body></html>"
    async with serving(pages(index=page(html))) as net:
        assert (
            await use(net.fetch, "http://good.example/")
            == "Looms\nhttp://good.example/\n\n# Looms\n\nSee [them](http://good.example/a.html)."
        )


@pytest.mark.parametrize(
    "media_type", ["application/json", "text/plain", "text/markdown", "application/problem+json"]
)
async def test_other_text_comes_as_it_is(use: Use, media_type: str) -> None:
    async with serving(pages(index=page('{"a": 1}\n', media_type))) as net:
        assert (
            await use(net.fetch, "http://good.example/")
            == f'http://good.example/ ({media_type})\n\n{{"a": 1}}'
        )


@pytest.mark.parametrize(
    ("body", "content_type", "shown"),
    [
        ("zażółć".encode("iso-8859-2"), "text/plain; charset=iso-8859-2", "zażółć"),
        (b"<html><meta charset=windows-1250><p>" + "żółw".encode("cp1250"), "text/html", "żółw"),
        ("\ufeffżółw".encode("utf-16-le"), "text/plain", "żółw"),
        ("żółw".encode(), "text/plain; charset=punycode", "żółw"),
        ("żółw".encode(), "text/plain; charset=nonsense", "żółw"),
        (b"a\xffb", "text/plain", "a\ufffdb"),
        ("in\u200bvis\u202eible\U000e0041".encode(), "text/plain", "invisible"),
    ],
)
async def test_what_bytes_say_is_found_out(
    use: Use, body: bytes, content_type: str, shown: str
) -> None:
    async with serving(
        pages(index=lambda: server.Response(body=body, headers={"Content-Type": content_type}))
    ) as net:
        assert (await use(net.fetch, "http://good.example/")).endswith(f"\n\n{shown}")


@pytest.mark.parametrize(
    ("body", "content_type", "said"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png", "is image/png of 8 bytes, not text"),
        (b"%PDF-1.7", "application/pdf", "is a PDF document"),
        (b"\0" * 9, "text/plain", "is binary data of 9 bytes"),
    ],
)
async def test_what_is_no_text_is_told(use: Use, body: bytes, content_type: str, said: str) -> None:
    async with serving(
        pages(index=lambda: server.Response(body=body, headers={"Content-Type": content_type}))
    ) as net:
        with pytest.raises(ToolFailed, match=said):
            await use(net.fetch, "http://good.example/")


async def test_a_status_of_failure_is_told_with_what_the_server_said(use: Use) -> None:
    async with serving(
        pages(index=lambda: server.Response(status=404, text="no such loom"))
    ) as net:
        with pytest.raises(
            ToolFailed, match=r"(?s)http://good.example/ answered with status 404\..*no such loom"
        ):
            await use(net.fetch, "http://good.example/")


async def test_only_so_much_of_a_body_is_read_however_it_is_packed(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "MAX_BYTES", 1024 * 1024)
    packed = gzip.compress(b"words " * 20_000_000)
    answers = pages(
        index=lambda: server.Response(
            body=packed, headers={"Content-Type": "text/plain", "Content-Encoding": "gzip"}
        ),
        plain=page("words " * 400_000, "text/plain"),
    )
    async with serving(answers) as net:
        for url in ("http://good.example/", "http://good.example/plain"):
            shown = await use(net.fetch, url)
            assert shown.endswith("(only the first 1 MiB were read)")
            assert 1024 * 1024 < len(shown) < 1024 * 1024 + 200


async def test_a_body_without_an_end_is_left_after_the_bound(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "MAX_BYTES", 1024 * 1024)
    monkeypatch.setattr(fetch_module, "MAX_SECONDS", 5)

    async def endless(request: server.Request) -> server.StreamResponse:
        response = server.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        for _ in range(32):
            await response.write(b"words " * 10_000)
        await anyio.sleep_forever()
        raise AssertionError

    async with serving(endless) as net:
        assert (await use(net.fetch, "http://good.example/")).endswith(
            "(only the first 1 MiB were read)"
        )


async def test_a_server_that_does_not_answer_is_given_up(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_module, "MAX_SECONDS", 0.2)

    async def never(request: server.Request) -> server.StreamResponse:
        await anyio.sleep_forever()
        raise AssertionError

    async with serving(never) as net:
        with pytest.raises(ToolFailed, match="did not send a complete response within"):
            await use(net.fetch, "http://good.example/")


async def test_a_body_that_breaks_off_is_told(use: Use) -> None:
    async def broken(request: server.Request) -> server.StreamResponse:
        response = server.StreamResponse(
            headers={"Content-Type": "text/plain", "Content-Length": "100"}
        )
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    async with serving(broken) as net:
        with pytest.raises(ToolFailed, match=r"'good.example' did not send a complete response"):
            await use(net.fetch, "http://good.example/")


async def test_a_host_that_is_not_there_is_told(use: Use) -> None:
    async def nowhere(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(
        ToolFailed, match=r"'gone.example' could not be found: Name or service not known"
    ):
        await use(Fetch(resolve=nowhere), "https://gone.example/")

"""Requests to the proxy: what is forwarded, and what two programs could read differently."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.policy.sandboxes.request_head import BadRequest, RequestBody, RequestHead, read_head


def lines(*parts: str) -> bytes:
    return "".join(f"{part}\r\n" for part in (*parts, "")).encode("latin-1")


HOST = "Host: example.org"
GET = "GET http://example.org/ HTTP/1.1"


def test_a_plain_request_is_forwarded_in_origin_form_without_what_belongs_to_the_hop() -> None:
    hop = (
        "Proxy-Connection: keep-alive",
        "Proxy-Authorization: Basic x",
        "Connection: X-Own, close",
        "X-Own: 1",
        "TE: trailers",
        "Upgrade: h2c",
    )
    head = read_head(
        lines(
            "POST http://Example.ORG./a?b=http://c HTTP/1.1",
            "Host: example.org:80",
            *hop,
            "X-Kept: a:b",
            "Content-Length: 3",
        )
    )
    assert head == RequestHead(
        "example.org",
        80,
        lines(
            "POST /a?b=http://c HTTP/1.1",
            HOST,
            "X-Kept: a:b",
            "Content-Length: 3",
            "Connection: close",
        ),
        3,
    )


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        ("CONNECT example.org:443 HTTP/1.1", ("example.org", 443)),
        ("CONNECT EXAMPLE.org.:443 HTTP/1.0", ("example.org", 443)),
        ("CONNECT [2606:2800::0001]:443 HTTP/1.1", ("2606:2800::1", 443)),
    ],
)
def test_a_tunnel_has_a_plain_host_and_a_port(request_line: str, expected: tuple[str, int]) -> None:
    head = read_head(lines(request_line))
    assert (head.host, head.port) == expected
    assert head.is_tunnel


def test_the_path_of_a_bare_query_is_the_root() -> None:
    assert read_head(lines("GET http://example.org?a HTTP/1.1", HOST)).data.startswith(
        b"GET /?a HTTP/1.1\r\n"
    )


@pytest.mark.parametrize(
    "parts",
    [
        # the target
        ("GET / HTTP/1.1", HOST),
        ("GET https://example.org/ HTTP/1.1", HOST),
        ("GET ftp://example.org/ HTTP/1.1", HOST),
        ("GET //example.org/ HTTP/1.1", HOST),
        ("GET http://user@example.org/ HTTP/1.1", HOST),
        ("GET http://example.org@evil.net/ HTTP/1.1", HOST),
        ("GET http://evil.net\\@example.org/ HTTP/1.1", HOST),
        ("GET http://evil.net#@example.org/ HTTP/1.1", HOST),
        ("GET http://example.org/a#b HTTP/1.1", HOST),
        ("GET http://example.org:/ HTTP/1.1", HOST),
        ("GET http://example.org:0/ HTTP/1.1", "Host: example.org:0"),
        ("GET http://example.org:99999/ HTTP/1.1", "Host: example.org:99999"),
        ("GET http://2130706433/ HTTP/1.1", "Host: 2130706433"),
        ("GET http://0x7f.1/ HTTP/1.1", "Host: 0x7f.1"),
        ("GET http://127.1/ HTTP/1.1", "Host: 127.1"),
        ("GET http://%31%32%37.0.0.1/ HTTP/1.1", "Host: 127.0.0.1"),
        ("GET http:///etc HTTP/1.1", HOST),
        ("GET * HTTP/1.1", HOST),
        ("CONNECT example.org HTTP/1.1",),
        ("CONNECT example.org:443/ HTTP/1.1",),
        ("CONNECT http://example.org:443 HTTP/1.1",),
        ("CONNECT user@example.org:443 HTTP/1.1",),
        ("CONNECT 127.1:443 HTTP/1.1",),
        ("CONNECT [fe80::1%25eth0]:443 HTTP/1.1",),
        ("CONNECT example.org:443 HTTP/1.1", "Host: other.org:443"),
        ("CONNECT example.org:443 HTTP/1.1", "Content-Length: 5"),
        ("CONNECT example.org:443 HTTP/1.1", "Transfer-Encoding: chunked"),
        # the line
        ("GET  http://example.org/ HTTP/1.1", HOST),
        (" GET http://example.org/ HTTP/1.1", HOST),
        ("GET http://example.org/ HTTP/1.1 ", HOST),
        ("GET http://example.org/ HTTP/2.0", HOST),
        ("GET http://example.org/ HTTP/1.12", HOST),
        ("GET http://example.org/", HOST),
        ("GET http://example.org/\x00 HTTP/1.1", HOST),
        ("GET http://exämple.org/ HTTP/1.1", HOST),
        ("G(T http://example.org/ HTTP/1.1", HOST),
        # Host
        (GET,),
        (GET, HOST, HOST),
        (GET, "Host: other.org"),
        (GET, "Host: example.org:8080"),
        (GET, "Host: user@example.org"),
        (GET, "Host: example.org, other.org"),
        (GET, "Host:"),
        # fields
        (GET, HOST, "X : y"),
        (GET, HOST, " X: y"),
        (GET, HOST, "X: y", "\tfolded"),
        (GET, HOST, "X: a\rb"),
        (GET, HOST, "X: a\nContent-Length: 5"),
        (GET, HOST, "X: a\x00b"),
        (GET, HOST, "no colon"),
        (GET, HOST, ": no name"),
        # the end of the body
        (GET, HOST, "Content-Length: 3", "Content-Length: 3"),
        (GET, HOST, "Content-Length: 3", "Content-Length: 4"),
        (GET, HOST, "Content-Length: +3"),
        (GET, HOST, "Content-Length: -3"),
        (GET, HOST, "Content-Length: 3, 3"),
        (GET, HOST, "Content-Length: 0x3"),
        (GET, HOST, "Content-Length:"),
        (GET, HOST, "Content-Length: 99999999999999999999"),
        (GET, HOST, "Content-Length: 3", "Transfer-Encoding: chunked"),
        (GET, HOST, "Transfer-Encoding: gzip, chunked"),
        (GET, HOST, "Transfer-Encoding: chunked, chunked"),
        (GET, HOST, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        (GET, HOST, "Transfer-Encoding: xchunked"),
        (GET, HOST, "Transfer-Encoding: identity"),
        (GET, HOST, 'Transfer-Encoding: "chunked"'),
        ("GET http://example.org/ HTTP/1.0", HOST, "Transfer-Encoding: chunked"),
        (GET, HOST, "Connection: content-length", "Content-Length: 3"),
        (GET, HOST, "Connection: close, Transfer-Encoding", "Transfer-Encoding: chunked"),
        (GET, HOST, "Connection: host"),
    ],
)
def test_what_is_ambiguous_is_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest):
        read_head(lines(*parts))


@pytest.mark.parametrize("ending", [b"\n\n", b"\r\n\n", b"\n\r\n", b"\r\r\n\r\n"])
def test_lines_end_with_both_characters(ending: bytes) -> None:
    with pytest.raises(BadRequest):
        read_head(f"{GET}\r\n{HOST}".encode() + ending)


@given(st.binary(max_size=200), st.binary(max_size=60), st.binary(max_size=60))
def test_whatever_is_forwarded_names_the_host_that_was_checked(
    target: bytes, name: bytes, value: bytes
) -> None:
    data = (
        b"GET http://"
        + target
        + b" HTTP/1.1\r\nHost: example.org\r\n"
        + name
        + b": "
        + value
        + b"\r\n\r\n"
    )
    try:
        head = read_head(data)
    except BadRequest:
        return
    forwarded = head.data.split(b"\r\n")
    assert (head.host, head.port) == ("example.org", 80)
    assert [line for line in forwarded if line.lower().startswith(b"host:")] == [
        b"Host: example.org"
    ]
    assert forwarded[-2:] == [b"", b""]
    assert b"" not in forwarded[:-2]
    assert b"\n" not in head.data.replace(b"\r\n", b"")


# ---------------------------------------------------------------- bodies


def taken(length: int | None, data: bytes, sizes: list[int]) -> tuple[bytes, bool]:
    body, found, at = RequestBody(length), b"", 0
    for size in [*sizes, len(data)]:
        piece = data[at : at + size]
        found += piece[: body.take(piece)]
        at += len(piece)
    return found, body.is_over


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=5),
    st.lists(st.integers(1, 20), max_size=30),
    st.binary(max_size=30),
)
def test_a_body_ends_where_its_framing_says_however_it_arrives(
    pieces: list[bytes], sizes: list[int], more: bytes
) -> None:
    whole = b"".join(pieces)
    assert taken(len(whole), whole + more, sizes) == (whole, True)
    assert taken(None, chunked(*pieces) + more, sizes) == (chunked(*pieces), True)


def test_a_body_that_is_cut_is_not_over() -> None:
    assert taken(5, b"abc", []) == (b"abc", False)
    assert taken(None, chunked(b"abc")[:-1], []) == (chunked(b"abc")[:-1], False)


@pytest.mark.parametrize(
    "data",
    [
        b"3;x=y\r\nabc\r\n0\r\n\r\n",
        b"3\nabc\r\n0\r\n\r\n",
        b" 3\r\nabc\r\n",
        b"0x3\r\nabc\r\n",
        b"-1\r\n",
        b"\r\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        *(b"0\r\nX-Trailer: a\r\n\r\n", b"0\r\nGET ", b"fffffffffffff\r\n", b"3 \r\nabc\r\n"),
    ],
)
def test_chunks_that_could_be_read_differently_are_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        taken(None, data + b"x" * 20, [])


@pytest.mark.parametrize("method", ["TRACE", "TRACK", "DEBUG", "get", "PURGE", "PRI"])
def test_methods_that_make_a_proxy_talk_are_refused(method: str) -> None:
    with pytest.raises(BadRequest, match="is not forwarded"):
        read_head(lines(f"{method} http://example.org/ HTTP/1.1", HOST))


@pytest.mark.parametrize(
    "method", ["GET", "PATCH", "OPTIONS", "PROPFIND", "REPORT", "VERSION-CONTROL"]
)
def test_methods_that_programs_use_are_forwarded_without_what_addresses_a_proxy(
    method: str,
) -> None:
    head = read_head(
        lines(
            f"{method} http://example.org/ HTTP/1.1",
            HOST,
            "Max-Forwards: 0",
            "Proxy-Anything: x",
            "X-Proxy: y",
        )
    )
    assert head.data == lines(f"{method} / HTTP/1.1", HOST, "X-Proxy: y", "Connection: close")


def test_a_body_of_tiny_chunks_without_end_is_refused() -> None:
    assert RequestBody(None).take(b"1\r\nA\r\n" * 1_000 + b"0\r\n\r\n") == 6_005
    with pytest.raises(BadRequest, match="too small"):
        RequestBody(None).take(b"1\r\nA\r\n" * 10_000)

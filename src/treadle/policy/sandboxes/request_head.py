"""Strict parser of request heads for the proxy: a head that two programs could read differently is
rejected.

Source: RFC 9112 and RFC 9110, section 7.6.1 (hop-by-hop fields). Entry: `read_head`, `RequestBody`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from treadle.config.hosts import plain_host

HEAD_BYTES_MAX = 32 * 1024
_BODY_BYTES_MAX = 1 << 50
_LINE_BYTES_MAX = 15
"""Maximum length of a framing line, in bytes."""
_TINY = 64
_TINY_MAX = 1_000
"""Maximum number of tiny chunks in one body, because they keep the whole process busy."""

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_HEAD = re.compile(
    rb"(%b{1,32}+) ([\x21-\x7e]++) HTTP/1\.([01])\r\n((?:%b++:[\t\x20-\x7e\x80-\xff]*+\r\n)*+)\r\n"
    % (_TOKEN, _TOKEN)
)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::([0-9]{1,5}))?")
_ABSOLUTE = re.compile(r"http://([^/?#@\\]+)([/?][^#\\]*)?", re.IGNORECASE)
_LENGTH = re.compile(rb"[0-9]{1,16}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,12})\r\n")

_METHODS = frozenset(
    b"CONNECT GET HEAD POST PUT PATCH DELETE OPTIONS QUERY PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK SEARCH ACL MKCALENDAR"  # noqa: E501
    b" REPORT CHECKIN CHECKOUT UNCHECKOUT MERGE LABEL UPDATE VERSION-CONTROL BASELINE-CONTROL MKACTIVITY MKWORKSPACE".split()  # noqa: E501
)
"""Methods of HTTP, WebDAV and Subversion.

Excludes TRACE and similar methods: with them, an upstream proxy returns what it received, including
the user's password for it.
"""
_HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"te",
        b"trailer",
        b"upgrade",
        b"http2-settings",
        b"max-forwards",
    )
)
"""Names of hop-by-hop fields, together with every field that begins with `Proxy-`."""
_END_TO_END = frozenset((b"host", b"content-length", b"transfer-encoding"))
"""Fields that decide where a request goes and where it ends. `Connection` cannot remove them."""


class BadRequest(Exception):
    """Raised for a request that is not forwarded. The text is a sentence with the reason."""


class RequestHead(NamedTuple):
    host: str
    """Normalised host."""
    port: int
    data: bytes = b""
    """Bytes for the server: the request line in origin form and the end-to-end fields. Empty for a
    tunnel.
    """
    length: int | None = 0
    """Length of the body in bytes; None if it is chunked."""

    @property
    def is_tunnel(self) -> bool:
        return not self.data


def read_head(data: bytes) -> RequestHead:
    """Read everything up to and including the blank line. Raises BadRequest."""
    form = _HEAD.fullmatch(data)
    if form is None:
        raise BadRequest("The request is not well-formed HTTP/1.1")
    method, target, fields = form[1], form[2].decode("ascii"), _fields(form[4])
    if method not in _METHODS:
        raise BadRequest(f"The method {method.decode('ascii')} is not forwarded")
    if method == b"CONNECT":
        return _tunnel(target, fields)
    url = _ABSOLUTE.fullmatch(target)
    if url is None:
        raise BadRequest(
            "This is a proxy: it takes CONNECT HOST:PORT and absolute http:// URLs without a "
            "user name"
        )
    host, port = _authority(url[1], 80)
    path = url[2] or "/"
    _check_host(fields, host, port, 80, needed=form[3] == b"1")
    length = _length(fields, is_old=form[3] == b"0")
    name = f"[{host}]" if ":" in host else host
    lines = [
        b"%b %b HTTP/1.1" % (method, (path if path[0] == "/" else f"/{path}").encode("ascii")),
        f"Host: {name}".encode("ascii") if port == 80 else f"Host: {name}:{port}".encode("ascii"),
        *_kept(fields),
        b"Connection: close\r\n\r\n",
    ]
    return RequestHead(host, port, b"\r\n".join(lines), length)


def _fields(block: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Return each field: its lower-case name, its value, and its original spelling."""
    found: list[tuple[bytes, bytes, bytes]] = []
    for line in block.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        found.append((name.lower(), value.strip(b" \t"), line))
    return found


def _tunnel(target: str, fields: list[tuple[bytes, bytes, bytes]]) -> RequestHead:
    host, port = _authority(target, None)
    if any(name in (b"content-length", b"transfer-encoding") for name, _, _ in fields):
        raise BadRequest("A CONNECT request has no body")
    _check_host(fields, host, port, port, needed=False)
    return RequestHead(host, port)


def _authority(text: str, default_port: int | None) -> tuple[str, int]:
    form = _AUTHORITY.fullmatch(text)
    port = default_port if form is None or form[2] is None else int(form[2])
    if form is None or port is None or not 0 < port < 65536:
        raise BadRequest(f"{text[:80]!r} is not HOST:PORT")
    try:
        return plain_host(form[1].strip("[]")), port
    except ValueError:
        raise BadRequest(
            f"{form[1][:80]!r} is not the name of a host, nor an address in its usual spelling"
        ) from None


def _check_host(
    fields: list[tuple[bytes, bytes, bytes]],
    host: str,
    port: int,
    default_port: int,
    *,
    needed: bool,
) -> None:
    """Check that `Host` names the same host as the target, because servers may use either. Raises
    BadRequest.
    """
    named = [value for name, value, _ in fields if name == b"host"]
    if len(named) > 1 or (needed and not named):
        raise BadRequest("A request has exactly one Host field")
    if named and _authority(named[0].decode("latin-1"), default_port) != (host, port):
        raise BadRequest("The Host field names another place than the request line")


def _length(fields: list[tuple[bytes, bytes, bytes]], *, is_old: bool) -> int | None:
    lengths = [value for name, value, _ in fields if name == b"content-length"]
    codings = [value.lower() for name, value, _ in fields if name == b"transfer-encoding"]
    if codings:
        if codings != [b"chunked"] or lengths or is_old:
            raise BadRequest("The end of the request's body is ambiguous")
        return None
    if (
        len(lengths) > 1
        or (lengths and not _LENGTH.fullmatch(lengths[0]))
        or (lengths and int(lengths[0]) > _BODY_BYTES_MAX)
    ):
        raise BadRequest("The length of the request's body is ambiguous")
    return int(lengths[0]) if lengths else 0


def _kept(fields: list[tuple[bytes, bytes, bytes]]) -> list[bytes]:
    dropped = _HOP_BY_HOP
    named = [value for name, value, _ in fields if name == b"connection"]
    if named:
        more = frozenset(option.strip().lower() for value in named for option in value.split(b","))
        if more & _END_TO_END:
            raise BadRequest("The Connection field names a field that no proxy may drop")
        dropped |= more
    return [
        line
        for name, _, line in fields
        if name != b"host" and name not in dropped and not name.startswith(b"proxy-")
    ]


class RequestBody:
    """Tracker of a request's body, so that nothing after its end is forwarded."""

    def __init__(self, length: int | None) -> None:
        """Create a request body. `length`: None for a chunked body."""
        self._left = length or 0
        self._line: bytes | None = b"" if length is None else None
        """Part of a framing line received so far; None inside data, and without chunked framing."""
        self._awaits = "size"
        self._tiny = 0
        self._chunked = length is None
        self.is_over = length == 0

    def take(self, data: bytes) -> int:
        """Return the number of bytes that belong to the body. Raises BadRequest for invalid
        framing.
        """
        at = 0
        while at < len(data) and not self.is_over:
            if self._line is None:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                if not self._left:
                    self._line, self._awaits = b"", "end"
                    self.is_over = not self._chunked
            else:
                end = data.find(b"\n", at, at + _LINE_BYTES_MAX) + 1
                self._line += data[at : end or at + _LINE_BYTES_MAX]
                if not end and len(self._line) >= _LINE_BYTES_MAX:
                    raise BadRequest("The chunks of the request's body are not well-formed")
                at = end or len(data)
                if end:
                    self._framed(self._line)
        return at

    def _framed(self, line: bytes) -> None:
        """Parse one framing line. An empty line ends the data of a chunk; after the size 0 only an
        empty line may follow, because trailers are refused.
        """
        size = _CHUNK.fullmatch(line)
        if self._awaits == "size" and size is not None:
            self._left = int(size[1], 16)
            self._tiny += 1 if 0 < self._left < _TINY else 0
            if self._tiny > _TINY_MAX:
                raise BadRequest("The chunks of the request's body are too small")
            self._line, self._awaits = (None, "end") if self._left else (b"", "last")
        elif self._awaits in ("end", "last") and line == b"\r\n":
            self.is_over = self._awaits == "last"
            self._line, self._awaits = b"", "size"
        else:
            raise BadRequest("The chunks of the request's body are not well-formed")

"""Fetching a public web page, without access to private addresses.

A name is resolved once, all its addresses must be public, and the connection goes to one of them.
Ports 80 and 443; no proxy from the environment, no cookies, no credentials. See also: which
addresses are public (addresses.py), page content (page.py), approval of hosts (policy.py). Entry
points: `get`, `parse_url`.
"""

from __future__ import annotations

import asyncio
import re
import socket
import zlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import quote, urljoin, urlsplit

import msgspec
from anyio import to_thread

from treadle.tools.tool import InvalidArguments, ToolFailed

if TYPE_CHECKING:
    import ssl

    from treadle.models.providers.http_protocol import HttpProtocol

MAX_URL_CHARS = 2_000
MAX_BYTES = 5 * 1024 * 1024
"""Maximum size of the decompressed body."""
MAX_REDIRECTS = 5
PORTS = {"http": 80, "https": 443}
HEADERS = {
    "User-Agent": "treadle (https://pypi.org/project/treadle)",
    "Accept": "text/html,application/xhtml+xml,text/plain,text/markdown,application/json;q=0.9,*/*;q=0.5",  # noqa: E501
    "Accept-Language": "en,*;q=0.5",
    "Accept-Encoding": "gzip",
}
_NEVER = re.compile(r"[\x00-\x20\x7f\\]")
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?|[0-9a-f:.]*:[0-9a-f:.]*")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^"';\s]+)""", re.IGNORECASE)
_PLAIN = "/%:=&?~+!$,;'@()*[]|"
_EITHER_HEADER = 47
"""zlib setting that detects a gzip or zlib header."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Function that resolves a name to addresses. Raises OSError."""
Route: TypeAlias = Callable[[str, int], tuple[str, int]]
"""Function that maps an address and port to the actual destination. Replaced only in tests."""


async def resolve(host: str, port: int) -> list[str]:
    """Resolve a name with the system's resolver."""
    from anyio import getaddrinfo  # noqa: PLC0415  13 ms of start-up, since it brings all of anyio's sockets

    return [str(where[0]) for *_, where in await getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def straight(address: str, port: int) -> tuple[str, int]:
    return address, port


class PageResponse(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    """Final URL, after redirects."""
    status: int
    media_type: str
    charset: str | None
    body: bytes
    is_cut: bool
    """True if the body was truncated at 5 MiB."""


class OtherHost(msgspec.Struct, frozen=True):
    """Redirect to another host, which needs separate approval."""

    url: str


class _Place(NamedTuple):
    """Host with its approved addresses."""

    host: str
    addresses: list[str]


class PageUrl(NamedTuple):
    """Address of a page."""

    scheme: str
    host: str
    """Name in ASCII, or IP address without brackets; in lower case."""
    port: int
    target: str
    """Path and query, percent-encoded."""

    @property
    def authority(self) -> str:
        """Value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(url: str) -> PageUrl:
    """Parse the address of a page on the web.

    Raises InvalidArguments for another scheme or port, for credentials, and for characters that
    parsers treat differently.
    """
    if len(url) > MAX_URL_CHARS:
        raise InvalidArguments(
            f"The URL is {len(url):,} characters long; at most {MAX_URL_CHARS:,} are possible."
        )
    if (odd := _NEVER.search(url)) is not None:
        raise InvalidArguments(
            f"The URL {url!r} holds {odd[0]!r}, which no URL can: write it as %{ord(odd[0]):02X} "
            "where it is meant."
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        if host and not host.isascii():
            host = host.encode("idna").decode()
    except ValueError as e:
        raise InvalidArguments(f"{url!r} is not a URL: {e}") from e
    if parts.scheme not in PORTS:
        raise InvalidArguments(f"The URL {url!r} must begin with https:// or http://.")
    if not host or _HOST.fullmatch(host) is None or ".." in host:
        raise InvalidArguments(f"The URL {url!r} has no host.")
    if "@" in parts.netloc:
        raise InvalidArguments(
            f"The URL {url!r} has a name or password before its host: leave these out."
        )
    if port is not None and port not in PORTS.values():
        raise InvalidArguments(
            f"The URL {url!r} names port {port}: only ports 80 and 443 are allowed."
        )
    query = f"?{quote(parts.query, safe=_PLAIN)}" if parts.query else ""
    target = (quote(parts.path, safe=_PLAIN) or "/") + query
    return PageUrl(parts.scheme, host, port or PORTS[parts.scheme], target)


async def get(
    url: PageUrl,
    *,
    resolve: Resolve = resolve,
    route: Route = straight,
    tls: Callable[[], ssl.SSLContext] | None = None,
) -> PageResponse | OtherHost:
    """Fetch a page, following redirects that stay on the host. Sets no timeout.

    Raises ToolFailed for a host that is not public or does not respond.
    """
    for _ in range(MAX_REDIRECTS + 1):
        place = await _checked(url, resolve)
        answer = await _asked(url, place, route, tls)
        if isinstance(answer, PageResponse):
            return answer
        target = _target(url, answer)
        if not _is_same_host(url, target):
            return OtherHost(str(target))
        url = target
    raise ToolFailed(f"{url} redirects too often: stopped after {MAX_REDIRECTS} redirects.")


async def _checked(url: PageUrl, resolve: Resolve) -> _Place:
    """Resolve the host once.

    Every address must be public: a name with both public and private addresses would bypass the
    check.
    """
    from treadle._internal.addresses import why_private  # noqa: PLC0415  not before the first page

    host, port = url.host, url.port
    try:
        addresses = [host] if ":" in host else list(dict.fromkeys(await resolve(host, port)))
    except (OSError, UnicodeError) as e:
        raise ToolFailed(
            f"The host {host!r} could not be found: {getattr(e, 'strerror', None) or e}."
        ) from e
    if not addresses:
        raise ToolFailed(f"The host {host!r} has no address.")
    for address in addresses:
        if (why := why_private(address)) is not None:
            where = "" if address == host else f"{address}, "
            raise ToolFailed(
                f"{host!r} is {where}{why}: only public addresses can be fetched. For something on "
                "this machine use bash."
            )
    return _Place(host, addresses)


async def _asked(
    url: PageUrl, place: _Place, route: Route, tls: Callable[[], ssl.SSLContext] | None
) -> PageResponse | str:
    """Request a page. Return it, or the location that it redirects to. Raises ToolFailed."""
    import ssl  # noqa: PLC0415  few runs fetch

    from treadle.models.providers.http_protocol import NotHttp, request_head  # noqa: PLC0415  as above

    context = await to_thread.run_sync(tls or _trust) if url.scheme == "https" else None
    try:
        protocol = await _connected(url, place, route, context)
        try:
            headers = [*HEADERS.items(), ("Connection", "close")]
            head = request_head("GET", url.target, url.authority, headers)
            await protocol.send(head + b"\r\n", b"")
            await protocol.respond()
            if protocol.status in _REDIRECTS:
                return protocol.headers.get("location", "")
            return _page(url, protocol, await _read(protocol))
        finally:
            protocol.abort()
    except ssl.SSLError as e:
        raise ToolFailed(f"The certificate of {place.host!r} could not be trusted: {e}.") from e
    except (OSError, NotHttp, zlib.error, ValueError) as e:
        raise ToolFailed(
            f"{place.host!r} did not send a complete response: {e or type(e).__name__}."
        ) from e


def _page(url: PageUrl, protocol: HttpProtocol, body: bytes) -> PageResponse:
    media_type, _, parameters = protocol.headers.get("content-type", "").partition(";")
    charset = _CHARSET.search(parameters)
    return PageResponse(
        url=str(url),
        status=protocol.status,
        media_type=media_type.strip().lower(),
        charset=None if charset is None else charset[1],
        body=body[:MAX_BYTES],
        is_cut=len(body) > MAX_BYTES,
    )


async def _connected(
    url: PageUrl, place: _Place, route: Route, tls: ssl.SSLContext | None
) -> HttpProtocol:
    """Connect to the first of the checked addresses that accepts. Raises OSError."""
    from treadle.models.providers.http_dialing import connect  # noqa: PLC0415  few runs fetch

    loop = asyncio.get_running_loop()
    *earlier, last = (route(address, url.port) for address in place.addresses)
    for address, port in earlier:
        try:
            return await connect(loop, address, port, tls, server_name=place.host)
        except OSError:
            continue
    return await connect(loop, *last, tls, server_name=place.host)


async def _read(protocol: HttpProtocol) -> bytes:
    """Return the decompressed body, with one byte over the limit if it is longer. Raises ValueError
    for an unknown encoding.
    """
    encoding = protocol.headers.get("content-encoding", "identity").lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise ValueError(f"its encoding {encoding!r} was not requested")
    packed = None if encoding in ("", "identity") else zlib.decompressobj(_EITHER_HEADER)
    body = bytearray()
    while len(body) <= MAX_BYTES and (piece := await protocol.read()):
        body += piece if packed is None else packed.decompress(piece, MAX_BYTES + 1 - len(body))
    return bytes(body)


def _trust() -> ssl.SSLContext:
    import ssl  # noqa: PLC0415  only https needs it

    return ssl.create_default_context()


def _target(url: PageUrl, location: str) -> PageUrl:
    """Resolve a redirect. Raises ToolFailed for an invalid target."""
    try:
        return parse_url(urljoin(str(url), location).partition("#")[0] if location else "")
    except (InvalidArguments, ValueError) as e:
        why = e.message if isinstance(e, InvalidArguments) else str(e)
        raise ToolFailed(f"{url} redirects to {location!r}, which is not followed. {why}") from e


def _is_same_host(url: PageUrl, target: PageUrl) -> bool:
    """Return True if approval of one host covers the other, without downgrading from https."""
    plain = [one.host.removeprefix("www.") for one in (url, target)]
    return plain[0] == plain[1] and not (url.scheme == "https" and target.scheme == "http")

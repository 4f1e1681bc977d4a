"""One page of the public web, asked for in a way that reaches nothing else.

A name is resolved once; each of its addresses must be public, and one of exactly these is connected
to. Ports 80 and 443, no proxy of the environment, no cookies, no credentials. Not here: which
addresses are public (addresses.py), what a page says (page.py), whether the host may be asked at
all (policy.py). Entry: `get`, `parse_url`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
from anyio import to_thread

from treadle.tools.tool import InvalidArguments, ToolFailed

if TYPE_CHECKING:
    import ssl

    from yarl import URL

MAX_URL_CHARS = 2_000
MAX_BYTES = 5 * 1024 * 1024
"""Of the body, unpacked."""
MAX_REDIRECTS = 5
PORTS = {"http": 80, "https": 443}
HEADERS = {
    "User-Agent": "treadle (https://pypi.org/project/treadle)",
    "Accept": "text/html,application/xhtml+xml,text/plain,text/markdown,application/json;q=0.9,*/*;q=0.5",  # noqa: E501
    "Accept-Language": "en,*;q=0.5",
}
_NEVER = re.compile(r"[\x00-\x20\x7f\\]")
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\.?|[0-9a-f:.]*:[0-9a-f:.]*")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a name. Raises OSError."""
Route: TypeAlias = Callable[[str, int], tuple[str, int]]
"""Where an address and a port are reached: there, but in tests."""


async def resolve(host: str, port: int) -> list[str]:
    """As the system does."""
    from anyio import getaddrinfo  # noqa: PLC0415  13 ms of start-up, since it brings all of anyio's sockets

    return [str(where[0]) for *_, where in await getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def straight(address: str, port: int) -> tuple[str, int]:
    return address, port


class PageResponse(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    """Where it came from, after redirects."""
    status: int
    media_type: str
    charset: str | None
    body: bytes
    is_cut: bool
    """There was more than 5 MiB."""


class OtherHost(msgspec.Struct, frozen=True):
    """A redirect to another host, which is another question."""

    url: str


class _Place(NamedTuple):
    """A host and the addresses that may be connected to."""

    host: str
    addresses: list[str]


def parse_url(url: str) -> URL:
    """Raises InvalidArguments for what is no plain URL of the web: another scheme or port,
    credentials in it, characters that parsers differ about.
    """
    from yarl import URL  # noqa: PLC0415  comes with aiohttp, and few runs fetch

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
        parsed = URL(url).with_fragment(None)
        scheme, host, port, has_user = (
            parsed.scheme,
            parsed.raw_host,
            parsed.explicit_port,
            parsed.user is not None or parsed.password is not None,
        )
    except ValueError as e:
        raise InvalidArguments(f"{url!r} is no URL: {e}") from e
    if scheme not in PORTS:
        raise InvalidArguments(f"The URL {url!r} must begin with https:// or http://.")
    if not host or _HOST.fullmatch(host.lower()) is None or ".." in host:
        raise InvalidArguments(f"The URL {url!r} has no host that could be asked.")
    if has_user or "@" in url.partition("://")[2].split("/", 1)[0].split("?", 1)[0]:
        raise InvalidArguments(
            f"The URL {url!r} has a name or password before its host: leave these out."
        )
    if port is not None and port not in PORTS.values():
        raise InvalidArguments(f"The URL {url!r} names port {port}: only 80 and 443 can be asked.")
    return parsed


async def get(
    url: URL,
    *,
    resolve: Resolve = resolve,
    route: Route = straight,
    tls: Callable[[], ssl.SSLContext] | None = None,
) -> PageResponse | OtherHost:
    """Follows redirects that stay on the host.

    Raises ToolFailed for a host that is not public or does not answer; sets no limit of time.
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
    raise ToolFailed(f"{url} redirects again and again: given up after {MAX_REDIRECTS} redirects.")


async def _checked(url: URL, resolve: Resolve) -> _Place:
    """Resolved once.

    Every address must be public: a name that has also another one is a way around this check.
    """
    from treadle._internal.addresses import why_private  # noqa: PLC0415  not before the first page

    host, port = url.raw_host or "", url.port or 0
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
                f"{host!r} is {where}{why}: only public addresses are asked. For something on "
                "this machine use bash."
            )
    return _Place(host, addresses)


async def _asked(
    url: URL, place: _Place, route: Route, tls: Callable[[], ssl.SSLContext] | None
) -> PageResponse | str:
    """The answer, or where it redirects to. Raises ToolFailed."""
    import aiohttp  # noqa: PLC0415  few runs fetch

    context = await to_thread.run_sync(tls or _trust) if url.scheme == "https" else True
    connector = aiohttp.TCPConnector(
        resolver=_resolver(place, route), use_dns_cache=False, force_close=True, ssl=context
    )
    no_limits = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
    async with aiohttp.ClientSession(
        connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar(), timeout=no_limits
    ) as session:
        try:
            async with session.get(url, headers=HEADERS, allow_redirects=False) as response:
                if response.status in _REDIRECTS:
                    return response.headers.get("Location", "")
                body = await _read(response.content)
                return PageResponse(
                    url=str(url),
                    status=response.status,
                    media_type=response.content_type if "Content-Type" in response.headers else "",
                    charset=response.charset,
                    body=body[:MAX_BYTES],
                    is_cut=len(body) > MAX_BYTES,
                )
        except aiohttp.ClientSSLError as e:
            raise ToolFailed(f"The certificate of {place.host!r} could not be trusted: {e}.") from e
        except (aiohttp.ClientError, OSError, ValueError) as e:
            raise ToolFailed(
                f"{place.host!r} did not give a whole answer: {e or type(e).__name__}."
            ) from e


def _resolver(place: _Place, route: Route) -> Any:
    from aiohttp.abc import AbstractResolver, ResolveResult  # noqa: PLC0415  as above

    class Vetted(AbstractResolver):
        """Knows the one host, and of it what was checked."""

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            assert host == place.host, "only what was checked is connected to"
            routed = [route(address, port) for address in place.addresses]
            return [
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=to,
                    family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
                for address, to in routed
            ]

        async def close(self) -> None:
            return

    return Vetted()


async def _read(stream: Any) -> bytes:
    """A little more than the limit where there is more."""
    pieces, size = list[bytes](), 0
    async for piece in stream.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            break
    return b"".join(pieces)


def _trust() -> ssl.SSLContext:
    import ssl  # noqa: PLC0415  only https needs it

    return ssl.create_default_context()


def _target(url: URL, location: str) -> URL:
    """Raises ToolFailed where that can be no page."""
    from yarl import URL  # noqa: PLC0415  as above

    try:
        return parse_url(str(url.join(URL(location)))) if location else parse_url("")
    except (InvalidArguments, ValueError) as e:
        why = e.message if isinstance(e, InvalidArguments) else str(e)
        raise ToolFailed(f"{url} redirects to {location!r}, which is not followed. {why}") from e


def _is_same_host(url: URL, target: URL) -> bool:
    """Whether whoever agreed to the one agreed to the other; encryption is not given up on the way."""  # noqa: E501
    plain = [(one.raw_host or "").lower().removeprefix("www.") for one in (url, target)]
    return plain[0] == plain[1] and not (url.scheme == "https" and target.scheme == "http")

"""Allowed Host and Origin headers: a defence against pages that guess a local port, and against DNS
rebinding.

Headers can be trusted here, because border.py has applied the forwarding headers of known proxies.
Entry point: `Hosts`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import urlsplit

from treadle.service.problems import HttpProblem

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Hosts:
    """Allowed hosts: loopback names, configured names, and the host of the public URL."""

    def __init__(self, more: Collection[str] = (), public_url: str | None = None) -> None:
        public = urlsplit(public_url) if public_url else None
        self._public = f"{public.scheme}://{public.netloc}".lower() if public else None
        self._names = (
            LOOPBACK
            | {name.lower() for name in more}
            | ({_name(public.netloc)} if public else set[str]())
        )

    def check(self, method: str, headers: Mapping[str, list[str]]) -> None:
        """Check the Host and Origin of a request. Raises Problem: 400 without exactly one Host, 421
        for a foreign host, 403 for a foreign origin.
        """
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not hosts[0]:
            raise HttpProblem(400, "Send exactly one Host header.")
        host = hosts[0].lower()
        if _name(host) not in self._names:
            raise HttpProblem(
                421,
                (
                    "This service does not answer to that host name. Its operator can add it to "
                    "service.hosts."
                ),
            )
        if any(not self._is_ours(origin.lower(), host) for origin in headers.get("origin", [])):
            raise HttpProblem(403, "Requests from pages of other sites are not allowed.")
        if method not in SAFE and "cross-site" in headers.get("sec-fetch-site", []):
            raise HttpProblem(403, "Requests from pages of other sites are not allowed.")

    def _is_ours(self, origin: str, host: str) -> bool:
        return origin in (f"http://{host}", f"https://{host}") or (
            self._public is not None and origin == self._public
        )


def _name(host: str) -> str:
    """Return the host without its port."""
    name, colon, port = host.lower().rpartition(":")
    return (
        name
        if colon and port.isdigit() and (name.endswith("]") or ":" not in name)
        else host.lower()
    )


def is_loopback(host: str) -> bool:
    """Return True if an address to listen on is a loopback address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_target_of_host(target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return True for a path, for `*`, and for an absolute URL whose authority matches every Host
    header.

    RFC 9112 3.2.2 lets the target's authority replace Host. The code behind this check looks at
    Host alone, so the two must agree.
    """
    if target.startswith(b"/") or target == b"*":
        return True
    scheme, separator, rest = target.lower().partition(b"://")
    port = {b"http": b":80", b"https": b":443"}.get(scheme)
    if not separator or port is None:
        return False
    authority = re.split(rb"[/?#]", rest, maxsplit=1)[0].removesuffix(port)
    return all(
        value.strip(b" \t").lower().removesuffix(port) == authority
        for name, value in headers
        if name.lower() == b"host"
    )

"""Sliding windows that count events by key, and the network of an address. Entry points:
`SlidingWindow`, `network_of`, `wider_network_of`, `without_port`.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

REMEMBERED_MOST = 100_000
"""Maximum number of keys per window. The least recently used are dropped."""


class SlidingWindow:
    """Rate limit of `most` events in any `span_s` seconds, for each key."""

    def __init__(
        self, most: int, span_s: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._span_s, self._clock = most, span_s, clock
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()
        """Times of events, least recently used keys first."""

    def take(self, key: str) -> float:
        """Count one event and return 0. At the limit, count nothing and return the seconds to
        wait.
        """
        if wait_s := self.wait_s(key):
            return wait_s
        at = self._clock()
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = deque(maxlen=self._most)
            self._forget(at)
        self._seen.move_to_end(key)
        seen.append(at)
        return 0

    def wait_s(self, key: str) -> float:
        """Return the seconds until `take` would count an event; 0 means now."""
        at, seen = self._clock(), self._seen.get(key)
        while seen and seen[0] <= at - self._span_s:
            seen.popleft()
        return seen[0] + self._span_s - at if seen and len(seen) >= self._most else 0

    def give_back(self, key: str) -> None:
        """Remove the newest event of this key, if any."""
        if seen := self._seen.get(key):
            seen.pop()

    def _forget(self, at: float) -> None:
        for _ in range(2):  # remove two entries for each one added
            key, seen = next(iter(self._seen.items()))
            if len(self._seen) <= REMEMBERED_MOST and seen and seen[-1] > at - self._span_s:
                return
            if len(self._seen) > 1:
                del self._seen[key]


_WITH_PORT: Final = re.compile(r'"?(?:\[([^\[\]]*)\](?::\d*)?|([^:"\[\]]*)(?::\d*)?)"?')


def without_port(forwarded: str) -> str:
    """Return an address of `X-Forwarded-For` without port, brackets and quotes. Some proxies add
    the port, which differs for each connection.
    """
    found = _WITH_PORT.fullmatch(forwarded)
    return forwarded if found is None else found[1] or found[2] or ""


def network_of(address: str) -> str:
    """Return the unit that limits count by: an IPv4 address, or the /64 of an IPv6 address, which
    is one household.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def wider_network_of(address: str) -> str:
    """Return the neighbourhood of an address, which one customer may have as a whole: the /24 of an
    IPv4 address, or the /48 of an IPv6 address.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.ip_network((found, 48), strict=False))
        found = found.ipv4_mapped
    return str(found) if found.is_private else str(ipaddress.ip_network((found, 24), strict=False))

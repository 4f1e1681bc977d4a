"""Check for public internet addresses, the only ones that a tool or a confined command may connect
to: globally unique, and not leading to a private address.

Does not use `ipaddress.is_global`, whose result depends on the version of Python, and which counts
multicast as global. The networks are from the IANA registries of special-purpose addresses
(2026-11), plus the metadata addresses of clouds. tools/builtin/web.py and policy/sandboxes/proxy.py
resolve names. Entry points: `why_private`.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_V4 = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "a private network"),
    ("100.64.0.0/10", "a provider's shared network (CGNAT)"),
    ("127.0.0.0/8", "this machine"),
    ("168.63.129.16/32", "a cloud's metadata service"),
    ("169.254.0.0/16", "a link-local address, where clouds keep credentials"),
    ("172.16.0.0/12", "a private network"),
    ("192.0.0.0/24", "a reserved network"),
    ("192.0.2.0/24", "a network of examples"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("192.168.0.0/16", "a private network"),
    ("198.18.0.0/15", "a network for benchmarks"),
    ("198.51.100.0/24", "a network of examples"),
    ("203.0.113.0/24", "a network of examples"),
    ("224.0.0.0/4", "a multicast address"),
    ("240.0.0.0/4", "a reserved network"),
)
_V6 = (  # of 2000::/3; everything else is refused but for the two that carry an IPv4 address
    ("2001::/23", "a reserved network (Teredo and others)"),
    ("2001:db8::/32", "a network of examples"),
    ("2002::/16", "a 6to4 address"),
    ("3fff::/20", "a network of examples"),
)
_GLOBAL = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


def why_private(address: str) -> str | None:
    """Return the reason why an address is not public, or why it is not an address; None if it is
    public.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return "no address"
    return _of_v4(parsed) if isinstance(parsed, IPv4Address) else _of_v6(parsed)


def _of_v4(address: IPv4Address) -> str | None:
    return next((name for network, name in _networks()[0] if address in network), None)


def _of_v6(address: IPv6Address) -> str | None:
    if address.scope_id is not None:
        return "an address of one link"
    carried = IPv4Address(int(address) & 0xFFFF_FFFF)
    if address in _MAPPED or address in _NAT64:
        return _of_v4(carried)
    if address == IPv6Address(1):
        return "this machine"
    if address not in _GLOBAL:
        return "a private, link-local or reserved network"
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP and (name := _of_v4(carried)) is not None:
        return name
    return next((name for network, name in _networks()[1] if address in network), None)


@lru_cache(maxsize=1)
def _networks() -> tuple[list[tuple[IPv4Network, str]], list[tuple[IPv6Network, str]]]:
    return [(IPv4Network(network), name) for network, name in _V4], [
        (IPv6Network(network), name) for network, name in _V6
    ]

"""Hosts that commands may reach: the syntax of `permissions.network`, the `default` list, and
matching.

The proxy checks addresses after resolution (policy/sandboxes/proxy.py). Entry points: `HostList`,
`host_entry`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import msgspec

from treadle._internal.wildcards import wildcards
from treadle.config.readers import Wrong

if TYPE_CHECKING:
    from treadle.config.document import Plain

DEFAULT = "default"
"""Entry that represents `DEFAULT_HOSTS` and the package indexes named in the user's environment."""
WEB_PORTS = (80, 443)

DEFAULT_HOSTS = (
    # Python: the index and its files
    *("pypi.org", "files.pythonhosted.org"),
    # JavaScript: npm, Yarn, JSR
    *("registry.npmjs.org", "registry.yarnpkg.com", "repo.yarnpkg.com", "jsr.io", "npm.jsr.io"),
    # Rust: the sparse index, crates, the toolchain
    *("index.crates.io", "static.crates.io", "crates.io", "static.rust-lang.org"),
    # Go: the module proxy with the toolchains, its checksums
    *("proxy.golang.org", "sum.golang.org"),
    # Ruby, PHP, .NET, Elixir
    *(
        "rubygems.org",
        "index.rubygems.org",
        "repo.packagist.org",
        "packagist.org",
        "api.nuget.org",
        "hex.pm",
        "repo.hex.pm",
    ),
    # Java: Maven Central, Gradle
    *("repo.maven.apache.org", "repo1.maven.org", "plugins.gradle.org", "services.gradle.org"),
    # Debian, Ubuntu, Alpine
    *(
        "deb.debian.org",
        "security.debian.org",
        "archive.ubuntu.com",
        "security.ubuntu.com",
        "ports.ubuntu.com",
        "dl-cdn.alpinelinux.org",
    ),
    # Sources: GitHub with its archives and release files, GitLab, Bitbucket, Codeberg
    *(
        "github.com",
        "api.github.com",
        "codeload.github.com",
        "raw.githubusercontent.com",
        "objects.githubusercontent.com",
    ),
    *(
        "release-assets.githubusercontent.com",
        "github-cloud.githubusercontent.com",
        "gitlab.com",
        "bitbucket.org",
        "codeberg.org",
    ),
)
"""Package indexes and source hosts of public vendors.

A command with credentials can upload arbitrary data to some of them.
"""

INDEX_VARIABLES = (
    *(
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "UV_DEFAULT_INDEX",
        "UV_INDEX",
        "UV_INDEX_URL",
        "UV_EXTRA_INDEX_URL",
    ),
    *(
        "NPM_CONFIG_REGISTRY",
        "npm_config_registry",
        "YARN_NPM_REGISTRY_SERVER",
        "GOPROXY",
        "CARGO_REGISTRIES_CRATES_IO_INDEX",
    ),
)
"""Variables of package managers that hold index URLs."""

_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_PATTERN = re.compile(r"[a-z0-9_.*-]{1,253}")
_ENTRY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@\s]+)(?::(\d{1,5}))?")


def network(value: Plain) -> str | tuple[str, ...]:
    """Read `permissions.network`: `none`, `open`, or a list of hosts.

    The list may also be a comma-separated string.
    """
    if value in ("none", "open"):
        return str(value)
    expected = (
        "none, open or a list of hosts, like [default, docs.python.org, '*.example.org', "
        "example.org:8443]"
    )
    given = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(given, list) or not given:
        raise Wrong(expected)
    for i, text in enumerate(given):
        try:
            if not isinstance(text, str) or (text != DEFAULT and not host_entry(text)):
                raise ValueError(text)
        except ValueError as e:
            hint = (
                ": write a host without scheme and path"
                if isinstance(text, str) and "/" in text
                else ""
            )
            raise Wrong(expected, hint=hint, item=None if isinstance(value, str) else i) from e
    return tuple(dict.fromkeys(map(str, given)))


class Host(NamedTuple):
    """A host name, a pattern with `*` or an address; and its port, or None for the web ports."""

    name: str
    port: int | None = None


def host_entry(text: str) -> Host:
    """Read `HOST` or `HOST:PORT`. Raises ValueError."""
    from ipaddress import IPv6Address  # noqa: PLC0415  most configurations name no host, and it costs a few ms

    form = _ENTRY.fullmatch(text.strip())
    port = int(form[2]) if form is not None and form[2] else None
    if form is None or (port is not None and not 0 < port < 65536):
        raise ValueError(text)
    if form[1].startswith("["):
        return Host(str(IPv6Address(form[1][1:-1])), port)
    name = form[1].lower().removesuffix(".")
    if not name.isascii():
        name = name.encode("idna").decode("ascii")  # UnicodeError is a ValueError
    if "*" not in name:
        return Host(plain_host(name), port)
    if not _PATTERN.fullmatch(name) or name.count("*") > 3:
        raise ValueError(text)
    return Host(name, port)


@lru_cache(maxsize=1024)
def plain_host(name: str) -> str:
    """Normalize a host: lower case, no trailing dot, and the canonical form of an address. Raises
    ValueError for any other text.

    An address in an unusual spelling (`127.1`, `0x7f.1`, `2130706433`) is rejected: resolvers read
    it as an address, but a comparison would not.
    """
    from ipaddress import IPv4Address, IPv6Address, ip_address  # noqa: PLC0415  as above

    name = name.lower().removesuffix(".")
    if ":" in name:
        address = ip_address(name)
        if isinstance(address, IPv6Address) and address.scope_id is not None:
            raise ValueError(name)
        return str(address)
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise ValueError(name)
    if _is_number(name.rpartition(".")[2]):
        return str(IPv4Address(name))
    return name


def _is_number(label: str) -> bool:
    """Return True if a name that ends in `label` is an address in some spelling, as defined by the
    URL standard.
    """
    return label.isdigit() or re.fullmatch(r"0x[0-9a-f]*", label) is not None or _is_address(label)


def _is_address(text: str) -> bool:
    import socket  # noqa: PLC0415  as above

    try:
        socket.inet_aton(text)
    except OSError:
        return False
    return True


class HostList(msgspec.Struct, frozen=True, dict=True):
    """Hosts that may be reached, with their ports."""

    entries: tuple[Host, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str], environment: Mapping[str, str]) -> HostList:
        """Read validated entries. `environment` completes `default`."""
        found: list[Host] = []
        for text in texts:
            found += (
                [*map(host_entry, DEFAULT_HOSTS), *_indexes(environment)]
                if text == DEFAULT
                else [host_entry(text)]
            )
        return cls(tuple(dict.fromkeys(found)))

    def allows(self, name: str, port: int) -> bool:
        """Return True if a normalized host may be reached at a port.

        Patterns never match addresses.
        """
        if (name, port) in self._exact:
            return True
        if self._patterns and not is_literal(name):
            return any(
                port == own if own else port in WEB_PORTS
                for pattern, own in self._patterns
                if pattern.fullmatch(name)
            )
        return False

    def covers(self, other: HostList) -> bool:
        """Return True if `other` allows nothing more: each of its entries is listed or allowed
        here.
        """
        return all(
            entry in self.entries
            or (
                "*" not in entry.name
                and all(
                    self.allows(entry.name, port)
                    for port in ((entry.port,) if entry.port else WEB_PORTS)
                )
            )
            for entry in other.entries
        )

    @cached_property
    def _exact(self) -> frozenset[tuple[str, int]]:
        return frozenset(
            (name, each)
            for name, port in self.entries
            if "*" not in name
            for each in ((port,) if port else WEB_PORTS)
        )

    @cached_property
    def _patterns(self) -> tuple[tuple[re.Pattern[str], int | None], ...]:
        return tuple(
            (re.compile(wildcards(name, "[a-z0-9_.-]")), port)
            for name, port in self.entries
            if "*" in name
        )


def is_literal(name: str) -> bool:
    """Return True if a normalized host is an address."""
    return ":" in name or name.rpartition(".")[2].isdigit()


def _indexes(environment: Mapping[str, str]) -> Iterable[Host]:
    """Yield the hosts of the indexes in the user's environment. Values that are not URLs are
    skipped.
    """
    for variable in INDEX_VARIABLES:
        for text in re.split(r"[\s,|]+", environment.get(variable, "")):
            try:
                # uv: NAME=URL
                url = urlsplit(text.partition("=")[2] if re.match(r"[\w-]+=", text) else text)
                if url.scheme.rpartition("+")[2] in ("http", "https") and url.hostname:
                    yield Host(
                        plain_host(url.hostname),
                        None if url.port in (None, *WEB_PORTS) else url.port,
                    )
            except ValueError:
                continue

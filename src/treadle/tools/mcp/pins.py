"""Stored definitions of the tools of MCP servers, so that a tool that changes later is withheld
until the user accepts it.

Trust on first use: new tools need no confirmation. upkeep.py lists the tools. Entry points: `Pins`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Sequence
from pathlib import Path

import msgspec

from treadle._internal.file_lock import take
from treadle.config.file import Broken, read_text, write_text
from treadle.errors import AgentError
from treadle.tools.mcp.listing import Offered
from treadle.tools.mcp.server import McpServer

FILE_NAME = "mcp-tools.json"
VERSION = 1
TOOLS_MAX = 5_000
"""Maximum number of tool names stored for one server, including those that it no longer has."""
NAMES_CHARS_MAX = 320_000
"""Maximum length of the tool names stored for one server, summed."""
STORE_CHARS_MAX = 900_000
"""Maximum size of the definitions of all servers, in characters. Beyond it, only hashes are kept
for the server whose definitions take the most space.
"""
FILE_BYTES_MAX = 8 << 20
"""Maximum size of the file. New tools are refused rather than making it larger, because no tool of
any server could be offered if it could not be read.
"""
ACCEPT = "treadle tools accept"
"""Command that accepts a change, followed by the name of the server."""


class _Pin(msgspec.Struct, kw_only=True):
    sha256: str
    definition: str
    offered: str | None = None
    """Last seen form of the tool, if it differs."""


class _Pinned(msgspec.Struct, kw_only=True):
    name: str
    place: str
    tools: dict[str, _Pin] = {}


class _Store(msgspec.Struct, kw_only=True):
    version: int = VERSION
    servers: dict[str, _Pinned] = {}
    """Tools by the identity of their server."""


class ChangedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A changed tool: its former and current name, description, schemas and hints, as JSON."""

    server: str
    place: str
    """Program or address."""
    tool: str
    """Name on the server."""
    before: str
    now: str


class Pins:
    """Store of the tools that were seen, in a file that only its owner can read. Methods block:
    call them in a thread.
    """

    def __init__(self, own: Path) -> None:
        """Create a store of pins. `own`: Treadle's folder (`config.home`)."""
        self._own = own
        self._file = own / FILE_NAME

    def changed(self) -> list[ChangedTool]:
        """Return the tools that are withheld until their change is accepted. Raises
        AgentError(invalid) if the file cannot be read.
        """
        return [
            ChangedTool(
                server=server.name,
                place=server.place,
                tool=tool,
                before=pin.definition,
                now=pin.offered,
            )
            for server in self._read().servers.values()
            for tool, pin in server.tools.items()
            if pin.offered
        ]

    def accept(self, changes: Sequence[ChangedTool]) -> list[ChangedTool]:
        """Accept `changes` as the user saw them, and return those accepted. Tools that have changed
        again since then are left unchanged.

        Raises AgentError(invalid) if the file cannot be read or written.
        """
        accepted: list[ChangedTool] = []
        with self._changing() as store:
            for change in changes:
                for server in store.servers.values():
                    pin = server.tools.get(change.tool)
                    if (
                        (server.name, server.place) == (change.server, change.place)
                        and pin is not None
                        and pin.offered == change.now
                    ):
                        server.tools[change.tool] = _Pin(
                            sha256=_hash(change.now), definition=change.now
                        )
                        accepted.append(change)
        return accepted

    def check(self, server: McpServer, offered: Sequence[Offered]) -> list[str]:
        """Store new tools, and return the server's names of changed ones.

        Raises AgentError(invalid) if the file cannot be read or written. Changes are then unknown,
        so offer none of the tools.
        """
        known = self._read().servers.get(server.identity)
        if known is None or any(_news(known, tool) for tool in offered):
            with self._changing() as store:
                known = store.servers.setdefault(
                    server.identity, _Pinned(name=server.name, place=server.place)
                )
                for tool in offered:
                    _remember(known, tool)
        pins = [(tool, known.tools.get(tool.theirs)) for tool in offered]
        return [tool.theirs for tool, pin in pins if pin is None or pin.sha256 != tool.digest]

    def beyond(self, server: McpServer, offered: Sequence[Offered]) -> list[str]:
        """Return the server's names of tools that are not stored because the server has had too
        many. Raises AgentError as `check` does.
        """
        known = self._read().servers.get(server.identity)
        return [] if known is None else [t.theirs for t in offered if t.theirs not in known.tools]

    # ------------------------------------------------------------ the file

    def _read(self) -> _Store:
        try:
            opened = read_text(self._file, own=True, size_max_bytes=FILE_BYTES_MAX)
            store = _Store() if opened is None else msgspec.json.decode(opened.text, type=_Store)
        except (Broken, msgspec.DecodeError, UnicodeError) as e:
            why = e.text if isinstance(e, Broken) else "is not what Treadle writes"
            raise AgentError(
                "invalid",
                f"{self._file}: {why}; delete it to trust each MCP tool again when it is next seen",
            ) from e
        if store.version != VERSION:
            raise AgentError(
                "invalid",
                (
                    f"{self._file} is of another version of Treadle ({store.version}, and this one "
                    f"writes {VERSION})"
                ),
            )
        return store

    @contextlib.contextmanager
    def _changing(self) -> Generator[_Store]:
        """Change the file atomically under a lock, so that no concurrent change is lost."""
        try:
            self._own.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = (
                os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            )
            descriptor = os.open(self._file.with_name(FILE_NAME + ".lock"), flags, 0o600)
            try:
                take(descriptor, wait=True)
                store = self._read()
                yield store
                if len((text := _fitting(store)).encode()) > FILE_BYTES_MAX:
                    raise AgentError(
                        "invalid",
                        f"{self._file} is full, so no more MCP tools can be remembered: delete it "
                        "to trust each tool again, and remove the servers that have filled it",
                    )
                write_text(self._file, text)
            finally:
                os.close(descriptor)
        except OSError as e:
            raise AgentError("invalid", f"{self._own}: cannot be written: {e.strerror or e}") from e


def _fitting(store: _Store) -> str:
    """Return the text of the file, with definitions left out until the others fit."""
    servers = store.servers.values()
    while sum(map(_weight, servers)) > STORE_CHARS_MAX:
        largest = max(servers, key=_weight)
        pins = sorted(largest.tools.values(), key=_texts, reverse=True)
        for pin in pins[: max(len(pins) // 4, 1)]:
            pin.definition = ""
            pin.offered = None if pin.offered is None else ""
    return msgspec.json.format(msgspec.json.encode(store), indent=1).decode() + "\n"


def _texts(pin: _Pin) -> int:
    return len(pin.definition) + len(pin.offered or "")


def _weight(server: _Pinned) -> int:
    return sum(map(_texts, server.tools.values()))


def _news(known: _Pinned, tool: Offered) -> bool:
    """Return True if the file does not contain the tool in this form."""
    pin = known.tools.get(tool.theirs)
    if pin is None:
        return _has_room(known, tool)
    if pin.offered is None:
        return pin.sha256 != tool.digest
    return pin.offered not in ("", tool.definition) or pin.sha256 == tool.digest


def _has_room(known: _Pinned, tool: Offered) -> bool:
    chars = sum(map(len, known.tools)) + len(tool.theirs)
    return len(known.tools) < TOOLS_MAX and chars <= NAMES_CHARS_MAX


def _remember(known: _Pinned, tool: Offered) -> None:
    pin = known.tools.get(tool.theirs)
    if pin is None:
        if not _has_room(known, tool):
            return
        known.tools[tool.theirs] = _Pin(sha256=tool.digest, definition=tool.definition)
    else:
        pin.offered = None if tool.digest == pin.sha256 else tool.definition


def _hash(definition: str) -> str:
    import hashlib  # noqa: PLC0415  only when something is accepted

    return hashlib.sha256(definition.encode("utf-8", "surrogatepass")).hexdigest()

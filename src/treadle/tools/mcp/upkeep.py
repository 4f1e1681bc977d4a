"""One MCP server during the life of a runtime: connected on first use, reconnected after a failure,
with its latest list of tools.

connection.py is a single connection. Entry points: `Upkeep`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import anyio
from anyio import to_thread

from treadle.tools.mcp.failures import Unreachable
from treadle.tools.mcp.listing import Listing, Offered, ServerListing, listing_of
from treadle.tools.mcp.server import McpServer
from treadle.tools.tool import ToolContext, ToolFailed

if TYPE_CHECKING:
    import mcp_types

    from treadle.tools.mcp.connection import Era, McpConnection


FIRST_S = 0.5
LONGEST_S = 300.0
MOST = 20
"""Maximum number of consecutive failures."""


class Backoff:
    def __init__(
        self, clock: Callable[[], float], chance: Callable[[], float] = random.random
    ) -> None:
        """Create a backoff. `clock`: returns seconds. `chance`: returns a number from 0 to 1."""
        self._clock, self._chance = clock, chance
        self._until = 0.0
        self.failures = 0

    def failed(self) -> None:
        """Count a failure. After the first consecutive one, the next start is immediate."""
        self.failures += 1
        longest = (
            min(LONGEST_S, FIRST_S * 2 ** max(self.failures - 2, 0)) if self.failures > 1 else 0.0
        )
        self._until = self._clock() + longest * (0.5 + self._chance() / 2)

    def worked(self) -> None:
        self.failures = 0

    @property
    def is_given_up(self) -> bool:
        return self.failures >= MOST

    @property
    def wait_s(self) -> float:
        return max(self._until - self._clock(), 0.0)


_Wanted: TypeAlias = "tuple[tuple[str, ...] | None, bool]"
FRESH_S = 60.0
"""Seconds for which a list of tools is current, unless the server announces a change."""
PATIENCE_S = 2.0
"""Longest delay before the next start, in seconds, that callers wait for. A longer one is reported
immediately.
"""


@dataclass(frozen=True, slots=True)
class _Listed:
    """The latest list of tools of a server."""

    by: McpConnection
    told: ServerListing
    at: float
    offered: dict[_Wanted, Listing] = field(default_factory=dict[_Wanted, Listing])
    """Offered tools, by requested selection."""


class ServerStatus(NamedTuple):
    """Status of one server, as far as known without contacting it."""

    name: str
    place: str
    state: Literal["idle", "running", "failed"]
    """idle: not started yet because no run has needed the server, or exited."""
    tools: tuple[str, ...] = ()
    """Names of the latest tools, as the model calls them."""
    wrong: tuple[str, ...] = ()
    """Reasons why it is unusable, and tools that it does not offer, for the user."""


class Upkeep:
    """Connection to one MCP server, restarted when it is lost.

    Its methods may be called from any task of the runtime's event loop.
    """

    def __init__(
        self, server: McpServer, connect: Callable[[McpServer, Era], McpConnection]
    ) -> None:
        """Create an upkeep. `connect` creates a connection and starts its task."""
        self.server = server
        self._connect = connect
        self._backoff = Backoff(anyio.current_time)
        self._era: Era = server.protocol
        self._now: McpConnection | None = None
        self._listed: _Listed | None = None
        self._ended = False
        self._trouble = ""
        """Reason why there is no connection; empty if there is one."""
        self._listing = anyio.Lock()
        """Serializes listings, so that runs that begin together share one."""

    async def listing(self, server: McpServer, *, fresh: bool) -> Listing:
        """Return the tools that `server` selects. They are requested again after a change, or with
        `fresh` after a minute. Raises Unreachable.
        """
        wanted = _wanted(server)
        known = self._known(fresh=fresh)
        if known is None or wanted not in known.offered:
            async with self._listing:
                known = await self._heard(fresh=fresh)
                if wanted not in known.offered:
                    known.offered[wanted] = await to_thread.run_sync(listing_of, server, known.told)
        return known.offered[wanted]

    async def _heard(self, *, fresh: bool) -> _Listed:
        """Request the list. Raises Unreachable."""
        connection = await self._connected()
        if (known := self._known(fresh=fresh)) is None:
            try:
                known = self._listed = _Listed(
                    connection, await connection.tools(), anyio.current_time()
                )
            except Unreachable as e:
                raise self._unreachable(str(e)) from e
        return known

    def _known(self, *, fresh: bool) -> _Listed | None:
        """Return the latest list, if it is still current."""
        connection, listed = self._now, self._listed
        if (
            listed is None
            or connection is None
            or listed.by is not connection
            or not connection.is_usable
            or connection.traffic.tools_changed
        ):
            return None
        return listed if not fresh or anyio.current_time() - listed.at < FRESH_S else None

    async def call(
        self, server: McpServer, tool: Offered, ctx: ToolContext[Any], arguments: Mapping[str, Any]
    ) -> mcp_types.CallToolResult:
        """Call a tool for `server`, one of those that share this connection. Raises ToolFailed.

        Repeats the call once if the server does not recognise our session, which means that the
        server ran nothing.
        """
        why = ""
        for _ in range(2):
            try:
                self._check(tool, await self.listing(server, fresh=False))
                connection = await self._connected()
                result = await connection.call(tool, ctx, arguments, timeout_s=server.timeout_s)
            except Unreachable as e:
                why = str(e)
                continue
            self._backoff.worked()
            return result
        raise ToolFailed(f"{why[:1].upper()}{why[1:]}. Nothing was run.")

    def _check(self, tool: Offered, listing: Listing) -> None:
        now = listing.tools.get(tool.theirs)
        if now is None or now.digest != tool.digest:
            what = (
                "no longer has this tool"
                if now is None
                else "has changed this tool since the run began"
            )
            raise ToolFailed(
                f"The MCP server {self.server.name!r} {what}: nothing was run. Go on without "
                f"{tool.name}."
            )

    def standing(self, server: McpServer) -> ServerStatus:
        """Return the status of `server`, one of those that share this connection."""
        is_running = self._now is not None and self._now.is_usable
        known = None if self._listed is None else self._listed.offered.get(_wanted(server))
        trouble = () if is_running or not self._trouble else (self._trouble,)
        notes, tools = (
            ((), ())
            if known is None
            else (known.notes, tuple(tool.name for tool in known.tools.values()))
        )
        state = "running" if is_running else "failed" if trouble else "idle"
        return ServerStatus(
            server.name, server.redactor.text(server.place), state, tools, (*trouble, *notes)
        )

    # ------------------------------------------------------------ connecting

    async def _connected(self) -> McpConnection:
        """Return the connection, opening it if needed. Raises Unreachable."""
        if self._ended:
            raise Unreachable(
                f"the MCP server {self.server.name!r} was closed with its runtime, or after its run"
            )
        if self._now is not None and not self._now.is_usable and self._now.settled.is_set():
            await self._buried(self._now)
        if self._now is None:
            await self._wait()
        connection = self._now = self._now or self._connect(self.server, self._era)
        await connection.settled.wait()
        if not connection.is_usable:
            self._trouble = connection.reason
            await self._buried(connection)
            raise self._unreachable(f"it could not be connected to: {connection.reason}")
        self._trouble = ""
        return connection

    async def _buried(self, connection: McpConnection) -> None:
        await connection.over.wait()
        if self._now is connection:  # only one of the waiting tasks gets here
            self._now = None
            if connection.answered:
                self._backoff.worked()
            elif self._listed is None and self.server.command and self.server.protocol == "auto":
                # some old servers crash on the first message of the newer protocol
                self._era = "auto" if self._era == "legacy" else "legacy"
            self._backoff.failed()

    async def _wait(self) -> None:
        if self._backoff.is_given_up:
            raise Unreachable(
                f"the MCP server {self.server.name!r} failed {MOST} times in a row and is not "
                "started again until Treadle is restarted"
            )
        if self._backoff.wait_s > PATIENCE_S:
            raise self._unreachable("it failed before")
        await anyio.sleep(self._backoff.wait_s)

    def _unreachable(self, why: str) -> Unreachable:
        wait_s = self._backoff.wait_s
        then = f"; it is tried again after {wait_s:.0f} s" if wait_s > PATIENCE_S else ""
        return Unreachable(
            self.server.redactor.text(
                f"the MCP server {self.server.name!r} cannot be used: {why}{then}"
            )
        )

    def end(self) -> None:
        """Start ending the connection, for good."""
        self._ended = True
        if self._now is not None:
            self._now.end("it was closed")

    async def aclose(self) -> None:
        """Close the connection. Idempotent."""
        self.end()
        if self._now is not None:
            await self._now.over.wait()


def _wanted(server: McpServer) -> _Wanted:
    """Return the key of the selection that a server makes of its tools."""
    return (None if server.tools is None else tuple(server.tools), server.deferred)

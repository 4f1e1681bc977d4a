"""MCP servers of one runtime. Each is started on first use, shared by all runs, and stopped with
the runtime.

Entry point: `McpServers`.
"""

from __future__ import annotations

import contextvars
import importlib
import importlib.util
import logging
import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from treadle._internal.environment import child_environment
from treadle._internal.units import count
from treadle.errors import AgentError
from treadle.tools.mcp.failures import Unreachable
from treadle.tools.mcp.joining import Joining
from treadle.tools.mcp.listing import Offered
from treadle.tools.mcp.pins import ACCEPT, NAMES_CHARS_MAX, TOOLS_MAX, Pins
from treadle.tools.mcp.questions import Ask
from treadle.tools.mcp.server import McpServer, RunServer
from treadle.tools.mcp.tool import McpTool
from treadle.tools.mcp.upkeep import ServerStatus, Upkeep

if TYPE_CHECKING:
    from treadle.tools.mcp.connection import Era, McpConnection

logger = logging.getLogger("treadle")

IDLE_MOST = 32
"""Maximum number of connections with the headers of ended runs."""
INSTALL = "pip install 'treadle[mcp]'"
Warn = Callable[[str], None]


class McpServers:
    """Servers of a runtime, as an async context manager. Any task may call `aclose`. No process of
    a server outlives it.
    """

    def __init__(
        self,
        *,
        home: Path | None = None,
        environment: Mapping[str, str] | None = None,
        ask: Ask | None = None,
    ) -> None:
        """Create the MCP servers of a runtime. `home`: Treadle's directory, where changes of tools
        are tracked; None: not tracked. `environment`: that of the programs; None: this process's,
        without keys.

        `ask`: asks the user a server's questions. None: servers are informed that no user is
        available.
        """
        self.pins = None if home is None else Pins(home)
        self._environment = child_environment(()) if environment is None else environment
        self._ask = ask
        self._upkeeps: dict[Hashable, Upkeep] = {}
        """Upkeeps by connection. Agents that use different tools of one server share a
        connection.
        """
        self._runs: dict[Hashable, int] = {}
        """Number of runs that use a connection of a `RunServer`, in the order in which they began
        or ended. The idle ones are closed in this order.
        """
        self._group: TaskGroup | None = None
        self._context = contextvars.copy_context()
        self._closed = False

    def open(self, group: TaskGroup) -> None:
        """Open without `async with`: the servers' tasks run in `group`, which must be exited after
        `aclose`.
        """
        # a connection outlives the run that first needs it, and that run's span
        self._context = contextvars.copy_context()
        self._group = group

    async def __aenter__(self) -> Self:
        self.open(await anyio.create_task_group().__aenter__())
        return self

    async def __aexit__(self, *exc: object) -> bool | None:
        assert self._group is not None, "it was entered"
        with anyio.CancelScope(shield=True):
            await self.aclose()
        group, self._group = self._group, None
        return await group.__aexit__(*exc)  # pyright: ignore[reportArgumentType]  what an async with hands over

    async def aclose(self) -> None:
        """Stop all servers. Idempotent."""
        self._closed = True
        for upkeep in self._upkeeps.values():
            upkeep.end()
        for upkeep in self._upkeeps.values():
            await upkeep.aclose()

    async def tools(
        self,
        servers: Sequence[McpServer],
        *,
        taken: Collection[str] = (),
        required: Collection[str] = (),
        warn: Callable[[str], None],
    ) -> list[McpTool]:
        """Return the current tools of `servers`, in order. All servers are listed concurrently,
        once per run.

        Calls `warn` with a sentence for each thing that cannot be offered: a server that is
        unreachable, a tool that has changed since it was first seen, or a name in `taken` (the
        run's own tools) or of another server's tool. Raises AgentError(tool) if a server whose name
        is in `required` is unreachable, AgentError(invalid) if the SDK is not installed.
        """
        if not servers:
            return []
        self._check()
        joining = await self.join(servers, taken=taken, within_s=math.inf)
        for server, why in joining.missed.items():
            if server.name in required:
                raise AgentError("tool", f"{why}; this run needs it")
        tools, notes = joining.take()
        for note in notes:
            warn(note)
        return tools

    async def join(
        self, servers: Sequence[McpServer], *, taken: Collection[str] = (), within_s: float
    ) -> Joining:
        """List the tools of all servers concurrently, and wait up to `within_s` seconds for them.

        Later tools are added to the returned object.
        """
        self._check()
        assert self._group is not None, "it was checked"
        for server in servers:
            if callable(server.headers):
                raise AgentError(
                    "invalid",
                    f"headers= of the MCP server {server.name!r} is a function of a run: pass the "
                    "server to an agent, or headers by name",
                )
        joining = Joining(servers, taken)
        for server in joining.servers:
            if isinstance(server, RunServer):
                self._runs[server.process] = self._runs.pop(server.process, 0) + 1
        for server in dict.fromkeys(servers):
            self._group.start_soon(self._ask_one, server, joining)
        await joining.wait(within_s)
        return joining

    def release(self, joining: Joining) -> None:
        """End the use of servers with the headers of one run. A connection without runs is kept for
        the user's next run, until `IDLE_MOST` others are.
        """
        for server in joining.servers:
            if isinstance(server, RunServer):
                self._runs[server.process] = self._runs.pop(server.process) - 1
        idle = [process for process, runs in self._runs.items() if not runs]
        for process in idle[: max(len(idle) - IDLE_MOST, 0)]:
            del self._runs[process]
            if (upkeep := self._upkeeps.pop(process, None)) is not None:
                upkeep.end()

    def standing(self, servers: Sequence[McpServer]) -> list[ServerStatus]:
        """Return the status of each server, in order, without contacting any. Blocks while it reads
        which tools have changed.
        """
        found: list[ServerStatus] = []
        try:
            changed = [] if self.pins is None else self.pins.changed()
            wrong = ""
        except AgentError as e:
            changed, wrong = [], e.message
        for server in servers:
            upkeep = self._upkeeps.get(server.process)
            known = (
                ServerStatus(server.name, server.redactor.text(server.place), "idle")
                if upkeep is None
                else upkeep.standing(server)
            )
            notes = [
                (
                    f"its tool {one.tool!r} has changed and is not offered: review it, then "
                    f"{ACCEPT} {server.name}"
                )
                for one in changed
                if one.server == server.name
            ]
            found.append(known._replace(wrong=(*known.wrong, *notes, *([wrong] if wrong else []))))
        return found

    def _check(self) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise AgentError("invalid", f"MCP servers need the official SDK: {INSTALL}")
        try:
            importlib.import_module("treadle.tools.mcp.connection")
        except ImportError as e:  # an older SDK, or another module of that name
            raise AgentError(
                "invalid",
                (
                    "MCP servers need the official SDK, and what is installed as `mcp` is not it, "
                    f"or too old ({e}): {INSTALL}"
                ),
            ) from e
        if self._group is None or self._closed:
            raise AgentError(
                "invalid",
                "MCP servers need an open runtime: use `async with Runtime.open(…) as rt:`",
            )

    async def _ask_one(self, server: McpServer, joining: Joining) -> None:
        upkeep = self._upkeeps.get(server.process) or self._upkeeps.setdefault(
            server.process, Upkeep(server, self._connect)
        )
        notes = list[str]()
        try:
            listing = await upkeep.listing(server, fresh=True)
            offered = await self._unchanged(server, [*listing.tools.values()], notes.append)
        except (Unreachable, AgentError) as e:
            joining.missed[server] = str(e)
        # task boundary: a failure in one run must not stop the servers of another
        except Exception as e:
            logger.exception("the MCP server %r could not be asked for its tools", server.name)
            joining.missed[server] = (
                f"the MCP server {server.name!r} cannot be used: {type(e).__name__}"
            )
        else:
            joining.found[server] = [McpTool(tool, server, upkeep) for tool in offered]
            notes += listing.notes
        joining.notes += notes
        joining.settle()

    async def _unchanged(
        self, server: McpServer, offered: list[Offered], warn: Warn
    ) -> list[Offered]:
        if self.pins is None:
            return offered
        changed = await to_thread.run_sync(self.pins.check, server, offered)
        beyond = await to_thread.run_sync(self.pins.beyond, server, offered) if changed else []
        if beyond:
            warn(
                f"the MCP server {server.name!r} has had too many tools of other names (at most "
                f"{TOOLS_MAX:,}, of {NAMES_CHARS_MAX:,} characters): "
                f"{count(len(beyond), 'new one')} cannot be remembered and are not offered"
            )
        for tool in offered:
            if tool.theirs in changed and tool.theirs not in beyond:
                warn(
                    f"the MCP server {server.name!r} has changed its tool {tool.name!r} since it "
                    "was first seen: "
                    f"it is not offered until you have reviewed it: {ACCEPT} {server.name}"
                )
        return [tool for tool in offered if tool.theirs not in changed]

    def _connect(self, server: McpServer, era: Era) -> McpConnection:
        from treadle.tools.mcp.connection import McpConnection  # noqa: PLC0415  the SDK costs a second

        if self._group is None or self._closed:
            raise Unreachable(f"the MCP server {server.name!r} was closed with its runtime")
        connection = McpConnection(server, self._environment, self._ask, era)
        self._context.run(self._group.start_soon, connection.run)
        return connection

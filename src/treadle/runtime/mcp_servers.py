"""Tools of MCP servers for the runs of a runtime: listed before a run starts, and closed with the
runtime.

tools/mcp defines servers and keeps them running; it is imported only when a run uses one. Entry
points: `RuntimeServers`.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import anyio
from anyio.abc import TaskGroup

from treadle.agents.agent import Agent
from treadle.errors import AgentError
from treadle.tools.approval import ApprovalRequest, Approve, Approver
from treadle.tools.tool import LateTools, Tool
from treadle.types import Limits

if TYPE_CHECKING:
    from treadle.tools.mcp import McpServer, McpServers, ServerQuestion, ServerStatus
    from treadle.tools.mcp.joining import Joining


class More(NamedTuple):
    """Tools in addition to the agent's own, and warnings about unavailable ones."""

    tools: tuple[Tool[Any], ...] = ()
    missed: tuple[str, ...] = ()
    late: LateTools | None = None
    waited_s: float = 0.0


class RuntimeServers:
    """MCP servers of a runtime, active between `enter` and `leave`."""

    def __init__(
        self,
        home: Callable[[], Path],
        environment: Callable[[], Mapping[str, str]],
        learn: Callable[[frozenset[str]], None],
    ) -> None:
        """Create the runtime's MCP servers. `learn` receives the secrets of servers before they are
        used.
        """
        self._home, self._environment, self._learn = home, environment, learn
        self._servers: McpServers | None = None
        self._group: TaskGroup | None = None
        self._host: object = None
        self._context = contextvars.copy_context()
        self.approver_of: Callable[[str], Approver | None] = lambda run_id: None
        """Approver who answers a server's questions, by run."""

    async def enter(self) -> None:
        self._host, self._context = asyncio.current_task(), contextvars.copy_context()
        self._group = await anyio.create_task_group().__aenter__()

    async def leave(self) -> None:
        """Finish after `aclose`.

        A runtime that is closed by another task than the one that opened it has no task to wait
        for.
        """
        group, self._group = self._group, None
        if group is not None and self._host is asyncio.current_task():
            await group.__aexit__(None, None, None)

    async def aclose(self) -> None:
        """Stop all servers. Idempotent."""
        if self._servers is not None:
            await self._servers.aclose()

    async def more(
        self,
        agent: Agent[Any, Any],
        own: tuple[Tool[Any], ...],
        limits: Limits,
        awaited: Collection[str],
    ) -> More:
        """Return `own` and the tools of the agent's servers.

        Waits for the servers within the limits; for an `awaited` tool until its server has
        responded or failed.
        """
        begun, names = anyio.current_time(), {tool.name for tool in agent.own_tools}
        joining = await self.join(
            agent, within_s=limits.seconds, to_the_end=not names.issuperset(awaited)
        )
        tools, missed = joining.take()
        return More((*own, *tools), tuple(missed), joining, anyio.current_time() - begun)

    async def join(
        self, agent: Agent[Any, Any], *, within_s: float | None, to_the_end: bool
    ) -> LateTools:
        """List the tools of the agent's servers, waiting as each server's `wait_s` and `within_s`
        allow.

        `to_the_end`: wait until each has responded or failed. Raises AgentError(invalid) without
        the SDK, or outside `async with`.
        """
        from treadle.tools.mcp.server import RunServer  # noqa: PLC0415  only if there are servers

        servers, taken = (
            cast("Sequence[McpServer]", agent.mcp_servers),
            [tool.name for tool in agent.own_tools],
        )
        # headers of single runs are masked by their server alone: there may be very many
        self._learn(
            frozenset(
                secret
                for one in servers
                if not isinstance(one, RunServer)
                for secret in one.secrets
            )
        )
        wait_s = math.inf if to_the_end else max(server.wait_s for server in servers)
        return await self._opened().join(
            servers, taken=taken, within_s=min(wait_s, math.inf if within_s is None else within_s)
        )

    def release(self, joined: LateTools) -> None:
        """End the use of what `join` returned, when its run is no longer driven."""
        if self._servers is not None:
            self._servers.release(cast("Joining", joined))

    def standing(self, agent: Agent[Any, Any]) -> list[ServerStatus]:
        """Return the status of the agent's servers without starting any. Blocks while it reads a
        file.
        """
        if not agent.mcp_servers:
            return []
        from treadle.tools.mcp import McpServers  # noqa: PLC0415  only if there are servers

        servers = self._servers or McpServers(home=self._home(), environment=self._environment())
        return servers.standing(cast("Sequence[McpServer]", agent.mcp_servers))

    def _opened(self) -> McpServers:
        if self._servers is None:
            from treadle.tools.mcp import McpServers  # noqa: PLC0415  only if there are servers

            if self._group is None:
                raise AgentError(
                    "invalid",
                    "MCP servers need an open runtime: use `async with Runtime.open(…) as rt:`",
                )
            self._servers = McpServers(
                home=self._home(), environment=self._environment(), ask=self._ask
            )
            self._context.run(self._servers.open, self._group)
        return self._servers

    async def _ask(self, question: ServerQuestion) -> Mapping[str, Any] | None:
        """Ask through the run's own approver: the approved arguments are the answer."""
        approver = None if question.run_id is None else self.approver_of(question.run_id)
        if approver is None or question.run_id is None:
            return None
        shown: dict[str, object] = {"message": question.message}
        shown |= {"schema": question.schema} if question.url is None else {"url": question.url}
        request = ApprovalRequest(
            run_id=question.run_id,
            session_id=None,
            parent_run_id=None,
            agent="",
            server=question.server,
            call_id=question.call_id or "",
            name=question.server,
            arguments=shown,
            reason=(
                f"the MCP server {question.server!r} asks a person: approve with its answer as "
                "the arguments"
            ),
        )
        answer = await approver(request)
        if not isinstance(answer, Approve):
            return None
        given = dict(answer.arguments or {})
        required: object = (question.schema or {}).get("required")
        is_answered = not isinstance(required, list) or all(
            name in given for name in cast("list[object]", required)
        )
        return given if is_answered else None

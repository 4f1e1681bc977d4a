"""Agents from validated definitions, whose tools are resolved. Entry point: `AgentMaker`.

catalog.py checks the definitions first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from treadle.agents.agent import Agent
from treadle.agents.definitions.keys import ReadDefinition
from treadle.agents.definitions.naming import (
    Callee,
    CompletionTool,
    Meaning,
    OwnTool,
    ServerTools,
)
from treadle.config import Config
from treadle.config.workspace import lower
from treadle.tools.handoff import handoff
from treadle.tools.tool import Tool, ToolProvider
from treadle.types import Limits


class AgentMaker:
    """Factory for the agents of one configuration."""

    def __init__(
        self,
        config: Config,
        cwd: Path,
        agent_of: Callable[[str], Agent[Any, Any]],
        described: Callable[[str], str],
    ) -> None:
        """Create a factory. `cwd`: working directory of stdio MCP servers. `agent_of` returns an
        agent among an agent's tools, by name; `described` the description of one that it can hand
        over to.
        """
        self._config, self._cwd = config, cwd
        self._agent_of, self._described = agent_of, described
        self.warnings: list[str] = []
        """Warnings for the user about the agents made so far."""

    def make(self, definition: ReadDefinition, meanings: Sequence[Meaning]) -> Agent[Any, Any]:
        """Return the agent. Raises AgentError(invalid) for a problem that cannot be detected in its
        file alone.
        """
        tools: list[Tool[Any] | Agent[Any, Any]] = []
        wanted: dict[str, list[str | None]] = {}
        for meaning in meanings:
            match meaning:
                case OwnTool(tool):
                    tools.append(tool)
                case Callee(callee):
                    tools.append(self._agent_of(callee))
                case ServerTools():
                    wanted.setdefault(meaning.server, []).append(meaning.tool)
                case CompletionTool():
                    pass
        agent: Agent[Any, Any] = Agent(
            name=definition.file.name,
            description=definition.description,
            instructions=definition.instructions,
            model=self._model(definition),
            tools=tools,
            output=definition.output,
            completion=any(isinstance(meaning, CompletionTool) for meaning in meanings),
            mcp_servers=[self._server(name, tuple(named)) for name, named in wanted.items()],
            limits=self._limits(definition),
            inputs=definition.inputs,
        )
        next_ones = [
            handoff(named.text, description=self._described(named.text))
            for named in definition.handoffs
        ]
        return agent.with_(handoffs=next_ones) if next_ones else agent

    def _server(self, name: str, wanted: tuple[str | None, ...]) -> ToolProvider:
        """Return an MCP server, restricted to the tools `wanted`, by the server's names for them.
        None selects all tools that the configuration allows.

        Agents that want different tools share one process.
        """
        from treadle.tools.mcp import McpServer  # noqa: PLC0415  few agents have such tools

        server = McpServer.of(name, self._config.mcp_servers[name], cwd=self._cwd)
        return (
            server
            if None in wanted
            else msgspec.structs.replace(
                server, tools=tuple(tool for tool in wanted if tool is not None)
            )
        )

    def _model(self, definition: ReadDefinition) -> str | None:
        """Return the model's name; None for the configuration's large model."""
        model = definition.model
        return (
            None
            if model is None or model.text == "large"
            else self._config.models.small
            if model.text == "small"
            else model.text
        )

    def _limits(self, definition: ReadDefinition) -> Limits | None:
        """Return the limits. A project can only lower the limits in the user's configuration."""
        limits, file = definition.limits, definition.file
        if limits is None or file.root is None:
            return limits
        above: dict[str, None] = {}
        for name, line in definition.limit_lines.items():
            if (
                reason := lower(getattr(limits, name), getattr(self._config.limits, name), ())
            ) is not None:
                above[name] = None
                self.warnings.append(f"{file.path}:{line}: limits.{name} is ignored: {reason}")
        return msgspec.structs.replace(limits, **above)

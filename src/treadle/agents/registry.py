"""Registry of agents by name. Entry points: `AgentRegistry`, `KnownAgents`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

from treadle.agents.agent import Agent, Deps
from treadle.config.plugins import LoadedPlugin, load_plugin
from treadle.errors import AgentError
from treadle.messages.result import Out


class AgentRegistry:
    """Thread-safe registry of agents by unique name."""

    def __init__(self, *, check: Callable[[Agent[Any, Any]], None] | None = None) -> None:
        """Create an agent registry. `check`: called before an agent is registered; raises
        AgentError if it cannot run.
        """
        self._check = check
        self._agents: dict[str, Agent[Any, Any]] = {}
        self._lock = threading.Lock()
        """Guards `_agents`: checking for a name and adding it are atomic."""

    def register(self, agent: Agent[Any, Any]) -> None:
        """Register an agent. Raises AgentError(invalid) if the name is taken.

        The registry of a runtime also rejects an agent if its model, or a subagent's model, has an
        unknown provider.
        """
        given = cast("object", agent)
        if not isinstance(given, Agent):
            raise AgentError(
                "invalid",
                f"register an Agent(name=…), not a {type(given).__name__}",
            )
        if self._check is not None:
            self._check(agent)
        with self._lock:
            if agent.name in self._agents:
                raise AgentError(
                    "invalid",
                    (
                        f"two agents are named {agent.name!r}: agent names must be unique; rename "
                        "one or unregister the other"
                    ),
                )
            self._agents[agent.name] = agent

    def get(self, name: str) -> Agent[Any, Any] | None:
        """Return the agent of this name, or None."""
        return self._agents.get(name)

    def get_all(self) -> list[Agent[Any, Any]]:
        """Return the agents in registration order."""
        with self._lock:
            return [*self._agents.values()]

    def unregister(self, name: str) -> bool:
        """Remove an agent; active runs continue. Returns False if there is no such agent."""
        with self._lock:
            return self._agents.pop(name, None) is not None

    def __len__(self) -> int:
        return len(self._agents)

    def __iter__(self) -> Iterator[Agent[Any, Any]]:
        return iter(self.get_all())

    def __contains__(self, name: object) -> bool:
        return name in self._agents


def plugin_agent(name: str) -> tuple[LoadedPlugin, Agent[Any, Any]] | None:
    """Return the agent that a plug-in provides, or None. Raises AgentError(invalid)."""
    if (loaded := load_plugin("agents", name)) is None:
        return None
    agent = loaded.value
    if not isinstance(agent, Agent):
        raise AgentError("invalid", f"{loaded.plugin} is a {type(agent).__name__}, not an Agent")
    loaded.must_be_named(agent.name)
    return loaded, cast("Agent[Any, Any]", agent)


class KnownAgents:
    """Agents by name: the last one that ran, else the registered one, else that of a plug-in."""

    def __init__(self, registry: AgentRegistry) -> None:
        self._registry = registry
        self._ran: dict[str, Agent[Any, Any]] = {}
        """Most recently run agent by name."""

    def remember(self, agent: Agent[Any, Any]) -> None:
        self._ran[agent.name] = agent

    def get(self, name: str) -> Agent[Any, Any] | None:
        return self._ran.get(name) or self._registry.get(name)

    def known(self, agent: Agent[Deps, Out] | None, name: str, run_id: str) -> Agent[Deps, Out]:
        """Return `agent` if given, else the agent named `name`.

        Raises AgentError(invalid) if there is none.
        """
        found = agent or self.get(name)
        if found is None and (plugin := plugin_agent(name)) is not None:
            found = plugin[1]
        if found is None:
            raise AgentError(
                "invalid",
                f"the agent {name!r} of run {run_id} is not known here: pass agent=, or register "
                "it with Runtime.agents",
            )
        return found

"""Agents by name. Entry points: `AgentRegistry`, `KnownAgents`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

from treadle.agents.agent import Agent, Deps
from treadle.errors import AgentError
from treadle.messages.result import Out


class AgentRegistry:
    """Thread-safe registry of agents by unique name, with lookup in O(1)."""

    def __init__(self, *, check: Callable[[Agent[Any, Any]], None] | None = None) -> None:
        """`check`: called with each agent before it is registered; raises AgentError if the agent
        cannot run here.
        """
        self._check = check
        self._agents: dict[str, Agent[Any, Any]] = {}
        self._lock = threading.Lock()
        """Guards `_agents`, so that checking for a name and adding it is atomic."""

    def register(self, agent: Agent[Any, Any]) -> None:
        """Register an agent. Raises AgentError(invalid) if the name is taken.

        A runtime's registry also rejects agents whose model, or whose subagents' model, has an
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
                        f"two agents are named {agent.name!r}: names of agents are unique, rename "
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
        """Remove an agent. Returns False if there was none. Active runs continue."""
        with self._lock:
            return self._agents.pop(name, None) is not None

    def __len__(self) -> int:
        return len(self._agents)

    def __iter__(self) -> Iterator[Agent[Any, Any]]:
        return iter(self.get_all())

    def __contains__(self, name: object) -> bool:
        return name in self._agents


class KnownAgents:
    """Agents by name: those that have run, then those of the registry."""

    def __init__(self, registry: AgentRegistry) -> None:
        self._registry = registry
        self._ran: dict[str, Agent[Any, Any]] = {}
        """Last agent of each name that has run."""

    def remember(self, agent: Agent[Any, Any]) -> None:
        self._ran[agent.name] = agent

    def get(self, name: str) -> Agent[Any, Any] | None:
        return self._ran.get(name) or self._registry.get(name)

    def known(self, agent: Agent[Deps, Out] | None, name: str, run_id: str) -> Agent[Deps, Out]:
        """Return `agent`, or the one of that name. Raises AgentError(invalid) if there is none."""
        found = agent or self.get(name)
        if found is None:
            raise AgentError(
                "invalid",
                f"the agent {name!r} of run {run_id} is not known here: pass agent=, or register "
                "it with Runtime.agents",
            )
        return found

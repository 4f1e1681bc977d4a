"""Agents by name. Not here: where they are defined (agent.py, definitions/). Entry: `AgentRegistry`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

from treadle.agent import Agent
from treadle.errors import AgentError


class AgentRegistry:
    """Registers, gets in O(1), lists, unregisters. Names are unique; agents are used from any thread."""

    def __init__(self) -> None:
        self._agents: dict[str, Agent[Any, Any]] = {}
        self._lock = threading.Lock()
        """Between the look whether a name is taken and taking it."""

    def register(self, agent: Agent[Any, Any]) -> None:
        """Raises AgentError(invalid) where the name is taken."""
        given = cast("object", agent)
        if not isinstance(given, Agent):
            raise AgentError("invalid", f"an agent is registered as an Agent(name=…), not as a {type(given).__name__}")
        with self._lock:
            if agent.name in self._agents:
                raise AgentError("invalid", f"two agents are named {agent.name!r}: names of agents are unique, rename one or unregister the other")
            self._agents[agent.name] = agent

    def get(self, name: str) -> Agent[Any, Any] | None:
        return self._agents.get(name)

    def get_all(self) -> list[Agent[Any, Any]]:
        """In the order of registration."""
        with self._lock:
            return [*self._agents.values()]

    def unregister(self, name: str) -> bool:
        """False where there was none. Runs that are under way go on."""
        with self._lock:
            return self._agents.pop(name, None) is not None

    def __len__(self) -> int:
        return len(self._agents)

    def __iter__(self) -> Iterator[Agent[Any, Any]]:
        return iter(self.get_all())

    def __contains__(self, name: object) -> bool:
        return name in self._agents

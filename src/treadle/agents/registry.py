"""Agents by name. Not here: where they are defined (agent.py, definitions/). Entry:

`AgentRegistry`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

from treadle.agents.agent import Agent
from treadle.errors import AgentError


class AgentRegistry:
    """Registers, gets in O(1), lists, unregisters.

    Names are unique; agents are used from any thread.
    """

    def __init__(self, *, check: Callable[[Agent[Any, Any]], None] | None = None) -> None:
        """`check`: called with each agent before it is registered; raises AgentError for one that
        cannot run here.
        """
        self._check = check
        self._agents: dict[str, Agent[Any, Any]] = {}
        self._lock = threading.Lock()
        """Between the look whether a name is taken and taking it."""

    def register(self, agent: Agent[Any, Any]) -> None:
        """Raises AgentError(invalid) if the name is taken. A runtime's registry also refuses
        models, of the agent or of agents among its tools, whose provider is unknown.
        """
        given = cast("object", agent)
        if not isinstance(given, Agent):
            raise AgentError(
                "invalid",
                f"an agent is registered as an Agent(name=…), not as a {type(given).__name__}",
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

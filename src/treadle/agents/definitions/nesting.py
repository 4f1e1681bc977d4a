"""Problems of agents that use each other as tools: cycles, depth, and inputs that no caller
provides. Entry point: `Nesting`.

catalog.py reads the definitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from treadle.agents.agent import Agent
from treadle.agents.definitions.inputs import missing
from treadle.agents.definitions.keys import ReadDefinition
from treadle.agents.definitions.naming import Callee, Meaning
from treadle.agents.definitions.places import DefinitionProblem, FoundDefinitions

NESTED_MAX = 20
"""Maximum depth of agents that use each other as tools."""


class ResolvedDefinition(NamedTuple):
    """A definition file as read, with the meanings of its tool names."""

    definition: ReadDefinition | None
    """The definition; None if it has problems."""
    tools: tuple[tuple[Meaning, int], ...]
    """Resolved tools with their line numbers."""
    problems: tuple[DefinitionProblem, ...]


class DefinedAgents(Protocol):
    """Agents by name, as a catalog has them."""

    found: FoundDefinitions

    def reading(self, name: str) -> ResolvedDefinition: ...
    def refused(self, name: str) -> DefinitionProblem | None: ...
    def callee(self, name: str) -> Agent[Any, Any] | ReadDefinition | None: ...


class Nesting:
    """Checker for agents together with the agents among their tools."""

    def __init__(self, agents: DefinedAgents) -> None:
        self._agents = agents

    def look(
        self,
        name: str,
        chain: tuple[str, ...],
        seen: dict[str, int],
        found: dict[DefinitionProblem, None],
    ) -> int:
        """Add the problems of an agent and of those among its tools to `found`, and return its
        depth.

        `seen`: depths of the agents visited so far. `chain`: callers, from the first down to the
        one that has `name` among its tools.
        """
        if name in seen:
            return seen[name]
        deepest = 0
        if (refused := self._agents.refused(name)) is not None:
            found[refused] = None
        elif name in self._agents.found.files:
            reading, chain = self._agents.reading(name), (*chain, name)
            found |= dict.fromkeys(reading.problems)
            for callee, line in _callees(reading):
                below, wrong = (
                    0,
                    self._circle(chain, callee, line) or self._uncallable(name, callee, line),
                )
                if wrong is None:
                    below = self.look(callee, chain, seen, found) if len(chain) < NESTED_MAX else 1
                    wrong = (
                        self._too_deep(chain, callee, line)
                        if len(chain) + below > NESTED_MAX
                        else None
                    )
                if wrong is not None:
                    found[wrong] = None
                deepest = max(deepest, below)
        seen[name] = 1 + deepest
        return seen[name]

    def _circle(self, chain: tuple[str, ...], callee: str, line: int) -> DefinitionProblem | None:
        if callee not in chain:
            return None
        circle = " -> ".join((*chain[chain.index(callee) :], callee))
        text = f"agents call each other in a cycle: {circle}. Remove one from the other's tools"
        return DefinitionProblem(str(self._agents.found.files[chain[-1]].path), line, text)

    def _uncallable(self, name: str, callee: str, line: int) -> DefinitionProblem | None:
        """Return a problem if the callee needs inputs: callers pass only a prompt."""
        called = self._agents.callee(callee)
        if called is None or not (needed := missing(called.inputs, called.instructions, ())):
            return None
        text = (
            f"tools: the agent {callee!r} needs the input {needed[0]!r}, which no caller "
            "can provide: give it a default there"
        )
        return DefinitionProblem(str(self._agents.found.files[name].path), line, text)

    def wrong_handoffs(self, name: str) -> Iterator[DefinitionProblem]:
        """Yield the handoffs of an agent to one that needs inputs which its runs do not have."""
        if name not in self._agents.found.files:
            return
        definition = self._agents.reading(name).definition
        for named in () if definition is None else definition.handoffs:
            called = self._agents.callee(named.text)
            if definition is None or called is None:
                continue
            if needed := missing(called.inputs, called.instructions, definition.inputs):
                text = (
                    f"handoffs: the agent {named.text!r} needs the input {needed[0]!r}, which "
                    "this agent does not declare: declare it here, or give it a default there"
                )
                yield DefinitionProblem(str(self._agents.found.files[name].path), named.line, text)

    def _too_deep(self, chain: tuple[str, ...], callee: str, line: int) -> DefinitionProblem:
        return DefinitionProblem(
            str(self._agents.found.files[chain[-1]].path),
            line,
            f"agents are nested deeper than {NESTED_MAX} levels: {chain[0]} -> … -> {callee}",
        )


def _callees(reading: ResolvedDefinition) -> Iterator[tuple[str, int]]:
    for meaning, line in reading.tools:
        if isinstance(meaning, Callee):
            yield meaning.name, line

"""Types of an agent's fields, for type checkers. Entry points: `AgentFields`, `AgentChanges`,
`OutputCheck`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Required, TypeAlias

from typing_extensions import TypedDict, TypeVar

from treadle.agents.templates import Input
from treadle.messages.message import Message
from treadle.models.model import Model
from treadle.tools.handoff import Handoff
from treadle.tools.run_context import Given, RunContext
from treadle.tools.tool import SpawnedAgent, Tool, ToolProvider
from treadle.types import Limits, Settings, SystemBlock

if TYPE_CHECKING:
    from treadle.events.hooks import Hook  # imports asyncio

Deps = TypeVar("Deps", contravariant=True, default=object)
Checked = TypeVar("Checked", default=Any)

Instructions: TypeAlias = "str | Callable[[RunContext[Deps]], Given[str]]"
"""Text, or a function of the run's context that returns it."""
AgentTools: TypeAlias = "Sequence[Tool[Deps] | SpawnedAgent[Any, Any]]"
Tools: TypeAlias = "AgentTools[Deps] | Callable[[RunContext[Deps]], Given[AgentTools[Deps]]]"
"""Tools and agents, or a function of the run's context that returns them."""
Handoffs: TypeAlias = "Sequence[SpawnedAgent[Deps, Checked] | Handoff[Deps, Checked] | str]"
"""Agents that can continue a run, with the types of their dependencies and outputs."""
OutputCheck: TypeAlias = "Callable[[RunContext[Deps], Checked], Given[None]]"
"""A function of the run's context and its output, which raises ToolFailed to reject the output."""

HistoryProcessor: TypeAlias = (
    "Callable[[RunContext[Deps], list[Message]], Given[Sequence[Message]]]"
)
"""A function of the run's context and its messages, which returns those that the model sees."""


class _Fields(TypedDict, Generic[Deps, Checked], total=False):
    description: str
    instructions: Instructions[Deps]
    context: Sequence[SystemBlock]
    model: str | Model | None
    tools: Tools[Deps]
    output_check: OutputCheck[Deps, Checked] | None
    history: HistoryProcessor[Deps] | None
    completion: bool
    retries: int
    hooks: Sequence[Hook[Deps]]
    mcp_servers: Sequence[ToolProvider]
    limits: Limits | None
    settings: Settings
    messages: Sequence[Message]
    inputs: Mapping[str, Input]


class AgentFields(_Fields[Deps, Checked], Generic[Deps, Checked], total=False):
    """Fields of a new `Agent` except `output`."""

    name: Required[str]


class AgentChanges(_Fields[Deps, Checked], Generic[Deps, Checked], total=False):
    """Fields that `Agent.with_` can replace, except `output`."""

    name: str
    handoffs: Handoffs[Deps, Checked]

"""Agent definitions, frozen and validated on construction.

The runtime runs them; definitions/ loads them from files. Entry points: `Agent`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Never, Self, cast, overload

import msgspec
from typing_extensions import TypeForm, TypeVar, Unpack

from treadle._internal.other_names import missing
from treadle.agents.arguments import check_arguments
from treadle.agents.checks import (
    answer_of,
    check_kinds,
    check_needs,
    check_output_change,
    check_tool,
    checked_handoffs,
)
from treadle.agents.fields import (
    AgentChanges,
    AgentFields,
    Handoffs,
    HistoryProcessor,
    Instructions,
    OutputCheck,
    Tools,
)
from treadle.agents.fingerprint import fingerprint_of
from treadle.agents.templates import VARIABLE, Input, check_inputs, expand, values_of
from treadle.errors import AgentError
from treadle.messages.message import Message
from treadle.messages.result import Out
from treadle.models.model import Model
from treadle.tools.handoff import Handoff, HandoffTool
from treadle.tools.offered import is_conditional
from treadle.tools.registry import ToolRegistry
from treadle.tools.structured_output.contract import AnswerType
from treadle.tools.subagent import Subagent
from treadle.tools.tool import Tool, ToolProvider
from treadle.types import Limits, Settings, SystemBlock

if TYPE_CHECKING:
    from treadle.events.hooks import Hook  # imports asyncio
    from treadle.journal.entries import Evaluated

Deps = TypeVar("Deps", contravariant=True, default=object)
Other = TypeVar("Other")
NextDeps = TypeVar("NextDeps", contravariant=True)
Own = TypeVar("Own")
Next = TypeVar("Next")

COMPLETE = "complete"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class Agent(Generic[Deps, Out]):
    """An agent definition: instructions, model, tools and limits.

    Raises AgentError(invalid) if a field is invalid.

    Attributes:
        name: Name of the agent in journals and tools: up to 64 letters, digits, `_`, `-` and `.`.
        description: Purpose of the agent in one sentence, shown in lists and to models that can
            call it as a tool.
        instructions: System prompt. `${variable}` is replaced with the run's input, and `$$` with a
            dollar sign. Or a sync or async function of the run's `RunContext` that returns the
            text, in which nothing is replaced. It is called once, before the first request.
        context: Further blocks of the system prompt, which follow the instructions and are also
            templates. Put the most volatile block last, to keep the others in prompt caches.
        model: `provider:id`, a Model object, or None for the configuration's large model.
        tools: Tools of the agent. An `Agent` in the list becomes a tool that takes a prompt
            (`Subagent`). Or a function of the run's `RunContext` that returns the list.
        output: Output type of a run: a pydantic model, dataclass, TypedDict, msgspec Struct, any
            other type that JSON can describe, or a JSON Schema. None: text.
        output_check: Sync or async function of the run's `RunContext` and a valid output. If it
            raises `ToolFailed`, the model reads the message and corrects the output, within
            `retries`. A resume may call it again, so it must have no side effects.
        handoffs: Agents that can continue a run after this one: agents, names of agents, or
            `handoff(agent, …)`. Each becomes a tool, whose call ends the turn.
        history: Sync or async function of the run's `RunContext` and the messages of the
            conversation, called before each request. It returns the messages that the model sees;
            the stored history does not change.
        completion: If true, a run completes only when the model calls the tool `complete` with its
            output.
        retries: Number of times that the model may correct an invalid output, at least 0.
        hooks: Hooks of this agent. They run after the hooks of the runtime.
        mcp_servers: MCP servers whose tools the agent's runs can call (`McpServer`).
        limits: Limits of each run. Limits passed to a run override them field by field.
        settings: Model settings. Settings passed to a run override them field by field.
        messages: Messages that precede the first prompt of a conversation. Their texts are also
            templates.
        answer: Resolved form of `output`.
        inputs: Declared inputs. If there are any, an undeclared `${variable}` is an error of the
            definition; if not, a missing value is an error when a run starts.
        evaluated: Results of the functions among these fields, for one run; None for a definition.
    """

    name: str
    description: str = ""
    instructions: Instructions[Deps] = ""
    context: Sequence[SystemBlock] = ()
    model: str | Model | None = None
    tools: Tools[Deps] = field(default_factory=tuple[Tool[Any], ...])
    output: TypeForm[Out] | Mapping[str, object] | None = None
    output_check: OutputCheck[Deps, Out] | None = None
    handoffs: Sequence[Handoff[Any, Any]] = ()
    history: HistoryProcessor[Deps] | None = None
    completion: bool = False
    retries: int = 2
    hooks: Sequence[Hook[Deps]] = ()
    mcp_servers: Sequence[ToolProvider] = ()
    limits: Limits | None = None
    settings: Settings = field(default_factory=Settings)
    messages: Sequence[Message] = ()
    answer: AnswerType[Any] | None = field(init=False, repr=False, compare=False, default=None)
    inputs: Mapping[str, Input] = field(default_factory=dict[str, Input])
    evaluated: Evaluated | None = field(init=False, repr=False, compare=False, default=None)

    # overloads, because the output of a JSON Schema has no static type
    if TYPE_CHECKING:

        @overload
        def __init__(
            self: Agent[NextDeps, str | Next],
            *,
            output: None = None,
            handoffs: Handoffs[NextDeps, Next],
            **fields: Unpack[AgentFields[NextDeps, str]],
        ) -> None: ...
        @overload
        def __init__(
            self: Agent[NextDeps, Own | Next],
            *,
            output: TypeForm[Own],
            handoffs: Handoffs[NextDeps, Next],
            **fields: Unpack[AgentFields[NextDeps, Own]],
        ) -> None: ...
        @overload
        def __init__(
            self, *, output: None = None, **fields: Unpack[AgentFields[Deps, str]]
        ) -> None: ...
        @overload
        def __init__(
            self: Agent[Any, Any],
            *,
            output: Mapping[str, object],
            **fields: Unpack[AgentFields[Any, Any]],
        ) -> None: ...
        @overload
        def __init__(
            self, *, output: TypeForm[Out], **fields: Unpack[AgentFields[Deps, Out]]
        ) -> None: ...
        def __init__(self, **fields: Any) -> None: ...

    else:  # hidden, else type checkers would infer that agents have every attribute

        def __new__(cls, *positional: object, **given: object) -> Self:
            check_arguments(positional, given, _FIELDS)
            return super().__new__(cls)

        def __getattr__(self, name: str) -> Never:
            raise missing("Agent", name)

    def __post_init__(self) -> None:
        given = cast("object", self.name)
        if not isinstance(given, str) or not _NAME.fullmatch(given):
            raise AgentError(
                "invalid",
                f"{given!r} is not a valid agent name: use up to 64 letters, digits, '_', '-' "
                "and '.'",
            )
        check_kinds(self.name, self.__dict__)
        listed = () if callable(self.tools) else self.tools
        tools = tuple(
            self._callee(one) if isinstance(one, Agent) else cast("Tool[Any]", one)
            for one in listed
        )
        self._keep(
            tools=self.tools if callable(self.tools) else tools,
            messages=tuple(self.messages),
            inputs=dict(self.inputs),
            context=tuple(self.context),
            hooks=tuple(self.hooks),
        )
        for one in tools:
            check_tool(self.name, one)
        if self.completion and any(one.name == COMPLETE for one in tools):
            raise AgentError(
                "invalid",
                f"agent {self.name!r}: completion=True adds a tool named {COMPLETE!r}, and "
                "it has one already: rename it",
            )
        handoffs = checked_handoffs(self.name, self.handoffs)
        transfers = tuple(map(HandoffTool, handoffs))
        ToolRegistry((*tools, *transfers))
        self._keep(handoffs=handoffs, handoff_tools=transfers)
        self._keep(answer=answer_of(self.name, self.output), own_tools=tools)
        check_inputs(self.name, self.inputs, self._variables, reads_all=self.is_dynamic)
        check_needs(self.name, handoffs, self._variables | {*self.inputs})

    @overload
    def with_(self, *, output: None, **fields: Unpack[AgentChanges[Deps, str]]) -> Agent[Deps]: ...
    @overload
    def with_(
        self, *, output: Mapping[str, object], **fields: Unpack[AgentChanges[Deps, Any]]
    ) -> Agent[Deps, Any]: ...
    @overload
    def with_(
        self, *, output: TypeForm[Other], **fields: Unpack[AgentChanges[Deps, Other]]
    ) -> Agent[Deps, Other]: ...
    @overload
    def with_(self, **fields: Unpack[AgentChanges[Deps, Out]]) -> Agent[Deps, Out]: ...
    def with_(self, **fields: Any) -> Agent[Any, Any]:
        """Return a copy of this definition with other fields, for example
        `agent.with_(model="openai:gpt-5.6", tools=[*agent.own_tools, search])`.

        Raises AgentError(invalid) for an unknown or invalid field, and for another output without
        its `output_check`, if the agent has one.
        """
        check_output_change(self.name, fields, has_check=self.output_check is not None)
        own = {name: getattr(self, name) for name in _FIELDS}
        return type(self)(**{**own, **fields})

    @cached_property
    def is_dynamic(self) -> bool:
        """True if a run must evaluate functions of this definition before it starts."""
        headers = [getattr(server, "headers", None) for server in self.mcp_servers]
        functions = any(map(callable, (self.instructions, self.tools, *headers)))
        return functions or any(map(is_conditional, self.own_tools))

    def evaluated_from(self, definition: Agent[Deps, Out], found: Evaluated) -> Agent[Deps, Out]:
        """Return this agent, marked as the evaluated form of `definition`."""
        self._keep(
            evaluated=found,
            inputs=definition.inputs,
            is_dynamic=True,
            fingerprint=definition.fingerprint,
        )
        return self

    def _callee(self, one: Agent[Any, Any]) -> Subagent:
        if needed := one.needs:
            why = (
                f"needs the input(s) {', '.join(needed)}, but a call passes only a "
                "prompt. Give them defaults"
            )
            raise AgentError(
                "invalid", f"agent {self.name!r}: the agent {one.name!r} among its tools {why}"
            )
        return Subagent(one)

    @property
    def needs(self) -> list[str]:
        """Names of the inputs that a run must provide."""
        given = {
            name
            for name, declared in self.inputs.items()
            if not declared.required or declared.default is not None
        }
        return sorted((self._variables | set(self.inputs)) - given)

    def _keep(self, **own: object) -> None:
        """Replace fields of the frozen definition, such as the caller's lists by copies."""
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @cached_property
    def _variables(self) -> frozenset[str]:
        texts = [
            *([self.instructions] if isinstance(self.instructions, str) else ()),
            *(block.text for block in self.context),
            *(m.text for m in self.messages),
        ]
        return frozenset(name for text in texts for name in VARIABLE.findall(text) if name)

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a run with defaults filled in.

        Raises AgentError(invalid) if an input is missing, unknown or of the wrong type.
        """
        return values_of(self.name, self.inputs, self._variables, given, reads_all=self.is_dynamic)

    def values_again(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a resumed run: stored values, and defaults of inputs added since.

        Raises the errors of `values`.
        """
        return self.values(self.used_inputs(stored))

    def used_inputs(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored inputs that this definition still uses; it may have changed."""
        return {
            name: value
            for name, value in stored.items()
            if self.is_dynamic or name in self._variables or name in self.inputs
        }

    def system(self, values: Mapping[str, Any]) -> tuple[SystemBlock, ...]:
        """Return the system prompt for these inputs, without empty blocks."""
        own = self.instructions if isinstance(self.instructions, str) else ""
        blocks = [SystemBlock(text=own), *self.context]
        filled = [
            msgspec.structs.replace(block, text=expand(block.text, values)) for block in blocks
        ]
        return tuple(block for block in filled if block.text)

    def model_names(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of agent name and model name, for this agent and the agents among its tools.
        Model objects are omitted.
        """
        if isinstance(self.model, str):
            yield self.name, self.model
        for one in (*self.own_tools, *self.handoffs):
            if isinstance(agent := getattr(one, "agent", None), Agent):
                yield from cast("Agent[Any, Any]", agent).model_names()

    if TYPE_CHECKING:

        @property
        def own_tools(self) -> tuple[Tool[Deps], ...]:
            """Tools, with agents as `Subagent`s. Empty if a function of the run returns them."""
            ...

        @property
        def handoff_tools(self) -> tuple[HandoffTool, ...]:
            """Tools whose calls hand a run to another agent."""
            ...

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything in the definition that models see. A run resumed with a different hash
        gets a warning.

        Raises AgentError(invalid) if the parameters of a tool are not valid JSON.
        """
        return fingerprint_of(self)


_FIELDS = tuple(one.name for one in fields(Agent) if one.init)

"""Frozen agent definitions, validated on construction, with their templates and declared inputs.

The runtime runs them; definitions/ loads them from files. Entry points: `Agent`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Never, Required, Self, cast, overload
from weakref import WeakKeyDictionary

import msgspec
from typing_extensions import TypedDict, TypeForm, TypeVar, Unpack, get_protocol_members

from treadle.agents.arguments import check_arguments, missing
from treadle.agents.templates import VARIABLE, Input, check_inputs, expand, values_of
from treadle.errors import AgentError
from treadle.events.hooks import Hook, checked_hooks
from treadle.messages.message import Message
from treadle.messages.result import Out
from treadle.models.model import Model
from treadle.tools.registry import ToolRegistry
from treadle.tools.structured_output.contract import AnswerType
from treadle.tools.subagent import Subagent
from treadle.tools.tool import Tool, ToolProvider
from treadle.types import Limits, Settings, SystemBlock

Deps = TypeVar("Deps", contravariant=True, default=object)

COMPLETE = "complete"
_ANSWERS: WeakKeyDictionary[type, AnswerType[Any]] = WeakKeyDictionary()
"""Answer types by output type, so that a class defined inside a function is resolved where its
agent is first made.
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_STRING = (
    "give a string. For what differs between runs, write ${name} in it, declare "
    "inputs={'name': Input()}, and pass inputs= to the run"
)
_TOOL_MEMBERS = get_protocol_members(Tool)


class AgentFields(TypedDict, Generic[Deps], total=False):
    """Every field of an `Agent` but `output`, for type checkers."""

    name: Required[str]
    description: str
    instructions: str
    context: Sequence[SystemBlock]
    model: str | Model | None
    tools: Sequence[Tool[Deps] | Agent[Any, Any]]
    completion: bool
    hooks: Sequence[Hook]
    mcp_servers: Sequence[ToolProvider]
    limits: Limits | None
    settings: Settings
    messages: Sequence[Message]
    inputs: Mapping[str, Input]


@dataclass(frozen=True, kw_only=True)
class Agent(Generic[Deps, Out]):
    """An agent definition: instructions, model, tools and limits.

    Raises AgentError(invalid) if a field is invalid.

    Attributes:
        name: Name of the agent, up to 64 letters, digits, `_`, `-` and `.`; journals and tools
            refer to it.
        description: Purpose of the agent in a sentence, shown in lists and to models that can call
            it as a tool.
        instructions: System prompt. `${variable}` is replaced once with the run's input; `$$` is a
            literal dollar.
        context: Further blocks of the system prompt, appended to the instructions. These are
            templates too. Put the most volatile block last, so that provider caches keep the rest.
        model: `provider:id`, a Model object, or None for the configuration's large model.
        tools: Tools of the agent. An `Agent` in the list becomes a tool that takes a prompt
            (`Subagent`).
        output: Output type of a run: a pydantic model, dataclass, TypedDict, msgspec Struct, any
            other type that JSON can describe, or a JSON Schema. None: text.
        completion: If true, a run completes only when the model calls the tool `complete` with its
            output.
        hooks: Hooks of this agent. They run after the hooks of the runtime.
        mcp_servers: Providers of further tools for the agent's runs (`McpServer`).
        limits: Limits of each run of this agent. Limits of the call replace them field by field.
        settings: Model settings. Settings of the call replace them field by field.
        messages: Messages that precede the first prompt of a conversation. Their text is a template
            too.
        answer: Resolved form of `output`.
        inputs: Declared inputs. With declared inputs, an undeclared `${variable}` is rejected here.
            Without any, a missing variable is reported when a run starts.
    """

    name: str
    description: str = ""
    instructions: str = ""
    context: Sequence[SystemBlock] = ()
    model: str | Model | None = None
    tools: Sequence[Tool[Deps] | Agent[Any, Any]] = field(default_factory=tuple[Tool[Any], ...])
    output: TypeForm[Out] | Mapping[str, object] | None = None
    completion: bool = False
    hooks: Sequence[Hook] = ()
    mcp_servers: Sequence[ToolProvider] = ()
    limits: Limits | None = None
    settings: Settings = field(default_factory=Settings)
    messages: Sequence[Message] = ()
    answer: AnswerType[Any] | None = field(init=False, repr=False, compare=False, default=None)
    inputs: Mapping[str, Input] = field(default_factory=dict[str, Input])

    # a dataclass has a single signature, and a JSON Schema carries no static type for its values
    if TYPE_CHECKING:

        @overload
        def __init__(self, *, output: None = None, **fields: Unpack[AgentFields[Deps]]) -> None: ...
        @overload
        def __init__(
            self: Agent[Any, Any],
            *,
            output: Mapping[str, object],
            **fields: Unpack[AgentFields[Any]],
        ) -> None: ...
        @overload
        def __init__(
            self, *, output: TypeForm[Out], **fields: Unpack[AgentFields[Deps]]
        ) -> None: ...
        def __init__(self, **fields: Any) -> None: ...

    else:  # a type checker would infer that agents have every attribute

        def __new__(cls, *positional: object, **given: object) -> Self:
            check_arguments(positional, given, (*AgentFields.__annotations__, "output"))
            return super().__new__(cls)

        def __getattr__(self, name: str) -> Never:
            raise missing(name)

    def __post_init__(self) -> None:
        given = cast("object", self.name)
        if not isinstance(given, str) or not _NAME.fullmatch(given):
            raise AgentError(
                "invalid",
                f"{given!r} is not a valid agent name: use up to 64 letters, digits, '_', '-' "
                "and '.'",
            )
        self._check_kinds()
        tools = tuple(self._callee(one) if isinstance(one, Agent) else one for one in self.tools)
        self._keep(
            tools=tools,
            messages=tuple(self.messages),
            inputs=dict(self.inputs),
            context=tuple(self.context),
            hooks=tuple(self.hooks),
        )
        for one in tools:
            self._check_tool(one)
        if self.completion and any(one.name == COMPLETE for one in tools):
            raise AgentError(
                "invalid",
                f"agent {self.name!r}: completion=True adds a tool named {COMPLETE!r}, and "
                "it has one already: rename it",
            )
        ToolRegistry(tools)
        self._keep(answer=self._answer())
        check_inputs(self.name, self.inputs, self._variables)

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

    def _check_kinds(self) -> None:
        """Reject common mix-ups in code that no type checker has seen.

        Each would otherwise fail much later, with a misleading error.
        """
        fields: Mapping[str, object] = self.__dict__
        if not isinstance(fields["instructions"], str):
            raise self._mixed_up("instructions", _STRING)
        if not isinstance(fields["tools"], Iterable):
            raise self._mixed_up("tools", "give a list of tools, like tools=[weather]")
        if isinstance(model := fields["model"], type) or not (
            model is None or isinstance(model, str) or hasattr(model, "stream")
        ):
            raise self._mixed_up(
                "model", "give a name like 'anthropic:claude-opus-5-5', or a Model object"
            )
        if not isinstance(fields["limits"], Limits | None):
            raise self._mixed_up("limits", "give Limits(turns=…)")
        servers = fields["mcp_servers"]
        if not isinstance(servers, list | tuple) or any(
            isinstance(server, type) or not hasattr(server, "secrets")
            for server in cast("Sequence[object]", servers)
        ):
            raise AgentError(
                "invalid",
                f"agent {self.name!r}: mcp_servers= takes a list of McpServer objects, like "
                "[McpServer(name=…, command=[…])]",
            )
        try:
            checked_hooks(fields["hooks"])
        except AgentError as e:
            raise AgentError("invalid", f"agent {self.name!r}: {e.message}") from e
        if not isinstance(fields["settings"], Settings):
            raise self._mixed_up("settings", "give Settings(max_tokens=…)")

    def _mixed_up(self, field: str, instead: str) -> AgentError:
        return AgentError(
            "invalid", f"agent {self.name!r}: {field}= is {_shown(getattr(self, field))}: {instead}"
        )

    def _keep(self, **own: object) -> None:
        """Store copies of the arguments: the caller's lists may change, a definition may not."""
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def _answer(self) -> AnswerType[Any] | None:
        if self.output is None or self.output is str:
            return None
        from treadle.tools.structured_output import answer_type  # noqa: PLC0415  only for agents with such an output

        known = isinstance(self.output, type) and _ANSWERS.get(self.output)
        if known:
            return known
        try:
            made = answer_type(self.output)
        except AgentError as e:
            raise AgentError(e.kind, f"agent {self.name!r}: {e.message}") from e
        if isinstance(self.output, type) and made is not None:
            _ANSWERS[self.output] = made
        return made

    def _check_tool(self, one: object) -> None:
        if hasattr(one, "secrets") and not hasattr(one, "execute"):
            raise AgentError(
                "invalid",
                f"agent {self.name!r}: {_shown(one)} among its tools is an MCP server: "
                "pass it as mcp_servers=[…]",
            )
        # reading its definition would build the schema, which imports pydantic
        has = dir(one)
        if "execute" not in has and not hasattr(one, "execute"):
            name = getattr(one, "__name__", None) or repr(one)
            raise AgentError(
                "invalid",
                f"agent {self.name!r}: {name} is not a tool: put @tool above the function, or "
                "make a FunctionTool",
            )
        if missing := sorted(
            name for name in _TOOL_MEMBERS.difference(has) if not hasattr(one, name)
        ):
            raise AgentError(
                "invalid",
                f"agent {self.name!r}: {one!r} is not a complete tool: it lacks "
                f"{', '.join(missing)} (the protocol treadle.Tool)",
            )

    @cached_property
    def _variables(self) -> frozenset[str]:
        texts = [
            self.instructions,
            *(block.text for block in self.context),
            *(m.text for m in self.messages),
        ]
        return frozenset(name for text in texts for name in VARIABLE.findall(text) if name)

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a run with defaults filled in.

        Raises AgentError(invalid) if an input is missing, unknown or of the wrong type.
        """
        return values_of(self.name, self.inputs, self._variables, given)

    def values_again(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a resumed run: the stored values, plus defaults of inputs added
        since.

        Raises the errors of `values`.
        """
        return self.values(self.used_inputs(stored))

    def used_inputs(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored inputs that this definition, possibly changed since, still uses."""
        return {
            name: value
            for name, value in stored.items()
            if name in self._variables or name in self.inputs
        }

    def system(self, values: Mapping[str, Any]) -> tuple[SystemBlock, ...]:
        """Return the system prompt for these inputs, without empty blocks."""
        blocks = [SystemBlock(text=self.instructions), *self.context]
        filled = [
            msgspec.structs.replace(block, text=expand(block.text, values)) for block in blocks
        ]
        return tuple(block for block in filled if block.text)

    def model_names(self) -> Iterator[tuple[str, str]]:
        """Yield the models given by name, of this agent and of agents among its tools, as pairs of
        agent and model.
        """
        if isinstance(self.model, str):
            yield self.name, self.model
        for one in self.own_tools:
            if isinstance(one, Subagent) and isinstance(one.agent, Agent):
                yield from one.agent.model_names()

    @property
    def own_tools(self) -> tuple[Tool[Deps], ...]:
        """Tools of the agent, with agents wrapped as `Subagent`s."""
        return cast("tuple[Tool[Deps], ...]", self.tools)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything the definition sends to the model. Resuming under a different one is
        reported.

        Raises AgentError(invalid) if the parameters of a tool cannot be encoded as JSON.
        """
        said = [(message.role, msgspec.to_builtins(message.parts)) for message in self.messages]
        try:
            tools = [msgspec.to_builtins(tool.definition) for tool in self.own_tools]
            context = [[block.text for block in self.context]] if self.context else []
            output = [] if self.answer is None else [{"output": self.answer.schema}]
            text = json.dumps([self.instructions, tools, said, *context, *output], sort_keys=True)
        except (TypeError, ValueError, RecursionError) as e:
            raise AgentError(
                "invalid", f"agent {self.name!r}: the parameters of a tool are not valid JSON: {e}"
            ) from e
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _shown(value: object) -> str:
    """Return only the kind of the value: a misplaced value may be a secret."""
    if value is None:
        return "None"
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"

"""Frozen agent definitions, validated on construction, with their templates and declared inputs.

The runtime runs them; definitions/ loads them from files. Entry points: `Agent`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, Required, cast, overload
from weakref import WeakKeyDictionary

import msgspec
from typing_extensions import TypedDict, TypeForm, TypeVar, Unpack, get_protocol_members

from treadle._internal.json_text import encode_json
from treadle.errors import AgentError
from treadle.events.hooks import Hook, checked_hooks
from treadle.messages.message import Message, TextPart
from treadle.messages.result import Out
from treadle.models.model import Model
from treadle.tools.structured_output.contract import AnswerType
from treadle.tools.subagent import Subagent
from treadle.tools.tool import Tool, ToolProvider, ToolRegistry
from treadle.types import Limits, Settings, SystemBlock

Deps = TypeVar("Deps", contravariant=True, default=object)

COMPLETE = "complete"
_ANSWERS: WeakKeyDictionary[type, AnswerType[Any]] = WeakKeyDictionary()
"""Answer types by output type, so that a class defined inside a function is resolved where its
agent is first made.
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TOOL_MEMBERS = get_protocol_members(Tool)
_HOLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
}


@dataclass(frozen=True, kw_only=True)
class Input:
    """A declared input of an agent. Its value fills `${name}` in instructions and initial messages."""  # noqa: E501

    type: Literal["string", "integer", "number", "boolean", "array", "object"] = "string"
    required: bool = True
    default: Any = None
    description: str = ""


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
    """

    name: str
    description: str = ""
    instructions: str = ""
    """System prompt. `${variable}` is replaced once with the run's input; `$$` is a literal dollar.
    """
    context: Sequence[SystemBlock] = ()
    """Further blocks of the system prompt, appended to the instructions. These are templates too.

    Put the most volatile block last, so that provider caches keep the rest.
    """
    model: str | Model | None = None
    """`provider:id`, a Model object, or None for the configuration's large model."""
    tools: Sequence[Tool[Deps] | Agent[Any, Any]] = field(default_factory=tuple[Tool[Any], ...])
    """Tools of the agent. An `Agent` in the list becomes a tool that takes a prompt (`Subagent`).
    """
    output: TypeForm[Out] | Mapping[str, object] | None = None
    """Output type of a run: a pydantic model, dataclass, TypedDict, msgspec Struct, any other type
    that JSON can describe, or a JSON Schema. None: text.
    """
    completion: bool = False
    """If true, a run completes only when the model calls the tool `complete` with its output."""
    hooks: Sequence[Hook] = ()
    """Hooks of this agent. They run after the hooks of the runtime."""
    mcp_servers: Sequence[ToolProvider] = ()
    """Providers of further tools for the agent's runs (`McpServer`)."""
    limits: Limits | None = None
    settings: Settings = field(default_factory=Settings)
    messages: Sequence[Message] = ()
    """Messages that precede the first prompt of a conversation. Their text is a template too."""
    answer: AnswerType[Any] | None = field(init=False, repr=False, compare=False, default=None)
    """Resolved form of `output`."""
    inputs: Mapping[str, Input] = field(default_factory=dict[str, Input])
    """Declared inputs.

    With declared inputs, an undeclared `${variable}` is rejected here. Without any, a missing
    variable is reported when a run starts.
    """

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

    def __post_init__(self) -> None:
        given = cast("object", self.name)
        if not isinstance(given, str) or not _NAME.fullmatch(given):
            raise AgentError(
                "invalid",
                (
                    f"{given!r} is not a valid agent name: use up to 64 letters, digits, '_', '-' "
                    "and '.'"
                ),
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
                (
                    f"agent {self.name!r}: completion=True adds a tool named {COMPLETE!r}, and "
                    "it has one already: rename it"
                ),
            )
        ToolRegistry(tools)
        self._keep(answer=self._answer())
        for name, declared in self.inputs.items():
            if declared.type not in _TYPES:
                raise AgentError(
                    "invalid",
                    (
                        f"agent {self.name!r}: the input {name!r} has the type {declared.type!r}; "
                        f"use one of: {', '.join(_TYPES)}"
                    ),
                )
            if declared.default is not None:
                self._check(name, declared, declared.default)
        if self.inputs and (unknown := sorted(self._holes - set(self.inputs))):
            declared = ", ".join(self.inputs)
            raise AgentError(
                "invalid",
                (
                    f"agent {self.name!r} uses ${{{unknown[0]}}}, which is not among its declared "
                    f"inputs ({declared})"
                ),
            )
        if unused := sorted(set(self.inputs) - self._holes):
            raise self._unused(unused[0])

    def _unused(self, name: str) -> AgentError:
        why = f"its instructions, context and messages do not contain ${{{name}}}"
        return AgentError(
            "invalid",
            (
                f"agent {self.name!r} does not use the input {name!r}: {why}. Write it there, or "
                "leave the input out"
            ),
        )

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
        return sorted((self._holes | set(self.inputs)) - given)

    def _check_kinds(self) -> None:
        """Reject common mix-ups in code that no type checker has seen.

        Each would otherwise fail much later, with a misleading error.
        """
        fields: Mapping[str, object] = self.__dict__
        if not isinstance(fields["instructions"], str):
            raise self._mixed_up("instructions", "give a string")
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
                (
                    f"agent {self.name!r}: mcp_servers= takes a list of McpServer objects, like "
                    "[McpServer(name=…, command=[…])]"
                ),
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
                (
                    f"agent {self.name!r}: {_shown(one)} among its tools is an MCP server: "
                    "pass it as mcp_servers=[…]"
                ),
            )
        # reading its definition would build the schema, which imports pydantic
        has = dir(one)
        if "execute" not in has and not hasattr(one, "execute"):
            name = getattr(one, "__name__", None) or repr(one)
            raise AgentError(
                "invalid",
                (
                    f"agent {self.name!r}: {name} is not a tool: put @tool above the function, or "
                    "make a FunctionTool"
                ),
            )
        if missing := sorted(
            name for name in _TOOL_MEMBERS.difference(has) if not hasattr(one, name)
        ):
            raise AgentError(
                "invalid",
                (
                    f"agent {self.name!r}: {one!r} is not a complete tool: it lacks "
                    f"{', '.join(missing)} (the protocol treadle.Tool)"
                ),
            )

    @cached_property
    def _holes(self) -> frozenset[str]:
        texts = [
            self.instructions,
            *(block.text for block in self.context),
            *(m.text for m in self.messages),
        ]
        return frozenset(name for text in texts for name in _HOLE.findall(text) if name)

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a run with defaults filled in.

        Raises AgentError(invalid) if an input is missing, unknown or of the wrong type.
        """
        if not isinstance(cast("object", given), Mapping):
            raise AgentError(
                "invalid",
                (
                    f"agent {self.name!r}: inputs= is a {type(given).__name__}: give values by "
                    "name, like inputs={'who': 'Ada'}"
                ),
            )
        values = {**given}
        for name, declared in self.inputs.items():
            if name in values:
                self._check(name, declared, values[name])
            elif not declared.required or declared.default is not None:
                values[name] = "" if declared.default is None else declared.default
        if self.inputs and (unknown := sorted(set(given) - set(self.inputs))):
            raise AgentError(
                "invalid",
                (
                    f"agent {self.name!r} has no input {unknown[0]!r}; it has: "
                    f"{', '.join(self.inputs)}"
                ),
            )
        if unused := sorted(set(given) - self._holes - set(self.inputs)):
            raise self._unused(unused[0])
        wanted = self._holes | {name for name, declared in self.inputs.items() if declared.required}
        if missing := sorted(wanted - set(values)):
            raise AgentError(
                "invalid",
                (
                    f"agent {self.name!r} needs the input(s) {', '.join(missing)}: pass "
                    f"inputs={{{missing[0]!r}: ...}}"
                ),
            )
        for name, value in values.items():
            _must_be_json(self.name, name, value)
        return values

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
            if name in self._holes or name in self.inputs
        }

    def system(self, values: Mapping[str, Any]) -> tuple[SystemBlock, ...]:
        """Return the system prompt for these inputs, without empty blocks."""
        blocks = [SystemBlock(text=self.instructions), *self.context]
        filled = [
            msgspec.structs.replace(block, text=expand(block.text, values)) for block in blocks
        ]
        return tuple(block for block in filled if block.text)

    def _check(self, name: str, declared: Input, value: object) -> None:
        wrong_bool = isinstance(value, bool) and declared.type in ("integer", "number")
        if not isinstance(value, _TYPES[declared.type]) or wrong_bool:
            article = "an" if declared.type[0] in "aio" else "a"
            raise AgentError(
                "invalid",
                (
                    f"agent {self.name!r}: the input {name!r} must be {article} {declared.type}, "
                    f"not {value!r}"
                ),
            )

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


def _must_be_json(agent: str, name: str, value: object) -> None:
    try:
        encode_json(value)
    except (TypeError, ValueError, RecursionError) as e:
        raise AgentError(
            "invalid",
            f"agent {agent!r}: the input {name!r} cannot be encoded as JSON: {e}",
        ) from e


def expand(template: str, values: Mapping[str, Any]) -> str:
    """Replace `${name}` with its value and `$$` with `$`. Values are not expanded in turn."""
    return _HOLE.sub(lambda hole: "$" if hole[1] is None else str(values[hole[1]]), template)


def expand_message(message: Message, values: Mapping[str, Any]) -> Message:
    return message.with_parts(
        [
            msgspec.structs.replace(p, text=expand(p.text, values))
            if isinstance(p, TextPart)
            else p
            for p in message.parts
        ]
    )

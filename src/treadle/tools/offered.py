"""Tools that a run offers in a different form: under a condition, another name or another
definition, and tools that no longer exist.

Entry points: `Conditions`, `offer_of`, `ConditionalTool`, `RenamedTool`, `DeferredTool`,
`RedefinedTool`, `GoneTool`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast

import msgspec

from treadle._internal.json_text import JsonText
from treadle.errors import AgentError
from treadle.models.model import ToolDefinition
from treadle.tools.run_context import Given, RunContext, called_with, check_arity
from treadle.tools.tool import (
    MAX_OUTPUT_CHARS,
    DepsIn,
    InvalidArguments,
    ProbeAnswer,
    Tool,
    ToolContext,
    ToolOutput,
    Touched,
)
from treadle.types import Effect

if TYPE_CHECKING:
    from treadle.tools.function.given import GivenArguments

IsEnabled: TypeAlias = "bool | Callable[[RunContext[Any]], Given[bool]]"
Prepare: TypeAlias = "Callable[[RunContext[Any], ToolDefinition], Given[ToolDefinition | None]]"

_ENABLED = "def is_enabled(ctx: RunContext[Deps]) -> bool"
_PREPARE = "def prepare(ctx: RunContext[Deps], tool: ToolDefinition) -> ToolDefinition | None"


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions under which a run offers a tool, evaluated once before its first request.

    Attributes:
        is_enabled: False, or a function that returns False: the run does not offer the tool.
        prepare: Function that returns the definition to offer, under the same name; None: the run
            does not offer the tool.
    """

    is_enabled: IsEnabled = True
    prepare: Prepare | None = None

    def __bool__(self) -> bool:
        """Return False if the tool is always offered unchanged."""
        return self.is_enabled is not True or self.prepare is not None

    def check(self, label: str) -> None:
        """Validate the conditions. Raises AgentError(invalid) for an unsuitable value or
        function.
        """
        if callable(self.is_enabled):
            check_arity(self.is_enabled, f"{label}: is_enabled=", _ENABLED)
        elif not isinstance(cast("object", self.is_enabled), bool):
            raise AgentError(
                "invalid",
                f"{label}: is_enabled= is a {type(self.is_enabled).__name__}: pass True, False, or "
                f"a function: {_ENABLED}",
            )
        if self.prepare is None:
            return
        if not callable(cast("object", self.prepare)):
            raise AgentError(
                "invalid",
                f"{label}: prepare= is a {type(self.prepare).__name__}: pass a function: "
                f"{_PREPARE}",
            )
        check_arity(self.prepare, f"{label}: prepare=", _PREPARE, arguments=2)

    async def offer(
        self, ctx: RunContext[Any], definition: ToolDefinition
    ) -> ToolDefinition | None:
        """Return the definition that the run offers; None if it does not offer the tool.

        Raises AgentError(agent) if a condition fails, AgentError(invalid) for a wrong result.
        """
        name, enabled, prepare = definition.name, self.is_enabled, self.prepare
        if not isinstance(enabled, bool):
            enabled = await called_with(ctx, enabled, f"is_enabled= of tool {name!r}")
            if not isinstance(cast("object", enabled), bool):
                raise AgentError(
                    "invalid",
                    f"is_enabled= of tool {name!r} returned {enabled!r:.80}: return True or False",
                )
        if not enabled or prepare is None:
            return definition if enabled else None
        label = f"prepare= of tool {name!r}"
        made = await called_with(ctx, lambda ctx: prepare(ctx, definition), label)
        found = cast("object", made)
        if found is None or (isinstance(found, ToolDefinition) and found.name == name):
            return found
        if isinstance(found, ToolDefinition):
            raise AgentError(
                "invalid",
                f"{label} renamed it to {found.name!r}: keep the name here, and rename tools with "
                "Toolset(…).renamed(…)",
            )
        raise AgentError(
            "invalid",
            f"{label} returned {found!r:.80}: return a ToolDefinition, for example "
            "msgspec.structs.replace(tool, description=…), or None",
        )


ALWAYS = Conditions()
SEARCH = "search_tools"
"""Name of the tool that searches deferred tools."""


def is_conditional(tool: Tool[Any]) -> bool:
    """Return True if a run must ask for the definition to offer (`offer_of`)."""
    return bool(_conditions_of(tool))


def is_deferred(one: object) -> bool:
    """Return True for a deferred tool, and for an MCP server whose tools are deferred."""
    return getattr(getattr(one, "definition", one), "deferred", False) is True


async def offer_of(tool: Tool[Any], ctx: RunContext[Any]) -> ToolDefinition | None:
    """Return the definition that a run offers; None if it does not offer the tool.

    Raises the errors of `Conditions.offer`.
    """
    if isinstance(tool, WrappedTool):
        return await tool.offer(ctx)
    return await _conditions_of(tool).offer(ctx, tool.definition)


def _conditions_of(tool: object) -> Conditions:
    found = getattr(tool, "conditions", None)
    return found if isinstance(found, Conditions) else ALWAYS


class WrappedTool(Generic[DepsIn]):
    """Tool that delegates to another one, except where a subclass overrides it.

    Attributes outside the protocol are those of the other tool.
    """

    def __init__(self, inner: Tool[DepsIn]) -> None:
        self.inner = inner
        self.effect: Effect = inner.effect
        self.parallel = inner.parallel
        self.timeout_s = inner.timeout_s
        self.needs_approval = inner.needs_approval
        self.max_output = inner.max_output

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.inner!r})"

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def definition(self) -> ToolDefinition:
        return self.inner.definition

    async def offer(self, ctx: RunContext[DepsIn]) -> ToolDefinition | None:
        """Return the definition that a run offers, or None. Raises the errors of `offer_of`."""
        return await offer_of(self.inner, ctx)

    def parse(self, arguments_json: JsonText) -> Any:
        return self.inner.parse(arguments_json)

    def touches(self, arguments: Any, cwd: Path) -> Touched | None:
        return self.inner.touches(arguments, cwd)

    async def execute(self, ctx: ToolContext[DepsIn], arguments: Any) -> ToolOutput:
        return await self.inner.execute(ctx, arguments)

    async def probe(self, ctx: ToolContext[DepsIn], arguments: Any) -> ProbeAnswer:
        return await self.inner.probe(ctx, arguments)


class ConditionalTool(WrappedTool[DepsIn]):
    """A tool under conditions, in addition to its own."""

    def __init__(self, inner: Tool[DepsIn], conditions: Conditions) -> None:
        super().__init__(inner)
        self.conditions = conditions

    async def offer(self, ctx: RunContext[DepsIn]) -> ToolDefinition | None:
        found = await super().offer(ctx)
        return None if found is None else await self.conditions.offer(ctx, found)


class RenamedTool(WrappedTool[DepsIn]):
    """A tool under another name."""

    def __init__(self, inner: Tool[DepsIn], name: str) -> None:
        super().__init__(inner)
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def definition(self) -> ToolDefinition:
        return self._own_definition

    @cached_property
    def _own_definition(self) -> ToolDefinition:
        return self._renamed(self.inner.definition)

    async def offer(self, ctx: RunContext[DepsIn]) -> ToolDefinition | None:
        found = await super().offer(ctx)
        return None if found is None else self._renamed(found)

    def _renamed(self, definition: ToolDefinition) -> ToolDefinition:
        return msgspec.structs.replace(definition, name=self._name, native=None)

    def parse(self, arguments_json: JsonText) -> Any:
        """Parse arguments. Raises InvalidArguments, which names the tool as the model knows it."""
        try:
            return self.inner.parse(arguments_json)
        except InvalidArguments as e:
            raise InvalidArguments(str(e).replace(self.inner.name, self._name, 1)) from e


class DeferredTool(WrappedTool[DepsIn]):
    """A tool that a run offers once the model has found it (`tools/tool_search.py`)."""

    @property
    def definition(self) -> ToolDefinition:
        return self._own_definition

    @cached_property
    def _own_definition(self) -> ToolDefinition:
        return msgspec.structs.replace(self.inner.definition, deferred=True)

    async def offer(self, ctx: RunContext[DepsIn]) -> ToolDefinition | None:
        found = await super().offer(ctx)
        return None if found is None else msgspec.structs.replace(found, deferred=True)


class RedefinedTool(WrappedTool[DepsIn]):
    """A tool under the definition that its run offers, which `prepare=` or newer code has changed.
    Arguments must satisfy that definition's schema and the tool's own.
    """

    conditions = ALWAYS

    def __init__(self, inner: Tool[DepsIn], definition: ToolDefinition) -> None:
        super().__init__(inner)
        self._definition = definition

    @property
    def definition(self) -> ToolDefinition:
        return self._definition

    async def offer(self, ctx: RunContext[DepsIn]) -> ToolDefinition | None:
        return self._definition

    @cached_property
    def _arguments(self) -> GivenArguments:
        from treadle.tools.function.given import GivenArguments  # noqa: PLC0415  compiles schemas: only for tools whose schema changed

        own = self._definition
        return GivenArguments(own.name, own.description, own.parameters)

    def parse(self, arguments_json: JsonText) -> Any:
        """Parse arguments. Raises InvalidArguments by the offered schema, then by the tool's
        own.
        """
        if self._definition.parameters != self.inner.definition.parameters:
            self._arguments.parse(arguments_json)
        return self.inner.parse(arguments_json)


class GoneTool:
    """Tool that a run had offered and that no longer exists. Its definition stays in requests, so
    that they do not change. Calls to it are rejected.
    """

    effect: Effect = "pure"
    parallel = True
    timeout_s = None
    needs_approval = False
    max_output = MAX_OUTPUT_CHARS

    def __init__(self, definition: ToolDefinition) -> None:
        self._definition = definition

    @property
    def name(self) -> str:
        return self._definition.name

    @property
    def definition(self) -> ToolDefinition:
        return self._definition

    def parse(self, arguments_json: JsonText) -> Any:
        """Reject the call. Always raises InvalidArguments."""
        raise InvalidArguments(
            f"{self.name} is no longer available. Continue without it, or inform the user."
        )

    def touches(self, arguments: Any, cwd: Path) -> Touched | None:
        return Touched()

    async def execute(self, ctx: ToolContext[Any], arguments: Any) -> ToolOutput:
        raise AssertionError("no arguments fit a tool that was removed")

    async def probe(self, ctx: ToolContext[Any], arguments: Any) -> ProbeAnswer:
        return None

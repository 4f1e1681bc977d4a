"""Tools as a run had offered them, where the code has other ones by now.

Entry points: `RedefinedTool`, `GoneTool`.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from treadle._internal.json_text import JsonText
from treadle.models.model import ToolDefinition
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


class RedefinedTool(Generic[DepsIn]):
    """A tool under the definition that its run offered, which newer code has changed. Arguments
    must satisfy that definition's schema and the tool's own.

    Attributes that the protocol does not name are those of the tool.
    """

    def __init__(self, inner: Tool[DepsIn], definition: ToolDefinition) -> None:
        self.inner = inner
        self.effect: Effect = inner.effect
        self.parallel = inner.parallel
        self.timeout_s = inner.timeout_s
        self.needs_approval = inner.needs_approval
        self.max_output = inner.max_output
        self._definition = definition

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"RedefinedTool({self.inner!r})"

    @property
    def name(self) -> str:
        return self._definition.name

    @property
    def definition(self) -> ToolDefinition:
        return self._definition

    @cached_property
    def _arguments(self) -> GivenArguments:
        from treadle.tools.function.given import GivenArguments  # noqa: PLC0415  compiles schemas: only for tools whose schema changed

        own = self._definition
        return GivenArguments(own.name, own.description, own.parameters)

    def parse(self, arguments_json: JsonText) -> Any:
        """Raises InvalidArguments by the offered schema, then by the tool's own."""
        if self._definition.parameters != self.inner.definition.parameters:
            self._arguments.parse(arguments_json)
        return self.inner.parse(arguments_json)

    def touches(self, arguments: Any, cwd: Path) -> Touched | None:
        return self.inner.touches(arguments, cwd)

    async def execute(self, ctx: ToolContext[DepsIn], arguments: Any) -> ToolOutput:
        return await self.inner.execute(ctx, arguments)

    async def probe(self, ctx: ToolContext[DepsIn], arguments: Any) -> ProbeAnswer:
        return await self.inner.probe(ctx, arguments)


class GoneTool:
    """A tool that a run had offered and that no longer exists. Its definition stays in requests, so
    that they do not change; a call of it is refused.
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
        """Raises InvalidArguments, always."""
        raise InvalidArguments(
            f"{self.name} is not available any more. Go on without it, or tell the user."
        )

    def touches(self, arguments: Any, cwd: Path) -> Touched | None:
        return Touched()

    async def execute(self, ctx: ToolContext[Any], arguments: Any) -> ToolOutput:
        raise AssertionError("no arguments fit a tool that is gone")

    async def probe(self, ctx: ToolContext[Any], arguments: Any) -> ProbeAnswer:
        return None

"""Tools that belong together, offered under conditions or other names. Entry point: `Toolset`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeAlias, cast, overload

from typing_extensions import TypeVar

from treadle.errors import AgentError
from treadle.models.model import ToolDefinition
from treadle.tools.function.traits import name_fault
from treadle.tools.offered import ConditionalTool, Conditions, DeferredTool, Prepare, RenamedTool
from treadle.tools.run_context import Given, RunContext, called_with, check_arity
from treadle.tools.tool import Tool

Deps = TypeVar("Deps", contravariant=True, default=object)
Keep: TypeAlias = "Callable[[RunContext[Any], ToolDefinition], Given[bool]]"

_KEEP = "def keep(ctx: RunContext[Deps], tool: ToolDefinition) -> bool"


class Toolset(Sequence[Tool[Deps]], Generic[Deps]):
    """A sequence of tools that can be filtered, prepared, renamed, prefixed, deferred and
    combined.

    Each method returns a new set, in the same order. Pass a set as `tools=`, or unpack it among
    other tools: `tools=[*crm.prefixed("crm_"), search]`. `+` combines sets and lists. Functions are
    called once for each run, before its first request (`agents/evaluation.py`).
    """

    def __init__(self, tools: Iterable[Tool[Deps]]) -> None:
        """Create a set. Raises AgentError(invalid) for a member that is not a tool."""
        self._tools = tuple(tools)
        for one in self._tools:
            if not hasattr(one, "execute"):
                raise AgentError(
                    "invalid",
                    f"{getattr(one, '__name__', None) or repr(one)} in a Toolset is not a tool: "
                    "put @tool above a function; pass an agent in tools= next to the set, and "
                    "an MCP server in mcp_servers=",
                )

    def __repr__(self) -> str:
        return f"Toolset([{', '.join(tool.name for tool in self._tools)}])"

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool[Deps]]:
        return iter(self._tools)

    @overload
    def __getitem__(self, index: int) -> Tool[Deps]: ...
    @overload
    def __getitem__(self, index: slice) -> Toolset[Deps]: ...
    def __getitem__(self, index: int | slice) -> Tool[Deps] | Toolset[Deps]:
        found = self._tools[index]
        return Toolset(found) if isinstance(found, tuple) else found

    def __add__(self, other: Iterable[Tool[Deps]]) -> Toolset[Deps]:
        return Toolset((*self._tools, *other))

    def __radd__(self, other: Iterable[Tool[Deps]]) -> Toolset[Deps]:
        return Toolset((*other, *self._tools))

    def filtered(self, keep: Keep) -> Toolset[Deps]:
        """Offer only the tools for which the sync or async function returns True.

        Raises AgentError(invalid) if it does not take the run's context and a definition.
        """
        check_arity(keep, "Toolset.filtered()", _KEEP, arguments=2)

        async def prepare(ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition | None:
            label = f"the function of Toolset.filtered() for tool {tool.name!r}"
            kept = await called_with(ctx, lambda ctx: keep(ctx, tool), label)
            if not isinstance(cast("object", kept), bool):
                raise AgentError("invalid", f"{label} returned {kept!r:.80}: return True or False")
            return tool if kept else None

        return self.prepared(prepare)

    def prepared(self, prepare: Prepare) -> Toolset[Deps]:
        """Offer each tool with the definition that the sync or async function returns for it; None
        omits the tool.

        Raises AgentError(invalid) if it does not take the run's context and a definition.
        """
        conditions = Conditions(prepare=prepare)
        conditions.check("Toolset.prepared()")
        return Toolset(ConditionalTool(tool, conditions) for tool in self._tools)

    def renamed(self, names: Mapping[str, str]) -> Toolset[Deps]:
        """Rename tools; `names` maps old names to new ones. Rules of the policy name the new ones.

        Raises AgentError(invalid) for an unknown name, and for one that providers do not accept.
        """
        own = [tool.name for tool in self._tools]
        if unknown := sorted(names.keys() - set(own)):
            raise AgentError(
                "invalid",
                f"Toolset.renamed(): the set has no tool {unknown[0]!r}, only {', '.join(own)}: "
                "write {old: new}",
            )
        for name in names.values():
            if fault := name_fault(name):
                raise AgentError("invalid", f"Toolset.renamed(): {fault}: choose another one")
        return Toolset(
            RenamedTool(tool, names[tool.name]) if tool.name in names else tool
            for tool in self._tools
        )

    def prefixed(self, prefix: str) -> Toolset[Deps]:
        """Put a prefix before the name of each tool: `Toolset([find]).prefixed("crm_")`."""
        return self.renamed({tool.name: f"{prefix}{tool.name}" for tool in self._tools})

    def deferred(self) -> Toolset[Deps]:
        """Offer each tool only once the model has found it with a search, which the provider or
        Treadle does. For sets of more than a few dozen tools: `tools=[*crm.deferred(), search]`.
        """
        return Toolset(DeferredTool(tool) for tool in self._tools)

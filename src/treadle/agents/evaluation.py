"""Evaluation of a definition's functions for one run: its instructions, its tools, their
conditions, and the headers of its MCP servers.

The result is journaled, except for the headers. A resumed run reuses it instead of calling the
functions again, so that instructions and tools stay the same. Entry point: `evaluated`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from treadle.errors import AgentError
from treadle.journal.entries import Evaluated
from treadle.models.model import ToolDefinition
from treadle.tools.offered import GoneTool, RedefinedTool, is_conditional, offer_of
from treadle.tools.run_context import RunContext, called_with
from treadle.tools.tool import Tool, ToolProvider

if TYPE_CHECKING:
    from treadle.agents.agent import Agent
    from treadle.tools.mcp.server import McpServer


async def evaluated(
    agent: Agent[Any, Any], ctx: RunContext[Any], stored: Evaluated | None = None
) -> Agent[Any, Any]:
    """Return the agent as its run uses it: with text as instructions and a list of tools. Raises
    AgentError(agent) if a function fails, AgentError(invalid) for a wrong result.

    `stored`: results from the beginning of the run, which are reused. A function of tools is then
    called only for the tools themselves, and conditions are not evaluated. Tools that the run did
    not offer are omitted, and a `GoneTool` replaces each that no longer exists.
    """
    stored = stored or Evaluated()
    text = None
    if not isinstance(agent.instructions, str):
        text = stored.instructions
        text = await _instructions(agent, ctx) if text is None else text
    tools, definitions = await _listed(agent, ctx), None
    if callable(agent.tools) or any(map(is_conditional, tools)):
        offers = stored.tools
        if offers is None:
            asked = [await offer_of(tool, ctx) for tool in tools]
            offers = tuple([one for one in asked if one is not None])
        by_name = {tool.name: tool for tool in tools}
        tools = [_as_offered(by_name.get(one.name), one) for one in offers]
        definitions = offers
    agent = replace(agent, mcp_servers=await _servers(agent, ctx))
    return _as_found(agent, Evaluated(instructions=text, tools=definitions), tools)


async def _instructions(agent: Agent[Any, Any], ctx: RunContext[Any]) -> str:
    label = f"agent {agent.name!r}: the function of instructions="
    text: object = await called_with(ctx, cast("Callable[..., Any]", agent.instructions), label)
    if not isinstance(text, str):
        raise AgentError(
            "invalid", f"{label} returned {text!r:.80}: return the text of the instructions"
        )
    return text


async def _listed(agent: Agent[Any, Any], ctx: RunContext[Any]) -> Sequence[Tool[Any]]:
    """Return the tools that the definition currently has."""
    given = agent.tools
    if not callable(given):
        return agent.own_tools
    label = f"agent {agent.name!r}: the function of tools="
    tools = cast("object", await called_with(ctx, given, label))
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise AgentError("invalid", f"{label} returned {tools!r:.80}: return a list of tools")
    return replace(
        agent, instructions="", inputs={}, tools=tuple(cast("Iterable[Tool[Any]]", tools))
    ).own_tools


async def _servers(agent: Agent[Any, Any], ctx: RunContext[Any]) -> Sequence[ToolProvider]:
    """Return the agent's MCP servers, with the headers of this run."""
    given = cast("Sequence[McpServer]", agent.mcp_servers)
    return [await one.for_run(ctx) if callable(one.headers) else one for one in given]


def _as_offered(tool: Tool[Any] | None, offer: ToolDefinition) -> Tool[Any]:
    if tool is None:
        return GoneTool(offer)
    return tool if tool.definition == offer else RedefinedTool(tool, offer)


def _as_found(
    agent: Agent[Any, Any], found: Evaluated, tools: Sequence[Tool[Any]]
) -> Agent[Any, Any]:
    """Return the agent with its functions replaced by their results."""
    text = agent.instructions if isinstance(agent.instructions, str) else ""
    if found.instructions is not None:
        text = found.instructions.replace("$", "$$")
    made = replace(agent, instructions=text, tools=tuple(tools), inputs={})
    return made.evaluated_from(agent, found)

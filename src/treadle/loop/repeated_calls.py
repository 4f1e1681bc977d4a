"""Calls of an earlier driver: run again, probed, or closed by a result that came late.

recovery.py decides which. Entry points: `repeated`, `probed`, `arrived`.
"""

from __future__ import annotations

from typing import Any

import anyio
from msgspec import structs

from treadle.errors import AgentError
from treadle.events.hooks import RunBlocked
from treadle.journal.entries import ToolFinished
from treadle.loop.call_values import Ready
from treadle.loop.shown_results import shown_text
from treadle.loop.tool_code import asked, has_commands
from treadle.loop.toolbox import Toolbox
from treadle.messages.message import ToolCall, ToolResult
from treadle.tools.failures import words_of
from treadle.tools.tool import DidNotHappen, Happened, ToolContext


def repeated(toolbox: Toolbox, call: ToolCall, attempt: int) -> Ready:
    """Return a call that a dead driver started, ready to run again.

    Raises AgentError(tool) if its tool no longer accepts the arguments.
    """
    tool = toolbox.registry.get(call.name)
    assert tool is not None, "a run is resumed only with the tools of its open calls"
    try:
        arguments = tool.parse(call.arguments_json)
    except Exception as e:
        raise AgentError(
            "tool",
            f"{call.name} (call {call.id}) has started, but the tool no longer accepts its "
            f"arguments: {words_of(e)}",
        ) from e
    ready = Ready(call=call, tool=tool, arguments=arguments, attempt=attempt, started=True)
    if not has_commands(tool):
        return ready
    decision = toolbox.judge(tool, arguments, toolbox.permissions)
    return structs.replace(
        ready, looks_only=decision.looks_only, stays_confined=decision.partly == "deny"
    )


async def probed(toolbox: Toolbox, ready: Ready) -> Happened | DidNotHappen | None:
    """Call the tool's probe, for at most its timeout. Raises the errors of `asked`, and
    RunBlocked.
    """
    ctx = toolbox.context(ready, toolbox.deadline(ready.tool), toolbox)
    with anyio.move_on_after(ready.tool.timeout_s):
        answer = await asked(ready.tool, ctx, ready.arguments)
        return (
            Happened(await _found(toolbox, answer.result, ready, ctx))
            if isinstance(answer, Happened)
            else answer
        )
    return None


async def _found(toolbox: Toolbox, text: str, ready: Ready, ctx: ToolContext[Any]) -> str:
    """Return the result that a probe reports, as the model sees it."""
    text = await shown_text(text, ready.tool, ctx, toolbox.clean)
    if "after_tool" not in toolbox.hooks.points:
        return text
    found = ToolResult(call_id=ready.call.id, name=ready.call.name, content=text)
    said = await toolbox.said_after(ready.call, found)
    if said.blocked:
        raise RunBlocked(said.blocked)
    return said.result.text


async def arrived(toolbox: Toolbox, call: ToolCall, late: ToolFinished) -> ToolFinished:
    """Return the late result of a call, truncated and after the hooks."""
    tool = toolbox.registry.get(call.name)
    assert tool is not None, "a run is resumed only with the tools of its open calls"
    ready = Ready(call=call, tool=tool, arguments=None, started=True)
    ctx = toolbox.context(ready, None, toolbox)
    text = await shown_text(late.result.text, tool, ctx, toolbox.clean)
    result = structs.replace(late.result, content=text)
    if "after_tool" not in toolbox.hooks.points:
        return structs.replace(late, result=result)
    result, blocked, _ = await toolbox.after_tool(ready, result)
    return structs.replace(late, result=result, blocked=blocked)

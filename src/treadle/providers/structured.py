"""An answer that fits a schema, from a model that has no such thing of its own: as the arguments of a call, or because the prompt asks.

What a provider does natively is its wire's; whether the answer fits is checked by whoever reads it. Entry: `structured`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from treadle.abilities import Abilities, StructuredOutput
from treadle.model import ArgumentsDelta, Delta, ModelRequest, PartEnd, ResponseEnd, Restart, TextDelta, TextStart, ToolCallStart, ToolDefinition
from treadle.providers.encoding import dumped
from treadle.types import Settings, StopReason, SystemBlock

Stream: TypeAlias = Callable[[ModelRequest], AsyncGenerator[Delta, None]]

ANSWER_TOOL = "final_answer"
_DESCRIPTION = "Gives your final answer to the user. Call it once, when you are done, with nothing after it."
_INSTRUCTION = "Give your final answer as one JSON value that fits this JSON Schema, with no other text around it and no code fence:\n"


def structured(stream: Stream, request: ModelRequest, abilities: Abilities) -> AsyncGenerator[Delta, None]:
    """`stream(request)`, asked in the way that this model can be asked for its schema. The answer is text in each of them: the last text part."""
    schema = request.settings.output_schema
    if schema is None or (mode := mode_for(request, abilities)) == "native":
        return stream(request)
    if mode == "tool":
        return _as_text(stream(_with_answer_tool(request, schema)))
    instruction = SystemBlock(text=_INSTRUCTION + dumped(schema).decode())
    return stream(msgspec.structs.replace(request, system=(*request.system, instruction), settings=_without_schema(request.settings)))


def mode_for(request: ModelRequest, abilities: Abilities) -> StructuredOutput:
    mode = abilities.structured_output or "native"
    if mode == "native" and request.tools and abilities.structured_with_tools is False:
        mode = "tool"
    schema = request.settings.output_schema or {}
    callable_with = abilities.tools is not False and (schema.get("type") == "object" or "properties" in schema)
    return "prompt" if mode == "tool" and not callable_with else mode


def _without_schema(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, output_schema=None)


def _with_answer_tool(request: ModelRequest, schema: dict[str, object]) -> ModelRequest:
    tool = ToolDefinition(name=ANSWER_TOOL, description=_DESCRIPTION, parameters=schema)
    choice = request.settings.tool_choice
    if choice == "none" or not request.tools:
        choice = ANSWER_TOOL
    elif choice in (None, "auto"):
        choice = "any"
    settings = msgspec.structs.replace(_without_schema(request.settings), tool_choice=choice)
    return msgspec.structs.replace(request, tools=(*request.tools, tool), settings=settings)


async def _as_text(deltas: AsyncGenerator[Delta, None]) -> AsyncGenerator[Delta, None]:
    """The answer's call as the text that it stands for."""
    answering = called_others = False
    async with aclosing(deltas) as source:
        async for delta in source:
            match delta:
                case ToolCallStart(name="final_answer"):
                    answering = True
                    yield TextStart()
                case ArgumentsDelta() if answering:
                    yield TextDelta(delta.text)
                case PartEnd() if answering:
                    answering = False
                    yield PartEnd()
                case ResponseEnd(stop_reason=StopReason.TOOL_USE) if not called_others:
                    yield msgspec.structs.replace(delta, stop_reason=StopReason.COMPLETE)
                case Restart():
                    answering = called_others = False
                    yield delta
                case _:
                    answering &= not isinstance(delta, ToolCallStart)
                    called_others |= isinstance(delta, ToolCallStart)
                    yield delta

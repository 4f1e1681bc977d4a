"""Structured output for models without native support: as the arguments of a tool call, or by
prompt.

Wires handle native support; the reader of the answer validates it. Entry points: `structured`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from itertools import count
from typing import TypeAlias

import msgspec

from treadle.config.model_profile import Abilities, StructuredOutput
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    ModelNotice,
    ModelRequest,
    PartEnd,
    ReasoningDelta,
    ReasoningStart,
    ResponseEnd,
    Restart,
    Switch,
    TextDelta,
    TextStart,
    ToolCallStart,
    ToolDefinition,
    WholePart,
)
from treadle.models.providers.encoding import dumped
from treadle.types import Settings, StopReason, SystemBlock

Stream: TypeAlias = Callable[[ModelRequest], AsyncGenerator[Delta, None]]

ANSWER_TOOL = "final_answer"
_DESCRIPTION = (
    "Gives your final answer to the user. Call it once, when you are done, with nothing after it."
)
_CALL_IT = "Give your final answer by calling the tool {name!r}, and in no other way."
_WRITE_IT = (
    "Give your final answer as one JSON value that fits this JSON Schema, with no other text "
    "around it and no code fence:\n"
)
_FENCE = "```"
_FENCE_LINE_CHARS_MAX = 40


def structured(
    stream: Stream, request: ModelRequest, abilities: Abilities
) -> AsyncGenerator[Delta, None]:
    """Stream a request with an output schema in the form that the model supports.

    The answer is always the last text part.
    """
    schema = request.settings.output_schema
    if schema is None or (mode := mode_for(request, abilities)) == "native":
        return stream(request)
    if mode == "tool":
        name = _free_name(request)
        return _as_text(
            stream(_with_answer_tool(request, name, schema, forced=_can_force(request, abilities))),
            name,
        )
    return _without_fence(stream(_told(request, _WRITE_IT + dumped(schema).decode())))


def mode_for(request: ModelRequest, abilities: Abilities) -> StructuredOutput:
    mode = abilities.structured_output or "native"
    if mode == "native" and request.tools and abilities.structured_with_tools is False:
        mode = "tool"
    schema = request.settings.output_schema or {}
    callable_with = abilities.tools is not False and (
        schema.get("type") == "object" or "properties" in schema
    )
    # if no tool may be called and none can be forced, the model might call a different one
    hindered = (
        request.settings.tool_choice == "none"
        and bool(request.tools)
        and not _can_force(request, abilities)
    )
    return "prompt" if mode == "tool" and (not callable_with or hindered) else mode


def _can_force(request: ModelRequest, abilities: Abilities) -> bool:
    """Return True if the model can be forced to call a tool. Claude with a thinking budget
    cannot.
    """
    thinking, types = request.settings.thinking, abilities.thinking_types
    has_budget = type(thinking) is int or (
        thinking in (True, "adaptive") and types is not None and "adaptive" not in types
    )
    return abilities.forced_tools is not False and not has_budget


def _free_name(request: ModelRequest) -> str:
    taken = {tool.name for tool in request.tools}
    names = (ANSWER_TOOL if n == 1 else f"{ANSWER_TOOL}_{n}" for n in count(1))
    return next(name for name in names if name not in taken)


def _told(request: ModelRequest, instruction: str) -> ModelRequest:
    settings = msgspec.structs.replace(request.settings, output_schema=None)
    return msgspec.structs.replace(
        request, system=(*request.system, SystemBlock(text=instruction)), settings=settings
    )


def _with_answer_tool(
    request: ModelRequest, name: str, schema: dict[str, object], *, forced: bool
) -> ModelRequest:
    tool = ToolDefinition(name=name, description=_DESCRIPTION, parameters=schema)
    with_tool = msgspec.structs.replace(request, tools=(*request.tools, tool))
    if not forced:
        return _told(with_tool, _CALL_IT.format(name=name))
    choice = request.settings.tool_choice
    if choice == "none" or not request.tools:
        choice = name
    elif choice in (None, "auto"):
        choice = "any"
    settings: Settings = msgspec.structs.replace(
        request.settings, output_schema=None, tool_choice=choice
    )
    return msgspec.structs.replace(with_tool, settings=settings)


# ---------------------------------------------------------------- the answer as a call


async def _as_text(deltas: AsyncGenerator[Delta, None], name: str) -> AsyncGenerator[Delta, None]:
    """Convert the call of the answer tool into text. Text after it is dropped, because the last
    text is the answer.
    """
    reader = _AnswerReader(name)
    async with aclosing(deltas) as source:
        async for delta in source:
            for shown in reader.read(delta):
                yield shown


class _AnswerReader:
    __slots__ = ("_answered", "_called", "_name", "_open", "_written")

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._answered = self._called = self._written = False
        self._open = ""
        """Current part: `answer`, `after` (text that follows an answer), or any other."""

    def read(self, delta: Delta) -> Iterator[Delta]:
        match delta:
            case ArgumentsDelta() if self._open == "answer":
                self._written |= bool(delta.text)
                yield TextDelta(delta.text)
            case PartEnd() if self._open == "answer":
                yield from self._end_of_answer()
                yield PartEnd()
            case TextDelta() | PartEnd() if self._open == "after":
                self._open = "after" if isinstance(delta, TextDelta) else ""
            case TextDelta() if not self._answered:
                yield delta
            case TextStart() | TextDelta() if self._answered:
                yield from self._end_of_answer()
                self._open = "after"
            case ToolCallStart() if delta.name == self._name:
                yield from self._end_of_answer()
                self._open, self._answered, self._written = "answer", True, False
                yield TextStart()
            case TextStart() | ReasoningStart() | ReasoningDelta() | ToolCallStart() | WholePart():
                yield from self._end_of_answer()
                self._called |= isinstance(delta, ToolCallStart)
                yield delta
            case ResponseEnd():
                yield from self._end_of_answer()
                only_answered = (
                    self._answered and not self._called and delta.stop_reason is StopReason.TOOL_USE
                )
                yield (
                    msgspec.structs.replace(delta, stop_reason=StopReason.COMPLETE)
                    if only_answered
                    else delta
                )
            case Restart() | Switch():
                self._begin()
                yield delta
            case _:
                yield delta

    def _end_of_answer(self) -> Iterator[Delta]:
        """End the answer. A call without arguments is an empty object."""
        if self._open == "answer" and not self._written:
            yield TextDelta("{}")
        self._open = ""


# ---------------------------------------------------------------- the answer as text


async def _without_fence(deltas: AsyncGenerator[Delta, None]) -> AsyncGenerator[Delta, None]:
    """Remove the code fence that models often put around JSON."""
    text: _Fenced | None = None
    async with aclosing(deltas) as source:
        async for delta in source:
            match delta:
                case TextDelta():
                    text = text or _Fenced()
                    if shown := text.add(delta.text):
                        yield TextDelta(shown)
                case ModelNotice():
                    yield delta
                case _:
                    if text is not None and (shown := text.rest()):
                        yield TextDelta(shown)
                    text = None
                    yield delta


class _Fenced:
    """A text from which the fence around all of it is removed, piece by piece."""

    __slots__ = ("_held", "_inside")

    def __init__(self) -> None:
        self._held = ""
        self._inside: bool | None = None
        """None while there is too little text to decide."""

    def add(self, piece: str) -> str:
        held = self._held + piece
        if self._inside is None:
            held = self._opened(held)
        if self._inside is None:
            shown = ""
        elif self._inside:
            bare = held.rstrip()
            shown = bare.rstrip("`").rstrip() if bare.endswith("`") else bare
        else:
            shown = held
        self._held = held[len(shown) :]
        return shown

    def _opened(self, held: str) -> str:
        begun = held.lstrip()
        line, newline, rest = begun.partition("\n")
        if not begun or (
            len(line) <= _FENCE_LINE_CHARS_MAX
            and not newline
            and (_FENCE.startswith(begun) or begun.startswith(_FENCE))
        ):
            return held
        language = line.removeprefix(_FENCE).strip()
        self._inside = (
            bool(newline) and line.startswith(_FENCE) and (not language or language.isalnum())
        )
        return rest if self._inside else held

    def rest(self) -> str:
        """Return the withheld end, if it belongs to the text."""
        return "" if self._inside and self._held.strip() in ("", _FENCE) else self._held

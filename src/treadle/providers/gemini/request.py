"""A request as the bytes of generateContent: same values, same bytes; only what is new is encoded.

How one message is encoded is messages.py's; headers that carry keys are the connection's. Entry: `RequestEncoder`.
"""

from __future__ import annotations

from typing import cast

import msgspec

from treadle.abilities import UNKNOWN, Abilities
from treadle.errors import AgentError
from treadle.history import History
from treadle.model import ModelRequest, ToolDefinition
from treadle.providers.encoding import Json, head, remembered, tools_in, wire_for, with_extra, with_theirs
from treadle.providers.gemini.messages import GO_ON, MessageEncoder
from treadle.providers.gemini.naming import GENERATION_OF_LEVELS, is_older, resource_of
from treadle.providers.gemini.schemas import fitted
from treadle.types import DEFAULT_MAX_TOKENS, Effort, Settings, Thinking

WIRE = "gemini"

_FIRST = ("systemInstruction", "tools", "cachedContent")
"""What does not change within a run stands before the contents, the rest behind them."""
_COUNTED = frozenset({*_FIRST, "toolConfig"})
_LEVELS: dict[Effort, str] = {"low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "XHIGH", "max": "XHIGH"}
_BUDGETS: dict[Effort, int] = {"low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}
"""Where there are no levels. Source: the table of https://ai.google.dev/gemini-api/docs/openai, and the most that each 2.5 takes."""
_DYNAMIC = -1
_LEAST = {"gemini-2.5-pro": 128}
"""These cannot be asked not to think."""


class _Frame(msgspec.Struct, frozen=True, gc=False):
    """What stands around the contents."""

    before: bytes
    after: bytes


class RequestEncoder:
    """For one model id."""

    def __init__(self, model_id: str, abilities: Abilities = UNKNOWN) -> None:
        self._model_id = model_id
        self._abilities = abilities
        self._levels = not is_older(model_id, GENERATION_OF_LEVELS)
        self._key = wire_for(f"{WIRE} {model_id}", abilities)

    def encode(self, request: ModelRequest) -> bytes:
        """The body. Raises AgentError(invalid) for extras that cannot be sent."""
        history = request.messages if isinstance(request.messages, History) else History(request.messages)
        said = (self, request.tools, request.system, request.settings)
        frame = remembered(history, f"{self._key} frame", said, lambda: self._frame(self._fields(request)))
        return b"".join([frame.before, *self._contents(history), frame.after])

    def encode_count(self, request: ModelRequest) -> bytes:
        """The same, for counting its tokens."""
        fields = {name: value for name, value in self._fields(request).items() if name in _COUNTED}
        frame = self._frame({"model": resource_of(self._model_id), **fields})
        return b"".join([b'{"generateContentRequest":', frame.before, *self._contents(History(request.messages)), frame.after, b"}"])

    def _contents(self, history: History) -> list[bytes | bytearray]:
        """In brackets, to be joined; the user has the last word, since the API answers nobody else."""
        encoder = cast("MessageEncoder", history.memo.setdefault(self._key, (MessageEncoder(self._model_id, self._abilities),))[0])
        contents = history.encoded(self._key, encoder.encode)
        if not contents:
            raise AgentError("invalid", "there is no message to send: the last one must say something")
        last = b"," + GO_ON if encoder.speaker == "model" else b""
        return [b"[", contents, last, b"]"]

    def _frame(self, fields: Json) -> _Frame:
        first = head({name: fields[name] for name in _FIRST if name in fields})
        rest = head({name: value for name, value in fields.items() if name not in _FIRST})
        joined = b"," if len(first) > 1 else b""
        return _Frame(first + joined + b'"contents":', (b"," if len(rest) > 1 else b"") + rest[1:] + b"}")

    def _fields(self, request: ModelRequest) -> Json:
        """All but the contents."""
        extra = dict(request.settings.extra or {})
        if "contents" in extra:
            raise AgentError("invalid", "settings.extra must not hold 'contents': the history is the request's own")
        fields: Json = {}
        if system := [{"text": block.text} for block in request.system if block.text]:
            fields["systemInstruction"] = {"parts": system}
        if tools := _tools(request.tools, extra.pop("tools", None)):
            fields["tools"] = tools
        if (choice := request.settings.tool_choice) is not None and request.tools:
            fields["toolConfig"] = {"functionCallingConfig": _calling(choice)}
        fields["generationConfig"] = self._generation(request.settings)
        return with_extra(fields, extra)

    def _generation(self, settings: Settings) -> Json:
        fields: Json = {"maxOutputTokens": settings.max_tokens or DEFAULT_MAX_TOKENS}
        if settings.temperature is not None:
            fields["temperature"] = settings.temperature
        if settings.stop:
            fields["stopSequences"] = settings.stop
        if settings.thinking is not None or settings.effort is not None:
            effort = None if settings.effort is None else self._abilities.effort(settings.effort)
            fields["thinkingConfig"] = self._thinking(settings.thinking, effort)
        if settings.output_schema is not None:
            fields["responseMimeType"] = "application/json"
            fields["responseJsonSchema"] = fitted(settings.output_schema)
        return fields

    def _thinking(self, thinking: Thinking | None, effort: Effort | None) -> Json:
        """By level or by budget, never by both: the API refuses that. What was thought is told where thinking was asked for."""
        told: Json = {} if thinking is None else {"includeThoughts": thinking is not False}
        if self._levels:
            level = self._level(thinking, effort)
            return told if level is None else {**told, "thinkingLevel": level}
        if thinking is False:
            return {**told, "thinkingBudget": next((least for name, least in _LEAST.items() if name in self._model_id), 0)}
        if isinstance(thinking, int) and thinking is not True:
            return {**told, "thinkingBudget": thinking}
        return {**told, "thinkingBudget": _DYNAMIC if effort is None else _BUDGETS[effort]}

    def _level(self, thinking: Thinking | None, effort: Effort | None) -> str | None:
        if thinking is False:
            return "LOW"  # these models always think
        if effort is None and isinstance(thinking, int) and thinking is not True:
            fitting: list[Effort] = [name for name, budget in _BUDGETS.items() if thinking <= budget]
            effort = fitting[0] if fitting else "high"
        if effort in ("xhigh", "max") and not self._abilities.efforts:
            effort = "high"  # the most that any is known to take
        return None if effort is None else _LEVELS[effort]


def _calling(choice: str) -> Json:
    if choice in ("auto", "any", "none"):
        return {"mode": choice.upper()}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}


def _tools(ours: tuple[ToolDefinition, ...], theirs: object) -> list[Json]:
    """Our definitions, and the extras': a function of the same name adds its fields to ours, anything else (a tool of the provider) follows."""
    declared: list[Json] = [{"name": t.name, "description": t.description, "parametersJsonSchema": fitted(t.parameters)} for t in ours]
    given = tools_in(theirs)
    for tool in given:
        declared = with_theirs(declared, tool.get("functionDeclarations"))
    others = [rest for tool in given if (rest := {name: value for name, value in tool.items() if name != "functionDeclarations"})]
    return [{"functionDeclarations": declared}, *others] if declared else others

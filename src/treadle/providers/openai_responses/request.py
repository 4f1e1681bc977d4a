"""A request as the bytes of the Responses API: same values, same bytes; only what is new is encoded.

How one message is encoded is messages.py's; headers that carry keys are the connection's. Entry: `RequestEncoder`.
"""

from __future__ import annotations

import hashlib
import re
from typing import cast

import msgspec

from treadle.abilities import UNKNOWN, Abilities
from treadle.errors import AgentError
from treadle.history import History
from treadle.model import ModelRequest, ToolDefinition
from treadle.providers.encoding import Json, dumped, effort_for, head, remembered, wire_for, with_extra, with_theirs
from treadle.providers.json_schema import parameters, strict
from treadle.providers.openai_responses.messages import MessageEncoder
from treadle.types import DEFAULT_MAX_TOKENS, Settings

WIRE = "openai"
OUTPUT_TOKENS_MIN = 16
"""The API refuses fewer."""

_ENCRYPTED = "reasoning.encrypted_content"
_ANSWER = "answer"
_COUNTED = frozenset({"model", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "truncation"})
"""What counting tokens takes, beside the input."""
_LEAST_IS_MINIMAL = re.compile(r"gpt-5(-mini|-nano)?(-\d{4}-\d{2}-\d{2})?")
_ALWAYS_THINKS = re.compile(r"o\d|.*-(pro|codex)\b")


class RequestEncoder:
    """For one model id; `cache_keys` where the server is known to make use of one."""

    def __init__(self, model_id: str, abilities: Abilities = UNKNOWN, *, cache_keys: bool = False) -> None:
        self._model_id = model_id
        self._abilities = abilities
        self._cache_keys = cache_keys
        self._wire = wire_for(WIRE, abilities)

    def encode(self, request: ModelRequest) -> bytes:
        """The body. Raises AgentError(invalid) for extras that cannot be sent."""
        history = request.messages if isinstance(request.messages, History) else History(request.messages)
        encoder = self._encoder_of(history)
        items = history.encoded(self._wire, encoder.encode)
        if not items:
            raise AgentError("invalid", "there is no message to send: the last one must say something")
        said = (self, request.tools, request.system, request.settings)
        first = remembered(history, f"{self._wire} {self._model_id}", said, lambda: self._head(request, encoder.begin))
        return b"".join([first, items, b"]}"])

    def encode_count(self, request: ModelRequest) -> bytes:
        """The same, for counting its tokens."""
        items = bytes(History(request.messages).encoded(self._wire, MessageEncoder(self._abilities).encode))
        counted = {name: value for name, value in self._fields(request).items() if name in _COUNTED}
        return dumped({**counted, "input": msgspec.Raw(b"[" + items + b"]")})

    def _encoder_of(self, history: History) -> MessageEncoder:
        made = history.memo.get(self._wire)
        if made is None:
            made = history.memo[self._wire] = (MessageEncoder(self._abilities),)
        return cast("MessageEncoder", made[0])

    def _head(self, request: ModelRequest, begin: bytes) -> bytes:
        fields = self._fields(request)
        if self._cache_keys and request.settings.cache is not False:
            prefix = hashlib.sha256(head({name: value for name, value in fields.items() if name in ("model", "instructions", "tools")}) + begin)
            fields = {"prompt_cache_key": f"treadle-{prefix.hexdigest()[:32]}", **fields}
        return head(fields) + b',"input":['

    def _fields(self, request: ModelRequest) -> Json:
        """All but the input."""
        extra = dict(request.settings.extra or {})
        if "input" in extra:
            raise AgentError("invalid", "settings.extra must not hold 'input': the history is the request's own")
        tools = with_theirs([_tool(tool) for tool in request.tools], extra.pop("tools", None), join=_joined)
        body: Json = {"model": self._model_id, "stream": True, "store": False}
        if include := _include(extra.pop("include", None), encrypted=self._abilities.reasoning is not False):
            body["include"] = include
        if instructions := "\n\n".join(block.text for block in request.system if block.text):
            body["instructions"] = instructions
        if tools:
            body["tools"] = tools
        return with_extra({**body, **self._settings(request.settings, tools)}, extra)

    def _settings(self, settings: Settings, tools: list[Json]) -> Json:
        fields: Json = {"max_output_tokens": max(OUTPUT_TOKENS_MIN, settings.max_tokens or DEFAULT_MAX_TOKENS)}
        if settings.temperature is not None:
            fields["temperature"] = settings.temperature
        if reasoning := self._reasoning(settings):
            fields["reasoning"] = reasoning
        if settings.output_schema is not None:
            fields["text"] = {"format": _format(settings.output_schema)}
        if settings.tool_choice is not None and tools:
            fields["tool_choice"] = _tool_choice(settings.tool_choice, tools)
        return fields

    def _reasoning(self, settings: Settings) -> Json:
        thinking = settings.thinking
        if self._abilities.reasoning is False:
            return {}
        if thinking is False:
            return {"effort": self._least_effort()}
        fields: Json = {}
        if settings.effort is not None:
            fields["effort"] = self._abilities.effort(settings.effort)
        elif isinstance(thinking, int) and thinking is not True:
            fields["effort"] = self._abilities.effort(effort_for(thinking))
        if thinking is not None:
            fields["summary"] = "auto"  # without it nothing of the thinking can be seen
        return fields

    def _least_effort(self) -> str:
        """How a model is told not to think, or to think as little as it can."""
        if _LEAST_IS_MINIMAL.fullmatch(self._model_id):
            return "minimal"
        if _ALWAYS_THINKS.match(self._model_id):
            return self._abilities.effort("low")
        return "none"


def _include(theirs: object, *, encrypted: bool) -> list[object]:
    """The extras' join ours: without it, what the model thought would be lost between two turns."""
    if theirs is not None and not isinstance(theirs, list | tuple):
        raise AgentError("invalid", f"settings.extra['include'] must be a list of names, not {theirs!r}")
    more = [name for name in cast("list[object]", theirs or []) if name != _ENCRYPTED]
    return [_ENCRYPTED, *more] if encrypted else more


def _joined(ours: Json, theirs: Json) -> Json:
    """One of another type takes the place of ours."""
    return ours | theirs if theirs.get("type", "function") == "function" else {"description": ours["description"], **theirs}


def _tool(tool: ToolDefinition) -> Json:
    """Strict where its schema is in the strict subset as it stands: the API would else change what is optional."""
    fitted = parameters(tool.parameters)
    return {"type": "function", "name": tool.name, "description": tool.description, "parameters": fitted, "strict": strict(fitted) == fitted}


def _format(schema: Json) -> Json:
    fitted = strict(schema)
    return {"type": "json_schema", "name": _ANSWER, "schema": schema if fitted is None else fitted, "strict": fitted is not None}


def _tool_choice(choice: str, tools: list[Json]) -> object:
    if choice in ("auto", "any", "none"):
        return "required" if choice == "any" else choice
    kind = next((tool["type"] for tool in tools if tool.get("name") == choice and "type" in tool), "function")
    return {"type": kind, "name": choice}

"""Encoding of generateContent requests. Equal values give equal bytes; only new content is encoded.

messages.py encodes single messages; the connection adds headers with keys. Entry points:
`RequestEncoder`.
"""

from __future__ import annotations

from typing import cast

import msgspec

from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError
from treadle.messages.history import History
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.encoding import (
    Json,
    head,
    remembered,
    tools_in,
    wire_for,
    with_extra,
    with_theirs,
)
from treadle.models.providers.gemini.messages import GO_ON, MessageEncoder, unsent
from treadle.models.providers.gemini.naming import (
    GENERATION_OF_LEVELS,
    generation_of,
    is_older,
    resource_of,
)
from treadle.models.providers.gemini.thinking import fit
from treadle.models.providers.hosted import left_out, nothing, wanted
from treadle.models.providers.images import GEMINI_LIMITS, encoded_within, media_check
from treadle.types import ServiceTier, Settings

_SCHEMAS_BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_SCHEMAS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMA = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
)
_BESIDE_A_REFERENCE = frozenset({"description", "default"})


def fitted(schema: object) -> object:
    if not isinstance(schema, dict):
        return schema
    words = {
        name: _inner(name, value)
        for name, value in cast("Json", schema).items()
        if name != "$schema"
    }
    if isinstance(words.get("const"), str | int | float) and not isinstance(words["const"], bool):
        words["enum"] = [words.pop("const")]
    if "$ref" in words and any(
        not name.startswith("$") and name not in _BESIDE_A_REFERENCE for name in words
    ):
        return {"anyOf": [{"$ref": words.pop("$ref")}], **words}
    return words


def _inner(name: str, value: object) -> object:
    if name in _SCHEMAS_BY_NAME and isinstance(value, dict):
        return {key: fitted(schema) for key, schema in cast("Json", value).items()}
    if name in _SCHEMAS and isinstance(value, list | tuple):
        return [fitted(schema) for schema in cast("list[object]", value)]
    return fitted(value) if name in _SCHEMA else value


WIRE = "gemini"

HOSTED: dict[str, Json] = {
    "web_search": {"googleSearch": {}},
    "web_fetch": {"urlContext": {}},
    "code_execution": {"codeExecution": {}},
}
"""Definitions of hosted tools. Models before Gemini 3 accept these only without functions.

Source: ai.google.dev/gemini-api/docs/tool-combination (2026-11).
"""
_FIRST = ("systemInstruction", "tools", "cachedContent")
"""Fields that do not change within a run, placed before the contents; the rest comes after them."""
_COUNTED = frozenset({*_FIRST, "toolConfig"})
_GENERATION_OF_LONG_ANSWERS = (4, 0)
"""First generation whose answers continue in further responses, up to the whole window.

Source: https://ai.google.dev/gemini-api/docs/long-decode (2026-11).
"""
_TIERS: dict[ServiceTier, str] = {"standard": "standard", "flex": "flex", "fast": "priority"}


class _Frame(msgspec.Struct, frozen=True, gc=False):
    """Encoded parts of a request body before and after the contents."""

    before: bytes
    after: bytes


class RequestEncoder:
    """Encoder for one model id."""

    def __init__(self, model_id: str, abilities: Abilities = UNKNOWN) -> None:
        self._model_id = model_id
        self._abilities = abilities
        self._key = wire_for(f"{WIRE} {model_id}", abilities)

    def encode(self, request: ModelRequest) -> bytes:
        """Encode a request. Raises AgentError(invalid) for extras that cannot be sent."""
        history = (
            request.messages if isinstance(request.messages, History) else History(request.messages)
        )
        said = (self, request.tools, request.system, request.settings)
        frame = remembered(
            history, f"{self._key} frame", said, lambda: self._frame(self._fields(request))
        )
        return b"".join([frame.before, *self._contents(history, request.settings), frame.after])

    def encode_count(self, request: ModelRequest) -> bytes:
        """Encode a request for its token count."""
        fields = {name: value for name, value in self._fields(request).items() if name in _COUNTED}
        frame = self._frame({"model": resource_of(self._model_id), **fields})
        return b"".join(
            [
                b'{"generateContentRequest":',
                frame.before,
                *self._contents(History(request.messages), request.settings),
                frame.after,
                b"}",
            ]
        )

    def _contents(self, history: History, settings: Settings) -> list[bytes | bytearray]:
        """Return the bracketed contents in pieces. The last one is the user's, because the API
        responds only to the user.
        """
        check = media_check(history, self._model_id, self._abilities, settings)
        encoder, contents = encoded_within(
            history,
            self._key,
            GEMINI_LIMITS,
            lambda: MessageEncoder(self._model_id, self._abilities),
            lambda made: check.wrap(made.encode, unsent),
        )
        if not contents:
            raise AgentError(
                "invalid", "there is no message to send: the last one must not be empty"
            )
        last = b"," + GO_ON if encoder.speaker == "model" else b""
        return [b"[", contents, last, b"]"]

    def _frame(self, fields: Json) -> _Frame:
        first = head({name: fields[name] for name in _FIRST if name in fields})
        rest = head({name: value for name, value in fields.items() if name not in _FIRST})
        joined = b"," if len(first) > 1 else b""
        return _Frame(
            first + joined + b'"contents":', (b"," if len(rest) > 1 else b"") + rest[1:] + b"}"
        )

    def _fields(self, request: ModelRequest) -> Json:
        """Return everything but the contents."""
        extra = dict(request.settings.extra or {})
        if "contents" in extra:
            raise AgentError(
                "invalid",
                "settings.extra must not hold 'contents': the history is the request's own",
            )
        fields: Json = {}
        if system := [{"text": block.text} for block in request.system if block.text]:
            fields["systemInstruction"] = {"parts": system}
        hosted = (
            wanted(request.settings, HOSTED, nothing)
            if not request.tools or not is_older(self._model_id, GENERATION_OF_LEVELS)
            else []
        )
        if tools := _tools(request.tools, [*hosted, *tools_in(extra.pop("tools", None))]):
            fields["tools"] = tools
        config: Json = {}
        if request.tools and (calling := _calling(request.settings)):
            config["functionCallingConfig"] = calling
        if request.tools and hosted:
            config["includeServerSideToolInvocations"] = True
        if config:
            fields["toolConfig"] = config
        fields["generationConfig"] = self._generation(request.settings)
        if request.settings.service_tier is not None:
            fields["serviceTier"] = _TIERS[request.settings.service_tier]
        return with_extra(fields, extra)

    def _generation(self, settings: Settings) -> Json:
        fields: Json = {"maxOutputTokens": self._output(settings.max_tokens)}
        if settings.temperature is not None:
            fields["temperature"] = settings.temperature
        if settings.stop:
            fields["stopSequences"] = settings.stop
        if config := fit(settings, self._abilities, self._model_id).config:
            fields["thinkingConfig"] = config
        if settings.output_schema is not None:
            fields["responseMimeType"] = "application/json"
            fields["responseJsonSchema"] = fitted(settings.output_schema)
        return fields

    def _output(self, wanted: int | None) -> int:
        """Return the output tokens of the whole answer. The API rejects more than the model's
        limit.
        """
        goes_on = (generation_of(self._model_id) or (0, 0)) >= _GENERATION_OF_LONG_ANSWERS
        if wanted is None or not goes_on:
            return self._abilities.output(wanted)
        return min(wanted, self._abilities.context_tokens or wanted)

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return notes on differences between requests and `settings` that are due to the model."""
        return (
            *fit(settings, self._abilities, self._model_id).notes,
            *left_out(settings, HOSTED, nothing),
        )


def _calling(settings: Settings) -> Json:
    choice = settings.tool_choice
    if settings.strict_tools and choice in (None, "auto"):
        return {"mode": "VALIDATED"}
    if choice is None:
        return {}
    if choice in ("auto", "any", "none"):
        return {"mode": choice.upper()}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}


def _tools(ours: tuple[ToolDefinition, ...], given: list[Json]) -> list[Json]:
    """Combine our definitions with others: a function of the same name adds its fields to ours,
    provider tools are appended, the last of each name.
    """
    declared: list[Json] = [
        {"name": t.name, "description": t.description, "parametersJsonSchema": fitted(t.parameters)}
        for t in ours
    ]
    for tool in given:
        declared = with_theirs(declared, tool.get("functionDeclarations"))
    named = {
        name: value
        for tool in given
        for name, value in tool.items()
        if name != "functionDeclarations"
    }
    others = [{name: value} for name, value in named.items()]
    return [{"functionDeclarations": declared}, *others] if declared else others

"""Encoding of requests to the Responses API. Equal values give equal bytes; only new content is
encoded.

messages.py encodes single messages; the connection adds headers with keys. Entry points:
`RequestEncoder`.
"""

from __future__ import annotations

import hashlib
import re
from typing import cast

import msgspec

from treadle._internal.hosted_tools import CodeExecution, FileSearch, TypedTool, WebSearch
from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError
from treadle.messages.history import History
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.effort import fit
from treadle.models.providers.encoding import (
    Fields,
    Json,
    dumped,
    head,
    remembered,
    wire_for,
    with_extra,
    with_theirs,
)
from treadle.models.providers.hosted import left_out, wanted
from treadle.models.providers.images import NO_LIMITS, OPENAI_LIMITS, encoded_within, media_check
from treadle.models.providers.json_schema import parameters, strict
from treadle.models.providers.openai_responses.calls import PATCH_TOOL
from treadle.models.providers.openai_responses.compaction import MANAGED, TAKEN, window_in
from treadle.models.providers.openai_responses.content import unsent
from treadle.models.providers.openai_responses.messages import MessageEncoder
from treadle.types import ServiceTier, Settings

WIRE = "openai"
OUTPUT_TOKENS_MIN = 16
"""Minimum output limit that the API accepts."""

_ENCRYPTED = "reasoning.encrypted_content"
_ANSWER = "answer"
_HOSTED: dict[str, Json] = {
    "web_search": {"type": "web_search"},
    "web_fetch": {"type": "web_search"},  # it also opens pages
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
    "file_search": {"type": "file_search"},
}
"""Definitions of hosted tools. Source: the guides "Web search", "Code Interpreter" and "File
search", and the types of the SDK 3.54.
"""
_COUNTED = frozenset(
    {
        "model",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning",
        "text",
        "truncation",
    }
)
"""Fields of a token count request, in addition to the input."""
_TAKES_CACHE_OPTIONS = re.compile(r"gpt-(5\.[6-9]|[6-9])")
"""Models that accept cache options; earlier ones respond with 400. Source: SDK 3.52 and
developers.openai.com, "Prompt cache diagnostics"; read 2026-11-22.
"""
_TIERS: dict[ServiceTier, str] = {"standard": "default", "flex": "flex", "fast": "priority"}
_OWN_ID = "resp_"
AS_TEXT = "compacted_as_text"
"""Field of `settings.extra` that is not sent: send a compacted window as plain text."""


class RequestEncoder:
    """Encoder for one model id. `cache_keys`: the server is known to use cache keys."""

    def __init__(
        self, model_id: str, abilities: Abilities = UNKNOWN, *, cache_keys: bool = False
    ) -> None:
        self._model_id = model_id
        self._abilities = abilities
        self._cache_keys = cache_keys
        self._takes_cache_options = cache_keys and _TAKES_CACHE_OPTIONS.match(model_id) is not None
        self._wire = wire_for(WIRE, abilities)

    def encode(self, request: ModelRequest) -> bytes:
        """Encode a request. Raises AgentError(invalid) for extras that cannot be sent."""
        history = (
            request.messages if isinstance(request.messages, History) else History(request.messages)
        )
        encoder, items = self._encoded(history, request.settings)
        if not items:
            raise AgentError(
                "invalid", "there is no message to send: the last one must not be empty"
            )
        said = (self, request.tools, request.system, request.settings)
        first = remembered(
            history,
            f"{self._wire} {self._model_id}",
            said,
            lambda: self._head(request, encoder.begin),
        )
        return b"".join(
            [first, items, b"]", self._cache_options(request.settings, encoder.response_id), b"}"]
        )

    def sends_windows(self, settings: Settings) -> bool:
        """Return True if OpenAI compacts conversations with this model and accepts its windows
        back.

        Other servers are not asked, because a compacted window is readable only by the server that
        made it.
        """
        extra = settings.extra or {}
        return (
            self._cache_keys
            and self._abilities.compaction is True
            and MANAGED not in extra
            and AS_TEXT not in extra
        )

    def has_window(self, request: ModelRequest) -> bool:
        """Return True if the input begins with a window compacted by OpenAI."""
        return (
            len(request.messages) > 0
            and self.sends_windows(request.settings)
            and bool(window_in(request.messages[0]))
        )

    def encode_compaction(self, request: ModelRequest) -> bytes:
        """Encode the request for a compacted window. Raises the errors of `encode`."""
        body = self.encode(msgspec.structs.replace(request, messages=History(request.messages)))
        fields = msgspec.json.decode(body, type=Fields)
        return dumped({name: value for name, value in fields.items() if name in TAKEN})

    def _cache_options(self, settings: Settings, response_id: str) -> bytes:
        """Return cache options, placed after the input because they change with every request: the
        lifetime, and the response to compare with on a cache miss.
        """
        if (
            not self._takes_cache_options
            or settings.cache is False
            or (settings.extra and "prompt_cache_options" in settings.extra)
        ):
            return b""
        options: Json = {"ttl": "12h"} if settings.cache == "1h" else {}
        if response_id.startswith(_OWN_ID):
            options["comparison_response_id"] = response_id
        return b',"prompt_cache_options":' + dumped(options) if options else b""

    def encode_count(self, request: ModelRequest) -> bytes:
        """Encode a request for its token count."""
        items = bytes(
            History(request.messages).encoded(self._wire, self._encoder(request.settings).encode)
        )
        counted = {name: value for name, value in self._fields(request).items() if name in _COUNTED}
        return dumped({**counted, "input": msgspec.Raw(b"[" + items + b"]")})

    def _encoded(self, history: History, settings: Settings) -> tuple[MessageEncoder, bytearray]:
        """Return the encoder of a conversation, and its items, within the limits of OpenAI."""
        check = media_check(history, self._model_id, self._abilities, settings)
        return encoded_within(
            history,
            f"{self._wire} compacted" if self.sends_windows(settings) else self._wire,
            OPENAI_LIMITS if self._cache_keys else NO_LIMITS,
            lambda: self._encoder(settings),
            lambda encoder: check.wrap(encoder.encode, unsent),
        )

    def _encoder(self, settings: Settings) -> MessageEncoder:
        return MessageEncoder(self._abilities, windows=self.sends_windows(settings))

    def _head(self, request: ModelRequest, begin: bytes) -> bytes:
        fields = self._fields(request)
        if self._cache_keys and request.settings.cache is not False:
            prefix = hashlib.sha256(
                head(
                    {
                        name: value
                        for name, value in fields.items()
                        if name in ("model", "instructions", "tools")
                    }
                )
                + begin
            )
            fields = {"prompt_cache_key": f"treadle-{prefix.hexdigest()[:32]}", **fields}
        return head(fields) + b',"input":['

    def _fields(self, request: ModelRequest) -> Json:
        """Return everything but the input."""
        extra = dict(request.settings.extra or {})
        extra.pop(AS_TEXT, None)
        if "input" in extra:
            raise AgentError(
                "invalid", "settings.extra must not hold 'input': the history is the request's own"
            )
        strictly = request.settings.strict_tools is not False
        ours = [
            {"type": PATCH_TOOL} if self._has_built_in(tool) else _tool(tool, strictly=strictly)
            for tool in request.tools
        ]
        for tool in request.tools:
            if tool.deferred:
                ours.append({"type": "tool_search"})
                break
        hosted = wanted(request.settings, _HOSTED, _detailed)
        tools = with_theirs([*ours, *hosted], extra.pop("tools", None), _key, _joined)
        body: Json = {"model": self._model_id, "stream": True, "store": False}
        if include := _include(
            extra.pop("include", None), encrypted=self._abilities.reasoning is not False
        ):
            body["include"] = include
        if instructions := "\n\n".join(block.text for block in request.system if block.text):
            body["instructions"] = instructions
        if tools:
            body["tools"] = tools
        return with_extra({**body, **self._settings(request.settings, tools)}, extra)

    def _has_built_in(self, tool: ToolDefinition) -> bool:
        """Return True if OpenAI itself responds with a model trained on its built-in tool of that
        kind.
        """
        return (
            tool.native == PATCH_TOOL and self._cache_keys and self._abilities.apply_patch is True
        )

    def _settings(self, settings: Settings, tools: list[Json]) -> Json:
        fields: Json = {
            "max_output_tokens": max(OUTPUT_TOKENS_MIN, self._abilities.output(settings.max_tokens))
        }
        effort, temperature, _ = fit(settings, self._abilities, self._model_id)
        if temperature is not None:
            fields["temperature"] = temperature
        if settings.service_tier is not None:
            fields["service_tier"] = _TIERS[settings.service_tier]
        if reasoning := self._reasoning(settings, effort):
            fields["reasoning"] = reasoning
        if settings.output_schema is not None:
            fields["text"] = {"format": _format(settings.output_schema)}
        if settings.tool_choice is not None and tools:
            fields["tool_choice"] = _tool_choice(settings.tool_choice, tools)
        return fields

    def _reasoning(self, settings: Settings, effort: str | None) -> Json:
        fields: Json = {} if effort is None else {"effort": effort}
        if (
            settings.thinking not in (None, False)
            and settings.show_thinking is not False
            and self._abilities.reasoning is not False
        ):
            fields["summary"] = "auto"  # without it, no thinking is visible
        return fields

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return notes on differences between requests and `settings` that are due to the model."""
        return (
            *fit(settings, self._abilities, self._model_id).notes,
            *left_out(settings, _HOSTED, _detailed),
        )


def _detailed(definition: Json, tool: TypedTool) -> Json | None:
    match tool:
        case WebSearch(max_uses=None):
            filters = {"filters": {"allowed_domains": [*tool.allowed_domains]}}
            return {**definition, **(filters if tool.allowed_domains else {})}
        case FileSearch():
            return {**definition, "vector_store_ids": [*tool.stores]}
        case _:
            return definition if isinstance(tool, CodeExecution) else None


def _include(theirs: object, *, encrypted: bool) -> list[object]:
    """Join the extras' `include` with ours, without which reasoning would be lost between turns."""
    if theirs is not None and not isinstance(theirs, list | tuple):
        raise AgentError(
            "invalid", f"settings.extra['include'] must be a list of names, not {theirs!r}"
        )
    more = [name for name in cast("list[object]", theirs or []) if name != _ENCRYPTED]
    return [_ENCRYPTED, *more] if encrypted else more


def _joined(ours: Json, theirs: Json) -> Json:
    """Join two definitions. One of another type replaces ours."""
    return (
        ours | theirs
        if theirs.get("type", "function") in ("function", ours["type"])
        else {"description": ours["description"], **theirs}
    )


def _key(tool: Json) -> object:
    """Return the key that identifies a tool: its name, or the type of a hosted tool."""
    return tool["name"] if "name" in tool else ("hosted", tool.get("type"))


def _tool(tool: ToolDefinition, *, strictly: bool) -> Json:
    """Return a tool definition, strict if the subset expresses its schema exactly: otherwise the
    API would make optional parameters required.
    """
    taken = parameters(tool.parameters)
    fitted = strict(taken, exact=True) if strictly else None
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": fitted or taken,
        "strict": fitted is not None,
        **({"defer_loading": True} if tool.deferred else {}),
    }


def _format(schema: Json) -> Json:
    fitted = strict(schema)
    return {
        "type": "json_schema",
        "name": _ANSWER,
        "schema": schema if fitted is None else fitted,
        "strict": fitted is not None,
    }


def _tool_choice(choice: str, tools: list[Json]) -> object:
    if choice in ("auto", "any", "none"):
        return "required" if choice == "any" else choice
    if choice == PATCH_TOOL and {"type": PATCH_TOOL} in tools:
        return {"type": PATCH_TOOL}
    kind = next(
        (tool["type"] for tool in tools if tool.get("name") == choice and "type" in tool),
        "function",
    )
    return {"type": kind, "name": choice}

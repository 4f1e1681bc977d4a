"""Encoding of Chat Completions requests. Equal values give equal bytes; only new content is
encoded.

messages.py encodes single messages; servers.py lists differences between servers. Entry points:
`RequestEncoder`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec

from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError
from treadle.messages.history import History
from treadle.messages.message import Message
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.effort import fit
from treadle.models.providers.encoding import (
    Json,
    dumped,
    effort_for,
    head,
    remembered,
    shown,
    wire_for,
    with_extra,
    with_theirs,
)
from treadle.models.providers.images import (
    GEMINI_LIMITS,
    NO_LIMITS,
    OPENAI_LIMITS,
    claude_limits,
    encoded_within,
    media_check,
)
from treadle.models.providers.json_schema import parameters, strict
from treadle.models.providers.openai_chat.messages import MessageEncoder
from treadle.models.providers.openai_chat.servers import ServerTraits, ThinkingWords
from treadle.types import Settings

WIRE = "openai-chat"

_MARK = b',"cache_control":{"type":"ephemeral"}'
_LIMITS = {"openai": OPENAI_LIMITS, "google": GEMINI_LIMITS}
"""Image limits by server name; other servers have no known limits."""
_LONG_MARK = b',"cache_control":{"type":"ephemeral","ttl":"1h"}'


SINCE = "thinking_since"
"""Field of `settings.extra` that is not sent: time, in seconds since 1970, up to which reasoning is
omitted.
"""
FORCED_IS_AUTO = "a call cannot be forced: tool_choice became 'auto'"


def _since(settings: Settings) -> float:
    since = (settings.extra or {}).get(SINCE)
    return since if isinstance(since, float | int) else 0.0


class RequestEncoder:
    """Encoder for one model id on one server."""

    def __init__(self, model_id: str, server: ServerTraits, abilities: Abilities = UNKNOWN) -> None:
        self._model_id = model_id
        self._server = server
        self._abilities = abilities
        self._caches = model_id.startswith(server.cached_models) if server.cached_models else False
        self._limits = (
            claude_limits(abilities, is_vendor=False)
            if self._caches
            else _LIMITS.get(server.name, NO_LIMITS)
        )

    def encode(self, request: ModelRequest, *, as_json: bool = False) -> bytes:
        """Encode a request. `as_json`: force the answer to be some JSON object.

        Raises AgentError(invalid) for extras that cannot be sent.
        """
        history = (
            request.messages if isinstance(request.messages, History) else History(request.messages)
        )
        marking = self._caches and request.settings.cache is not False
        said = (self, request.tools, request.system, request.settings, as_json)
        first = remembered(
            history, f"{WIRE} {self._model_id}", said, lambda: self._head(request, marking, as_json)
        )
        encoder, messages = self._encoded(history, marking, request.settings)
        if not messages:
            raise AgentError(
                "invalid", "there is no message to send: the last one must not be empty"
            )
        pieces: list[bytes | memoryview] = [first]
        view, begin = memoryview(messages), 0
        for end in sorted({end for end in (encoder.asked, encoder.end) if end}):
            pieces += [view[begin:end], _mark_of(request.settings)]
            begin = end
        return b"".join([*pieces, view[begin:], b"]}"])

    def messages(self, request: ModelRequest) -> msgspec.Raw:
        """Return the conversation as a JSON list, including the system message."""
        system = self._system(request, marking=False)
        _, messages = self._encoded(History(request.messages), False, request.settings)
        return msgspec.Raw(
            b"[" + b",".join([piece for piece in (system, bytes(messages)) if piece]) + b"]"
        )

    def tools(self, request: ModelRequest) -> list[Json]:
        strictly = request.settings.strict_tools is True and self._abilities.structured_output in (
            None,
            "native",
        )
        return [_tool(tool, strictly=strictly) for tool in request.tools]

    def _encoded(
        self, history: History, marking: bool, settings: Settings
    ) -> tuple[MessageEncoder, bytearray]:
        """Return the encoder and the encoded messages."""
        since = _since(settings)
        check = media_check(history, self._model_id, self._abilities, settings)
        marked = ", marked" if marking else ""
        marked += f", without reasoning up to {since}" if since else ""
        key = wire_for(
            f"{WIRE}, {self._server.name}{marked}, {self._limits.most} images", self._abilities
        )

        def encode_with(encoder: MessageEncoder) -> Callable[[Message, bool], bytes]:
            def encode(message: Message, settled: bool) -> bytes:
                gone = settled and not self._abilities.earlier_thinking
                if since and message.created_at.timestamp() <= since:
                    gone = True
                return encoder.encode(shown(message, self._abilities), gone)

            return check.wrap(encode, encoder.unsent)

        return encoded_within(
            history,
            key,
            self._limits,
            lambda: MessageEncoder(self._server, marked=marking),
            encode_with,
        )

    def _head(self, request: ModelRequest, marking: bool, as_json: bool) -> bytes:
        """Return the part of the body before the messages of the conversation."""
        system = self._system(request, marking)
        return (
            head(self._fields(request, as_json))
            + b',"messages":['
            + (system + b"," if system else b"")
        )

    def _system(self, request: ModelRequest, marking: bool) -> bytes:
        text = "\n\n".join(block.text for block in request.system if block.text)
        if not text:
            return b""
        message = dumped(MessageEncoder(self._server, marked=marking).system(text))
        return message[: -len(b"}]}")] + _mark_of(request.settings) + b"}]}" if marking else message

    def _fields(self, request: ModelRequest, as_json: bool) -> Json:
        """Return everything but the messages."""
        settings = request.settings
        extra = dict(settings.extra or {})
        extra.pop(SINCE, None)
        if "messages" in extra:
            raise AgentError(
                "invalid",
                "settings.extra must not hold 'messages': the history is the request's own",
            )
        body: Json = {"model": self._model_id, "stream": True}
        if self._server.include_usage:
            body["stream_options"] = {"include_usage": True}
        tools = with_theirs(self.tools(request), extra.pop("tools", None), _name, _joined)
        if tools and self._server.fits_effort and self._abilities.chat_tools == "never":
            raise AgentError(
                "invalid",
                (
                    f"{self._model_id} calls tools over the Responses API only: use the provider "
                    f"openai, like openai:{self._model_id}"
                ),
            )
        body |= self._settings(settings, has_tools=bool(tools))
        if as_json:
            body["response_format"] = {"type": "json_object"}
        if tools:
            body |= self._tool_fields(tools, settings.tool_choice)
        return with_extra(body, extra)

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return notes on differences between requests and `settings` that are due to the model."""
        notes = (
            fit(settings, self._abilities, self._model_id).notes if self._server.fits_effort else ()
        )
        if settings.tool_choice not in (None, "auto", "none") and self._cannot_be_forced():
            notes = (*notes, FORCED_IS_AUTO)
        if self._must_not_think(settings):
            return (
                *notes,
                (
                    "over Chat Completions it calls tools only without thinking: with "
                    "tools, effort is 'none'"
                ),
            )
        return notes

    def _cannot_be_forced(self) -> bool:
        """Return True for a Claude that accepts no forced call."""
        return self._caches and self._abilities.forced_tools is False

    def _must_not_think(self, settings: Settings) -> bool:
        """Return True if tool calls would be rejected because thinking is enabled."""
        asked = settings.effort is not None or settings.thinking not in (None, False)
        return (
            self._server.fits_effort
            and self._abilities.chat_tools == "without_thinking"
            and (asked or (settings.thinking is None and self._abilities.thinks_unasked is True))
        )

    def _settings(self, settings: Settings, *, has_tools: bool) -> Json:
        fields: Json = {self._server.max_tokens: self._abilities.output(settings.max_tokens)}
        if has_tools and self._must_not_think(settings):
            settings = msgspec.structs.replace(settings, thinking=False, effort=None)
        temperature = settings.temperature
        if self._server.fits_effort:
            effort, temperature, _ = fit(settings, self._abilities, self._model_id)
            if effort is not None:
                _put(fields, self._server.thinking.effort, effort)
        else:
            _think(fields, settings, self._server.thinking, self._abilities)
        if temperature is not None:
            fields["temperature"] = temperature
        if settings.stop:
            fields["stop"] = settings.stop
        if settings.service_tier is not None and settings.service_tier in self._server.tiers:
            fields["service_tier"] = self._server.tiers[settings.service_tier]
        if settings.output_schema is not None:
            fields["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", **_format(settings.output_schema)},
            }
        return fields

    def _tool_fields(self, tools: list[Json], choice: str | None) -> Json:
        fields: Json = {"tools": tools}
        if choice in ("auto", "none"):
            fields["tool_choice"] = choice
        elif choice is not None and self._cannot_be_forced():
            fields["tool_choice"] = "auto"
        elif choice == "any":
            fields["tool_choice"] = "required"
        elif choice is not None and self._server.names_tool:
            fields["tool_choice"] = {"type": "function", "function": {"name": choice}}
        elif choice is not None:
            fields = {
                "tools": [tool for tool in tools if tool.get("function", {}).get("name") == choice],
                "tool_choice": "required",
            }
        if self._server.parallel:
            fields["parallel_tool_calls"] = True
        return fields


# ---------------------------------------------------------------- settings


def _mark_of(settings: Settings) -> bytes:
    return _LONG_MARK if settings.cache == "1h" else _MARK


def _think(fields: Json, settings: Settings, words: ThinkingWords, abilities: Abilities) -> None:
    thinking, effort = settings.thinking, settings.effort
    if thinking is False and not (abilities.always_thinks and words.effort):
        fields |= words.off
        return
    if thinking is False:
        _put(fields, words.effort, abilities.effort("low"))
        return
    if thinking is not None:
        fields |= words.on
    if isinstance(thinking, int) and thinking is not True:
        if words.budget:
            _put(fields, words.budget, thinking)
            return
        effort = effort or effort_for(thinking)
    if effort is not None and words.effort:
        _put(fields, words.effort, abilities.effort(effort))


def _put(fields: Json, path: tuple[str, ...], value: object) -> None:
    """Set a value at a path. Copies the objects along it, because they may belong to the table."""
    *way, last = path
    for name in way:
        fields[name] = fields = dict(fields.get(name, {}))
    fields[last] = value


def _tool(tool: ToolDefinition, *, strictly: bool) -> Json:
    taken = parameters(tool.parameters)
    fitted = strict(taken, exact=True) if strictly else None
    held = {} if fitted is None else {"strict": True}
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": fitted or taken,
            **held,
        },
    }


def _name(tool: Json) -> object:
    function = tool.get("function")
    return cast("Json", function).get("name") if isinstance(function, dict) else None


def _joined(ours: Json, theirs: Json) -> Json:
    return {**ours, **theirs, "function": ours["function"] | theirs["function"]}


def _format(schema: Json) -> Json:
    fitted = strict(schema)
    return {"schema": schema} if fitted is None else {"schema": fitted, "strict": True}

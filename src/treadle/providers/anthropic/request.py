"""A request as the bytes of the Messages API: same values, same bytes; only what is new is encoded.

How one message is encoded is messages.py's; headers that carry keys are the connection's. Entry: `RequestEncoder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from treadle.abilities import UNKNOWN, Abilities
from treadle.errors import AgentError
from treadle.history import History
from treadle.model import ModelRequest
from treadle.providers.anthropic.messages import Block, MessageEncoder
from treadle.providers.anthropic.schemas import fitted
from treadle.providers.encoding import dumped, head, remembered, wire_for, with_extra, with_theirs
from treadle.types import DEFAULT_MAX_TOKENS, Settings, SystemBlock, Thinking

WIRE = "anthropic"
BREAKPOINTS_MAX = 4
"""The API refuses more."""

_MARK: Block = {"cache_control": {"type": "ephemeral"}}
_MARK_BYTES = b"," + msgspec.json.encode(_MARK)[1:-1]
_COUNTED = frozenset({"model", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "speed"})
"""What counting tokens takes, beside the messages."""


class _Head(msgspec.Struct, frozen=True, gc=False):
    """What stands before the messages."""

    data: bytes
    headers: dict[str, str]
    marks_left: int
    """Breakpoints that the messages may have."""


class RequestEncoder:
    """For one model id; `preamble` is the first system block, by itself."""

    def __init__(self, model_id: str, preamble: str = "", abilities: Abilities = UNKNOWN) -> None:
        self._model_id = model_id
        self._abilities = abilities
        self._wire = wire_for(WIRE, abilities)
        self._preamble = (SystemBlock(text=preamble),) if preamble else ()

    def encode(self, request: ModelRequest) -> tuple[bytes, Mapping[str, str]]:
        """The body, and the headers that belong to it. Raises AgentError(invalid) for extras that cannot be sent."""
        history = request.messages if isinstance(request.messages, History) else History(request.messages)
        said = (self, request.tools, request.system, request.settings)
        first = remembered(history, f"{WIRE} {self._model_id}", said, lambda: self._head(request))
        encoder = self._encoder_of(history)
        messages = history.encoded(self._wire, encoder.encode)
        if not messages:
            raise AgentError("invalid", "there is no message to send: the last one must say something")
        pieces: list[bytes | memoryview] = [first.data]
        view, begin = memoryview(messages), 0
        for end in _marked(encoder, first.marks_left):
            pieces += [view[begin:end], _MARK_BYTES]
            begin = end
        return b"".join([*pieces, view[begin:], encoder.tail(), b"]}"]), first.headers

    def encode_count(self, request: ModelRequest) -> tuple[bytes, Mapping[str, str]]:
        """The same, for counting its tokens."""
        body, headers, _ = self._fields(request)
        encoder = MessageEncoder(self._abilities)
        messages = bytes(History(request.messages).encoded(WIRE, encoder.encode)) + encoder.tail()
        counted = {name: value for name, value in body.items() if name in _COUNTED}
        return dumped({**counted, "messages": msgspec.Raw(b"[" + messages + b"]")}), headers

    def _encoder_of(self, history: History) -> MessageEncoder:
        if (known := history.memo.get(self._wire)) is None:
            known = history.memo[self._wire] = (MessageEncoder(self._abilities),)
        return cast("MessageEncoder", known[0])

    def _head(self, request: ModelRequest) -> _Head:
        body, headers, marks_left = self._fields(request)
        return _Head(head(body) + b',"messages":[', headers, marks_left)

    def _fields(self, request: ModelRequest) -> tuple[Block, dict[str, str], int]:
        """All but the messages, the headers that go with it, and how many breakpoints are left for the messages."""
        extra = dict(request.settings.extra or {})
        if "messages" in extra:
            raise AgentError("invalid", "settings.extra must not hold 'messages': the history is the request's own")
        headers = _beta_header(extra)
        ours: list[Block] = [{"name": t.name, "description": t.description, "input_schema": t.parameters} for t in request.tools]
        tools = with_theirs(ours, extra.pop("tools", None))
        caching = request.settings.cache is not False and "cache_control" not in extra
        marks_left = BREAKPOINTS_MAX if caching else 0
        system = [block for block in (*self._preamble, *request.system) if block.text]
        body: Block = {"model": self._model_id, "stream": True, **_settings(request.settings, self._abilities, has_tools=bool(tools))}
        if system:
            marked = _marked_blocks(system, BREAKPOINTS_MAX - 1 - bool(tools)) if caching else frozenset[int]()
            marks_left -= len(marked)
            body["system"] = [{"type": "text", "text": block.text, **(_MARK if i in marked else {})} for i, block in enumerate(system)]
        if tools:
            if caching:
                marks_left -= _mark_last(tools)
            body["tools"] = tools
        return with_extra(body, extra), headers, marks_left


def _marked(encoder: MessageEncoder, marks_left: int) -> list[int]:
    """Where breakpoints go into the messages: at the end, and where the end was when the last answer was asked for.

    The API looks for what it has cached some 20 blocks back from a breakpoint, and one turn of parallel calls can be more than that.
    """
    ends = [end for end in (encoder.asked, encoder.end) if end]
    return ends[-marks_left:] if marks_left > 0 else []


def _marked_blocks(system: list[SystemBlock], most: int) -> frozenset[int]:
    """The last block, and those that the caller has marked: the latest of them, where there are too many."""
    last = len(system) - 1
    return frozenset([i for i, block in enumerate(system) if block.cache or i == last][-most:])


def _mark_last(tools: list[Block]) -> bool:
    """Tools that the model must search for first come after the cached prefix, and so the API refuses a breakpoint on them."""
    for i in reversed(range(len(tools))):
        if not tools[i].get("defer_loading"):
            tools[i] = {**tools[i], **_MARK}
            return True
    return False


def _beta_header(extra: Block) -> dict[str, str]:
    """`betas` of the extras is a header, as in the vendor's SDK."""
    betas = extra.pop("betas", None)
    if betas is None:
        return {}
    names = [str(name) for name in cast("list[object]", betas)] if isinstance(betas, list | tuple) else []
    if not names or not all(name.isascii() and name.isprintable() and "," not in name for name in names):
        raise AgentError("invalid", f"settings.extra['betas'] must be a list of beta names, not {betas!r}")
    return {"anthropic-beta": ",".join(names)}


def _settings(settings: Settings, abilities: Abilities, *, has_tools: bool) -> Block:
    fields: Block = {"max_tokens": settings.max_tokens or DEFAULT_MAX_TOKENS}
    if settings.temperature is not None:
        fields["temperature"] = settings.temperature
    if settings.stop:
        fields["stop_sequences"] = settings.stop
    if settings.thinking is not None:
        fields["thinking"] = _thinking(settings.thinking)
    if settings.tool_choice is not None and has_tools:  # without tools the API refuses it
        choice = settings.tool_choice
        fields["tool_choice"] = {"type": choice} if choice in ("auto", "any", "none") else {"type": "tool", "name": choice}
    output: Block = {}
    if settings.effort is not None:
        output["effort"] = abilities.effort(settings.effort)
    if settings.output_schema is not None:
        output["format"] = {"type": "json_schema", "schema": fitted(settings.output_schema) or settings.output_schema}
    if output:
        fields["output_config"] = output
    return fields


def _thinking(thinking: Thinking) -> Block:
    if thinking is False:
        return {"type": "disabled"}
    if thinking is True or thinking == "adaptive":
        return {"type": "adaptive"}
    if isinstance(thinking, int):
        return {"type": "enabled", "budget_tokens": thinking}
    return {"type": thinking}

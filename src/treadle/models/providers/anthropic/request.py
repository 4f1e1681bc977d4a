"""Encoding of requests to the Messages API. Equal values give equal bytes; only new content is
encoded.

messages.py encodes single messages; the connection adds headers with keys. Entry points:
`RequestEncoder`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, cast

import msgspec

from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError
from treadle.messages.history import History
from treadle.messages.message import MediaPart, Message
from treadle.models.model import ModelRequest
from treadle.models.providers.anthropic.compaction import (
    BETA,
    LEAST_TOKENS,
    NOT_COMBINED,
    compacting,
)
from treadle.models.providers.anthropic.messages import (
    Block,
    MessageEncoder,
    Sent,
    abandoned,
    sends,
)
from treadle.models.providers.anthropic.schemas import fitted, strict_tools
from treadle.models.providers.anthropic.thinking import fit
from treadle.models.providers.encoding import (
    checked,
    dumped,
    head,
    remembered,
    wire_for,
    with_extra,
    with_theirs,
)
from treadle.models.providers.hosted import left_out, wanted
from treadle.models.providers.images import TOO_MANY_IMAGES, Images, OmittedImages, claude_limits
from treadle.types import Settings, SystemBlock

WIRE = "anthropic"
BREAKPOINTS_MAX = 4
"""Maximum number of cache breakpoints that the API accepts."""

_MARK: Block = {"cache_control": {"type": "ephemeral"}}
_LONG_MARK: Block = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
_HOSTED = ("web_search_20250305", "web_fetch_20250910", "code_execution_20250825")
"""Versions of hosted tools that every Claude with hosted tools accepts.

Source: platform.claude.com, "Tool reference", and the types of the SDK 2.12.
"""
_COUNTED = frozenset(
    {
        "model",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "cache_control",
        "speed",
    }
)
"""Fields of a token count request, in addition to the messages."""
FAST_BETA = "fast-mode-2026-02-01"
"""Beta header that some models require for `speed`, and none rejects.

Source: platform.claude.com, "Fast mode", and SDK 2.11; read 2026-11-22.
"""
_OWN_ID = "msg_"


SINCE = "thinking_since"
"""Field of `settings.extra` that is not sent: time, in seconds since 1970, up to which thinking is
omitted.
"""
AS_TEXT = "compacted_as_text"
"""Field of `settings.extra` that is not sent: send a summary by the API as plain text."""


class Encoded(NamedTuple):
    body: bytes
    headers: Mapping[str, str]
    prefix: str
    """Digest of everything that the response's thinking depends on; "" if the model does not check
    it.
    """
    has_thinking: bool
    notes: tuple[str, ...] = ()
    """Notes for the user about content omitted for the first time in this request."""
    has_block: bool = False
    """True if the messages begin with a summary by the API."""
    chain: str = ""
    """Digest of all messages; "" if the model does not check thinking."""


class _Head(msgspec.Struct, frozen=True, gc=False):
    """The part of a body before the messages."""

    data: bytes
    headers: dict[str, str]
    marks_left: int
    """Number of breakpoints left for the messages."""
    mark: bytes
    """Encoded breakpoint."""
    diagnoses: bool
    """True if the request asks for cache diagnostics."""
    lasting: bytes
    """System prompt and tools, which thinking depends on; b"" if the model does not check it."""


class RequestEncoder:
    """Encoder for one model id. `preamble` is sent as a separate first system block."""

    def __init__(
        self,
        model_id: str,
        preamble: str = "",
        abilities: Abilities = UNKNOWN,
        *,
        is_vendor: bool = True,
    ) -> None:
        """`is_vendor`: Anthropic itself responds. It accepts more images and reports cache
        misses.
        """
        self._model_id = model_id
        self._is_vendor = is_vendor
        self._images = claude_limits(abilities, is_vendor=is_vendor)
        self._abilities = abilities
        self._wire = wire_for(WIRE, abilities)
        self._preamble = (SystemBlock(text=preamble),) if preamble else ()

    def encode(self, request: ModelRequest) -> Encoded:
        """Encode a request. Raises AgentError(invalid) for extras that cannot be sent."""
        history = (
            request.messages if isinstance(request.messages, History) else History(request.messages)
        )
        said = (self, request.tools, request.system, request.settings)
        first = remembered(history, f"{WIRE} {self._model_id}", said, lambda: self._head(request))
        since = _since(request.settings)
        wire = (
            f"{self._wire} {since} {blake2b(first.lasting, digest_size=8).hexdigest()}"
            if since or first.lasting
            else self._wire
        )
        if self.sends_blocks(request.settings):
            wire += " compacted"
        encoder, messages, notes = self._encoded(history, wire, first.lasting, request.settings)
        if not messages:
            raise AgentError(
                "invalid", "there is no message to send: the last one must not be empty"
            )
        pieces: list[bytes | memoryview] = [first.data]
        view, begin = memoryview(messages), 0
        for end in _marked(encoder, first.marks_left):
            pieces += [view[begin:end], first.mark]
            begin = end
        end = b"]," + _compared_with(encoder.response_id) + b"}" if first.diagnoses else b"]}"
        return Encoded(
            b"".join([*pieces, view[begin:], encoder.tail(), end]),
            _with_beta(first.headers) if encoder.has_block else first.headers,
            encoder.prefix,
            encoder.has_thinking,
            notes,
            encoder.has_block,
            encoder.chain,
        )

    def sends_blocks(self, settings: Settings) -> bool:
        """True if the API compacts conversations with this model and accepts its blocks back.

        Clouds and gateways are not asked, because some ignore the field and respond normally.
        """
        extra = settings.extra or {}
        return (
            self._is_vendor
            and self._abilities.compaction is True
            and NOT_COMBINED not in extra
            and AS_TEXT not in extra
        )

    def encode_compaction(self, request: ModelRequest, instructions: str) -> Encoded:
        """Encode the request for a summary of the messages. Raises the errors of `encode`."""
        settings = msgspec.structs.replace(
            request.settings, max_tokens=max(request.settings.max_tokens or 0, LEAST_TOKENS)
        )
        request = msgspec.structs.replace(
            request, settings=settings, messages=History(request.messages)
        )
        encoded = self.encode(request)
        body = compacting(encoded.body, instructions)
        return encoded._replace(body=body, headers=_with_beta(encoded.headers))

    def encode_count(self, request: ModelRequest) -> tuple[bytes, Mapping[str, str]]:
        """Encode a request for its token count."""
        headers: Mapping[str, str]
        body, headers, _ = self._fields(request)
        encoder = self._encoder(request.messages, self._lasting(body), request.settings)
        messages = bytes(History(request.messages).encoded(WIRE, encoder.encode)) + encoder.tail()
        counted = {name: value for name, value in body.items() if name in _COUNTED}
        if encoder.has_block:
            headers = _with_beta(headers)
        return dumped({**counted, "messages": msgspec.Raw(b"[" + messages + b"]")}), headers

    def _encoded(
        self, history: History, wire: str, lasting: bytes, settings: Settings
    ) -> tuple[MessageEncoder, bytearray, tuple[str, ...]]:
        """Encode the messages, again if there are now more images than the API accepts."""
        key = f"{WIRE} {self._model_id} images"
        (left,) = cast("tuple[OmittedImages]", history.memo.get(key, (OmittedImages(),)))
        notes: tuple[str, ...] = ()
        while True:
            encoder = self._encoder_of(
                history,
                f"{wire} {left}" if left != OmittedImages() else wire,
                lasting,
                settings,
                left,
            )
            messages = history.encoded(
                encoder.wire, checked(encoder.encode, self._abilities, self._model_id, self._sends)
            )
            if encoder.images.wanted == left:
                return encoder, messages, notes
            left = encoder.images.wanted
            history.memo[key] = (left,)
            notes = (TOO_MANY_IMAGES,)

    def _sends(self, part: MediaPart) -> bool:
        """True if the API accepts this part. Raises AgentError(invalid) for an image that is too
        large.
        """
        self._images.check(part)
        return sends(part)

    def _encoder_of(
        self, history: History, wire: str, lasting: bytes, settings: Settings, left: OmittedImages
    ) -> MessageEncoder:
        if (known := history.memo.get(wire)) is None:
            known = history.memo[wire] = (self._encoder(history, lasting, settings, left, wire),)
        return cast("MessageEncoder", known[0])

    def _encoder(
        self,
        messages: Sequence[Message],
        lasting: bytes,
        settings: Settings,
        left: OmittedImages = OmittedImages(),  # noqa: B008
        wire: str = WIRE,
    ) -> MessageEncoder:
        gone = abandoned(messages, has_container="container" in (settings.extra or {}))
        sent = Sent(_since(settings), gone, Images(self._images, left), self.sends_blocks(settings))
        return MessageEncoder(self._abilities, lasting, sent, wire)

    def _lasting(self, body: Block) -> bytes:
        if not self._abilities.preserved_thinking:
            return b""
        parts = [
            *cast("list[Block]", body.get("system", [])),
            *cast("list[Block]", body.get("tools", [])),
        ]
        return dumped(
            [
                {name: value for name, value in part.items() if name != "cache_control"}
                for part in parts
            ]
        )

    def _tools(self, request: ModelRequest) -> list[Block]:
        """Return our tools, strict if requested and possible, and hosted tools whose names ours do
        not use.
        """
        held = (
            strict_tools(request.tools, request.settings.output_schema)
            if self._is_strict(request.settings)
            else {}
        )
        ours: list[Block] = [
            {
                "name": t.name,
                "description": t.description,
                "input_schema": held.get(t.name, t.parameters),
                **({"strict": True} if t.name in held else {}),
            }
            for t in request.tools
        ]
        names = {tool.name for tool in request.tools}
        return [
            *ours,
            *(
                tool
                for tool in wanted(request.settings, _hosted(self._abilities))
                if tool["name"] not in names
            ),
        ]

    def _is_strict(self, settings: Settings) -> bool:
        """True if tools are strict: models with structured output also support strict calls."""
        return settings.strict_tools is True and self._abilities.structured_output in (
            None,
            "native",
        )

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return how requests differ from `settings` because of the model."""
        loose = settings.strict_tools is True and not self._is_strict(settings)
        return (
            *fit(settings, self._abilities).notes,
            *(["tools cannot be strict with this model"] if loose else []),
            *left_out(settings, _hosted(self._abilities)),
            *(
                ["there is no flex tier: service_tier is left out"]
                if settings.service_tier == "flex"
                else []
            ),
        )

    def _head(self, request: ModelRequest) -> _Head:
        body, headers, marks_left = self._fields(request)
        mark = b"," + dumped(_mark_of(request.settings))[1:-1]
        diagnoses = (
            self._is_vendor and request.settings.cache is not False and "diagnostics" not in body
        )
        return _Head(
            head(body) + b',"messages":[', headers, marks_left, mark, diagnoses, self._lasting(body)
        )

    def _fields(self, request: ModelRequest) -> tuple[Block, dict[str, str], int]:
        """Return everything but the messages, the headers, and the number of breakpoints left for
        the messages.
        """
        extra = dict(request.settings.extra or {})
        if "messages" in extra:
            raise AgentError(
                "invalid",
                "settings.extra must not hold 'messages': the history is the request's own",
            )
        extra.pop(SINCE, None)
        extra.pop(AS_TEXT, None)
        if isinstance(container := extra.get("container"), dict) and set(
            cast("Block", container)
        ) == {"id"}:
            extra["container"] = container["id"]
        if request.settings.service_tier == "fast" and "speed" not in extra:
            extra["betas"] = [*cast("list[object]", extra.get("betas") or []), FAST_BETA]
        headers = _beta_header(extra)
        mark = _mark_of(request.settings)
        tools = with_theirs(self._tools(request), extra.pop("tools", None))
        caching = request.settings.cache is not False and "cache_control" not in extra
        marks_left = BREAKPOINTS_MAX if caching else 0
        system = [block for block in (*self._preamble, *request.system) if block.text]
        body: Block = {
            "model": self._model_id,
            "stream": True,
            **_settings(request.settings, self._abilities, has_tools=bool(tools)),
        }
        if system:
            marked = (
                _marked_blocks(system, BREAKPOINTS_MAX - 1 - bool(tools))
                if caching
                else frozenset[int]()
            )
            marks_left -= len(marked)
            body["system"] = [
                {"type": "text", "text": block.text, **(mark if i in marked else {})}
                for i, block in enumerate(system)
            ]
        if tools:
            if caching:
                marks_left -= _mark_last(tools, mark)
            body["tools"] = tools
        return with_extra(body, _typed(extra, body)), headers, marks_left


def _hosted(abilities: Abilities) -> dict[str, Block]:
    versions = abilities.hosted_tools or _HOSTED
    return {
        version.rpartition("_")[0]: {"type": version, "name": version.rpartition("_")[0]}
        for version in versions
    }


def _marked(encoder: MessageEncoder, marks_left: int) -> list[int]:
    """Return the positions of breakpoints in the messages: at the end, and at the end of the
    previous request.

    The API searches its cache about 20 blocks back from a breakpoint, and one turn of parallel
    calls can be longer.
    """
    ends = [end for end in (encoder.asked, encoder.end) if end]
    return ends[-marks_left:] if marks_left > 0 else []


def _marked_blocks(system: list[SystemBlock], most: int) -> frozenset[int]:
    """Return the indexes of the marked blocks: the last one and those that the caller marked, the
    latest if there are too many.
    """
    last = len(system) - 1
    return frozenset([i for i, block in enumerate(system) if block.cache or i == last][-most:])


def _mark_of(settings: Settings) -> Block:
    return _LONG_MARK if settings.cache == "1h" else _MARK


def _compared_with(response_id: str) -> bytes:
    """Encode the id of the response whose request the API compares with this one; null before there
    is one.
    """
    return b'"diagnostics":' + dumped(
        {"previous_message_id": response_id if response_id.startswith(_OWN_ID) else None}
    )


def _mark_last(tools: list[Block], mark: Block) -> bool:
    """Mark the last tool that is not deferred, and return whether there is one.

    Deferred tools come after the cached prefix, so the API rejects a breakpoint on them.
    """
    for i in reversed(range(len(tools))):
        if not tools[i].get("defer_loading"):
            tools[i] = {**tools[i], **mark}
            return True
    return False


def _typed(extra: Block, body: Block) -> Block:
    """Add the types of `thinking` and `tool_choice` that the API requires, if neither the extras
    nor our settings contain them.
    """
    usual = {"thinking": "adaptive", "tool_choice": "auto"}
    bare = {
        name: cast("Block", extra[name])
        for name in usual
        if isinstance(extra.get(name), dict) and name not in body
    }
    return {**extra, **{name: {"type": usual[name], **fields} for name, fields in bare.items()}}


def _since(settings: Settings) -> float:
    since = (settings.extra or {}).get(SINCE, 0)
    return float(since) if isinstance(since, int | float) else 0.0


def _beta_header(extra: Block) -> dict[str, str]:
    """Return `betas` of the extras as a header, as the vendor's SDK does."""
    betas = extra.pop("betas", None)
    if betas is None:
        return {}
    names = (
        [str(name) for name in cast("list[object]", betas)]
        if isinstance(betas, list | tuple)
        else []
    )
    if not names or not all(
        name.isascii() and name.isprintable() and "," not in name for name in names
    ):
        raise AgentError(
            "invalid", f"settings.extra['betas'] must be a list of beta names, not {betas!r}"
        )
    return {"anthropic-beta": ",".join(names)}


def _with_beta(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Add the beta header for compaction."""
    names = [name for name in headers.get("anthropic-beta", "").split(",") if name]
    return headers if BETA in names else {**headers, "anthropic-beta": ",".join([*names, BETA])}


def _settings(settings: Settings, abilities: Abilities, *, has_tools: bool) -> Block:
    fields: Block = {"max_tokens": abilities.output(settings.max_tokens)}
    if settings.temperature is not None:
        fields["temperature"] = settings.temperature
    if settings.service_tier is not None and settings.service_tier != "flex":
        fields |= (
            {"speed": "fast"}
            if settings.service_tier == "fast"
            else {"service_tier": "standard_only"}
        )
    if settings.stop:
        fields["stop_sequences"] = settings.stop
    thinking, effort, choice, _ = fit(settings, abilities)
    if thinking is not None:
        fields["thinking"] = thinking
    if choice is not None and has_tools:  # without tools the API refuses it
        fields["tool_choice"] = (
            {"type": choice}
            if choice in ("auto", "any", "none")
            else {"type": "tool", "name": choice}
        )
    output: Block = {}
    if effort is not None:
        output["effort"] = effort
    if settings.output_schema is not None:
        output["format"] = {
            "type": "json_schema",
            "schema": fitted(settings.output_schema) or settings.output_schema,
        }
    if output:
        fields["output_config"] = output
    return fields

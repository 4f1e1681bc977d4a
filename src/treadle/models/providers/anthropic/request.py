"""Encoding of requests to the Messages API. Equal values give equal bytes; only new content is
encoded.

messages.py encodes single messages; the connection adds headers with keys. Entry points:
`RequestEncoder`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import cast

import msgspec

from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError
from treadle.messages.history import History
from treadle.messages.message import MediaPart, Message
from treadle.models.model import ModelRequest
from treadle.models.providers.anthropic.caching import (
    BREAKPOINTS_MAX,
    compared_with,
    mark_last,
    mark_of,
    marked,
    marked_blocks,
)
from treadle.models.providers.anthropic.compaction import LEAST_TOKENS, NOT_COMBINED, compacting
from treadle.models.providers.anthropic.content import Block, sends
from treadle.models.providers.anthropic.fields import (
    AS_TEXT,
    FAST_BETA,
    SINCE,
    beta_header,
    settings_fields,
    thinking_since,
    with_beta,
    with_types,
)
from treadle.models.providers.anthropic.messages import MessageEncoder, Sent, abandoned
from treadle.models.providers.anthropic.schemas import strict_tools
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
from treadle.models.providers.images import (
    NONE_OMITTED,
    TOO_MANY_IMAGES,
    Images,
    OmittedImages,
    claude_limits,
    omitted_before,
)
from treadle.types import Settings, SystemBlock

WIRE = "anthropic"

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


class Encoded(msgspec.Struct, frozen=True):
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
    wire: str
    """Key under which the history stores the messages as they go with this head."""


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
        """Create a request encoder. `is_vendor`: Anthropic itself responds. It accepts more images
        and reports cache misses.
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
        encoder, messages, notes = self._encoded(history, first, request.settings)
        if not messages:
            raise AgentError(
                "invalid", "there is no message to send: the last one must not be empty"
            )
        pieces: list[bytes | memoryview] = [first.data]
        view, begin = memoryview(messages), 0
        for end in marked(encoder, first.marks_left):
            pieces += [view[begin:end], first.mark]
            begin = end
        end = b"]," + compared_with(encoder.response_id) + b"}" if first.diagnoses else b"]}"
        return Encoded(
            b"".join([*pieces, view[begin:], encoder.tail(), end]),
            with_beta(first.headers) if encoder.has_block else first.headers,
            encoder.prefix,
            encoder.has_thinking,
            notes,
            encoder.has_block,
            encoder.chain,
        )

    def sends_blocks(self, settings: Settings) -> bool:
        """Return True if the API compacts conversations with this model and accepts its blocks
        back.

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
        return msgspec.structs.replace(encoded, body=body, headers=with_beta(encoded.headers))

    def encode_count(self, request: ModelRequest) -> tuple[bytes, Mapping[str, str]]:
        """Encode a request for its token count."""
        headers: Mapping[str, str]
        body, headers, _ = self._fields(request)
        encoder = self._encoder(request.messages, self._lasting(body), request.settings)
        messages = bytes(History(request.messages).encoded(WIRE, encoder.encode)) + encoder.tail()
        counted = {name: value for name, value in body.items() if name in _COUNTED}
        if encoder.has_block:
            headers = with_beta(headers)
        return dumped({**counted, "messages": msgspec.Raw(b"[" + messages + b"]")}), headers

    def _encoded(
        self, history: History, first: _Head, settings: Settings
    ) -> tuple[MessageEncoder, bytearray, tuple[str, ...]]:
        """Encode the messages, again if there are now more images than the API accepts."""
        key = f"{WIRE} {self._model_id} images"
        left = omitted_before(history, key)
        notes: tuple[str, ...] = ()
        while True:
            wire = f"{first.wire} {left}" if left != NONE_OMITTED else first.wire
            known = history.memo.get(wire)
            if known is None or not isinstance(encoder := known[0], MessageEncoder):
                encoder = self._encoder(history, first.lasting, settings, left, wire)
                history.memo[wire] = (encoder,)
            messages = history.encoded(
                encoder.wire, checked(encoder.encode, self._abilities, self._model_id, self._sends)
            )
            if encoder.images.wanted == left:
                return encoder, messages, notes
            left = encoder.images.wanted
            history.memo[key] = (left,)
            notes = (TOO_MANY_IMAGES,)

    def _sends(self, part: MediaPart) -> bool:
        """Return True if the API accepts this part. Raises AgentError(invalid) for an image that is
        too large.
        """
        self._images.check(part)
        return sends(part)

    def _encoder(
        self,
        messages: Sequence[Message],
        lasting: bytes,
        settings: Settings,
        left: OmittedImages = NONE_OMITTED,
        wire: str = WIRE,
    ) -> MessageEncoder:
        gone = abandoned(messages, has_container="container" in (settings.extra or {}))
        sent = Sent(
            thinking_since(settings), gone, Images(self._images, left), self.sends_blocks(settings)
        )
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
        """Return True if tools are strict: models with structured output also support strict
        calls.
        """
        return settings.strict_tools is True and self._abilities.structured_output in (
            None,
            "native",
        )

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """Return notes on differences between requests and `settings` that are due to the model."""
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
        mark = b"," + dumped(mark_of(request.settings))[1:-1]
        diagnoses = (
            self._is_vendor and request.settings.cache is not False and "diagnostics" not in body
        )
        since, lasting, wire = thinking_since(request.settings), self._lasting(body), self._wire
        if since or lasting:
            wire += f" {since} {blake2b(lasting, digest_size=8).hexdigest()}"
        if self.sends_blocks(request.settings):
            wire += " compacted"
        data = head(body) + b',"messages":['
        return _Head(data, headers, marks_left, mark, diagnoses, lasting, wire)

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
        headers = beta_header(extra)
        mark = mark_of(request.settings)
        tools = with_theirs(self._tools(request), extra.pop("tools", None))
        caching = request.settings.cache is not False and "cache_control" not in extra
        marks_left = BREAKPOINTS_MAX if caching else 0
        system = [block for block in (*self._preamble, *request.system) if block.text]
        body: Block = {
            "model": self._model_id,
            "stream": True,
            **settings_fields(request.settings, self._abilities, has_tools=bool(tools)),
        }
        if system:
            marked = (
                marked_blocks(system, BREAKPOINTS_MAX - 1 - bool(tools))
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
                marks_left -= mark_last(tools, mark)
            body["tools"] = tools
        return with_extra(body, with_types(extra, body)), headers, marks_left


def _hosted(abilities: Abilities) -> dict[str, Block]:
    versions = abilities.hosted_tools or _HOSTED
    return {
        version.rpartition("_")[0]: {"type": version, "name": version.rpartition("_")[0]}
        for version in versions
    }

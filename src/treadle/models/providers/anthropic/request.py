"""Encoding of requests to the Messages API. Equal values give equal bytes; only new content is
encoded.

head.py encodes what precedes the messages, messages.py single messages; the connection adds headers
with keys. Entry point: `RequestEncoder`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError
from treadle.messages.history import History
from treadle.messages.message import MediaPart, Message
from treadle.models.model import ModelRequest
from treadle.models.providers.anthropic.caching import (
    compared_with,
    marked,
)
from treadle.models.providers.anthropic.compaction import LEAST_TOKENS, compacting
from treadle.models.providers.anthropic.content import unsent
from treadle.models.providers.anthropic.fields import (
    thinking_since,
    with_beta,
)
from treadle.models.providers.anthropic.head import SEARCHED, WIRE, Head, HeadEncoder
from treadle.models.providers.anthropic.messages import MessageEncoder, Sent, abandoned, searches_in
from treadle.models.providers.encoding import (
    dumped,
    remembered,
)
from treadle.models.providers.images import (
    NONE_OMITTED,
    TOO_MANY_IMAGES,
    Images,
    OmittedImages,
    claude_limits,
    media_check,
    note,
    notes_of,
    omitted_before,
)
from treadle.types import Settings

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
        self.heads = HeadEncoder(model_id, preamble, abilities, is_vendor=is_vendor)

    def encode(self, request: ModelRequest) -> Encoded:
        """Encode a request. Raises AgentError(invalid) for extras that cannot be sent."""
        history = (
            request.messages if isinstance(request.messages, History) else History(request.messages)
        )
        said = (self, request.tools, request.system, request.settings)
        first = remembered(
            history, f"{WIRE} {self._model_id}", said, lambda: self.heads.encode(request)
        )
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
        body, headers, _ = self.heads.fields(request)
        encoder = self._encoder(request.messages, self.heads.lasting(body), request.settings)
        messages = bytes(History(request.messages).encoded(WIRE, encoder.encode)) + encoder.tail()
        counted = {name: value for name, value in body.items() if name in _COUNTED}
        if encoder.has_block:
            headers = with_beta(headers)
        return dumped({**counted, "messages": msgspec.Raw(b"[" + messages + b"]")}), headers

    def _encoded(
        self, history: History, first: Head, settings: Settings
    ) -> tuple[MessageEncoder, bytearray, tuple[str, ...]]:
        """Encode the messages, again if there are now more images than the API accepts."""
        check = media_check(history, self._model_id, self._abilities, settings)
        key = f"{WIRE} {self._model_id} images"
        left = omitted_before(history, key)
        while True:
            wire = f"{first.wire} {left}" if left != NONE_OMITTED else first.wire
            known = history.memo.get(wire)
            if known is None or not isinstance(encoder := known[0], MessageEncoder):
                encoder = self._encoder(history, first.lasting, settings, left, wire)
                history.memo[wire] = (encoder,)
            messages = history.encoded(encoder.wire, check.wrap(encoder.encode, self._unsent))
            if encoder.images.wanted == left:
                return encoder, messages, notes_of(history)
            left = encoder.images.wanted
            history.memo[key] = (left,)
            note(history, TOO_MANY_IMAGES)

    def _unsent(self, part: MediaPart) -> str:
        """Return advice about a part that the API does not accept, or that is too large."""
        why = self._images.against(part) if part.is_image else ""
        return f"{why}. Scale it down" if why else unsent(part)

    def _encoder(
        self,
        messages: Sequence[Message],
        lasting: bytes,
        settings: Settings,
        left: OmittedImages = NONE_OMITTED,
        wire: str = WIRE,
    ) -> MessageEncoder:
        gone = abandoned(messages, has_container="container" in (settings.extra or {}))
        if SEARCHED not in wire:
            gone |= searches_in(messages)
        sent = Sent(
            thinking_since(settings),
            gone,
            Images(self._images, left),
            self.heads.sends_blocks(settings),
        )
        return MessageEncoder(self._abilities, lasting, sent, wire)

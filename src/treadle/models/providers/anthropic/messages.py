"""Encoding of messages as content blocks of the Messages API. Each message is encoded once.

request.py encodes the rest of the request. Entry points: `MessageEncoder`. Source:
https://platform.claude.com/docs/en/api/messages, version 2026-10-21: no documents in assistant
messages, citations only there.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.messages.message import Message, ProviderPart, ReasoningPart, ToolCall
from treadle.models.providers.anthropic.blocks import PREFIX, PROVIDER, program_of
from treadle.models.providers.anthropic.compaction import CompactedBlock, block_in
from treadle.models.providers.anthropic.content import (
    REASONING,
    Typed,
    blocks_of,
    head_of,
    sendable,
)
from treadle.models.providers.encoding import dumped, own_fields, shown
from treadle.models.providers.images import Images, claude_limits

_MARKABLE = frozenset({"text", "image", "document", "tool_use", "tool_result"})


class Sent(NamedTuple):
    """Selection of the conversation content that is sent."""

    thinking_since: float
    """Seconds since 1970. Thinking in messages up to then is omitted."""
    abandoned: frozenset[str]
    """Ids of the API's own calls that are omitted."""
    images: Images
    blocks: bool = False
    """True if summaries by the API are sent as its own blocks."""


class MessageEncoder:
    """Encoder of one history's messages, in order, which records possible cache breakpoints as
    positions in the joined bytes.

    Models before Opus 4.8 reject system messages, and Sonnet 5 ignores them (see
    `Abilities.system_messages`). The API accepts one only after a user message, on its own, and
    only before an assistant message or at the end. So each is held back until the next message is
    known; elsewhere it is sent as a user message.
    """

    __slots__ = (
        "_abilities",
        "_chain",
        "_head",
        "_held",
        "_length",
        "_role",
        "_sent",
        "asked",
        "end",
        "has_block",
        "has_thinking",
        "images",
        "response_id",
        "wire",
    )

    def __init__(
        self,
        abilities: Abilities = UNKNOWN,
        head: bytes = b"",
        sent: Sent | None = None,
        wire: str = "",
    ) -> None:
        """Create a message encoder. `head`: system prompt and tools."""
        self.wire = wire
        """Key under which the history stores the bytes."""
        self._sent = sent or Sent(0, frozenset(), Images(claude_limits(abilities, is_vendor=True)))
        self.images = self._sent.images
        self.end = 0
        """End of the last block, before the brackets that close its message; 0 if it cannot carry a
        breakpoint.
        """
        self.asked = 0
        """Value of `end` at the request that the newest assistant message answers."""
        self._abilities = abilities
        self._length = 0
        self._role = ""
        """Role of the last encoded message."""
        self._held: list[Typed] = []
        """Blocks of a system message that stays in place if an assistant message follows."""
        self.has_thinking = False
        self.response_id = ""
        """The provider's id of the newest response."""
        self.has_block = False
        """True if the messages begin with a summary by the API."""
        self._head = _digest(head) if abilities.preserved_thinking else b""
        self._chain = b""
        """Digest of the messages sent so far, without their thinking. Each message is hashed with
        the digest of those before it, so that a summary can replace them.
        """

    @property
    def prefix(self) -> str:
        """Digest of everything that the next response depends on; "" if the model does not check
        it.
        """
        if not self._head:
            return ""
        tail = self.tail()
        return _digest(self._head + (_digest(self._chain + tail) if tail else self._chain)).hex()

    @property
    def chain(self) -> str:
        """Digest of all messages so far; "" if the model does not check thinking."""
        return self._chain.hex()

    def encode(self, message: Message, settled: bool) -> bytes:
        """Encode a message. Returns b"" if nothing of it is sent, or not yet."""
        if self._sent.blocks and not self._length and (block := block_in(message)) is not None:
            return self._begin(block)
        without_thinking = False
        if message.role == "assistant":
            without_thinking = (
                settled and not self._abilities.earlier_thinking
            ) or self._is_out_of_place(message)
            if self._sent.abandoned:
                message = _without(message, self._sent.abandoned)
        else:
            message = self.images.fit(shown(message, self._abilities))
        blocks = sendable(blocks_of(message, without_thinking))
        if not blocks:
            return b""
        role = "user" if message.role == "tool" else message.role
        if role == "system":
            if self._role == "user" and self._abilities.system_messages:
                self._held += blocks
                return b""
            role = "user"
        if role == "assistant":
            self.asked, self.response_id = self.end, message.response_id
        before = (
            self._add(self._held, "system" if role == "assistant" else "user")
            if self._held
            else b""
        )
        self._held = []
        encoded = self._add(blocks, role)
        return before + b"," + encoded if before else encoded

    def _add(self, blocks: list[Typed], role: str) -> bytes:
        content, lasting = list[object](), list[object]()
        for kind, block in blocks:
            content.append(block)
            if kind not in REASONING:
                lasting.append(block)
        encoded = dumped({"role": role, "content": content})
        if self._head:
            self._chain = _digest(
                self._chain
                + (
                    encoded
                    if len(lasting) == len(blocks)
                    else dumped({"role": role, "content": lasting})
                )
            )
        self.has_thinking |= len(lasting) < len(blocks)
        self._role = role
        self._length += len(encoded) + (self._length > 0)
        self.end = self._length - 3 if blocks[-1][0] in _MARKABLE else 0
        return encoded

    def _begin(self, block: CompactedBlock) -> bytes:
        """Begin with a summary by the API.

        Thinking after it stays valid, because the API treats the summary as the messages that it
        replaces (platform.claude.com, "Compaction and preserved thinking"; read 2026-11-26).
        """
        encoded = dumped({"role": "assistant", "content": [block.fields]})
        if self._head:
            self._chain = block.chain or _digest(encoded)
        self.has_block, self._role, self._length = True, "assistant", len(encoded)
        return encoded

    def _is_out_of_place(self, message: Message) -> bool:
        """Return True if the API would reject the thinking, because something before it has changed
        since the response.
        """
        if (
            self._sent.thinking_since
            and message.created_at.timestamp() <= self._sent.thinking_since
        ):
            return True
        if not self._head:
            return False
        told = next(
            (
                own[PREFIX]
                for part in message.parts
                if isinstance(part, ReasoningPart) and PREFIX in (own := own_fields(part, PROVIDER))
            ),
            None,
        )
        return told is not None and bytes(told).strip(b'"').decode() != self.prefix

    def tail(self) -> bytes:
        """Return the held-back end of the messages."""
        return (
            b"," + dumped({"role": "system", "content": [block for _, block in self._held]})
            if self._held
            else b""
        )


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()


def abandoned(messages: Iterable[Message], *, has_container: bool) -> frozenset[str]:
    """Return ids of the API's own calls that can no longer get a result: the API rejects a history
    in which a user message precedes it.

    Without a container, programs whose calls wait for results cannot continue either.
    """
    waiting, programs, gone = set[str](), set[str](), set[str]()
    for message in messages:
        if message.role == "user":
            gone |= waiting
            waiting.clear()
        for part in message.parts if message.role == "assistant" else ():
            if isinstance(part, ToolCall):
                programs |= {*filter(None, [program_of(own_fields(part, PROVIDER))])}
            elif isinstance(part, ProviderPart) and part.provider == PROVIDER:
                block = head_of(part)
                waiting.discard(block.tool_use_id)
                if block.id and block.type.endswith("_tool_use"):
                    waiting.add(block.id)
    return frozenset(gone if has_container else gone | (waiting & programs))


def searches_in(messages: Iterable[Message]) -> frozenset[str]:
    """Return ids of the API's searches among deferred tools. It rejects their results in requests
    without these tools.
    """
    heads = (
        head_of(part)
        for message in messages
        for part in message.parts
        if isinstance(part, ProviderPart) and part.provider == PROVIDER
    )
    return frozenset(head.tool_use_id for head in heads if head.type == "tool_search_tool_result")


def _without(message: Message, gone: frozenset[str]) -> Message:
    """Return the message without these calls of the API's own, and without their results.

    Calls made by their programs become calls of the model.
    """
    parts = [
        part
        for part in message.parts
        if not (
            isinstance(part, ProviderPart)
            and part.provider == PROVIDER
            and not gone.isdisjoint((head_of(part).id, head_of(part).tool_use_id))
        )
    ]
    for i, part in enumerate(parts):
        if isinstance(part, ToolCall) and program_of(own_fields(part, PROVIDER)) in gone:
            parts[i] = msgspec.structs.replace(part, provider=None, provider_data=None)
    return message.with_parts(parts)


# ---------------------------------------------------------------- assistant


# ---------------------------------------------------------------- user

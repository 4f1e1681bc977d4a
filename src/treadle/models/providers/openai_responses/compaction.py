"""Compaction by OpenAI: `/responses/compact` returns items that replace the previous input in later
requests.

context/ decides when to compact. Entry points: `window_in`, `compacted`. Source:
developers.openai.com, guide "Compaction", and the types of the SDK 3.52; read 2026-11-26.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from treadle.messages.message import Message, ProviderPart
from treadle.models.model import Delta, ResponseEnd, WholePart
from treadle.models.providers.decoding import text_of, verbatim
from treadle.models.providers.encoding import Fields, raw
from treadle.models.providers.openai_responses.item import PROVIDER
from treadle.models.providers.openai_responses.response import Counts
from treadle.models.providers.openai_responses.stream import usage_of
from treadle.types import StopReason

PATH = "/responses/compact"
COMPACTION = "compaction"
TAKEN = frozenset(
    {"model", "instructions", "input", "prompt_cache_key", "service_tier", "prompt_cache_retention"}
)
"""Fields of a response request that the endpoint accepts too."""
MANAGED = "context_management"
"""Field that makes OpenAI compact on its own."""


class Compacted(msgspec.Struct):
    """Response of the endpoint."""

    object: Literal["response.compaction"]
    output: list[Fields]
    id: str = ""
    model: str = ""
    usage: Counts | None = None


def compacted(answer: Compacted) -> Iterator[Delta]:
    """Yield deltas of a compacted window: all of its items, in order; none if it has no summary."""
    if any(text_of(item, "type") == COMPACTION for item in answer.output):
        for item in answer.output:
            yield WholePart(ProviderPart(provider=PROVIDER, data=verbatim(item)))
    yield ResponseEnd(
        stop_reason=StopReason.COMPLETE,
        usage=usage_of(answer.usage or Counts(), searches=0),
        id=answer.id,
        model=answer.model,
    )


def window_in(message: Message) -> list[msgspec.Raw]:
    """Return the items of a message that replaces a window compacted by OpenAI; empty if it has
    none.

    They are sent back unchanged: the guide forbids omitting any.
    """
    if not message.is_summary:
        return []
    return [
        raw(part.data)
        for part in message.parts
        if isinstance(part, ProviderPart) and part.provider == PROVIDER
    ]

"""Compaction by the API: one request returns a signed block that replaces the summarized messages
in later requests.

context/ decides when to compact. Entry points: `block_in`, `summarised`, `compacting`. Source:
platform.claude.com, "Compaction on demand", "Compaction that keeps recent turns", "Compaction and
preserved thinking"; types of the SDK 2.11; read 2026-11-26.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from treadle.messages.message import Message, ProviderPart
from treadle.models.model import Delta, PartEnd, ResponseEnd, TextDelta, TextStart, WholePart
from treadle.models.providers.anthropic.blocks import PREFIX, PROVIDER
from treadle.models.providers.decoding import text_of, verbatim
from treadle.models.providers.encoding import Fields, dumped, raw
from treadle.types import StopReason

BETA = "compact-2026-09-04"
"""Beta header required by a summary request, and by each later request that carries its block."""
COMPACTION = "compaction"
INSTRUCTIONS_CHARS_MAX = 16_384
LEAST_TOKENS = 16_000
"""Minimum output limit of a summary, including thinking: the API writes no summary if it is cut."""
NOT_COMBINED = "context_management"
"""Field that the API rejects in a summary request, and together with its block."""


class CompactedBlock(NamedTuple):
    fields: Fields
    """Fields as the API returned them."""
    chain: bytes
    """Digest of the replaced messages; b"" if the model does not check thinking."""


def block_in(message: Message) -> CompactedBlock | None:
    """Return the signed block of a summary message; None if it has none."""
    if not message.is_summary:
        return None
    for part in message.parts:
        if isinstance(part, ProviderPart) and part.provider == PROVIDER:
            try:
                fields = msgspec.json.decode(raw(part.data), type=Fields)
                chain = bytes.fromhex(text_of(fields, PREFIX))
            except (ValueError, RecursionError):
                return None
            fields.pop(PREFIX, None)
            return CompactedBlock(fields, chain) if _is_summary(fields) else None
    return None


def _is_summary(fields: Fields) -> bool:
    return (
        text_of(fields, "type") == COMPACTION
        and bool(text_of(fields, "content").strip())
        and bool(text_of(fields, "signature"))
    )


def compacting(body: bytes, instructions: str) -> bytes:
    """Turn the body of a request into a summary request, without the fields that the API rejects
    there.
    """
    fields = msgspec.json.decode(body, type=Fields)
    for name in ("stop_sequences", "diagnostics"):
        fields.pop(name, None)
    if "output_config" in fields:
        output = msgspec.json.decode(fields.pop("output_config"), type=Fields)
        output.pop("format", None)
        if output:
            fields["output_config"] = msgspec.Raw(dumped(output))
    choice = msgspec.json.decode(fields.get("tool_choice", b"{}"), type=Fields)
    if text_of(choice, "type") in ("any", "tool"):
        del fields["tool_choice"]
    config = {"type": "summarize"}
    if instructions.strip():
        config["instructions"] = instructions[:INSTRUCTIONS_CHARS_MAX]
    return dumped({**fields, COMPACTION: config})


async def summarised(
    deltas: AsyncGenerator[Delta, None], chain: Callable[[], str]
) -> AsyncGenerator[Delta, None]:
    """Yield the deltas of a summary: its text, and its block with the digest of the replaced
    messages.
    """
    async with aclosing(deltas) as source:
        async for delta in source:
            match delta:
                case WholePart(part=ProviderPart() as part):
                    fields = msgspec.json.decode(part.data, type=Fields)
                    if _is_summary(fields):
                        yield TextStart()
                        yield TextDelta(text_of(fields, "content"))
                        yield PartEnd()
                        data = verbatim({**fields, **({PREFIX: chain()} if chain() else {})})
                        yield WholePart(ProviderPart(provider=PROVIDER, data=data))
                case ResponseEnd(raw_stop_reason="compaction"):
                    yield msgspec.structs.replace(delta, stop_reason=StopReason.COMPLETE)
                case ResponseEnd():
                    yield delta
                case _:
                    pass

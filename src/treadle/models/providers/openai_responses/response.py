"""A response of the Responses API as a typed value, and what its raw fields mean. Entry points:
`WireResponse`, `counts_of`, `reason_of`, `details_of`.

events.py decodes it. Source: as there.
"""

from __future__ import annotations

import msgspec

from treadle.messages.response_details import CacheMiss, ResponseDetails, tier_of
from treadle.models.providers.decoding import text_of
from treadle.models.providers.encoding import Fields


class WriteDetails(msgspec.Struct):
    ttl_12h_tokens: int | None = None


class InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_tokens_details: WriteDetails | None = None


class OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class Counts(msgspec.Struct):
    input_tokens: int | None = None
    """All input tokens, cached or not."""
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


class Incomplete(msgspec.Struct):
    reason: str | None = None


class WireResponse(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[Fields] | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")
    incomplete_details: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")
    prompt_cache_diagnostics: msgspec.Raw = msgspec.Raw(b"null")
    service_tier: msgspec.Raw = msgspec.Raw(b"null")


class Diagnostics(msgspec.Struct):
    type: str = ""
    reason: str = ""
    comparison_reusable_tokens: int | None = None


_counts = msgspec.json.Decoder(Counts | None, strict=False)


_incomplete = msgspec.json.Decoder(Incomplete | None, strict=False)


_diagnostics = msgspec.json.Decoder(Diagnostics | None, strict=False)


def counts_of(response: WireResponse) -> Counts:
    """Return the usage; empty counts if it is invalid, so that the response is not lost."""
    try:
        return _counts.decode(response.usage) or Counts()
    except (ValueError, RecursionError):
        return Counts()


def reason_of(response: WireResponse) -> str | None:
    """Return the reason why the response is incomplete, if it contains one."""
    try:
        return (_incomplete.decode(response.incomplete_details) or Incomplete()).reason
    except (ValueError, RecursionError):
        return None


def details_of(response: WireResponse) -> ResponseDetails | None:
    """Return the metadata of the response; None if there is none."""
    tier, miss = tier_of(_text(response.service_tier)), None
    try:
        found = _diagnostics.decode(response.prompt_cache_diagnostics)
    except (ValueError, RecursionError):
        found = None
    if found is not None and found.type == "cache_miss":
        miss = CacheMiss(reason=found.reason, tokens=found.comparison_reusable_tokens)
    return (
        ResponseDetails(service_tier=tier, cache_miss=miss)
        if tier is not None or miss is not None
        else None
    )


def _text(raw: msgspec.Raw) -> str:
    return text_of({"text": raw}, "text")

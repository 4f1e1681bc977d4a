"""Usage and details of a response, from its counts. Entry points: `usage_of`, `details_of`,
`context_tokens`.
"""

from __future__ import annotations

import msgspec

from treadle.messages.response_details import OtherUsage, ResponseDetails, tier_of
from treadle.models.providers.anthropic.events import Counts, Pass, WireMessage, cache_miss_of
from treadle.models.providers.decoding import count_in, tokens
from treadle.types import Usage

_PASSES = frozenset({"message", "fallback_message"})
"""Types of passes over the whole conversation. The second is by a fallback model."""
_OF_OTHERS = frozenset({"advisor_message", "fallback_message"})
"""Types of passes by other models, at their own prices.

Source: types of the SDK 2.11, "Advisor tool", "Refusals and fallback"; read 2026-11-26.
"""
_BESIDE = frozenset({"compaction", "advisor_message"})
"""Types of passes that the totals exclude."""


def context_tokens(counts: Counts) -> int | None:
    """Return the size of the conversation, from the model's own last pass if there were several."""
    for one in reversed(counts.iterations or ()):
        if one.type in _PASSES:
            said = (
                one.input_tokens,
                one.output_tokens,
                one.cache_read_input_tokens,
                one.cache_creation_input_tokens,
            )
            return sum(map(tokens, said))
    for count in (counts.server_tool_use or {}).values():
        if bytes(count) not in (b"0", b"null"):
            return 0
    return None


def details_of(message: WireMessage, counts: Counts, request: bytes) -> ResponseDetails | None:
    """Return the details of a response. `request`: as for `MessagesDecoder`."""
    miss, tier, container = cache_miss_of(message), tier_of(counts.speed), message.container
    containers = int(container is not None and container.id.encode() not in request)
    others: tuple[OtherUsage, ...] = ()
    if counts.iterations:
        others = tuple(
            [
                OtherUsage(model=one.model, usage=_pass_usage(one))
                for one in counts.iterations
                if one.type in _OF_OTHERS and one.model
            ]
        )
    return (
        ResponseDetails(cache_miss=miss, service_tier=tier, others=others, containers=containers)
        if miss is not None or tier is not None or others or containers
        else None
    )


def usage_of(counts: Counts) -> Usage:
    """Return the billed usage: the totals, plus summaries and other models, which the totals
    exclude. They include the work of a fallback model that answered.
    """
    details, usage = counts.output_tokens_details, _pass_usage(counts)
    if details is not None or counts.server_tool_use is not None:
        usage = msgspec.structs.replace(
            usage,
            reasoning_tokens=tokens(details.thinking_tokens) if details else 0,
            web_searches=count_in(counts.server_tool_use, "web_search_requests"),
        )
    for one in counts.iterations or ():
        if one.type in _BESIDE:
            usage += _pass_usage(one)
    return usage


def _pass_usage(counts: Counts | Pass) -> Usage:
    return Usage(
        input_tokens=max(counts.input_tokens or 0, 0),
        output_tokens=max(counts.output_tokens or 0, 0),
        cache_read_tokens=max(counts.cache_read_input_tokens or 0, 0),
        cache_write_tokens=max(counts.cache_creation_input_tokens or 0, 0),
        cache_write_1h_tokens=count_in(counts.cache_creation, "ephemeral_1h_input_tokens")
        if counts.cache_creation
        else 0,
    )

"""Notes below a response in `runs show`: prompt cache misses and, in detail, facts that the
provider reports.

They are placed in timeline.py. Entry points: `response_notes`, `counted`.
"""

from __future__ import annotations

from collections.abc import Iterator

from treadle._internal.units import lasting, money, tokens
from treadle.cli.story import Note, Story, Turn
from treadle.cli.terminal import Style
from treadle.journal.entries import ModelResponded
from treadle.messages.events import ErrorInfo
from treadle.messages.response_details import ResponseDetails
from treadle.types import Usage

Notes = dict[str, list[tuple[str, Style]]]

CACHED_FROM_TOKENS = 1_024
"""Smallest prompt that any vendor caches."""
GOOD = 0.9
SHORT_LIFE_S = 300


def response_notes(story: Story, before: ModelResponded | None, *, verbose: bool) -> Notes:
    """Return the notes by message id of the response. `before`: last response of the session's
    previous run.
    """
    notes: Notes = {}
    for item in story.items:
        if isinstance(item, Note) and item.kind == "view":
            before = None  # the next request differs on purpose
        if not isinstance(item, Turn) or (response := item.response) is None:
            continue
        found = [
            *_styled(_missed(response, before), "yellow"),
            *(_styled(_details(response.details), "dim") if verbose else ()),
        ]
        if found:
            notes[response.message.id] = found
        before = response if response.stop_reason is not None else before
    return notes


def counted(usage: Usage) -> str:
    cached = f" ({tokens(usage.cache_read_tokens)} cached)" if usage.cache_read_tokens else ""
    return f"{tokens(usage.total_input_tokens)} in{cached}, {tokens(usage.output_tokens)} out"


def request_of(error: ErrorInfo) -> str:
    """Return the request id of an error as a suffix, for support requests to the provider."""
    return f" (request {error.request_id})" if error.request_id else ""


def _styled(texts: Iterator[str], style: Style) -> list[tuple[str, Style]]:
    return [(text, style) for text in texts]


def _missed(response: ModelResponded, before: ModelResponded | None) -> Iterator[str]:
    usage, miss = response.usage, response.details.cache_miss if response.details else None
    read = tokens(usage.cache_read_tokens)
    if miss is not None:
        about = (
            ""
            if miss.tokens is None
            else f", about {tokens(miss.tokens)} tokens more could have been read"
        )
        yield f"cache missed: {miss.reason}{about}; {read} were"
        return
    if (
        before is None
        or before.model != response.model
        or not (_uses_cache(response) or _uses_cache(before))
    ):
        return
    expected = before.usage.total_input_tokens
    if expected >= CACHED_FROM_TOKENS and usage.cache_read_tokens < GOOD * expected:
        apart_s = (response.at - before.at).total_seconds()
        late = f", {lasting(apart_s)} after the response before" if apart_s > SHORT_LIFE_S else ""
        yield (
            f"cache: {read} of about {tokens(expected)} tokens expected were read{late}; the "
            "provider gives no reason"
        )


def _uses_cache(response: ModelResponded) -> bool:
    return bool(response.usage.cache_read_tokens or response.usage.cache_write_tokens)


def _details(details: ResponseDetails | None) -> Iterator[str]:
    if details is None:
        return
    said = [
        *([f"request {details.request_id}"] if details.request_id else []),
        *([f"tier {details.service_tier}"] if details.service_tier else []),
        *([f"{money(details.cost_usd)} by the provider"] if details.cost_usd is not None else []),
    ]
    limits = [
        f"{limit.name.replace('_', ' ')} {limit.remaining:,}"
        + (f" of {limit.limit:,}" if limit.limit else "")
        for limit in details.rate_limits
    ]
    if limits:
        said.append(f"left: {', '.join(limits)}")
    if said:
        yield " · ".join(said)

"""Requests that the API rejects because of earlier content: sent once more without it.

Entry points: `remedies_for`, `without_rejected`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from treadle.errors import AgentError, ErrorKind
from treadle.models.model import Delta, ModelNotice, ModelRequest
from treadle.models.providers.anthropic.fields import AS_TEXT, SINCE
from treadle.models.providers.anthropic.request import Encoded


class Remedy(NamedTuple):
    """Content that a request can omit after the API has rejected it."""

    refusal: re.Pattern[str]
    notice: str
    extra: Callable[[ModelRequest], dict[str, object]]
    """Function that returns the fields of `settings.extra` that omit it."""


def _since_now(request: ModelRequest) -> dict[str, object]:
    return {SINCE: request.messages[-1].created_at.timestamp()}


def _as_text(request: ModelRequest) -> dict[str, object]:
    return {AS_TEXT: True}


_THINKING = Remedy(
    # the preceding content has changed, or another server signed the thinking
    re.compile(r"in `?(?:redacted_)?thinking`? block"),
    "the provider rejected the model's earlier thinking as that of another conversation: "
    "it is left out from here on",
    _since_now,
)
_BLOCK = Remedy(
    re.compile(r"compact"),
    "the provider refused its own summary of the conversation: it is sent as plain text from here "
    "on",
    _as_text,
)


def remedies_for(encoded: Encoded) -> list[Remedy]:
    """Return the remedies for content that the request has."""
    return [
        *([_THINKING] if encoded.has_thinking else []),
        *([_BLOCK] if encoded.has_block else []),
    ]


async def without_rejected(
    request: ModelRequest,
    asked: AsyncGenerator[Delta, None],
    remedies: Sequence[Remedy],
    send: Callable[[ModelRequest, Mapping[str, object]], AsyncGenerator[Delta, None]],
    wanted_back: Mapping[str, object],
) -> AsyncGenerator[Delta, None]:
    """Yield the deltas of `asked`.

    If the API rejects earlier content that the request can omit, send it once more without that
    content, and omit it from then on. `wanted_back`: fields for `settings.extra` of later requests.
    """
    has_begun = False
    try:
        async with aclosing(asked):
            async for delta in asked:
                has_begun = True
                yield delta
        return
    except AgentError as e:
        remedy = next((one for one in remedies if one.refusal.search(e.message)), None)
        if has_begun or remedy is None or e.kind is not ErrorKind.INVALID:
            raise
    yield ModelNotice(remedy.notice)
    since = remedy.extra(request)
    settings = msgspec.structs.replace(
        request.settings, extra={**(request.settings.extra or {}), **since}
    )
    request = msgspec.structs.replace(request, settings=settings)
    again = send(request, {**wanted_back, **since})
    async with aclosing(again):
        async for delta in again:
            yield delta

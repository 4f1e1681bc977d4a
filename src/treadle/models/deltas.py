"""Deltas: the fragments in which a response arrives. Entry points: `Delta`."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from treadle.messages.message import (
    JsonText,
    MediaPart,
    ProviderPart,
)
from treadle.messages.response_details import ResponseDetails
from treadle.types import StopReason, Usage


class TextStart(msgspec.Struct, frozen=True, tag_field="delta", tag="text_start"):
    """Begin a text part. Optional: a TextDelta begins one if none is open."""


class TextDelta(msgspec.Struct, frozen=True, tag_field="delta", tag="text", gc=False):
    """Fragment of the response's text.

    Attributes:
        text: The fragment.
    """

    text: str


class ReasoningStart(msgspec.Struct, frozen=True, tag_field="delta", tag="reasoning_start"):
    """Begin a reasoning part. Optional: a ReasoningDelta begins one if none is open."""


class ReasoningDelta(msgspec.Struct, frozen=True, tag_field="delta", tag="reasoning", gc=False):
    """Fragment of readable reasoning.

    Attributes:
        text: The fragment.
    """

    text: str


class ToolCallStart(msgspec.Struct, frozen=True, tag_field="delta", tag="tool_call", gc=False):
    """Begin a tool call.

    Attributes:
        id: Id of the call.
        name: Name of the tool.
    """

    id: str
    name: str


class ArgumentsDelta(msgspec.Struct, frozen=True, tag_field="delta", tag="arguments", gc=False):
    """Fragment of the JSON arguments of the open tool call. A call without fragments has `{}`.

    Attributes:
        text: The fragment.
    """

    text: str


class PartEnd(msgspec.Struct, frozen=True, tag_field="delta", tag="part_end", gc=False):
    """Close the open part. The next start closes it too, but cannot attach provider data.

    Attributes:
        provider: Name of the provider that `provider_data` belongs to.
        provider_data: JSON object that the provider needs back with the part.
    """

    provider: str | None = None
    provider_data: JsonText | None = None


class WholePart(msgspec.Struct, frozen=True, tag_field="delta", tag="part"):
    """A complete part in one delta.

    Attributes:
        part: The part.
    """

    part: ProviderPart | MediaPart


class Restart(msgspec.Struct, frozen=True, tag_field="delta", tag="restart", gc=False):
    """Discard all earlier deltas: the provider restarted the response in the same stream."""


class Switch(msgspec.Struct, frozen=True, kw_only=True, tag_field="delta", tag="switch"):
    """Discard all earlier deltas: the model failed or refused, and a fallback model takes over.

    Attributes:
        model: Name of the model that takes over.
        before: Name of the previous model.
        kind: An ErrorKind, or `refusal`.
        why: Description of the failure.
        status: HTTP status of the failed request, or None.
        request_id: The provider's id of the failed request, or None.
        usage: Usage reported by the previous model.
    """

    model: str
    before: str
    kind: str
    why: str
    status: int | None = None
    request_id: str | None = None
    usage: Usage | None = None


class ModelNotice(msgspec.Struct, frozen=True, tag_field="delta", tag="notice", gc=False):
    """A notice for the user. It is not part of the response, and becomes a `warning` event.

    Attributes:
        text: The notice.
    """

    text: str


class ResponseEnd(msgspec.Struct, frozen=True, tag_field="delta", tag="end"):
    """Last delta of every complete response.

    Attributes:
        stop_reason: Why the response ended.
        usage: Tokens of the response.
        raw_stop_reason: Stop reason in the provider's terms.
        id: The provider's id of the response.
        model: Name of the model that responded.
        provider_data: JSON object that the provider needs with the run's next request, such as the
            id of a container.
        context_tokens: Size of the conversation after the response, in tokens, if `usage` sums
            several passes of hosted tools. None: the total of `usage`; 0: unknown.
        results_only: True if the next request may add only tool results, because a program that
            the provider runs waits for them.
        withdraws: True for a refusal after which the provider rejects later requests, until the
            exchange is removed from the conversation.
        details: Response metadata from the provider.
    """

    stop_reason: StopReason
    usage: Usage
    raw_stop_reason: str = ""
    id: str = ""
    model: str = ""
    provider_data: JsonText | None = None
    context_tokens: int | None = None
    results_only: bool = False
    withdraws: bool = False
    details: ResponseDetails | None = None


Delta: TypeAlias = (
    TextStart
    | TextDelta
    | ReasoningStart
    | ReasoningDelta
    | ToolCallStart
    | ArgumentsDelta
    | PartEnd
    | WholePart
    | Restart
    | Switch
    | ModelNotice
    | ResponseEnd
)
"""Any delta of a response."""

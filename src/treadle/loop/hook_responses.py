"""Responses that a hook supplies instead of the model, published like a model's response.

Entry points: `given`, `replacing`.
"""

from __future__ import annotations

import msgspec

from treadle.events.feed import Feed
from treadle.messages.events import Retry
from treadle.messages.message import MediaPart, ProviderPart, ReasoningPart, TextPart, ToolCall
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    ModelResponse,
    PartEnd,
    ReasoningDelta,
    ReasoningStart,
    ResponseEnd,
    TextDelta,
    TextStart,
    ToolCallStart,
    WholePart,
)
from treadle.models.retry import ModelAttempt
from treadle.types import Usage


def given(response: ModelResponse, attempt: ModelAttempt, feed: Feed) -> ModelResponse:
    """Publish a hook's response to a request that is not sent. The result has no usage."""
    return _heard(msgspec.structs.replace(response, usage=Usage()), attempt, feed)


def replacing(response: ModelResponse, attempt: ModelAttempt, feed: Feed) -> ModelResponse:
    """Replace the model's response with a hook's, and publish it as a new attempt.

    `attempt`: must have an empty fold.
    """
    feed.cut()
    feed.say(Retry, {"attempt": attempt.number, "wait_s": 0.0, "kind": "hook"})
    attempt.number += 1
    return _heard(response, attempt, feed)


def _heard(response: ModelResponse, attempt: ModelAttempt, feed: Feed) -> ModelResponse:
    listener = feed.listener
    for delta in _deltas(response):
        attempt.fold.add(delta)
        if listener is not None:
            listener(delta)
    return attempt.fold.response()


def _deltas(response: ModelResponse) -> list[Delta]:
    """Return deltas that fold to the response."""
    deltas: list[Delta] = []
    for part in response.parts:
        match part:
            case TextPart():
                deltas += [
                    TextStart(),
                    TextDelta(part.text),
                    PartEnd(part.provider, part.provider_data),
                ]
            case ReasoningPart():
                deltas += [
                    ReasoningStart(),
                    ReasoningDelta(part.text),
                    PartEnd(part.provider, part.provider_data),
                ]
            case ToolCall():
                deltas += [
                    ToolCallStart(part.id, part.name),
                    ArgumentsDelta(part.arguments_json),
                    PartEnd(part.provider, part.provider_data),
                ]
            case ProviderPart() | MediaPart():
                deltas.append(WholePart(part))
            case _:
                pass
    told = {
        name: getattr(response, name)
        for name in (
            "usage",
            "stop_reason",
            "raw_stop_reason",
            "id",
            "model",
            "provider_data",
            "details",
        )
    }
    return [*deltas, ResponseEnd(**told)]

"""Meaning of the fields that end a response: reasons, refusals and usage; and hosted calls as they
are shown. Entry points: `usage_of`, `refused`, `shown_of`.

chunks.py decodes them. Source: as there.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from treadle.models.model import ModelNotice
from treadle.models.providers.decoding import tokens
from treadle.models.providers.encoding import Fields
from treadle.models.providers.gemini.chunks import SafetyRating, counts_of
from treadle.models.providers.hosted import shown_call
from treadle.types import StopReason, Usage

REFUSALS = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "PROHIBITED_CONTENT",
        "BLOCKLIST",
        "SPII",
        "LANGUAGE",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "MODEL_ARMOR",
        "ESCALATION",
        "PUP_LIMITED_DISABLED",
    }
)


GARBLED = {
    "MALFORMED_FUNCTION_CALL": "a call that cannot be read",
    "UNEXPECTED_TOOL_CALL": "a call that it was not offered",
    "MALFORMED_RESPONSE": "an answer that cannot be read",
}
"""Failures that a retry may avoid."""


CUT = {
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "CONTINUATION": StopReason.MAX_TOKENS,
    "TOO_MANY_TOOL_CALLS": StopReason.PAUSE,
}
"""Reasons that cut an answer. `CONTINUATION` without a new token cannot be continued; too many
calls refers to the provider's own tools.
"""


GOES_ON = frozenset({None, "", "FINISH_REASON_UNSPECIFIED"})


def refused(
    what: str, reason: str | None, ratings: list[SafetyRating] | None, message: str | None
) -> ModelNotice:
    blocked = ", ".join(rating.category for rating in ratings or () if rating.blocked)
    return ModelNotice(
        f"the provider refused {what}: "
        f"{': '.join(word for word in (reason, blocked, message) if word)}"
    )


def usage_of(said: msgspec.Raw) -> Usage:
    """Convert usage. The prompt count includes cached tokens, not tool results and thoughts."""
    counts = counts_of(said)
    cached, thoughts = (
        tokens(counts.cached_content_token_count),
        tokens(counts.thoughts_token_count),
    )
    return Usage(
        input_tokens=max(tokens(counts.prompt_token_count) - cached, 0)
        + tokens(counts.tool_use_prompt_token_count),
        output_tokens=tokens(counts.candidates_token_count) + thoughts,
        cache_read_tokens=cached,
        reasoning_tokens=thoughts,
    )


def shown_of(fields: Mapping[str, object]) -> str:
    """Describe a hosted tool call for display; "" for other parts."""
    if "executableCode" in fields:
        return shown_call("code_execution", _field(fields["executableCode"], "code"))
    if "toolCall" in fields:
        name = bytes(_field(fields["toolCall"], "toolType")).strip(b'"').decode().lower()
        return shown_call(name, _field(fields["toolCall"], "args"))
    return ""


def _field(value: object, name: str) -> msgspec.Raw:
    try:
        return msgspec.json.decode(msgspec.json.encode(value), type=Fields).get(
            name, msgspec.Raw(b'""')
        )
    except (ValueError, RecursionError):
        return msgspec.Raw(b'""')

"""Thinking, effort and tool choice of Claude: what differs from the settings, and summaries.

What each model takes is checked in tests/vendors.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.messages.message import Message
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.anthropic.request import RequestEncoder
from treadle.models.providers.anthropic.thinking import fit
from treadle.models.providers.known_models import known
from treadle.types import Settings

LOOK = ToolDefinition(name="look", description="", parameters={"type": "object"})


def sent(model: str, settings: Settings) -> dict[str, Any]:
    encoder = RequestEncoder(model, abilities=known("anthropic", None, model))
    request = ModelRequest(messages=[Message.user("Hi")], tools=(LOOK,), settings=settings)
    return json.loads(encoder.encode(request).body)


@pytest.mark.parametrize(
    ("model", "settings", "note"),
    [
        (
            "claude-opus-5-5",
            Settings(thinking=False),
            "thinking cannot be disabled: effort is 'low'",
        ),
        (
            "claude-opus-5-5",
            Settings(thinking=8_000),
            "a thinking budget is not supported: 8,000 tokens became effort='medium'",
        ),
        (
            "claude-sonnet-5-5",
            Settings(thinking=False),
            "thinking cannot be disabled: it became 'between_tools'",
        ),
        ("claude-opus-5", Settings(thinking=False, effort="max"), "effort='max' became 'high'"),
        (
            "claude-sonnet-5-5",
            Settings(thinking="between_tools", effort="max"),
            "effort='max' became 'high'",
        ),
        (
            "claude-haiku-4-5",
            Settings(thinking=True),
            "thinking=True became a budget of 16,000 tokens",
        ),
        (
            "claude-opus-5-5",
            Settings(tool_choice="any"),
            "a call cannot be forced: tool_choice='any' became 'auto'",
        ),
    ],
)
def test_what_differs_from_the_request_is_told(model: str, settings: Settings, note: str) -> None:
    assert fit(settings, known("anthropic", None, model)).notes == (note,)


def test_what_is_taken_as_it_is_needs_no_word() -> None:
    for model, settings in (
        ("claude-opus-5-5", Settings(thinking=True, effort="max")),
        ("claude-opus-4-6", Settings(thinking=8_000)),
        ("claude-haiku-5-5", Settings(thinking=False, effort="high")),
        ("claude-of-tomorrow", Settings(thinking=False, tool_choice="any")),
    ):
        assert fit(settings, known("anthropic", None, model)).notes == ()


def test_summaries_of_thinking_can_be_turned_off() -> None:
    assert sent("claude-opus-5-5", Settings())["thinking"] == {
        "type": "adaptive",
        "display": "summarized",
    }
    assert "thinking" not in sent("claude-opus-5-5", Settings(show_thinking=False)), (
        "the default of the model: omitted"
    )
    assert sent("claude-opus-5-5", Settings(thinking=True, show_thinking=False))["thinking"] == {
        "type": "adaptive",
        "display": "omitted",
    }
    assert "thinking" not in sent("claude-opus-4-8", Settings())

"""About how many tokens a request has."""

from __future__ import annotations

from treadle.messages.message import (
    MediaPart,
    Message,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
    UnknownPart,
)
from treadle.messages.size import MEDIA_TOKENS, MESSAGE_TOKENS
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.estimate import estimated_tokens
from treadle.types import SystemBlock


def test_text_is_counted_by_its_bytes() -> None:
    assert (
        estimated_tokens(ModelRequest(messages=[Message.user("x" * 300)])) == 100 + MESSAGE_TOKENS
    )
    assert (
        estimated_tokens(ModelRequest(messages=[Message.user("é\ud83d" + "x" * 295)]))
        == 100 + MESSAGE_TOKENS
    )


def test_everything_that_is_sent_is_counted() -> None:
    alone = estimated_tokens(ModelRequest(messages=[]))
    tool = ToolDefinition(name="look", description="x" * 300, parameters={"type": "object"})
    assert alone == 0
    assert estimated_tokens(ModelRequest(messages=[], system=(SystemBlock(text="x" * 300),))) == 100
    assert estimated_tokens(ModelRequest(messages=[], tools=(tool,))) > 100
    for part in (
        TextPart(text="x" * 300),
        ReasoningPart(text="x" * 300),
        ToolCall(id="c", name="look", arguments_json="x" * 296),
        ToolResult(call_id="c", name="look", content="x" * 300),
        ToolResult(call_id="c", name="look", content=(TextPart(text="x" * 300),)),
        ProviderPart(provider="p", data="x" * 300),
    ):
        assert (
            estimated_tokens(ModelRequest(messages=[Message.assistant([part])]))
            == 100 + MESSAGE_TOKENS
        )
    assert (
        estimated_tokens(
            ModelRequest(messages=[Message.assistant([UnknownPart(type="hologram", raw="{}")])])
        )
        == MESSAGE_TOKENS
    )


def test_a_picture_counts_as_one_whatever_it_weighs() -> None:
    picture = MediaPart(media_type="image/png", data="x" * 1_000_000)
    shown = ToolResult(call_id="c", name="look", content=(picture,))
    assert estimated_tokens(
        ModelRequest(messages=[Message.user([picture]), Message.tool([shown])])
    ) == 2 * (MEDIA_TOKENS + MESSAGE_TOKENS)

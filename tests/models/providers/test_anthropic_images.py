"""Images within the limits of Claude's API, which refuses a request for one image too many or too
large, and with it the whole conversation.

Source: platform.claude.com, "Vision", section "Image limits", read 2026-11-22.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from treadle.config.model_profile import UNKNOWN
from treadle.errors import AgentError
from treadle.messages.history import History
from treadle.messages.images import size_of
from treadle.messages.message import MediaPart, Message, ToolResult
from treadle.models.model import ModelRequest
from treadle.models.providers.anthropic.request import RequestEncoder
from treadle.models.providers.images import TOO_MANY_IMAGES
from treadle.types import Settings


def png(width: int, height: int, name: str = "p.png", size_bytes: int = 24) -> MediaPart:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return MediaPart(
        media_type="image/png",
        data=base64.b64encode(head.ljust(size_bytes, b"\0")).decode(),
        name=name,
    )


def shown(images: Sequence[MediaPart], after: Sequence[MediaPart] = ()) -> list[Message]:
    """As results of calls, one in each turn."""
    messages = [Message.user("Look.")]
    for image in (*images, *after):
        messages += [
            Message.assistant("On."),
            Message.tool([ToolResult(call_id="c", name="read", content=(image,))]),
        ]
    return messages


def sent(
    history: Sequence[Message], encoder: RequestEncoder | None = None
) -> tuple[list[Any], tuple[str, ...]]:
    """The content of each result in the request, and its notes."""
    encoded = (encoder or RequestEncoder("claude-test")).encode(
        ModelRequest(messages=history, settings=Settings(max_tokens=9))
    )
    blocks = [
        block for message in json.loads(encoded.body)["messages"] for block in message["content"]
    ]
    return [
        block["content"][0] for block in blocks if block["type"] == "tool_result"
    ], encoded.notes


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (b"GIF89a" + b"\x10\x00\x20\x00", (16, 32)),
        (
            b"\xff\xd8\xff\xe0\x00\x04ab" + b"\xff\xff\xc2\x00\x11\x08\x00\x20\x00\x10" + b"\0" * 8,
            (16, 32),
        ),
        (b"RIFF....WEBPVP8X" + b"\x0a\0\0\0" + b"\0\0\0\0" + b"\x0f\0\0" + b"\x1f\0\0", (16, 32)),
        (
            b"RIFF....WEBPVP8L" + b"\0\0\0\0" + b"\x2f" + (15 | 31 << 14).to_bytes(4, "little"),
            (16, 32),
        ),
        (b"RIFF....WEBPVP8 " + b"\0\0\0\0" + b"\0\0\0\x9d\x01\x2a" + b"\x10\x00\x20\x00", (16, 32)),
        (b"\xff\xd8\xff", (0, 0)),
        (b"?", (0, 0)),
    ],
)
def test_the_size_of_an_image_is_read_from_its_head(head: bytes, size: tuple[int, int]) -> None:
    assert size_of(MediaPart(media_type="image/x", data=base64.b64encode(head).decode())) == size


@pytest.mark.parametrize(
    ("image", "why"),
    [(png(8_001, 9), "8,001 x 9 pixels"), (png(9, 9, size_bytes=3_800_000), "bytes in base64")],
)
def test_an_image_that_is_too_large_is_a_line_in_a_result_and_an_error_in_a_prompt(
    image: MediaPart, why: str
) -> None:
    cloud = RequestEncoder("claude-test", is_vendor=False)
    (block,), (note,) = sent(shown([image]), cloud)
    assert why in block["text"]
    assert "'p.png' (image/png) in the result of read is not sent to the model" in note
    with pytest.raises(
        AgentError, match=f"'p.png' .* cannot be sent to the model .*{why}.*Scale it down"
    ):
        sent([Message.user([image])], cloud)
    earlier = History([Message.user([image]), Message.user("And?")], settled=1)
    assert sent(earlier, cloud) == ([], ())


def test_with_more_than_twenty_images_those_with_long_sides_are_left_out() -> None:
    history = History(shown([png(2_001, 9, "long.png"), *[png(9, 9)] * 19]))
    encoder = RequestEncoder("claude-test")
    blocks, notes = sent(history, encoder)
    assert [block["type"] for block in blocks] == ["image"] * 20
    assert notes == ()
    for message in shown([png(9, 9), png(9, 2_001)])[1:]:
        history.append(message)
    blocks, notes = sent(history, encoder)
    assert [block["type"] for block in blocks] == ["text", *["image"] * 20, "text"]
    assert "long.png (image/png) is not shown: with more than 20 images" in blocks[0]["text"]
    assert notes == (TOO_MANY_IMAGES,)
    assert sent(history, encoder)[1] == ()


@pytest.mark.parametrize(
    ("images", "kept"), [([png(9, 9)] * 120, 69), ([png(9, 9, size_bytes=3_000_000)] * 8, 4)]
)
def test_beyond_what_a_request_holds_the_oldest_images_are_left_out_the_same_ones_in_every_run(
    images: list[MediaPart], kept: int
) -> None:
    encoder, history = RequestEncoder("claude-test", abilities=UNKNOWN), History(shown(images[:1]))
    for message in shown(images)[3:]:
        history.append(message)
        sent(history, encoder)
    grown, _ = sent(history, encoder)
    at_once, notes = sent(History(shown(images)), encoder)
    assert grown == at_once
    assert [block["type"] for block in at_once] == ["text"] * (len(images) - kept) + [
        "image"
    ] * kept
    assert notes == (TOO_MANY_IMAGES,)

"""What the vendors' models really said, hosted tools and all, goes on with every other vendor's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.models.switching.overheard import body_for
from tests.models.switching.targets import TARGETS, Target
from treadle.errors import AgentError
from treadle.messages.history import History
from treadle.messages.message import (
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolResult,
)
from treadle.models.model import Fold, ModelRequest
from treadle.models.providers.anthropic.stream import MessagesDecoder
from treadle.models.providers.decoding import Decoder
from treadle.models.providers.gemini.stream import ContentDecoder
from treadle.models.providers.openai_chat.stream import ChatDecoder
from treadle.models.providers.openai_responses.stream import ResponsesDecoder
from treadle.types import Settings

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "recordings"
NAMES = sorted(
    f"{path.parent.name}/{path.stem}"
    for wire in ("anthropic", "openai", "gemini")
    for path in (FOLDER / wire).glob("*.json")
)


def _reported(data: bytes) -> AgentError:
    return AgentError("invalid", data.decode())


DECODERS: dict[str, Callable[[], Decoder]] = {
    "anthropic": lambda: MessagesDecoder(_reported),
    "openai": lambda: ResponsesDecoder(_reported),
    "openai-chat": lambda: ChatDecoder(_reported),
    "gemini": lambda: ContentDecoder(_reported, "model-of-the-test"),
}


def answers(name: str) -> Iterator[tuple[str, tuple[Part, ...]]]:
    """Each with the wire that it came over."""
    for exchange in json.loads((FOLDER / f"{name}.json").read_text())["exchanges"]:
        path = (exchange["request"] or {}).get("path", "")
        wire = "openai-chat" if path.endswith("/completions") else name.partition("/")[0]
        if exchange["response"]["status"] == 200 and (
            parts := answer(DECODERS[wire](), exchange["response"]["body"].encode())
        ):
            yield wire, parts


def answer(decoder: Decoder, body: bytes) -> tuple[Part, ...]:
    deltas = (
        decoder.take_body(body)
        if body.lstrip()[:1] in (b"{", b"[")
        else [*decoder.feed(body), *decoder.finish()]
    )
    fold = Fold()
    for delta in deltas:
        fold.add(delta)
    if decoder.end is None:
        return fold.partial()
    fold.add(decoder.end)
    return fold.response().parts


def conversation(parts: tuple[Part, ...]) -> list[Message]:
    """A question, the answer, and what follows it."""
    said = Message.assistant(parts)
    results = [
        ToolResult(call_id=call.id, name=call.name, content="done") for call in said.tool_calls
    ]
    return [
        Message.user("Go on."),
        said,
        *([Message.tool(results)] if results else []),
        Message.user("And then?"),
    ]


def sent(target: Target, history: History) -> bytes:
    body = body_for(
        target.model(), ModelRequest(messages=history, settings=Settings(max_tokens=100))
    )
    assert target.broken(json.loads(body)) == []
    return body


@pytest.mark.skipif(not NAMES, reason="the recordings are not beside this checkout")
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_an_answer_of_each_vendor_goes_on_with_every_other(name: str, target: Target) -> None:
    for wire, parts in answers(name):
        messages = conversation(parts)
        for settled in (0, len(messages) - 1):
            body = sent(target, History(messages, settled))
            for part in parts:
                check(part, body, to_itself=wire == target.wire)


def check(part: Part, body: bytes, *, to_itself: bool) -> None:
    match part:
        case TextPart() if part.text.strip():
            assert as_json(part.text) in body
        case ReasoningPart() if part.text and not to_itself:
            assert as_json(part.text) not in body
        case ProviderPart() if not to_itself:
            assert not [
                secret for secret in long_texts(json.loads(part.data)) if as_json(secret) in body
            ]
        case _:
            pass
    if (
        not to_itself
        and isinstance(part, TextPart | ReasoningPart)
        and part.provider_data is not None
    ):
        assert not [
            secret
            for secret in long_texts(json.loads(part.provider_data))
            if as_json(secret) in body
        ]


def as_json(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]


def long_texts(value: Any) -> Iterator[str]:
    """Those that cannot stand somewhere else by chance: signatures, what is encrypted."""
    match value:
        case dict():
            for name, inner in value.items():
                yield from (
                    [inner]
                    if isinstance(inner, str) and ("encrypted" in name or "ignature" in name)
                    else long_texts(inner)
                )
        case list():
            for inner in value:
                yield from long_texts(inner)
        case _:
            pass


@pytest.mark.skipif(not NAMES, reason="the recordings are not beside this checkout")
def test_there_are_hosted_tools_citations_and_sealed_reasoning_among_them() -> None:
    parts = [(wire, part) for name in NAMES for wire, said in answers(name) for part in said]
    assert {wire for wire, _ in parts} == DECODERS.keys()
    for kind in (ProviderPart, ReasoningPart):
        assert {wire for wire, part in parts if isinstance(part, kind)} >= {"anthropic", "openai"}
    assert (
        len(
            [
                secret
                for _, part in parts
                if isinstance(part, ReasoningPart)
                for secret in long_texts(json.loads(part.provider_data or "{}"))
            ]
        )
        > 5
    )

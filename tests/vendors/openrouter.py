"""Rules for Claude behind OpenRouter: its Chat Completions, and what Claude refuses whoever asks it.

Entry: `OPENROUTER`, `OpenRouterSpeech`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from typing_extensions import override

from tests.models.providers.speech import Json, Said
from tests.models.providers.speeches.openai_chat import ChatSpeech, chunk
from tests.models.switching.rules import openai_chat
from tests.vendors.claude import MODELS, Takes
from tests.vendors.rules import Asked, Rules, every, images_too_large
from treadle.types import StopReason

OPENROUTER = Rules()
READ = "2026-11-26"
SIGNATURE = "sig=="
KINDS = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


class OpenRouterSpeech(ChatSpeech):
    """The same answers, with reasoning as signed details."""

    @override
    def _chunks(self, said: Sequence[Said], end: StopReason | None) -> Iterator[Json]:
        thought = False
        for one in super()._chunks(said, end):
            delta: Json = one["choices"][0]["delta"] if one["choices"] else {}
            if "reasoning" in delta:
                thought = True
                delta["reasoning_details"] = [_detail(text=delta["reasoning"])]
            elif thought:
                thought = False
                yield chunk({"reasoning_details": [_detail(signature=SIGNATURE)]})
            yield one


def _detail(**fields: str) -> Json:
    return {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, **fields}


def takes(asked: Asked) -> Takes:
    return MODELS[asked.model.removeprefix("anthropic/").replace(".", "-")]


def prefix(messages: Sequence[Json], body: Json) -> str:
    """A digest of what thinking depends on: neither breakpoints nor reasoning are part of it."""
    parts = [body.get("tools", []), [_lasting(message) for message in messages]]
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _lasting(inner)  # pyright: ignore[reportUnknownArgumentType]  JSON
            for name, inner in value.items()  # pyright: ignore[reportUnknownVariableType]
            if name not in ("cache_control", "reasoning_details")
        }
    if isinstance(value, list):
        return [_lasting(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return value


@OPENROUTER.rule("API reference, Chat completion; Tool calling", READ)
def shape_and_pairing(asked: Asked) -> Iterator[str]:
    """Each call has one result directly after it, and ids are plain and unique."""
    yield from openai_chat.broken(asked.body)


@OPENROUTER.rule("Prompt caching", READ)
def breakpoints(asked: Asked) -> Iterator[str]:
    """Claude takes four at most, for five minutes or an hour."""
    marks = [part["cache_control"] for part in every(asked.body, "text") if "cache_control" in part]
    if len(marks) > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
    for mark in marks:
        if mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in ("5m", "1h"):
            yield f"cache_control: {mark}"


@OPENROUTER.rule("Reasoning tokens", READ)
def reasoning(asked: Asked) -> Iterator[str]:
    """An effort or a number of tokens, not both; the number is at least 1,024 and below
    `max_tokens`.
    """
    config: Json = asked.body.get("reasoning", {})
    if "effort" in config and "max_tokens" in config:
        yield "Only one of reasoning.effort and reasoning.max_tokens can be specified"
    if "max_tokens" in config and not 1024 <= config["max_tokens"] < asked.body["max_tokens"]:
        yield "reasoning.max_tokens must be at least 1024 and less than max_tokens"


@OPENROUTER.rule("Reasoning tokens, Preserving reasoning; Anthropic, Preserved thinking", READ)
def reasoning_details(asked: Asked) -> Iterator[str]:
    """The sequence goes back as it came; newer models check that the messages before it and the
    tools are unchanged.
    """
    messages: list[Json] = asked.body["messages"]
    for at, message in enumerate(messages):
        details = message.get("reasoning_details")
        if details is None:
            continue
        known = asked.issued.get(details[-1].get("signature", ""))
        if len(details) != 1 or known is None:
            yield f"messages.{at}: Invalid `signature` in `thinking` block"
        elif takes(asked).binds and known != prefix(messages[:at], asked.body):
            yield (
                f"messages.{at}: Invalid `signature` in `thinking` block. The block is bound to a "
                "different conversation."
            )


@OPENROUTER.rule("Image inputs; Anthropic, Vision", READ)
def images(asked: Asked) -> Iterator[str]:
    """As many as Claude takes, of 5 MB each."""
    found = (
        re.fullmatch(r"data:([^;]*);base64,(.*)", part["image_url"]["url"])
        for part in every(asked.body, "image_url")
    )
    sent = [(match[1], match[2]) for match in found if match]
    yield from images_too_large(sent, kinds=KINDS, most=takes(asked).images, chars_most=5 << 20)


@OPENROUTER.rule("Tool calling; Anthropic, Forcing tool use", READ)
def forced_tools(asked: Asked) -> Iterator[str]:
    """Newer models take no forced call."""
    choice = asked.body.get("tool_choice", "auto")
    if choice not in ("auto", "none") and not takes(asked).forced:
        yield 'tool_choice: type "tool" and "any" are not supported for this model.'

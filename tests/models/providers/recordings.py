"""Recorded traffic of the vendor: read, compared, and turned into our own values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.models.providers.loopback import Answer
from treadle.messages.message import MediaPart, Message, Part, TextPart, ToolCall, ToolResult
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.anthropic.messages import MessageEncoder
from treadle.types import Settings, SystemBlock

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "recordings" / "anthropic"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

Json = dict[str, Any]


def exchanges(name: str) -> list[Json]:
    return json.loads((FOLDER / f"{name}.json").read_text())["exchanges"]


def answer(response: Json) -> Answer:
    """The recorded response, as the server sends it again."""
    body = response["body"].encode()
    kind = next(
        value for name, value in response["headers"].items() if name.lower() == "content-type"
    )
    told = {
        name: value
        for name, value in response["headers"].items()
        if name.lower() in ("request-id", "retry-after")
    }
    streamed = "event-stream" in kind
    third = len(body) // 3 + 1
    steps = tuple(body[i : i + third] for i in range(0, len(body), third)) if streamed else (body,)
    return Answer(steps=steps, status=response["status"], headers=told, type=kind, chunked=streamed)


# ---------------------------------------------------------------- what the vendor said, read without any of our code


def message_of(response: Json) -> Json:
    """The message of a recorded response: of a stream, what its events add up to."""
    if not response["body"].startswith("event:"):
        return json.loads(response["body"])
    message: Json = {}
    for line in response["body"].splitlines():
        if line.startswith("data:"):
            _apply(message, json.loads(line[5:]))
    return message


def _apply(message: Json, event: Json) -> None:
    match event["type"]:
        case "message_start":
            message.clear()
            message.update(event["message"], content=[])
        case "content_block_start":
            message["content"].append(dict(event["content_block"]))
        case "content_block_delta":
            _apply_delta(message["content"][event["index"]], event["delta"])
        case "content_block_stop":
            block = message["content"][event["index"]]
            if pieces := block.pop("pieces", ""):
                block["input"] = json.loads(pieces)
        case "message_delta":
            message.update(event["delta"])
            message["usage"] = {**message["usage"], **event["usage"]}


def _apply_delta(block: Json, delta: Json) -> None:
    match delta["type"]:
        case "input_json_delta":
            block["pieces"] = block.get("pieces", "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        case "compaction_delta":
            block["content"] = delta["content"]
        case kind:
            name = kind.removesuffix("_delta")
            block[name] = block.get(name, "") + delta[name]


# ---------------------------------------------------------------- what means the same


_FLAT = str.maketrans(
    {"\u2013": "-", "\u2014": "-", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
)


def same(value: Any) -> Any:
    """Without what makes no difference, and without what the recorded programs did to what the
    vendor had said.

    The first: nulls, `is_error: false`, a direct caller, empty citations, breakpoints, text as a
    string or as one block. The second: typographic characters made plain, a blank text put before
    calls.
    """
    if isinstance(value, str):
        return value.translate(_FLAT)
    if isinstance(value, list):
        return [same(v) for v in value]
    if not isinstance(value, dict):
        return value
    plain = {
        k: same(v)
        for k, v in value.items()
        if v is not None
        and (k, v) not in (("is_error", False), ("citations", []), ("description", ""))
    }
    plain.pop("cache_control", None)
    if plain.get("caller") == {"type": "direct"}:
        del plain["caller"]
    if isinstance(plain.get("content"), str) and (
        plain.get("type") == "tool_result" or "role" in plain
    ):
        plain["content"] = [{"type": "text", "text": plain["content"]}]
    if plain.get("role") == "assistant":
        plain["content"] = [b for b in plain["content"] if b["type"] != "text" or b["text"].strip()]
    if isinstance(plain.get("system"), str):
        plain["system"] = [{"type": "text", "text": plain["system"]}]
    return plain


def blocks_of(parts: Sequence[Part]) -> list[Json]:
    """Parts of a response as they go back to the vendor."""
    encoded = MessageEncoder().encode(Message.assistant(parts), False)
    return same(json.loads(encoded)["content"]) if encoded else []


# ---------------------------------------------------------------- recorded requests as our own values


def request_of(body: Json, responses: Iterable[Sequence[Part]]) -> ModelRequest:
    """The request that the loop would have made: what the model said is taken from our responses,
    not from the record.
    """
    said = {json.dumps(blocks_of(parts), sort_keys=True): parts for parts in responses}
    names: dict[str, str] = {}
    messages = [_message(m, said, names) for m in body["messages"]]
    ours = [t for t in body.get("tools", []) if "input_schema" in t]
    tools = tuple(
        ToolDefinition(
            name=t["name"], description=t.get("description", ""), parameters=t["input_schema"]
        )
        for t in ours
    )
    system = body.get("system", [])
    texts = [system] if isinstance(system, str) else [block["text"] for block in system]
    return ModelRequest(
        messages=messages,
        tools=tools,
        system=tuple(SystemBlock(text=t) for t in texts),
        settings=_settings(body),
    )


def _settings(body: Json) -> Settings:
    known = {
        "model",
        "messages",
        "max_tokens",
        "stream",
        "system",
        "stop_sequences",
        "tool_choice",
        "thinking",
        "output_config",
        "tools",
        "temperature",
    }
    extra = {name: value for name, value in body.items() if name not in known}
    beyond = [
        {k: v for k, v in t.items() if k not in ("input_schema", "description")}
        for t in body.get("tools", [])
    ]
    if any(set(t) > {"name"} for t in beyond):
        extra["tools"] = beyond
    thinking, output = body.get("thinking"), body.get("output_config", {})
    return Settings(
        max_tokens=body["max_tokens"],
        stop=tuple(body["stop_sequences"]) if "stop_sequences" in body else None,
        thinking=thinking["budget_tokens"] if thinking else None,
        effort=output.get("effort"),
        output_schema=output.get("format", {}).get("schema"),
        tool_choice=body["tool_choice"]["type"] if "tool_choice" in body else None,
        cache=False,
        extra=extra or None,
    )


def _message(message: Json, said: dict[str, Sequence[Part]], names: dict[str, str]) -> Message:
    content = same(message)["content"]
    if message["role"] == "assistant":
        names.update(
            {block["id"]: block["name"] for block in content if block["type"] == "tool_use"}
        )
        recorded = json.dumps(content, sort_keys=True)
        return Message.assistant(said[recorded] if said else [_written(block) for block in content])
    parts = [_part(block, names) for block in content]
    return Message.of("tool" if isinstance(parts[0], ToolResult) else message["role"], parts)


def _written(block: Json) -> Part:
    """Where a recording begins in the middle of a conversation."""
    if block["type"] == "text":
        return TextPart(text=block["text"])
    return ToolCall(id=block["id"], name=block["name"], arguments_json=json.dumps(block["input"]))


def _part(block: Json, names: dict[str, str]) -> Part:
    match block["type"]:
        case "text":
            return TextPart(text=block["text"])
        case "image":
            return MediaPart(media_type=block["source"]["media_type"], data=block["source"]["data"])
        case "tool_result":
            inner = block["content"]
            one_text = len(inner) == 1 and inner[0]["type"] == "text"
            content = inner[0]["text"] if one_text else tuple(_part(b, names) for b in inner)
            return ToolResult(
                call_id=block["tool_use_id"],
                name=names.get(block["tool_use_id"], "?"),
                content=content,
                is_error=block.get("is_error", False),
            )
        case kind:
            raise AssertionError(f"the recordings hold a {kind} block in a user message")

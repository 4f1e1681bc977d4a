"""Recorded traffic of Chat Completions: read, compared, and turned into our own values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tests.models.providers.openai_recordings import FOLDER, Json, exchanges
from treadle.messages.message import MediaPart, Message, Part, TextPart, ToolCall, ToolResult
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.openai_chat.messages import MessageEncoder
from treadle.models.providers.openai_chat.servers import server_at
from treadle.types import Settings, SystemBlock

OPENAI = server_at("https://api.openai.com/v1")


def of_this_wire(name: str) -> bool:
    exchange = exchanges(name)[0]
    if exchange["request"] is not None:
        return exchange["request"]["path"].endswith("/completions")
    return any(
        word in exchange["response"]["body"] for word in ('"chat.completion', '"text_completion"')
    )


NAMES = sorted(path.stem for path in FOLDER.glob("*.json") if of_this_wire(path.stem))


def is_refused(response: Json) -> bool:
    return response["status"] != 200 or '"error":' in response["body"].replace(" ", "").replace(
        '"error":null', ""
    )


# ---------------------------------------------------------------- what the vendor said, read without any of our code


def chunks_of(response: Json) -> list[Json]:
    return [
        json.loads(line[5:])
        for line in response["body"].splitlines()
        if line.startswith("data:") and line[5:].strip() != "[DONE]"
    ]


def whole_of(response: Json) -> Json:
    """The whole answer, with one choice, as if it had not been streamed."""
    if response["body"].lstrip().startswith("{"):
        return json.loads(response["body"])
    chunks = chunks_of(response)
    message: Json = {"role": "assistant"}
    whole: Json = {
        "id": chunks[0]["id"],
        "model": chunks[0]["model"],
        "choices": [{"message": message, "finish_reason": None}],
        "usage": None,
    }
    for chunk in chunks:
        whole["usage"] = chunk.get("usage") or whole["usage"]
        for choice in chunk["choices"]:
            whole["choices"][0]["finish_reason"] = (
                choice["finish_reason"] or whole["choices"][0]["finish_reason"]
            )
            _apply(message, choice.get("delta") or {"content": choice.get("text")})
    return whole


def _apply(message: Json, delta: Json) -> None:
    for name in ("content", "refusal", "reasoning_content"):
        if delta.get(name):
            message[name] = message.get(name, "") + delta[name]
    for piece in delta.get("tool_calls") or ():
        calls = message.setdefault("tool_calls", [])
        if piece["index"] == len(calls):
            calls.append(
                {
                    "id": piece["id"],
                    "type": "function",
                    "function": {"name": piece["function"]["name"], "arguments": ""},
                }
            )
        calls[piece["index"]]["function"]["arguments"] += piece["function"].get("arguments") or ""


# ---------------------------------------------------------------- what means the same


def same(value: Any) -> Any:
    """Without what makes no difference: nulls, empty descriptions, one text as a string or as a
    list of one, the name of the system's role.
    """
    if isinstance(value, list):
        return [same(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    plain = {
        name: same(inner)
        for name, inner in value.items()
        if inner is not None and (name, inner) not in (("description", ""), ("annotations", []))
    }
    if plain.get("role") == "developer":
        plain["role"] = "system"
    if isinstance(plain.get("content"), list) and all(
        part["type"] == "text" for part in plain["content"]
    ):
        plain["content"] = "\n\n".join(part["text"] for part in plain["content"])
    if plain.get("role") == "assistant" and not plain.get("content"):
        plain.pop("content", None)
    return plain


def message_of(parts: Sequence[Part]) -> Json:
    """Parts of an answer as they go back."""
    encoded = MessageEncoder(OPENAI, marked=False).encode(Message.assistant(parts), False)
    return same(json.loads(encoded)) if encoded else {"role": "assistant"}


# ---------------------------------------------------------------- recorded requests as our own values


def request_of(body: Json, responses: Iterable[Sequence[Part]]) -> ModelRequest:
    """The request that the loop would have made: what the model said is taken from our responses,
    not from the record.
    """
    said = {json.dumps(message_of(parts), sort_keys=True): parts for parts in responses}
    history, system, names = list[Message](), list[SystemBlock](), dict[str, str]()
    for message in [same(message) for message in body["messages"]]:
        if message["role"] == "system" and not history:
            system.append(SystemBlock(text=message["content"]))
        elif message["role"] == "tool":
            result = ToolResult(
                call_id=message["tool_call_id"],
                name=names[message["tool_call_id"]],
                content=message["content"],
            )
            earlier = history.pop().parts if history[-1].role == "tool" else ()
            history.append(Message.of("tool", [*earlier, result]))
        else:
            names |= {
                call["id"]: call["function"]["name"] for call in message.get("tool_calls", [])
            }
            recorded = json.dumps(
                {k: v for k, v in message.items() if k != "refusal"}, sort_keys=True
            )
            history.append(
                Message.of(message["role"], said[recorded] if recorded in said else _parts(message))
            )
    tools = [t for t in body.get("tools", []) if t["type"] == "function"]
    definitions = [
        ToolDefinition(
            name=t["name"], description=t.get("description", ""), parameters=t["parameters"]
        )
        for t in (t["function"] for t in tools)
    ]
    return ModelRequest(
        messages=history, tools=tuple(definitions), system=tuple(system), settings=_settings(body)
    )


def _parts(message: Json) -> list[Part]:
    """Where a recording begins in the middle of a conversation, or a person speaks."""
    calls: list[Part] = [
        ToolCall(id=c["id"], name=c["function"]["name"], arguments_json=c["function"]["arguments"])
        for c in message.get("tool_calls", [])
    ]
    content = message.get("content", [])
    return [
        *(
            [TextPart(text=content)]
            if isinstance(content, str)
            else [_part(part) for part in content]
        ),
        *calls,
    ]


def _part(part: Json) -> Part:
    if part["type"] == "text":
        return TextPart(text=part["text"])
    url = part["image_url"]["url"]
    kind, comma, data = url.removeprefix("data:").partition(";base64,")
    return (
        MediaPart(media_type=kind, data=data)
        if comma
        else MediaPart(media_type="image/png", url=url)
    )


def _settings(body: Json) -> Settings:
    known = {
        "model",
        "messages",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "stop",
        "tools",
        "tool_choice",
    }
    extra = {name: value for name, value in body.items() if name not in known}
    beyond = [
        t for t in body.get("tools", []) if t["type"] != "function" or "strict" in t["function"]
    ]
    if beyond:
        extra["tools"] = beyond
    choice = body.get("tool_choice")
    return Settings(
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens") or 4096,
        temperature=body.get("temperature"),
        stop=tuple([body["stop"]] if isinstance(body["stop"], str) else body["stop"])
        if body.get("stop")
        else None,
        tool_choice=choice["function"]["name"]
        if isinstance(choice, dict)
        else "any"
        if choice == "required"
        else choice,
        extra=extra or None,
    )

"""Recorded traffic of the Responses API: read, compared, and turned into our own values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from treadle.messages.message import (
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.openai_responses.messages import MessageEncoder
from treadle.types import Settings, SystemBlock

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "recordings" / "openai"

Json = dict[str, Any]


def exchanges(name: str) -> list[Json]:
    return json.loads((FOLDER / f"{name}.json").read_text())["exchanges"]


def of_this_wire(name: str) -> bool:
    exchange = exchanges(name)[0]
    if exchange["request"] is not None:
        return exchange["request"]["path"].endswith("/responses")
    return (
        '"response.created"' in exchange["response"]["body"]
        or '"object": "response"' in exchange["response"]["body"]
    )


NAMES = sorted(path.stem for path in FOLDER.glob("*.json") if of_this_wire(path.stem))


def is_refused(response: Json) -> bool:
    return (
        response["status"] != 200
        or '"type":"error"' in response["body"].replace(" ", "")
        or "response.failed" in response["body"]
    )


# ---------------------------------------------------------------- what the vendor said, read without any of our code


def events_of(response: Json) -> list[Json]:
    return [
        json.loads(line[5:])
        for line in response["body"].splitlines()
        if line.startswith("data:") and line[5:].strip() != "[DONE]"
    ]


def response_of(response: Json) -> Json:
    """The whole response; of a stream, with the items as they were when they were done, which is
    how the vendor wants them back.
    """
    if response["body"].lstrip().startswith("{"):
        return json.loads(response["body"])
    events = events_of(response)
    whole = next(event["response"] for event in reversed(events) if "response" in event)
    done = sorted(
        (e for e in events if e["type"] == "response.output_item.done"),
        key=lambda event: event.get("output_index", 0),
    )
    return {**whole, "output": [event["item"] for event in done] or whole["output"]}


def response_error(response: Json) -> Json:
    if response["body"].lstrip().startswith("{"):
        return json.loads(response["body"])["error"]
    event = next(
        event for event in events_of(response) if event["type"] in ("error", "response.failed")
    )
    return event.get("error") or event.get("response", {}).get("error") or event


# ---------------------------------------------------------------- what means the same


_FLAT = str.maketrans(
    {"\u2013": "-", "\u2014": "-", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
)


def same(value: Any) -> Any:
    """Without what makes no difference: nulls, ids and states of items, empty annotations, one text
    as a string or as a list of one.

    And without what the recorded programs did to what the vendor had said: typographic characters
    made plain.
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
        and (k, v) not in (("annotations", []), ("logprobs", []), ("description", ""))
    }
    if plain.get("type") in ("output_text", "input_text"):
        plain.pop("logprobs", None)
    if "role" in plain or str(plain.get("type")).endswith(
        ("_call", "_output", "_list_tools", "reasoning")
    ):
        plain.pop("id", None)
        plain.pop("status", None)
    if plain.get("type") == "reasoning":
        plain = {k: v for k, v in plain.items() if (k, v) != ("content", [])}
    if plain.get("type") == "input_image":
        plain.setdefault("detail", "auto")
    if "role" in plain:
        plain["role"] = {"developer": "system"}.get(plain["role"], plain["role"])
        content = plain.get("content")
        if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
            plain["content"] = content[0]["text"]
        if isinstance(plain.get("content"), str):
            plain.pop("type", None)
    return plain


def items_of(parts: Sequence[Part]) -> list[Json]:
    """Parts of a response as they go back to the vendor."""
    encoded = MessageEncoder().encode(Message.assistant(parts), False)
    items: list[Json] = json.loads(b"[" + encoded + b"]")
    return [same(item) for item in items if "This was not run" not in json.dumps(item)]


# ---------------------------------------------------------------- recorded requests as our own values


def request_of(body: Json, responses: Iterable[Sequence[Part]]) -> ModelRequest:
    """The request that the loop would have made: what the model said is taken from our responses,
    where one of them says the same.
    """
    said = {_key(items_of(parts)): parts for parts in responses}
    given = (
        [{"role": "user", "content": body["input"]}]
        if isinstance(body["input"], str)
        else body["input"]
    )
    names = {
        item["call_id"]: item["name"]
        for item in given
        if item.get("type") in ("function_call", "custom_tool_call")
    }
    messages: list[Message] = []
    for role, items in groupby(given, _role):
        messages += _messages(role, list(items), said, names)
    tools = [t for t in body.get("tools", []) if t["type"] == "function"]
    return ModelRequest(
        messages=messages,
        tools=tuple(
            ToolDefinition(
                name=t["name"], description=t.get("description") or "", parameters=t["parameters"]
            )
            for t in tools
        ),
        system=(SystemBlock(text=body["instructions"]),) if body.get("instructions") else (),
        settings=_settings(body),
    )


def _key(items: list[Json]) -> str:
    """What the recorded programs sent back of an answer: items of hosted tools they made anew from
    what they had kept.
    """
    kept = [
        item
        for item in items
        if item.get("role")
        or item.get("type") in ("function_call", "custom_tool_call", "reasoning")
    ]
    return json.dumps(kept, sort_keys=True)


def _role(item: Json) -> str:
    if item.get("type") in ("function_call_output", "custom_tool_call_output"):
        return "tool"
    return item.get("role", "assistant")


def _messages(
    role: str, items: list[Json], said: dict[str, Sequence[Part]], names: dict[str, str]
) -> list[Message]:
    match role:
        case "tool":
            results = [
                (
                    i["call_id"],
                    i["output"] if isinstance(i["output"], str) else tuple(_given(i["output"])),
                )
                for i in items
            ]
            return [
                Message.tool(
                    [
                        ToolResult(call_id=call_id, name=names.get(call_id, "?"), content=content)
                        for call_id, content in results
                    ]
                )
            ]  # pyright: ignore[reportArgumentType]  texts and media
        case "assistant":
            parts = said.get(_key([same(item) for item in items]))
            return [
                Message.assistant([_written(item) for item in items] if parts is None else parts)
            ]
        case _:
            return [
                Message.of("system" if role == "developer" else role, _given(same(item)["content"]))
                for item in items
            ]  # pyright: ignore[reportArgumentType]  one of the roles


def _given(content: str | list[Json]) -> list[Part]:
    if isinstance(content, str):
        return [TextPart(text=content)]
    parts: list[Part] = []
    for part in content:
        url = part.get("image_url") or part.get("file_data") or part.get("file_url") or ""
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        if part["type"] == "input_text":
            parts.append(TextPart(text=part["text"]))
        elif data:
            parts.append(MediaPart(media_type=media_type, data=data, name=part.get("filename")))
        else:
            parts.append(
                MediaPart(
                    media_type="image/png" if part["type"] == "input_image" else "application/pdf",
                    url=url,
                )
            )
    return parts


def _written(item: Json) -> Part:
    """Where a recording begins in the middle of a conversation, or somebody changed what had been
    said.
    """
    plain = same(item)
    match item.get("type", "message"):
        case "message":
            return TextPart(text=plain["content"])
        case "reasoning":
            kept = {k: v for k, v in item.items() if k != "type"}
            text = "\n\n".join(part["text"] for part in item["summary"])
            return ReasoningPart(text=text, provider="openai", provider_data=json.dumps(kept))
        case "custom_tool_call":
            data = {"provider": "openai", "provider_data": '{"type":"custom_tool_call"}'}
            return ToolCall(
                id=item["call_id"],
                name=item["name"],
                arguments_json=json.dumps({"input": item["input"]}),
                **data,
            )
        case "function_call":
            more = {
                k: v
                for k, v in item.items()
                if k not in ("type", "id", "call_id", "name", "arguments", "status")
            }
            data = {"provider": "openai", "provider_data": json.dumps(more)} if more else {}
            return ToolCall(
                id=item["call_id"], name=item["name"], arguments_json=item["arguments"], **data
            )
        case _:
            return ProviderPart(provider="openai", data=json.dumps(item))


_OURS = (
    "model",
    "input",
    "instructions",
    "stream",
    "store",
    "tools",
    "tool_choice",
    "reasoning",
    "max_output_tokens",
    "temperature",
)


def _settings(body: Json) -> Settings:
    reasoning = body.get("reasoning") or {}
    extra = {k: v for k, v in body.items() if k not in _OURS and v is not None}
    beyond = [
        {k: v for k, v in t.items() if k not in ("parameters", "description")}
        for t in body.get("tools") or []
    ]
    if any(t["type"] != "function" or set(t) > {"type", "name", "strict"} for t in beyond):
        extra["tools"] = [{k: v for k, v in t.items() if k != "strict"} for t in beyond]
    effort = reasoning.get("effort")
    if more := {
        k: v
        for k, v in reasoning.items()
        if v is not None and (k != "effort" or effort in ("none", "minimal"))
    }:
        extra["reasoning"] = more
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") != "function":
        extra["tool_choice"] = choice
    # which we refuse before the provider does
    if (temperature := body.get("temperature")) is not None and temperature < 0:
        extra["temperature"], temperature = temperature, None
    return Settings(
        max_tokens=body.get("max_output_tokens"),
        temperature=temperature,
        effort=None if effort in ("none", "minimal") else effort,
        tool_choice=choice.get("name")
        if isinstance(choice, dict)
        else {"required": "any"}.get(str(choice), choice),
        cache=False,
        extra=extra or None,
    )

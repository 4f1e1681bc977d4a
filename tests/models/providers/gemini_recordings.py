"""Recorded traffic of Google: read, compared, and turned into our own values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from treadle.messages.message import Message, Part, TextPart, ToolCall, ToolResult
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.providers.gemini.messages import MessageEncoder
from treadle.types import Settings, SystemBlock

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "recordings" / "gemini"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
BLANK = "Go on."
"""What we say where the recorded program said nothing at all."""

Json = dict[str, Any]


def exchanges(name: str) -> list[Json]:
    return json.loads((FOLDER / f"{name}.json").read_text())["exchanges"]


def model_id_of(exchange: Json) -> str:
    """Who was asked; the recordings without a request do not tell."""
    request = exchange["request"]
    return (
        unquote(request["path"].partition("models/")[2].partition(":")[0])
        if request
        else "gemini-3.1-pro-preview"
    )


# ---------------------------------------------------------------- what the vendor said, read without any of our code


def chunks_of(response: Json) -> list[Json]:
    if not response["body"].startswith("data:"):
        return [json.loads(response["body"])]
    return [
        json.loads(line[5:]) for line in response["body"].splitlines() if line.startswith("data:")
    ]


def told(chunks: Sequence[Json]) -> list[Json]:
    """The parts of an answer: unsigned text in one piece up to a thought or anything else, calls
    that came in pieces as one, no thoughts, nothing that says nothing.
    """
    parts: list[Json] = []
    thinking = False
    for part in _parts(chunks):
        if part.keys() <= {"text", "thought"} and not part.get("text"):
            continue
        before = parts[-1] if parts and not thinking else {}
        thinking = part.get("thought", False)
        if "functionCall" in part:
            call = part["functionCall"]
            if before.get("functionCall", {}).pop("willContinue", False):
                _go_on(before["functionCall"], call)
            elif call:
                parts.append({**part, "functionCall": {"args": {}, **call}})
        elif set(part) == {"text"} and set(before) == {"text"}:
            before["text"] += part["text"]
        elif not thinking:
            parts.append(part)
    return parts


def _parts(chunks: Sequence[Json]) -> Iterator[Json]:
    for chunk in chunks:
        yield from json.loads(json.dumps(chunk["candidates"][0]["content"].get("parts", [])))


def _go_on(call: Json, piece: Json) -> None:
    for partial in piece.get("partialArgs", []):
        name = partial["jsonPath"].removeprefix("$.")
        call["args"][name] = call["args"].get(name, "") + partial["stringValue"]
    if piece.get("willContinue"):
        call["willContinue"] = True


# ---------------------------------------------------------------- what means the same


def same(value: Any) -> Any:
    """Without what makes no difference: ids, which the server gives or leaves to us, the alphabet
    of base64, the case of a type's name, the key of a result, whether a field is written as in
    Python, and what the API assumes by itself.
    """
    if isinstance(value, list):
        return [same(v) for v in value]
    if not isinstance(value, dict):
        return value
    plain = {
        _camel(name): same(v)
        for name, v in value.items()
        if name not in ("id", "willContinue", "responseModalities")
    }
    if "functionDeclarations" in plain:
        for function in plain["functionDeclarations"]:
            if "parameters" in function:
                function["parametersJsonSchema"] = function.pop("parameters")
    if isinstance(plain.get("type"), str):
        plain["type"] = plain["type"].lower()
    if "thoughtSignature" in plain:
        plain["thoughtSignature"] = plain["thoughtSignature"].replace("-", "+").replace("_", "/")
    if "functionResponse" in plain:
        (plain["functionResponse"]["response"],) = plain["functionResponse"]["response"].values()
    if plain.get("text") == "" and "thoughtSignature" not in plain:
        plain["text"] = BLANK
    if "systemInstruction" in plain:
        plain["systemInstruction"].pop("role", None)
    return plain


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def parts_of(parts: Sequence[Part], model_id: str) -> list[Json]:
    """Parts of a response as they go back to the vendor."""
    encoder = MessageEncoder(model_id)
    encoder.speaker = "user"
    encoded = encoder.encode(Message.assistant(parts), False)
    return same(json.loads(encoded)["parts"]) if encoded else []


# ---------------------------------------------------------------- recorded requests as our own values


def request_of(body: Json, responses: Sequence[Sequence[Part]]) -> ModelRequest:
    """The request that the loop would have made: what the model said is taken from our responses,
    not from the record.
    """
    said = iter(responses)
    messages: list[Message] = []
    for content in body["contents"]:
        if content["role"] == "model":
            messages.append(Message.assistant(next(said)))
            continue
        results = [
            part["functionResponse"] for part in content["parts"] if "functionResponse" in part
        ]
        calls = messages[-1].tool_calls if messages else ()
        if results:
            messages.append(
                Message.tool(
                    [_result(call, result) for call, result in zip(calls, results, strict=True)]
                )
            )
        else:
            messages.append(
                Message.user([TextPart(text=part["text"] or BLANK) for part in content["parts"]])
            )
    functions = [
        function for tool in body.get("tools", []) for function in tool["functionDeclarations"]
    ]
    system = [
        SystemBlock(text=part["text"])
        for part in body.get("systemInstruction", {}).get("parts", [])
    ]
    return ModelRequest(
        messages=messages,
        tools=tuple(_tool(f) for f in functions),
        system=tuple(system),
        settings=_settings(body),
    )


def _result(call: ToolCall, result: Json) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, content=result["response"]["return_value"])


def _tool(function: Json) -> ToolDefinition:
    parameters = function.get("parameters_json_schema") or function["parameters"]
    return ToolDefinition(
        name=function["name"], description=function["description"], parameters=parameters
    )


def _settings(body: Json) -> Settings:
    config = same(body["generationConfig"])
    thinking = config.get("thinkingConfig", {})
    return Settings(
        max_tokens=config.get("maxOutputTokens"),
        output_schema=config.get("responseJsonSchema"),
        extra={
            name: value for name, value in body.items() if name in ("toolConfig", "safetySettings")
        }
        | ({"generationConfig": {"thinkingConfig": thinking}} if thinking else {}),
    )

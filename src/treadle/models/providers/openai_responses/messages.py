"""Encoding of messages as input items of the Responses API. Each message is encoded once.

request.py encodes the rest of the request. Entry points: `MessageEncoder`.

Nothing is stored at the provider, which could not find items by id: messages, reasoning and calls
are sent without theirs (recorded: the API accepts that; reasoning with an id is rejected if a
different item follows). Items of hosted tools keep their ids if their type requires one. Source:
https://developers.openai.com/api/reference/responses/create, the guides on reasoning and on files,
and the types of SDK 3.51 (2026-11).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from treadle.config.model_profile import UNKNOWN, Abilities
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
from treadle.models.providers.decoding import text_of
from treadle.models.providers.encoding import (
    Fields,
    Json,
    arguments_of,
    described,
    dumped,
    identifier,
    own_fields,
    raw,
    shown,
)
from treadle.models.providers.openai_responses.calls import CUSTOM, PATCH
from treadle.models.providers.openai_responses.compaction import window_in
from treadle.models.providers.openai_responses.content import (
    compact_content,
    media_content,
    text_content,
)
from treadle.models.providers.openai_responses.item import PROVIDER

_KEEP_THEIR_ID = frozenset(
    {
        *(
            "mcp_list_tools",
            "mcp_call",
            "mcp_approval_request",
            "code_interpreter_call",
            "file_search_call",
        ),
        *("image_generation_call", "computer_call", "program", "program_output"),
        "compaction",  # stored with it, and sent back unchanged
    }
)
_NOT_RUN = "This was not run: it is not supported here."
_UNANSWERED: dict[str, Json] = {
    "local_shell_call": {"type": "local_shell_call_output", "output": _NOT_RUN},
    "shell_call": {
        "type": "shell_call_output",
        "output": [{"stdout": "", "stderr": _NOT_RUN, "outcome": {"type": "exit", "exit_code": 1}}],
    },
    "apply_patch_call": {"type": "apply_patch_call_output", "status": "failed", "output": _NOT_RUN},
}
"""Outputs for calls of client-side tools that the API defines: it rejects a history with an
unanswered one.
"""
_NULL = b"null"

Item = Json | msgspec.Raw


class MessageEncoder:
    """Encoder of one history's messages, in order."""

    __slots__ = ("_abilities", "_kinds", "_windows", "begin", "has_window", "response_id")

    def __init__(self, abilities: Abilities = UNKNOWN, *, windows: bool = False) -> None:
        """Create a message encoder. `windows`: windows compacted by OpenAI are sent as such, not as
        text.
        """
        self._windows = windows
        self.has_window = False
        """True if the input begins with a compacted window."""
        self.begin = b""
        """The first encoded message."""
        self.response_id = ""
        """The provider's id of the newest response."""
        self._abilities = abilities
        self._kinds: dict[str, str] = {}
        """Item type of each call that is not a function call, because its result has a different
        item type.
        """

    def encode(self, message: Message, settled: bool) -> bytes:
        """Return the items, joined by commas; b"" if nothing of the message is sent."""
        items: Sequence[Item]
        if self._windows and not self.begin and (items := window_in(message)):
            self.has_window, self.begin = True, b",".join(map(bytes, items))
            return self.begin
        message = shown(message, self._abilities)
        match message.role:
            case "assistant":
                self.response_id = message.response_id
                items = self._said(message.parts, settled and not self._abilities.earlier_thinking)
            case "system":
                texts = [
                    part.text for part in message.parts if isinstance(part, TextPart) and part.text
                ]
                items = [{"role": "system", "content": "\n\n".join(texts)}] if texts else []
            case "user" | "tool":
                items = self._given(message.parts)
        encoded = b",".join([dumped(item) for item in items])
        self.begin = self.begin or encoded
        return encoded

    # ------------------------------------------------------------ output of the model

    def _said(self, parts: Iterable[Part], settled: bool) -> list[Item]:
        items: list[Item] = []
        thought: list[Item] = []
        answered = {
            text_of(fields, "call_id")
            for part in parts
            if (fields := _own_item(part)) and text_of(fields, "type").endswith("_output")
        }
        for part in parts:
            if isinstance(part, ReasoningPart):
                thought += [] if settled else _reasoning(part)
            elif said := self._item(part, answered):
                items += [*thought, *said]
                thought = []
        # drop reasoning that nothing follows, as in an interrupted response: the API rejects it
        return items

    def _item(self, part: Part, answered: set[str]) -> list[Item]:
        match part:
            case TextPart() if part.text:
                return [_text(part)]
            case ToolCall():
                return [self._call(part)]
            case ProviderPart():
                return _hosted(_own_item(part), answered)
            case MediaPart():
                fields = own_fields(part, PROVIDER)
                return [{**fields, "result": part.data} if fields else _message(described(part))]
            case _:
                return []

    def _call(self, call: ToolCall) -> Json:
        fields, own = (
            own_fields(call, PROVIDER),
            {"call_id": identifier(call.id), "name": identifier(call.name)},
        )
        arguments = arguments_of(call.arguments_json)
        kind = text_of(fields, "type")
        if kind == CUSTOM:
            self._kinds[call.id] = CUSTOM
            return {"type": CUSTOM, **own, **fields, "input": _input_of(arguments)}
        if kind == PATCH and (operation := _operation_of(arguments)) is not None:
            self._kinds[call.id] = PATCH
            return {
                "status": "completed",
                **fields,
                "call_id": own["call_id"],
                "operation": operation,
            }
        fields.pop("type", None)
        return {"type": "function_call", **own, "arguments": arguments, **fields}

    # ------------------------------------------------------------ input to the model

    def _given(self, parts: Iterable[Part]) -> list[Item]:
        items: list[Item] = []
        content: list[Json] = []
        for part in parts:
            match part:
                case ToolResult():
                    items.append(self._result(part))
                case TextPart() if part.text:
                    content.append(text_content(part.text))
                case MediaPart():
                    content.append(media_content(part))
                case _:
                    pass
        return [*items, {"role": "user", "content": compact_content(content)}] if content else items

    def _result(self, result: ToolResult) -> Json:
        kind = f"{self._kinds.get(result.call_id, 'function_call')}_output"
        if kind == f"{PATCH}_output":
            status = "failed" if result.is_error else "completed"
            return {
                "type": kind,
                "call_id": identifier(result.call_id),
                "status": status,
                "output": result.text,
            }
        shown = (
            [TextPart(text=result.content)] if isinstance(result.content, str) else result.content
        )
        content = [
            media_content(part) if isinstance(part, MediaPart) else text_content(part.text)
            for part in shown
            if isinstance(part, MediaPart) or part.text
        ]
        if result.is_error:  # the API has no field for it
            content = [
                text_content("This call failed." if not content else "This call failed:"),
                *content,
            ]
            if all(part["type"] == "input_text" for part in content):
                content = [text_content("\n".join(part["text"] for part in content))]
        return {
            "type": kind,
            "call_id": identifier(result.call_id),
            "output": compact_content(content),
        }


def _own_item(part: Part) -> Fields:
    if not isinstance(part, ProviderPart) or part.provider != PROVIDER:
        return {}
    try:
        return msgspec.json.decode(raw(part.data), type=Fields)
    except (ValueError, RecursionError):
        return {}


def _text(part: TextPart) -> Json:
    fields = own_fields(part, PROVIDER)
    phase = {"phase": fields["phase"]} if "phase" in fields else {}
    if "annotations" in fields:
        content: object = [
            {"type": "output_text", "text": part.text, "annotations": fields["annotations"]}
        ]
    elif text_of(fields, "type") == "refusal":
        content = [{"type": "refusal", "refusal": part.text}]
    else:
        content = part.text
    return _message(content) | phase


def _message(content: object) -> Json:
    """Return a message with its type, which the API does not need but llama.cpp does."""
    return {"type": "message", "role": "assistant", "content": content}


def _reasoning(part: ReasoningPart) -> list[Item]:
    """Return reasoning that is readable without stored state: encrypted, or in plain text."""
    fields = {
        name: value
        for name, value in own_fields(part, PROVIDER).items()
        if name not in ("id", "status")
    }
    if not text_of(fields, "encrypted_content"):
        fields.pop("encrypted_content", None)
        if bytes(fields.get("content", b"[]")) == b"[]":
            return []
    return [{"type": "reasoning", "summary": [], **fields}]


def _hosted(fields: Fields, answered: set[str]) -> list[Item]:
    kind = text_of(fields, "type")
    if not kind or kind == "computer_call":  # it requires a screenshot in return
        return []
    item: Json = {
        name: value for name, value in fields.items() if name != "id" or kind in _KEEP_THEIR_ID
    }
    # some calls have no separate output
    at_provider = b"container" in bytes(fields.get("environment", b""))
    if (
        kind in _UNANSWERED
        and not at_provider
        and (call_id := text_of(fields, "call_id")) not in answered
    ):
        return [item, {**_UNANSWERED[kind], "call_id": call_id}]
    return [item]


class _Input(msgspec.Struct):
    input: str


class _Patch(msgspec.Struct):
    operation: Fields


_input = msgspec.json.Decoder(_Input)
_patch = msgspec.json.Decoder(_Patch)


def _operation_of(arguments: str) -> Fields | None:
    try:
        return _patch.decode(arguments).operation
    except (ValueError, RecursionError):
        return None


def _input_of(arguments: str) -> str:
    try:
        return _input.decode(arguments).input
    except (ValueError, RecursionError):
        return arguments

"""Encoding of messages for Chat Completions, each as one or more messages of the API, and only
once.

request.py encodes the rest of the request. Entry points: `MessageEncoder`. Source:
https://platform.openai.com/docs/api-reference/chat/create (2026-11); servers.py lists differences
between servers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TypeGuard

import msgspec

from treadle.messages.message import (
    PDF,
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from treadle.models.providers.encoding import (
    UNSENT,
    Fields,
    Json,
    arguments_of,
    described,
    dumped,
    identifier,
    is_object,
    text_in,
)
from treadle.models.providers.openai_chat.calls import PROVIDER
from treadle.models.providers.openai_chat.servers import ServerTraits

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_REASONING_FIELDS = {b'"reasoning"': "reasoning", b'"reasoning_content"': "reasoning_content"}
_FAILED = "This call failed"
"""Prefix of failed results, because the API has no field for failure."""


class MessageEncoder:
    """Encoder of one history's messages, in order, for one server, which records possible cache
    breakpoints as positions in the joined bytes.
    """

    __slots__ = ("_after_tools", "_fits", "_length", "_marked", "_server", "asked", "end")

    def __init__(self, server: ServerTraits, *, marked: bool) -> None:
        """Create a message encoder. `marked`: breakpoints will be inserted, so that every text is
        written as a list.
        """
        self._server = server
        self._marked = marked
        self._fits = re.compile(server.call_id, re.ASCII).fullmatch
        self._after_tools = False
        self.end = 0
        """End of the last part, before the brackets that close its message; 0 if it cannot carry a
        breakpoint.
        """
        self.asked = 0
        """Value of `end` at the request that the newest assistant message answers."""
        self._length = 0

    def encode(self, message: Message, settled: bool) -> bytes:
        """Return the encoded messages, joined by commas; b"" if nothing is sent."""
        match message.role:
            case "assistant":
                items = self._from_assistant(message.parts, settled)
            case "system":
                items = self._from_system(message.parts)
            case "user" | "tool":
                items = self._from_user(message.parts)
        if not items:
            return b""
        encoded = b",".join([dumped(item) for item in self._in_turn(items)])
        if message.role == "assistant":
            self.asked = self.end
        self._length += len(encoded) + (self._length > 0)
        self.end = self._length - len(b"}]}") if self._marked and _can_be_marked(items[-1]) else 0
        return encoded

    def _in_turn(self, items: list[Json]) -> list[Json]:
        """Insert the assistant text that some servers require between tool results and other
        messages.
        """
        turns = list[Json]()
        for item in items:
            if (
                self._after_tools
                and self._server.after_tools
                and item["role"] not in ("tool", "assistant")
            ):
                turns.append({"role": "assistant", "content": self._server.after_tools})
            self._after_tools = item["role"] == "tool"
            turns.append(item)
        return turns

    def system(self, text: str) -> Json:
        """Return the system message, which precedes all others."""
        return {"role": self._server.system_role, "content": self._texts([text])}

    # ------------------------------------------------------------ assistant

    def _from_assistant(self, parts: Sequence[Part], settled: bool) -> list[Json]:
        shown = list(filter(self._returned, parts))
        texts = [
            described(part) if isinstance(part, MediaPart) else part.text
            for part in parts
            if isinstance(part, TextPart | MediaPart) and part not in shown
        ]
        calls = [self._call(part) for part in parts if isinstance(part, ToolCall)]
        text = "".join(texts)
        if not text and not calls and not shown:
            return []
        item: Json = {"role": "assistant", "content": text or self._server.no_text}
        if shown:
            item["images"] = [self._media(part) for part in shown]
        item.update({} if settled else self._reasoning(parts))
        if calls:
            item["tool_calls"] = calls
            if self._server.reasoning_always:
                item.setdefault(self._server.reasoning, "")
        return [item]

    def _returned(self, part: Part) -> TypeGuard[MediaPart]:
        """Return True for an image that the server's model made and accepts back."""
        return (
            self._server.images
            and isinstance(part, MediaPart)
            and part.provider == PROVIDER
            and part.media_type in _IMAGES
        )

    def _call(self, part: ToolCall) -> Json:
        function = {"name": identifier(part.name), "arguments": arguments_of(part.arguments_json)}
        extra = (
            {name: value for name, value in _own(part).items() if name == "extra_content"}
            if self._server.call_extras
            else {}
        )
        return {"id": self._call_id(part.id), "type": "function", "function": function, **extra}

    def _reasoning(self, parts: Sequence[Part]) -> Json:
        """Return the reasoning that the server needs back."""
        wanted = self._server.reasoning
        if wanted == "reasoning_details":
            lists = [
                _fields(part.data)
                for part in parts
                if isinstance(part, ProviderPart) and part.provider == PROVIDER
            ]
            return {
                name: value for fields in lists for name, value in fields.items() if name == wanted
            }
        own = [
            (part.text, field)
            for part in parts
            if isinstance(part, ReasoningPart) and (field := _field(part))
        ]
        text = "".join(text for text, _ in own)
        if not text or not wanted:
            return {}
        return {own[0][1] if wanted == "as_it_came" else wanted: text}

    # ------------------------------------------------------------ user

    def _from_system(self, parts: Sequence[Part]) -> list[Json]:
        text = "\n\n".join(part.text for part in parts if isinstance(part, TextPart) and part.text)
        if not text:
            return []
        if self._server.later_system:
            return [self.system(text)]
        return [{"role": "user", "content": self._texts([f"<system>\n{text}\n</system>"])}]

    def _from_user(self, parts: Sequence[Part]) -> list[Json]:
        """Encode results first, each as its own message; media in them follow as a user message."""
        items, shown = list[Json](), list[Part]()
        for part in parts:
            if isinstance(part, ToolResult):
                items.append(self._result(part))
                shown += self._shown(part)
        shown += [
            part
            for part in parts
            if isinstance(part, MediaPart) or (isinstance(part, TextPart) and part.text)
        ]
        if shown:
            items.append({"role": "user", "content": self._content(shown)})
        return items

    def _result(self, part: ToolResult) -> Json:
        if isinstance(part.content, str):
            text = part.content
        else:
            text = "\n".join(
                inner.text if isinstance(inner, TextPart) else self._pointer(inner)
                for inner in part.content
            )
        if part.is_error:
            text = f"{_FAILED}: {text}" if text.strip() else f"{_FAILED}."
        return {
            "role": "tool",
            "tool_call_id": self._call_id(part.call_id),
            "content": self._texts([text]),
        }

    def _pointer(self, part: MediaPart) -> str:
        media = self._media(part)
        return str(media["text"]) if media["type"] == "text" else "[shown below]"

    def _shown(self, part: ToolResult) -> list[Part]:
        media = (
            [
                inner
                for inner in part.content
                if isinstance(inner, MediaPart) and self._can_show(inner)
            ]
            if not isinstance(part.content, str)
            else []
        )
        return (
            [TextPart(text=f"From the result of {identifier(part.name)}:"), *media] if media else []
        )

    def unsent(self, part: MediaPart) -> str:
        """Return advice about a part that the server does not accept; "" for others."""
        return "" if self._can_show(part) or text_in(part) is not None else UNSENT

    def _can_show(self, part: MediaPart) -> bool:
        return self._media(part)["type"] != "text"

    def _content(self, parts: Sequence[Part]) -> str | list[Json]:
        if all(isinstance(part, TextPart) for part in parts):
            return self._texts([part.text for part in parts if isinstance(part, TextPart)])
        return [
            {"type": "text", "text": part.text} if isinstance(part, TextPart) else self._media(part)
            for part in parts
            if isinstance(part, TextPart | MediaPart)
        ]

    def _texts(self, texts: list[str]) -> str | list[Json]:
        """Return a single string, which every server accepts, or a list if it needs a
        breakpoint.
        """
        return (
            [{"type": "text", "text": text} for text in texts]
            if self._marked
            else "\n\n".join(texts)
        )

    def _media(self, part: MediaPart) -> Json:
        kind, url = part.media_type, part.url or f"data:{part.media_type};base64,{part.data}"
        if kind in _IMAGES:
            return {"type": "image_url", "image_url": {"url": url}}
        if part.media_type == PDF and part.data is not None and self._server.files:
            return {
                "type": "file",
                "file": {"filename": part.name or "document.pdf", "file_data": url},
            }
        if kind in _SOUNDS and part.data is not None and self._server.audio:
            return {
                "type": "input_audio",
                "input_audio": {"data": part.data, "format": _SOUNDS[kind]},
            }
        text = text_in(part)
        return {
            "type": "text",
            "text": described(part) if text is None else f"{part.name or 'A file'}:\n{text}",
        }

    def _call_id(self, call_id: str) -> str:
        if self._fits(call_id):
            return call_id
        return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[
            : self._server.call_id_chars
        ]


def _can_be_marked(item: Json) -> bool:
    """Return True if the last part can carry a breakpoint, unlike blank text and calls."""
    return item["role"] != "assistant" and bool(item["content"][-1].get("text", "shown").strip())


def _fields(text: str | None) -> Fields:
    """Return the object's fields; empty if a history from elsewhere holds no object."""
    return msgspec.json.decode(text, type=Fields) if text is not None and is_object(text) else {}


def _own(part: ReasoningPart | ToolCall) -> Fields:
    return _fields(part.provider_data) if part.provider == PROVIDER else {}


def _field(part: ReasoningPart) -> str:
    """Return the field under which the reasoning arrived; "" if it is from another wire."""
    field = bytes(_own(part).get("field", b""))
    return _REASONING_FIELDS.get(field, "")

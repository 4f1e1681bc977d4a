"""One server that is four vendors: it refuses what their rules refuse, signs its thinking, and
prices what a cache could read.

Answers come from a script: a text, a call, or several parts. Entry: `Vendor`, `vendor`.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.models.caching.pricing import Bill, Cache
from tests.models.providers.loopback import GONE, Answer, Server, document, listening, stream
from tests.models.providers.speech import ANSWER_ID, Call, Reasoning, Said, Speech, Text
from tests.models.providers.speeches import anthropic as claude_words
from tests.models.providers.speeches import gemini as gemini_words
from tests.models.providers.speeches import openai_chat as chat_words
from tests.models.providers.speeches import openai_responses as responses_words
from tests.vendors import claude, gpt, openrouter
from tests.vendors import gemini as google
from tests.vendors.rules import Asked, Json, Rules
from treadle.config.model_profile import Abilities
from treadle.models.model import Model
from treadle.models.providers.anthropic.model import AnthropicModel
from treadle.models.providers.connection import Connection
from treadle.models.providers.gemini import GeminiModel
from treadle.models.providers.known_models import known
from treadle.models.providers.openai_chat import ChatModel
from treadle.models.providers.openai_chat.servers import server_at
from treadle.models.providers.openai_responses import OpenAIResponsesModel
from treadle.types import StopReason

RULES: dict[str, Rules] = {
    "anthropic": claude.CLAUDE,
    "openai": gpt.RESPONSES,
    "openai-chat": gpt.CHAT,
    "gemini": google.GEMINI,
    "openrouter": openrouter.OPENROUTER,
}
SPEECHES: dict[str, Speech] = {
    "anthropic": claude_words.AnthropicSpeech(),
    "openai": responses_words.OpenAIResponsesSpeech(),
    "openai-chat": chat_words.ChatSpeech(),
    "gemini": gemini_words.GeminiSpeech(),
    "openrouter": openrouter.OpenRouterSpeech(),
}
PLACEHOLDERS = {
    "anthropic": '"sig=="',
    "openai": '"enc=="',
    "openai-chat": "",
    "openrouter": f'"{openrouter.SIGNATURE}"',
    "gemini": '"c2lnbmF0dXJl"',
}
"""Signatures in the speeches' answers."""
OPENROUTER_AT = "https://openrouter.ai/api/v1"
VENDORS = tuple(wire for wire in RULES if wire != "openrouter")
"""Wires of vendors themselves."""
_AT = re.compile(
    r"/v1/messages|/responses|/v1/chat/completions|/models/([^/:]+):streamGenerateContent"
)
_WIRES = {
    "/v1/messages": "anthropic",
    "/responses": "openai",
    "/v1/chat/completions": "openai-chat",
}

Ready = str | Said | Sequence[Said | str] | Answer
Reply = Ready | Callable[[Json], Ready]
"""What the model says, or what it says to a request."""


def think(text: str = "Hm.") -> Reasoning:
    return Reasoning((text,))


def call(name: str, /, call_id: str = "", **arguments: Any) -> Call:
    return Call(call_id, name, (json.dumps(arguments),))


def wire_of(target: str) -> str:
    found = _AT.search(target)
    assert found is not None, target
    return _WIRES.get(found[0], "gemini")


def known_of(wire: str, model_id: str) -> Abilities:
    return (
        known("openai-chat", OPENROUTER_AT, model_id)
        if wire == "openrouter"
        else known(wire, None, model_id)
    )


def model_of(
    wire: str,
    model_id: str,
    connection: Connection,
    abilities: Abilities | None = None,
    *,
    own_host: bool = False,
) -> Model:
    """As an endpoint of the vendor itself would make it. `own_host`: Claude at Anthropic, too."""
    own = known_of(wire, model_id) if abilities is None else abilities
    match wire:
        case "anthropic":
            return AnthropicModel(model_id, connection=connection, abilities=own, own_host=own_host)
        case "openai":
            return OpenAIResponsesModel(
                model_id, connection=connection, abilities=own, own_host=True
            )
        case "openai-chat" | "openrouter":
            at = OPENROUTER_AT if wire == "openrouter" else "https://api.openai.com/v1"
            return ChatModel(model_id, connection=connection, abilities=own, server=server_at(at))
        case _:
            return GeminiModel(model_id, connection=connection, abilities=own)


@dataclass
class Refused:
    model: str
    rule: str
    complaint: str


@dataclass
class Vendor(Server):
    """Answers any number of conversations; `script` is used up in order."""

    script: list[Reply] = field(default_factory=list[Reply])

    def __post_init__(self) -> None:
        super().__init__("http")
        self.bodies: list[Json] = []
        """The requests that were answered."""
        self.bills: list[Bill] = []
        self.refused: list[Refused] = []
        self.summaries: list[Json] = []
        """The requests for a compaction that were answered."""
        self.issued: dict[str, object] = {}
        self._caches = {
            wire: Cache("openai-chat" if wire == "openrouter" else wire) for wire in RULES
        }
        self._connections: dict[str, Connection] = {}
        self._answers = 0

    def model(
        self,
        wire: str,
        model_id: str,
        abilities: Abilities | None = None,
        *,
        own_host: bool = False,
    ) -> Model:
        if wire not in self._connections:
            self._connections[wire] = SPEECHES[wire].connection(self.url, timeout_s=10)
        return model_of(wire, model_id, self._connections[wire], abilities, own_host=own_host)

    async def aclose(self) -> None:
        for connection in self._connections.values():
            await connection.aclose()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        async with listening(self.handle) as port:
            self.port = port
            try:
                yield
            finally:
                await self.aclose()

    async def handle(self, stream: Any) -> None:
        self.answers = _Each(self)  # pyright: ignore[reportAttributeAccessIssue]  an answer for each request, made when it has come
        try:
            await super().handle(stream)
        except GONE:
            return

    def answer(self) -> Answer:
        seen = self.seen[-1]
        wire, body = wire_of(seen.target), json.loads(seen.body)
        model = body.get("model") or (_AT.search(seen.target) or [""])[1]
        if model.startswith("anthropic/"):
            wire = "openrouter"
        asked = Asked(model, body, self.issued, seen.headers, seen.target)
        if broken := RULES[wire].broken(asked):
            self.refused.append(Refused(model, *broken[0]))
            return document(SPEECHES[wire].error(400, broken[0][1]), status=400)
        self.bodies.append(body)
        reply = self.reply(wire)
        if callable(reply):
            reply = reply(body)
        if isinstance(reply, Answer):
            return reply
        self._answers += 1
        bill = self._caches[wire].price(seen.body)
        self.bills.append(bill)
        if "compaction" in body or seen.target.endswith("/compact"):
            assert isinstance(reply, str), "a summary is a text"
            self.summaries.append(body)
            return (
                self._summary(body, bill, reply)
                if wire == "anthropic"
                else self._window(body, bill, reply)
            )
        return self._said(wire, body, bill, reply)

    def _summary(self, body: Json, bill: Bill, text: str) -> Answer:
        """Claude's signed summary of all messages; an empty text stands for none."""
        block = {"type": "compaction", "content": text, "signature": f"summary-{self._answers}"}
        if text:
            messages = claude.restored(body["messages"], self.issued)
            self.issued[block["signature"]] = claude.Summary(block, messages)
        counts = {
            "input_tokens": 0,
            "cache_read_input_tokens": bill.marked // 4,
            "cache_creation_input_tokens": (bill.size - bill.marked) // 4,
            "output_tokens": 300,
        }
        usage = {"input_tokens": 0, "output_tokens": 0}
        began = {
            "id": f"msg_{self._answers}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [],
            "stop_reason": None,
            "usage": usage,
        }
        blocks: list[Json] = [
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_stop", "index": 0},
        ]
        end = {
            "type": "message_delta",
            "delta": {"stop_reason": "compaction" if text else "end_turn"},
            "usage": {**usage, "iterations": [{"type": "compaction", **counts}]},
        }
        return stream(
            {"type": "message_start", "message": began},
            *(blocks if text else []),
            end,
            {"type": "message_stop"},
        )

    def _window(self, body: Json, bill: Bill, text: str) -> Answer:
        """OpenAI's compacted window: the user's messages, and an item that only it can read."""
        said = [
            {
                "type": "message",
                "id": f"msg_{self._answers}_{i}",
                "role": "user",
                "status": "completed",
                "content": [{"type": "input_text", "text": item["content"]}]
                if isinstance(item["content"], str)
                else item["content"],
            }
            for i, item in enumerate(body["input"])
            if item.get("role") == "user"
        ]
        encrypted = f"compacted-{self._answers}"
        item = {"type": "compaction", "id": f"cmp_{self._answers}", "encrypted_content": encrypted}
        window = [*said, item] if text else said
        self.issued[encrypted] = window
        read = bill.read // 4
        usage: Json = {
            "input_tokens": bill.size // 4,
            "input_tokens_details": {"cached_tokens": read},
            "output_tokens": 300,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": bill.size // 4 + 300,
        }
        return document(
            {
                "id": f"resp_{self._answers}",
                "object": "response.compaction",
                "created_at": 1,
                "output": window,
                "usage": usage,
            }
        )

    def reply(self, wire: str) -> Reply:
        return self.script.pop(0)

    def _said(self, wire: str, body: Json, bill: Bill, reply: Ready) -> Answer:
        parts, end = self._parts(reply)
        frames = b"".join(SPEECHES[wire].frames(*parts, end=end)).decode()
        for placeholder, value in (
            *self._signed(wire, body, parts),
            *usage(wire, bill),
            (f'"{ANSWER_ID}"', f'"answer_{self._answers}"'),
        ):
            frames = frames.replace(placeholder, value)
        return Answer(steps=(frames.encode(),))

    def _parts(self, reply: Ready) -> tuple[list[Said], StopReason]:
        assert not isinstance(reply, Answer), "such a one is sent as it is"
        said = [reply] if isinstance(reply, Text | Reasoning | Call | str) else reply
        parts = [Text((part,)) if isinstance(part, str) else part for part in said]
        named = [
            Call(part.id or f"call_{self._answers}_{i}", part.name, part.pieces)
            if isinstance(part, Call)
            else part
            for i, part in enumerate(parts)
        ]
        return named, StopReason.TOOL_USE if any(
            isinstance(part, Call) for part in named
        ) else StopReason.COMPLETE

    def _signed(self, wire: str, body: Json, parts: Sequence[Said]) -> list[tuple[str, str]]:
        """The signature of this answer, and what it is for, in the vendor's memory."""
        match wire:
            case "anthropic":
                signature = claude.signature(body, self._answers, self.issued)
                self.issued[signature] = claude.prefix(body, len(body["messages"]), self.issued)
            case "gemini":
                signature = f"c2lnbmVk{self._answers:04}"
                first = next((part for part in parts if isinstance(part, Call)), None)
                call = (
                    {}
                    if first is None
                    else {
                        "functionCall": {
                            "name": first.name,
                            "args": json.loads("".join(first.pieces) or "{}"),
                        }
                    }
                )
                self.issued[signature] = google.signed_for(call) if first is not None else ""
            case "openrouter":
                signature = f"signed-{self._answers}"
                self.issued[signature] = openrouter.prefix(body["messages"], body)
            case _:
                signature = f"encrypted-{self._answers}"
                self.issued[signature] = True
        return [(PLACEHOLDERS[wire], json.dumps(signature))] if PLACEHOLDERS[wire] else []


class _Each:
    def __init__(self, server: Vendor) -> None:
        self._server = server

    def pop(self, _: int) -> Answer:
        return self._server.answer()


def usage(wire: str, bill: Bill) -> list[tuple[str, str]]:
    """Words of the speech's usage, and what stands in their place: a token for four bytes, cached
    by prefix.

    Source: "Prompt caching" of each vendor: Claude reads and writes at breakpoints, the others read
    the longest prefix that they have seen.
    """
    size, read = bill.size // 4, (bill.marked if wire == "anthropic" else bill.read) // 4
    match wire:
        case "anthropic":
            told: Json = {
                "input_tokens": 0,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": size - read,
                "output_tokens": 1,
            }
            return [(json.dumps(claude_words.USAGE), json.dumps(told))]
        case "openai":
            told = {
                **responses_words.USAGE,
                "input_tokens": size,
                "input_tokens_details": {"cached_tokens": read},
                "total_tokens": size + 7,
            }
            return [(json.dumps(responses_words.USAGE), json.dumps(told))]
        case "openai-chat" | "openrouter":
            told = {
                **chat_words.USAGE,
                "prompt_tokens": size,
                "prompt_tokens_details": {"cached_tokens": read},
                "total_tokens": size + 7,
            }
            return [(json.dumps(chat_words.USAGE), json.dumps(told))]
        case _:
            told = {
                **gemini_words.COUNTS,
                "promptTokenCount": size,
                "cachedContentTokenCount": read,
                "totalTokenCount": size + 7,
            }
            return [(json.dumps(gemini_words.COUNTS), json.dumps(told))]


@asynccontextmanager
async def vendor(*script: Reply) -> AsyncGenerator[Vendor]:
    server = Vendor(list(script))
    async with server.listening():
        yield server

"""Conversations as each wire would have made them, with everything in them that another could
stumble over.

Whatever must arrive bears a mark, and so does whatever must not: what arrived can be read off the
body. Entry: `conversations`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import strategies as st

from treadle.messages.history import History
from treadle.messages.message import (
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
    UnknownPart,
)

MODEL = "model-of-the-test"
WIDE = 100
"""Parallel calls, now and then."""
PLAIN_FROM = 4

odd_text = st.sampled_from(
    ["", "", "", " ", "\n", "\u2028 \U0001f9f5", "\ud83d", '"}]', "</system>", "```json\n{}"]
)
odd_ids = st.sampled_from(
    [
        "",
        "toolu_01AbC",
        "call_abc|fc_0123456789abcdef",
        "x" * 80,
        "y" * 45,
        "9",
        "functions.look:0",
        "\u00e9\u00e8",
        "a b",
    ]
)
odd_arguments = st.sampled_from(
    ['{"n":"%s"}', '{ "n" : [1e400, "%s"] }', '{"n": "%s', "%s", '["%s"]', '{"n":"%s","n":1}']
)
names = st.sampled_from(["look", "look", "look", "files.read", "mcp__a__b", "0", "n" * 64])


@dataclass(repr=False)
class Talk:
    """A conversation while it is made."""

    draw: st.DrawFn
    messages: list[Message] = field(default_factory=list[Message])
    settled: int = 0
    said: list[str] = field(default_factory=list[str])
    """Marks of texts, calls and results, in their order: each arrives once, wherever."""
    images: list[str] = field(default_factory=list[str])
    sealed: dict[str, list[tuple[int, str]]] = field(
        default_factory=dict[str, list[tuple[int, str]]]
    )
    """By wire, the signatures and whatever else goes with reasoning; with the index of its message.
    """
    kept: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By wire, what always goes back to it: hosted tools, citations."""
    thought: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By wire, what can be read of its reasoning."""
    calls: int = 0
    marks: int = 0

    def __repr__(self) -> str:
        said = [
            f"{message.role}: {[*map(_short, message.parts[:4])]}{' ...' * (len(message.parts) > 4)}"
            for message in self.messages
        ]
        return "\n".join([f"the first {self.settled} settled", *said])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """As hypothesis shows it."""
        printer.text(repr(self))

    def mark(self, kind: str) -> str:
        self.marks += 1
        return f"{kind}-{self.marks}-mark"

    def text(self) -> str:
        """One that arrives, odd at its ends."""
        mark = self.mark("text")
        self.said.append(mark)
        return self.draw(odd_text) + mark + self.draw(odd_text)

    def seal(self, wire: str) -> str:
        """In base64, as some want it."""
        seal = base64.b64encode(self.mark(f"sealed {wire}").encode()).decode().rstrip("=")
        seal += "=" * (-len(seal) % 4)
        self.sealed.setdefault(wire, []).append((len(self.messages), seal))
        return seal

    def keep(self, wire: str) -> str:
        self.kept.setdefault(wire, []).append(mark := self.mark(f"kept {wire}"))
        return mark

    def reasoning(self, wire: str) -> str:
        self.thought.setdefault(wire, []).append(mark := self.mark("thought"))
        return mark

    def image(self) -> MediaPart:
        mark = self.mark("image")
        data = base64.b64encode(f"{mark:<30}".encode()).decode()
        self.images.append(data)
        self.said.append(mark)
        return MediaPart(
            media_type=self.draw(st.sampled_from(["image/png", "image/jpeg"])), data=data, name=mark
        )

    def call_id(self) -> str:
        self.calls += 1
        return f"{self.draw(odd_ids)}_{self.calls}"

    def asks(
        self,
        calls: int,
        provider: str | None = None,
        data: Callable[[int], object] = lambda k: None,
    ) -> list[Part]:
        """So many calls, those after the first ones plain.

        `data` of the k-th is the provider's own.
        """
        return [
            self.call(provider, data(k)) if k < PLAIN_FROM else self.plain_call()
            for k in range(calls)
        ]

    def call(self, provider: str | None, data: object) -> ToolCall:
        self.said.append(mark := self.mark("call"))
        arguments = self.draw(odd_arguments) % mark
        kept = None if data is None else json.dumps(data)
        return ToolCall(
            id=self.call_id(),
            name=self.draw(names),
            arguments_json=arguments,
            provider=provider if kept else None,
            provider_data=kept,
        )

    def plain_call(self) -> ToolCall:
        self.said.append(mark := self.mark("call"))
        self.calls += 1
        return ToolCall(
            id=f"call_{self.calls}", name="look", arguments_json=json.dumps({"n": mark})
        )

    def results(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        return [
            self.result(call) if k < PLAIN_FROM else self.plain_result(call)
            for k, call in enumerate(calls)
        ]

    def plain_result(self, call: ToolCall) -> ToolResult:
        self.said.append(mark := self.mark("text"))
        return ToolResult(call_id=call.id, name=call.name, content=mark)

    def result(self, call: ToolCall) -> ToolResult:
        shape = self.draw(
            st.sampled_from(["text", "text", "empty", "error", "failed", "parts", "image"])
        )
        if shape == "empty":
            return ToolResult(call_id=call.id, name=call.name)
        if shape == "failed":
            return ToolResult(call_id=call.id, name=call.name, is_error=True)
        if shape == "image":
            return ToolResult(call_id=call.id, name=call.name, content=(self.image(),))
        if shape == "parts":
            return ToolResult(
                call_id=call.id,
                name=call.name,
                content=(TextPart(text=self.text()), TextPart(text=""), self.image()),
            )
        return ToolResult(
            call_id=call.id,
            name=call.name,
            content=self.text(),
            is_error=shape == "error",
            unknown=shape == "error",
        )


def _short(part: Part) -> str:
    fields = msgspec.structs.asdict(part)
    return " ".join(
        [type(part).__name__, *(f"{name}={value!r:.60}" for name, value in fields.items() if value)]
    )


Makes = Callable[[Talk, int], list[Part]]
"""The parts of an answer with so many calls; with none, something is said."""


def _claude(talk: Talk, calls: int) -> list[Part]:
    draw, parts = talk.draw, list[Part]()
    if draw(st.booleans()):
        thought = json.dumps({"signature": talk.seal("anthropic")})
        parts.append(
            ReasoningPart(
                text=talk.reasoning("anthropic"), provider="anthropic", provider_data=thought
            )
        )
    if draw(st.booleans()):
        parts.append(
            ProviderPart(
                provider="anthropic",
                data=json.dumps({"type": "redacted_thinking", "data": talk.seal("anthropic")}),
            )
        )
    if draw(st.booleans()):
        hosted = {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": talk.keep("anthropic")},
        }
        found = {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{"encrypted_content": talk.keep("anthropic")}],
        }
        parts += [
            ProviderPart(provider="anthropic", data=json.dumps(one)) for one in (hosted, found)
        ]
        cited = json.dumps(
            {
                "citations": [
                    {
                        "type": "web_search_result_location",
                        "encrypted_index": talk.keep("anthropic"),
                    }
                ]
            }
        )
        parts.append(TextPart(text=talk.text(), provider="anthropic", provider_data=cited))
    elif not calls or draw(st.booleans()):
        parts.append(TextPart(text=talk.text()))
    return parts + talk.asks(
        calls,
        "anthropic",
        lambda k: {"caller": {"type": "direct"}} if draw(st.booleans()) else None,
    )


def _gemini(talk: Talk, calls: int) -> list[Part]:
    draw, parts = talk.draw, list[Part]()

    def signed() -> dict[str, str]:
        return {"thoughtSignature": talk.seal("gemini"), "model": MODEL}

    if draw(st.booleans()):
        parts.append(ReasoningPart(text=talk.reasoning("gemini")))
    if draw(st.booleans()):
        parts.append(
            ProviderPart(
                provider="gemini",
                data=json.dumps(
                    {"executableCode": {"language": "PYTHON", "code": talk.keep("gemini")}}
                ),
            )
        )
        parts.append(
            ProviderPart(
                provider="gemini",
                data=json.dumps(
                    {
                        "codeExecutionResult": {
                            "outcome": "OUTCOME_OK",
                            "output": talk.keep("gemini"),
                        }
                    }
                ),
            )
        )
    if not calls or draw(st.booleans()):
        text = talk.text()
        kept = (
            json.dumps({**signed(), "prefix": draw(st.sampled_from([0, len(text)]))})
            if draw(st.booleans())
            else None
        )
        parts.append(TextPart(text=text, provider="gemini" if kept else None, provider_data=kept))
    parts += talk.asks(calls, "gemini", lambda k: signed() if k == 0 else None)
    if draw(st.booleans()):
        parts.append(
            ProviderPart(
                provider="gemini",
                data=json.dumps({"groundingMetadata": {"webSearchQueries": ["never sent"]}}),
            )
        )
    return parts


def _chat(talk: Talk, calls: int) -> list[Part]:
    draw, parts = talk.draw, list[Part]()
    if draw(st.booleans()):
        field = json.dumps({"field": draw(st.sampled_from(["reasoning_content", "reasoning"]))})
        parts.append(
            ReasoningPart(
                text=talk.reasoning("openai-chat"), provider="openai-chat", provider_data=field
            )
        )
    if not calls or draw(st.booleans()):
        parts.append(TextPart(text=talk.text()))
    if draw(st.booleans()):
        details = {
            "reasoning_details": [
                {"type": "reasoning.encrypted", "data": talk.seal("openai-chat, details")}
            ]
        }
        parts.append(ProviderPart(provider="openai-chat", data=json.dumps(details)))
    return parts + talk.asks(calls)


def _openai(talk: Talk, calls: int) -> list[Part]:
    draw, parts = talk.draw, list[Part]()
    if draw(st.booleans()):
        thought = talk.reasoning("openai")
        data = {
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": thought}],
            "encrypted_content": talk.seal("openai"),
        }
        parts.append(ReasoningPart(text=thought, provider="openai", provider_data=json.dumps(data)))
    if draw(st.booleans()):
        searched = {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": talk.keep("openai")},
        }
        parts.append(ProviderPart(provider="openai", data=json.dumps(searched)))
        cited = {
            "phase": "commentary",
            "annotations": [
                {
                    "type": "url_citation",
                    "url": talk.keep("openai"),
                    "title": "",
                    "start_index": 0,
                    "end_index": 1,
                }
            ],
        }
        parts.append(TextPart(text=talk.text(), provider="openai", provider_data=json.dumps(cited)))
    elif not calls or draw(st.booleans()):
        refused = '{"type":"refusal"}' if draw(st.booleans()) else None
        parts.append(
            TextPart(
                text=talk.text(), provider="openai" if refused else None, provider_data=refused
            )
        )
    return parts + talk.asks(calls)


MAKES: dict[str, Makes] = {
    "anthropic": _claude,
    "openai": _openai,
    "openai-chat": _chat,
    "gemini": _gemini,
}


@st.composite
def conversations(draw: st.DrawFn, wires: Sequence[str], *, goes_on: bool) -> Talk:
    """A run by each of `wires`, and then a question for somebody.

    `goes_on`: it comes in the middle of the last of them.
    """
    talk = Talk(draw)
    for i, wire in enumerate(wires):
        last = goes_on and i == len(wires) - 1
        _run(
            talk,
            wire,
            settled=not last and draw(st.booleans() if i == len(wires) - 1 else st.just(True)),
            open_ended=last,
        )
    if not goes_on:
        _asked(talk)
    return talk


def _asked(talk: Talk) -> None:
    parts: list[Part] = [TextPart(text=talk.text())]
    if talk.draw(st.booleans()):
        parts.append(talk.image())
    if talk.draw(st.booleans()):
        parts.append(UnknownPart(type="hologram", raw='{"type":"hologram"}'))
    talk.messages.append(Message.user(parts))


def _run(talk: Talk, wire: str, *, settled: bool, open_ended: bool) -> None:
    draw, make = talk.draw, MAKES[wire]
    _asked(talk)
    for _ in range(draw(st.integers(1 if open_ended else 0, 2))):
        calls = draw(st.sampled_from([1, 1, 2, 3, WIDE]))
        _step(talk, make(talk, calls))
    if open_ended:
        return
    match draw(st.sampled_from(["answer", "answer", "cut", "nothing", "blank", "paused"])):
        case "answer":
            talk.messages.append(Message.assistant(make(talk, 0)))
        case "cut":
            talk.messages.append(
                Message.assistant(
                    [ReasoningPart(text="half a thought"), TextPart(text=talk.text())]
                )
            )
        case "blank":
            talk.messages.append(Message.assistant([TextPart(text=" \n")]))
        case "paused":
            talk.messages += [
                Message.assistant(make(talk, 0)),
                Message.assistant([TextPart(text=talk.text())]),
            ]
        case _:
            pass
    if settled:
        talk.settled = len(talk.messages)


def _step(talk: Talk, parts: list[Part]) -> None:
    """An answer with calls, their results, and what somebody says meanwhile."""
    talk.messages.append(Message.assistant(parts))
    calls = [part for part in parts if isinstance(part, ToolCall)]
    talk.messages.append(Message.tool(talk.results(calls)))
    match talk.draw(st.sampled_from(["", "", "late", "system", "empty"])):
        case "late":
            talk.messages.append(Message.user(f"A result came late: {talk.text()}"))
        case "system":
            talk.messages.append(Message.system(talk.text()))
        case "empty":
            talk.messages.append(Message.user(""))
        case _:
            pass


def history_of(talk: Talk) -> History:
    return History(talk.messages, talk.settled)

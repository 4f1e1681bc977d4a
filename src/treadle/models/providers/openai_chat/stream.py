"""Decoder of Chat Completions streams into deltas. Does no I/O.

exchange.py reads the network, calls.py assembles tool calls, and request.py encodes requests. Entry
points: `ChatDecoder`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
from typing_extensions import override

from treadle.errors import AgentError
from treadle.messages.message import MediaPart, ProviderPart
from treadle.messages.response_details import ResponseDetails, tier_of
from treadle.models.model import (
    Delta,
    ModelNotice,
    PartEnd,
    ReasoningDelta,
    ResponseEnd,
    TextDelta,
    WholePart,
)
from treadle.models.providers.decoding import Decoder, left_out, verbatim
from treadle.models.providers.encoding import dumped
from treadle.models.providers.openai_chat.calls import PROVIDER, Calls
from treadle.models.providers.openai_chat.events import (
    CallPiece,
    ChatMessage,
    Choice,
    Chunk,
    ContentPart,
    Counts,
    GroqNotes,
    ImagePiece,
    cost_usd,
    decode_chunk,
    decode_rare,
    decode_text,
    is_text,
    text_of,
    usage_of,
)
from treadle.models.providers.openai_chat.reasoning import ReasoningDetails
from treadle.types import StopReason

_STOPS = {
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_length": StopReason.CONTEXT_OVERFLOW,
    "content_filter": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
    "safety": StopReason.REFUSAL,
    "sensitive": StopReason.REFUSAL,
    "stop_sequence": StopReason.STOP_SEQUENCE,
}
"""Stop reasons by finish reason. Any other means that the response is complete."""
_FAILURES = {
    "error": "the server failed",
    "network_error": "the server failed",
    "abort": "the server aborted the response",
    "insufficient_system_resource": "the server is overloaded",
}
_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,(?=[\w+/])", re.ASCII | re.IGNORECASE)
_DONE = b"[DONE]"
_NOTHING = frozenset({b"", b"null", b"[]", b"{}"})
_SOMETHING = msgspec.Raw(b"1")


class ChatDecoder(Decoder):
    __slots__ = (
        "_calls",
        "_counts",
        "_details",
        "_finish",
        "_held",
        "_id",
        "_left_out",
        "_model",
        "_plain",
        "_reasoning",
        "_refused",
        "_said_something",
        "_stop_text",
        "_tells_cost",
        "_tier",
    )

    def __init__(
        self, reported: Callable[[bytes], AgentError], *, tells_cost: bool = False
    ) -> None:
        """Create a chat decoder. `tells_cost`: the server's usage contains the cost of the response
        in USD.
        """
        super().__init__(reported)
        self._tells_cost = tells_cost
        self._tier: str | None = None
        self._calls = Calls()
        self._details = ReasoningDetails()
        self._held: list[Delta] = []
        """Deltas that arrived while a call was incomplete. They follow the calls."""
        self._reasoning = ""
        """Field of the open reasoning part."""
        self._refused = False
        self._left_out: set[str] = set()
        self._counts: Counts | None = None
        self._id = self._model = ""
        self._plain = False
        """True if the last chunk was nothing but text, with nothing else open: the next one most
        likely is too.
        """
        self._finish: str | None = None
        self._stop_text = False
        self._said_something = False

    @override
    def _conclude(self, deltas: list[Delta]) -> None:
        if self._finish is None:
            super()._conclude(deltas)
        else:
            self._complete(deltas)

    @override
    def take_body(self, body: bytes) -> list[Delta]:
        deltas = list[Delta]()
        if (chunk := self._read(decode_rare, body, "the response")) is None:
            return deltas
        self._take_chunk(chunk, body, deltas)
        if self.failure is None and not chunk.choices:
            self._break("the response has no choices: it is not a Chat Completions response")
        if self.failure is None:
            self._complete(deltas)
        return deltas

    # ------------------------------------------------------------ events

    @override
    def _take(self, events: list[tuple[bytes, bytes]]) -> list[Delta]:
        deltas = list[Delta]()
        self.heard = False
        for name, data in events:
            if self.end is not None or self.failure is not None:
                break
            if self._plain:
                try:
                    if text := decode_text(data).choices[0].delta.content:
                        deltas.append(TextDelta(text))
                        continue
                except (ValueError, RecursionError):
                    self._plain = False
            self._take_event(name, data, deltas)
        if deltas:
            self.heard = True
        return deltas

    def _take_event(self, name: bytes, data: bytes, deltas: list[Delta]) -> None:
        try:
            chunk = decode_chunk(data)
        except (ValueError, RecursionError):
            self._take_rare(data, deltas)
            return
        if name == b"error":
            self.failure = self._reported(data)
            return
        self._take_chunk(chunk, data, deltas)
        self._plain = bool(self._id) and not self._calls and not self._reasoning and is_text(chunk)

    def _take_rare(self, data: bytes, deltas: list[Delta]) -> None:
        data = data.strip()
        if data == _DONE or (self._finish is not None and data and _DONE.startswith(data)):
            self._take_done(deltas)
        elif (
            data
            and (chunk := self._read(decode_rare, data, "the response contains something that"))
            is not None
        ):
            self._take_chunk(chunk, data, deltas)

    def _take_done(self, deltas: list[Delta]) -> None:
        """Handle the server's end marker, which may come without a finish reason."""
        if self._finish is None and not (self._said_something and self._calls.are_whole):
            self._break("the server ended its response before it was complete")
        else:
            self._complete(deltas)

    def _take_chunk(self, chunk: Chunk, data: bytes, deltas: list[Delta]) -> None:
        says_nothing = chunk.choices is None and chunk.usage is None
        if (
            chunk.error
            or chunk.object == "error"
            or (says_nothing and (chunk.message or chunk.detail))
        ):
            self.failure = self._reported(data)
            return
        for choice in chunk.choices or ():
            if not choice.index:  # other choices were not requested
                self._take_choice(choice, deltas)
                break
        if chunk.usage is not None:
            self._counts, self._tier, self.heard = chunk.usage, tier_of(chunk.service_tier), True
        if not self._id and (chunk.id or chunk.model):
            self._id, self._model = chunk.id or "", chunk.model or self._model
        if chunk.x_groq is not None:
            self._take_notes(chunk.x_groq)

    def _take_notes(self, notes: GroqNotes) -> None:
        self._counts = notes.usage or self._counts
        if notes.error:
            self.failure = self._reported(dumped({"error": notes.error}))

    def _take_choice(self, choice: Choice, deltas: list[Delta]) -> None:
        # some servers repeat everything at the end of a stream
        if (said := choice.delta or (None if self._said_something else choice.message)) is not None:
            self._said_something = True
            if thought := said.reasoning_content or said.reasoning or said.reasoning_details:
                if (
                    self._reasoning
                    and type(thought) is str
                    and said.reasoning_details is None
                    and not self._calls
                ):
                    deltas.append(ReasoningDelta(thought))
                else:
                    self._add_reasoning(said, deltas)
            if said.content:
                self._add_content(said.content, deltas)
            if said.tool_calls or said.function_call or said.refusal:
                self._add_rare(said, deltas)
            if said.audio or said.images:
                self._leave_out("audio", said.audio, deltas)
                for piece in said.images or ():
                    self._add_image(piece, deltas)
        if choice.text:
            self._said_something = True
            self._add_text(choice.text, deltas)
        if choice.finish_reason or choice.error:
            self._take_finish(choice)

    def _take_finish(self, choice: Choice) -> None:
        self.heard = True
        self._finish = choice.finish_reason or ""
        self._stop_text = isinstance(choice.stop_reason, str)
        if (broken := _FAILURES.get(self._finish.lower())) or choice.error:
            self.failure = self._reported(dumped({"error": choice.error or {"message": broken}}))

    # ------------------------------------------------------------ what they add

    def _add_content(self, content: str | list[ContentPart], deltas: list[Delta]) -> None:
        if isinstance(content, str):
            self._add_text(content, deltas)
            return
        for part in content:
            if part.thinking:
                self._add_thought("content", text_of(part.thinking), deltas)
            elif part.text:
                self._add_text(part.text, deltas)
            elif part.type not in ("", "text", "thinking"):
                self._leave_out(f"content of type {part.type!r}", _SOMETHING, deltas)

    def _leave_out(self, what: str, said: msgspec.Raw, deltas: list[Delta]) -> None:
        """Report, once for each kind, content that no part can hold."""
        if bytes(said) not in _NOTHING and what not in self._left_out:
            self._left_out.add(what)
            deltas.append(left_out(what))

    def _add_text(self, text: str, deltas: list[Delta]) -> None:
        self._close_reasoning(deltas)
        self._now_or_held(TextDelta(text), deltas)

    def _add_image(self, piece: ImagePiece, deltas: list[Delta]) -> None:
        url = piece.image_url.url if piece.image_url is not None else ""
        if (found := _DATA_URL.match(url)) is not None:
            part = MediaPart(
                media_type=found[1].lower(), data=url[found.end() :], provider=PROVIDER
            )
        elif url.startswith("https://"):
            part = MediaPart(media_type="image/png", url=url, provider=PROVIDER)
        else:
            self._leave_out("an image without content", _SOMETHING, deltas)
            return
        self._said_something = True
        self._close_reasoning(deltas)
        self._now_or_held(WholePart(part), deltas)

    def _add_reasoning(self, said: ChatMessage, deltas: list[Delta]) -> None:
        self.heard = True
        told = self._details.add(said.reasoning_details or [])
        if said.reasoning_content:
            self._add_thought("reasoning_content", said.reasoning_content, deltas)
        elif text := said.reasoning or told:
            self._add_thought("reasoning", text, deltas)

    def _add_thought(self, field: str, text: str, deltas: list[Delta]) -> None:
        if self._now_or_held(ReasoningDelta(text), deltas):
            self._reasoning = field

    def _add_rare(self, said: ChatMessage, deltas: list[Delta]) -> None:
        self.heard = True
        pieces = said.tool_calls or (
            [CallPiece(function=said.function_call)] if said.function_call is not None else []
        )
        for piece in pieces:
            self._leave_out("a call of a custom tool", piece.custom, deltas)
        if pieces := [piece for piece in pieces if bytes(piece.custom) in _NOTHING]:
            self._close_reasoning(deltas)
            self._calls.add(pieces, deltas)
            self.failure = self._calls.failure
        if said.refusal:
            self._refused = True
            self._add_text(said.refusal, deltas)

    def _now_or_held(self, delta: Delta, deltas: list[Delta]) -> bool:
        """Emit a delta, or hold it if it would split a call. Returns True if it was emitted."""
        if self._calls and not self._calls.pause(deltas):
            self._held.append(delta)
            self.heard = True
            return False
        deltas.append(delta)
        return True

    def _close_reasoning(self, deltas: list[Delta]) -> None:
        if self._reasoning:
            deltas.append(PartEnd(PROVIDER, verbatim({"field": self._reasoning})))
            self._reasoning = ""

    def _complete(self, deltas: list[Delta]) -> None:
        self._close_reasoning(deltas)
        self._calls.finish(deltas)
        deltas += self._held
        if self._details:
            deltas.append(WholePart(ProviderPart(provider=PROVIDER, data=self._details.as_json())))
        stop = self._stop_reason()
        if stop is StopReason.REFUSAL:
            deltas.append(
                ModelNotice(
                    "the model refused to answer"
                    if self._refused
                    else f"the provider refused to continue: {self._finish}"
                )
            )
        usage = usage_of(self._counts or Counts())
        self.end = ResponseEnd(
            stop_reason=stop,
            usage=usage,
            raw_stop_reason=self._finish or "",
            id=self._id,
            model=self._model,
            details=self._details_told(),
        )

    def _details_told(self) -> ResponseDetails | None:
        cost = cost_usd(self._counts) if self._tells_cost and self._counts is not None else None
        return (
            ResponseDetails(service_tier=self._tier, cost_usd=cost)
            if self._tier is not None or cost is not None
            else None
        )

    def _stop_reason(self) -> StopReason:
        if self._refused:
            return StopReason.REFUSAL
        stop = _STOPS.get((self._finish or "").lower(), StopReason.COMPLETE)
        if stop in (StopReason.COMPLETE, StopReason.TOOL_USE):  # servers mix up the two
            stop = (
                StopReason.TOOL_USE
                if self._calls
                else StopReason.STOP_SEQUENCE
                if self._stop_text
                else StopReason.COMPLETE
            )
        return stop

"""Decoder of Messages streams into deltas. Does no I/O.

exchange.py reads the network; request.py encodes requests. Entry points: `MessagesDecoder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

import msgspec
from typing_extensions import override

from treadle.errors import AgentError
from treadle.models.model import Delta, ModelNotice, ResponseEnd, Restart
from treadle.models.providers.anthropic.blocks import ContentBlock, open_block, program_of
from treadle.models.providers.anthropic.events import (
    BlockPiece,
    BlockStart,
    BlockStop,
    Counts,
    ErrorEvent,
    MessageDelta,
    MessageStart,
    MessageStop,
    OtherPiece,
    Ping,
    UnknownEvent,
    WireMessage,
    decode_body,
    decode_event,
    decode_rare,
)
from treadle.models.providers.anthropic.usage import context_tokens, details_of, usage_of
from treadle.models.providers.decoding import Decoder, text_of, verbatim
from treadle.models.providers.encoding import Fields
from treadle.types import StopReason

_STOPS = {
    "end_turn": StopReason.COMPLETE,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
    # with pause_after_compaction, beta: the conversation is sent back unchanged
    "compaction": StopReason.PAUSE,
    "model_context_window_exceeded": StopReason.CONTEXT_OVERFLOW,
}


class MessagesDecoder(Decoder):
    __slots__ = (
        "_block",
        "_index",
        "_message",
        "_prefix",
        "_program_waits",
        "_request",
        "_wanted_back",
    )

    def __init__(
        self,
        reported: Callable[[bytes], AgentError],
        prefix: str = "",
        wanted_back: Mapping[str, object] | None = None,
        request: bytes = b"",
    ) -> None:
        """Create a messages decoder. `prefix`: digest of everything before the response.

        `wanted_back`: fields for `settings.extra` of the next request. `request`: the body sent,
        which names the container that runs already.
        """
        super().__init__(reported)
        self._request = request
        self._prefix, self._wanted_back = prefix, dict(wanted_back or {})
        self._block: ContentBlock | None = None
        self._index: int | None = None
        self._message: WireMessage | None = None
        """Fields of the message received so far, without its blocks."""
        self._program_waits = False
        """True after a call that was made by a program, which the API runs."""

    @override
    def take_body(self, body: bytes) -> list[Delta]:
        deltas = list[Delta]()
        if (message := self._read(decode_body, body, "the response")) is None:
            return deltas
        if isinstance(message, ErrorEvent):
            self.failure = self._reported(message.data)
            return deltas
        self._start_message(message, deltas)
        self._stop_message(message, deltas)
        return deltas

    # ------------------------------------------------------------ events

    @override
    def _take(self, events: list[tuple[bytes, bytes]]) -> list[Delta]:
        deltas = list[Delta]()
        heard = False
        for _, data in events:
            if self.end is not None or self.failure is not None:
                break
            try:
                event = decode_event(data)
            except (ValueError, RecursionError):
                if (
                    event := self._read(decode_rare, data, "the stream contains an event that")
                ) is None:
                    break
            heard |= type(event) is not Ping
            match event:
                case BlockPiece() if event.index == self._index and self._block is not None:
                    self._block.add(event.delta, deltas)
                case BlockStart():
                    self._open_block(event.content_block, deltas)
                    self._index = event.index
                case BlockStop():
                    self._close_block(deltas)
                case MessageDelta():
                    self._change_message(event)
                case MessageStart():
                    self._start_message(event.message, deltas)
                case _:
                    self._take_rare(event, deltas)
        self.heard = heard
        return deltas

    def _take_rare(
        self,
        event: BlockPiece | OtherPiece | MessageStop | ErrorEvent | Ping | UnknownEvent,
        deltas: list[Delta],
    ) -> None:
        match event:
            case MessageStop():
                if self._message is None:
                    self._break("the stream is invalid: it ends a response that has not begun")
                else:
                    self._stop_message(self._message, deltas)
            case BlockPiece():
                if (block := self._block_for(event)) is not None:
                    block.add(event.delta, deltas)
            case OtherPiece():
                if (block := self._block_for(event)) is not None:
                    block.add_other(event.delta, deltas)
            case ErrorEvent():
                self.failure = self._reported(event.data)
            case Ping() | UnknownEvent():
                pass
            case _:
                assert_never(event)

    def _block_for(self, event: BlockPiece | OtherPiece) -> ContentBlock | None:
        """Return the open block if the fragment belongs to it. Mixing fragments of two calls would
        forge a call that the model did not make.
        """
        if self._block is not None and (
            event.index == self._index or event.index is None or self._index is None
        ):
            return self._block
        if (
            isinstance(event, OtherPiece)
            and event.delta.keys() <= {"type", "signature"}
            and not text_of(event.delta, "signature")
        ):
            # llama.cpp sends an empty signature for its thinking, after the next block has begun
            return None
        self._break("the stream is invalid: it has a delta for a block that is not open")
        return None

    # ------------------------------------------------------------ what they change

    def _start_message(self, message: WireMessage, deltas: list[Delta]) -> None:
        if self._message is not None:
            deltas.append(Restart())
        self._message = message
        self._block, self._index, self._program_waits = None, None, False
        # the content is complete if the response is one document, or in calls of a program that the
        # server runs
        for fields in message.content:
            self._open_block(fields, deltas)
        if self._block is not None:
            self._close_block(deltas)

    def _change_message(self, event: MessageDelta) -> None:
        if (message := self._message) is None:
            message = self._message = WireMessage()
        _overwrite(message, event.delta)
        if message.usage is None:
            message.usage = event.usage
        elif event.usage is not None:
            _overwrite(message.usage, event.usage)

    def _open_block(self, fields: Fields, deltas: list[Delta]) -> None:
        if self._block is not None:
            self._close_block(deltas)
        self._program_waits |= "caller" in fields and program_of(fields) is not None
        self._block = open_block(fields, deltas, self._prefix)

    def _close_block(self, deltas: list[Delta]) -> None:
        if self._block is not None:
            self._block.close(deltas)
            self._block = None

    def _stop_message(self, message: WireMessage, deltas: list[Delta]) -> None:
        self._close_block(deltas)
        raw, details = message.stop_reason or "", message.stop_details
        stop = _STOPS.get(raw, StopReason.COMPLETE)
        if (
            stop is StopReason.REFUSAL
            and details is not None
            and (words := [w for w in (details.category, details.explanation) if w])
        ):
            deltas.append(ModelNotice(f"the provider refused to continue: {': '.join(words)}"))
        back = {
            **self._wanted_back,
            **({"container": {"id": message.container.id}} if message.container else {}),
        }
        wanted_back = verbatim(back) if back else None
        counts = message.usage or Counts()
        self.end = ResponseEnd(
            stop_reason=stop,
            usage=usage_of(counts),
            raw_stop_reason=raw,
            id=message.id,
            model=message.model,
            provider_data=wanted_back,
            context_tokens=context_tokens(counts),
            results_only=self._program_waits,
            withdraws=stop is StopReason.REFUSAL,
            details=details_of(message, counts, self._request),
        )


def _overwrite(known: msgspec.Struct, said: msgspec.Struct) -> None:
    """Update fields with the values in an event. Missing values do not change anything."""
    for name in said.__struct_fields__:
        if (value := getattr(said, name)) is not None:
            setattr(known, name, value)

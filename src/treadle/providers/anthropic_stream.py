"""What the events of a Messages stream mean: deltas. Pure: bytes in, deltas out.

Reading them off the network is anthropic.py's; the request is anthropic_request.py's. Entry: `Decoder`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import msgspec

from treadle.errors import AgentError
from treadle.model import Delta, Notice, ResponseEnd, Restart
from treadle.providers.anthropic_blocks import Block, open_block
from treadle.providers.anthropic_events import (
    BlockPiece,
    BlockStart,
    BlockStop,
    Counts,
    Ending,
    Event,
    Failure,
    Fields,
    MessageDelta,
    MessageStart,
    MessageStop,
    OtherPiece,
    Ping,
    Unknown,
    WireMessage,
    decode_body,
    decode_event,
    decode_rare,
)
from treadle.providers.sse import EventSplitter
from treadle.types import StopReason, Usage

_STOPS = {
    "end_turn": StopReason.COMPLETE,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
    "model_context_window_exceeded": StopReason.CONTEXT_OVERFLOW,
}


class Decoder:
    """One answer. Its end is not among the deltas: `end` is set once the answer is whole, `failure` once it can no longer be."""

    __slots__ = ("_begun", "_block", "_ending", "_id", "_index", "_model", "_reported", "_splitter", "_usage", "end", "failure", "heard")

    def __init__(self, reported: Callable[[bytes], AgentError]) -> None:
        """`reported` makes an error of the text of an error event."""
        self._reported = reported
        self._splitter = EventSplitter()
        self._block: Block | None = None
        self._index: int | None = None
        self._begun = False
        self._id = self._model = ""
        self._usage = Usage()
        self._ending = Ending()
        self.end: ResponseEnd | None = None
        self.failure: AgentError | None = None
        self.heard = False
        """Whether the last `feed` held more than pings."""

    def feed(self, chunk: bytes) -> list[Delta]:
        """What the next bytes of the stream add. Raises AgentError(network) for an event that is too large."""
        return self._take(self._splitter.feed(chunk))

    def finish(self) -> list[Delta]:
        """The stream is over. Where it was not whole, `failure` is set."""
        deltas = self._take(self._splitter.finish())
        if self.end is None and self.failure is None:
            self.failure = AgentError("network", "the answer ended before it was whole")
        return deltas

    def take_body(self, body: bytes) -> list[Delta]:
        """An answer that came as one JSON document."""
        deltas = list[Delta]()
        try:
            message = decode_body(body)
        except (ValueError, RecursionError) as e:
            self.failure = AgentError("network", f"the answer cannot be read: {e}")
            return deltas
        if isinstance(message, Failure):
            self.failure = self._reported(message.data)
            return deltas
        self._start_message(message, deltas)
        for fields in message.content:
            self._open_block(fields, deltas)
        self._conclude(message)
        self._stop_message(deltas)
        return deltas

    # ------------------------------------------------------------ events

    def _take(self, events: list[tuple[bytes, bytes]]) -> list[Delta]:
        deltas = list[Delta]()
        heard = False
        for _, data in events:
            if self.end is not None or self.failure is not None:
                break
            try:
                event = decode_event(data)
            except (ValueError, RecursionError):
                if (event := self._rare_event(data)) is None:
                    break
            if type(event) is BlockPiece and event.index == self._index and self._block is not None:
                heard = True
                self._block.add(event.delta, deltas)
            elif type(event) is not Ping:
                heard = True
                self._take_event(event, deltas)
        self.heard = heard
        return deltas

    def _rare_event(self, data: bytes) -> Event | None:
        try:
            return decode_rare(data)
        except (ValueError, RecursionError) as e:
            self.failure = AgentError("network", f"the stream holds an event that cannot be read: {e}")
            return None

    def _take_event(self, event: Event, deltas: list[Delta]) -> None:
        match event:
            case BlockStart():
                self._open_block(event.content_block, deltas)
                self._index = event.index
            case BlockStop():
                self._close_block(deltas)
            case MessageDelta():
                self._conclude(event.delta)
                self._count(event.usage)
            case MessageStart():
                self._start_message(event.message, deltas)
            case MessageStop():
                self._stop_message(deltas)
            case BlockPiece():
                if (block := self._block_for(event)) is not None:
                    block.add(event.delta, deltas)
            case OtherPiece():
                if (block := self._block_for(event)) is not None:
                    block.add_other(event.delta, deltas)
            case Failure():
                self.failure = self._reported(event.data)
            case Ping() | Unknown():
                pass
            case _:
                assert_never(event)

    def _block_for(self, event: BlockPiece | OtherPiece) -> Block | None:
        """The open block, if the piece is meant for it: pieces of two calls taken for one would be a call that nobody made."""
        if self._block is not None and (event.index == self._index or event.index is None or self._index is None):
            return self._block
        self.failure = AgentError("network", "the stream mixes up its blocks: a piece came for one that is not open")
        return None

    # ------------------------------------------------------------ what they change

    def _start_message(self, message: WireMessage, deltas: list[Delta]) -> None:
        if self._begun:
            deltas.append(Restart())
        self._begun = True
        self._block, self._index = None, None
        self._id, self._model = message.id, message.model
        self._usage, self._ending = Usage(), Ending()
        self._count(message.usage)

    def _open_block(self, fields: Fields, deltas: list[Delta]) -> None:
        self._close_block(deltas)
        self._block = open_block(fields, deltas)

    def _close_block(self, deltas: list[Delta]) -> None:
        if self._block is not None:
            self._block.close(deltas)
            self._block = None

    def _conclude(self, ending: Ending) -> None:
        earlier = self._ending
        self._ending = Ending(
            stop_reason=ending.stop_reason or earlier.stop_reason,
            stop_details=ending.stop_details or earlier.stop_details,
            container=ending.container or earlier.container,
        )

    def _count(self, counts: Counts | None) -> None:
        if counts is None:
            return
        before, details = self._usage, counts.output_tokens_details
        self._usage = Usage(
            input_tokens=_newer(counts.input_tokens, before.input_tokens),
            output_tokens=_newer(counts.output_tokens, before.output_tokens),
            cache_read_tokens=_newer(counts.cache_read_input_tokens, before.cache_read_tokens),
            cache_write_tokens=_newer(counts.cache_creation_input_tokens, before.cache_write_tokens),
            reasoning_tokens=_newer(details.thinking_tokens if details else None, before.reasoning_tokens),
        )

    def _stop_message(self, deltas: list[Delta]) -> None:
        self._close_block(deltas)
        ending = self._ending
        raw = ending.stop_reason or ""
        stop = _STOPS.get(raw, StopReason.COMPLETE)
        details = ending.stop_details
        if stop is StopReason.REFUSAL and details is not None and (words := [w for w in (details.category, details.explanation) if w]):
            deltas.append(Notice(f"the provider refused to go on: {': '.join(words)}"))
        self.end = ResponseEnd(
            stop_reason=stop,
            usage=self._usage,
            raw_stop_reason=raw,
            id=self._id,
            model=self._model,
            provider_data=msgspec.json.encode({"container": ending.container.id}).decode() if ending.container else None,
        )


def _newer(said: int | None, before: int) -> int:
    return before if said is None else said

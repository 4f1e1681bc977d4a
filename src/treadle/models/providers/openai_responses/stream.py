"""Decoder of Responses streams into deltas. Does no I/O.

Items arrive one after the other, each with its end, and the last event repeats all of them, so that
lost content is detected and restored. exchange.py reads the network; request.py encodes requests.
Entry points: `ResponsesDecoder`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from typing import assert_never

import msgspec
from typing_extensions import override

from treadle.errors import AgentError
from treadle.messages.message import Message, ProviderPart
from treadle.messages.response_details import NO_DETAILS, ResponseDetails
from treadle.models.model import Delta, ModelNotice, ResponseEnd, Restart
from treadle.models.providers.decoding import Decoder, text_of, tokens
from treadle.models.providers.encoding import Fields
from treadle.models.providers.error_bodies import read_error
from treadle.models.providers.openai_responses.events import (
    Completed,
    Created,
    Event,
    FailedEvent,
    Incompleted,
    ItemAdded,
    ItemDelta,
    ItemDone,
    KeepAlive,
    PartDone,
    Passed,
    TextPiece,
    decode_body,
    decode_event,
    decode_rare,
    item_id_of,
)
from treadle.models.providers.openai_responses.item import PROVIDER, OutputItem
from treadle.models.providers.openai_responses.items import implied_item, open_item
from treadle.models.providers.openai_responses.response import (
    Counts,
    InputDetails,
    OutputDetails,
    WireResponse,
    counts_of,
    details_of,
    reason_of,
)
from treadle.types import StopReason, Usage

_INCOMPLETE = {"max_output_tokens": StopReason.MAX_TOKENS, "content_filter": StopReason.REFUSAL}
_POLICY = re.compile(r"(?:^|_)policy(?:_violation)?$")
"""Suffix of error codes that mean a refusal."""


class ResponsesDecoder(Decoder):
    __slots__ = ("_before", "_done", "_index", "_item", "_items", "_response", "_strayed")

    def __init__(
        self, reported: Callable[[bytes], AgentError], before: Sequence[Message] = ()
    ) -> None:
        """Create a responses decoder. `before`: the conversation, which names the containers that
        run already.
        """
        super().__init__(reported)
        self._before = before
        self._response: WireResponse | None = None
        self._item: OutputItem | None = None
        """The open item."""
        self._index: int | None = None
        """Index of the open item, if the server sends indexes."""
        self._items: list[OutputItem] = []
        self._done: dict[OutputItem, Fields] = {}
        """Final content of items. A server may send it twice."""
        self._strayed = False
        """True if the content cannot be assembled in order of arrival."""

    @override
    def take_body(self, body: bytes) -> list[Delta]:
        deltas = list[Delta]()
        if (response := self._read(decode_body, body, "the response")) is None:
            return deltas
        if isinstance(response, FailedEvent):
            self._fail(response, deltas)
        elif response.status in ("queued", "in_progress"):
            self.failure = AgentError(
                "invalid",
                (
                    "settings.extra['background'] is not supported: background responses are "
                    "never polled. Remove it"
                ),
            )
        else:
            self._complete(response, deltas)
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
            if type(event) is TextPiece or isinstance(event, ItemDelta):
                heard = True
                if (
                    self._index is not None
                    and event.output_index == self._index
                    and self._item is not None
                ):
                    self._item.add(event, deltas)
                else:
                    self._add_piece(event, data, deltas)
            elif isinstance(event, Passed):
                heard = heard or type(event) is not KeepAlive
            else:
                heard = True
                self._take_event(event, deltas)
        self.heard = heard
        return deltas

    def _take_event(self, event: Event, deltas: list[Delta]) -> None:
        match event:
            case ItemAdded():
                self._close_item(deltas)
                self._open_item(open_item(event.item, event.output_index, deltas))
            case ItemDone():
                self._finish_item(event, deltas)
            case PartDone():
                if self._item is not None and event.output_index == self._item.index:
                    self._item.part_done(event.part)
            case Created():
                self._start(event.response, deltas)
            case Completed() | Incompleted():
                self._complete(event.response, deltas)
            case FailedEvent():
                self._fail(event, deltas)
            case ItemDelta() | Passed():
                pass  # already processed
            case _:
                assert_never(event)

    def _start(self, response: WireResponse | None, deltas: list[Delta]) -> None:
        if self._items:
            deltas.append(Restart())
            self._items, self._done, self._strayed = [], {}, False
        self._item = self._index = None
        self._response = response

    # ------------------------------------------------------------ items

    def _open_item(self, item: OutputItem) -> None:
        self._items.append(item)
        self._item, self._index = item, item.index

    def _close_item(self, deltas: list[Delta]) -> None:
        if self._item is not None:
            self._item.close(deltas)
            self._item = self._index = None

    def _add_piece(self, piece: ItemDelta, data: bytes, deltas: list[Delta]) -> None:
        """Add a fragment to its item. Mixing fragments of two calls would forge a call that the
        model did not make.
        """
        item_id = item_id_of(data)
        item = self._known(piece.output_index, item_id)
        if item is None:
            self._close_item(deltas)
            if (item := implied_item(piece, item_id or "", deltas)) is None:
                self._break("the stream is invalid: it has a delta for an unknown item")
                return
            self._open_item(item)
        if item is self._item:
            item.add(piece, deltas)
        else:
            self._strayed = True

    def _known(self, index: int | None, item_id: str | None) -> OutputItem | None:
        """Return the item at this index, or with this id, or the open one if the server sends
        neither.
        """
        open_one = self._item
        if index is not None:
            if open_one is not None and open_one.index is None:
                return open_one
            return next((item for item in reversed(self._items) if item.index == index), None)
        if item_id and (open_one is None or (open_one.id and open_one.id != item_id)):
            return next((item for item in self._items if item.id == item_id), None)
        return open_one

    def _finish_item(self, event: ItemDone, deltas: list[Delta]) -> None:
        item = self._known(event.output_index, text_of(event.item, "id"))
        if item is not None and self._done.get(item) == event.item:
            return
        if item is None:
            self._close_item(deltas)
            item = open_item(event.item, event.output_index, deltas)
            self._open_item(item)
        self._done[item] = event.item
        self._strayed |= not item.finish(event.item, deltas)
        if item is self._item:
            self._item = self._index = None

    def _in_place(self) -> list[OutputItem]:
        """Return the items in the order of the server's indexes, if it sent any."""
        places = [item.index for item in self._items if item.index is not None]
        if len(places) < len(self._items) or places == sorted(places):
            return self._items
        self._strayed = True
        return sorted(self._items, key=lambda item: item.index or 0)

    # ------------------------------------------------------------ the end

    def _complete(self, response: WireResponse, deltas: list[Delta]) -> None:
        items, output = self._in_place(), response.output or []
        # otherwise the server omits earlier content from the end
        told = len(output) >= len(self._done)
        truth = output if told else [self._done[item] for item in items if item in self._done]
        lost = len(self._items) < len(truth)
        for item, fields in zip(items, truth if told else (), strict=False):
            if lost and item.id and item.id != text_of(fields, "id"):  # not only at the end
                self._strayed = True
            elif not item.settled:
                self._strayed |= not item.finish(fields, deltas)
        self._close_item(deltas)
        if not self._strayed:
            self._add_whole(truth[len(self._items) :], deltas)
        elif truth and (told or len(truth) == len(items)):
            deltas.append(Restart())
            self._items = []
            self._add_whole(truth, deltas)
        else:
            self._break(
                "the stream is invalid: its items are mixed up, and its end does not repeat them"
            )
            return
        self._end(response, deltas)

    def _add_whole(self, items: list[Fields], deltas: list[Delta]) -> None:
        for fields in items:
            item = open_item(fields, None, deltas)
            item.finish(fields, deltas)
            self._items.append(item)

    def _end(self, response: WireResponse, deltas: list[Delta]) -> None:
        raw = response.status or "completed"
        if raw == "cancelled":
            self._break("the provider cancelled the response")
            return
        stop = (
            StopReason.TOOL_USE
            if any(item.is_call for item in self._items)
            else StopReason.COMPLETE
        )
        if raw == "incomplete":
            raw = reason_of(response) or raw
            # incomplete, for whatever reason
            stop = _INCOMPLETE.get(raw, StopReason.MAX_TOKENS)
            if stop is StopReason.REFUSAL:
                deltas.append(ModelNotice(f"the provider refused to continue: {raw}"))
        elif any(item.refused for item in self._items):
            raw, stop = "refusal", StopReason.REFUSAL
            deltas.append(ModelNotice("the model refused to answer"))
        self._set_end(response, stop, raw)

    def _fail(self, event: FailedEvent, deltas: list[Delta]) -> None:
        said = read_error(event.data)
        if (code := next((word for word in said.words if _POLICY.search(word)), None)) is None:
            self.failure = self._reported(event.data)
            return
        self._close_item(deltas)
        deltas.append(ModelNotice(f"the provider refused to continue: {code}: {said.message}"))
        self._set_end(event.response or WireResponse(), StopReason.REFUSAL, code)

    def _set_end(self, response: WireResponse, stop: StopReason, raw: str) -> None:
        began = self._response or response
        self.end = ResponseEnd(
            stop_reason=stop,
            usage=usage_of(counts_of(response), searches=self._fees().count("web_search")),
            raw_stop_reason=raw,
            id=response.id or began.id or "",
            model=response.model or began.model or "",
            details=self._details(response),
        )

    def _fees(self) -> list[str]:
        return [item.fee for item in self._items if item.fee]

    def _details(self, response: WireResponse) -> ResponseDetails | None:
        fees, details = self._fees(), details_of(response)
        containers = {fee for fee in fees if fee not in ("web_search", "file_search")}
        if containers:
            containers -= _containers_in(self._before, containers)
        searches = fees.count("file_search")
        if not (searches or containers):
            return details
        return msgspec.structs.replace(
            details or NO_DETAILS, file_searches=searches, containers=len(containers)
        )


def _containers_in(messages: Sequence[Message], wanted: Set[str]) -> set[str]:
    """Return those of the container ids that the conversation names."""
    texts = [
        part.data
        for message in messages
        for part in message.parts
        if isinstance(part, ProviderPart) and part.provider == PROVIDER
    ]
    return {name for name in wanted if any(name in text for text in texts)}


def usage_of(counts: Counts, *, searches: int) -> Usage:
    into, out = (
        counts.input_tokens_details or InputDetails(),
        counts.output_tokens_details or OutputDetails(),
    )
    read, written = tokens(into.cached_tokens), tokens(into.cache_write_tokens)
    return Usage(
        input_tokens=max(0, tokens(counts.input_tokens) - read - written),
        output_tokens=tokens(counts.output_tokens),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=tokens(out.reasoning_tokens),
        cache_write_1h_tokens=tokens(into.cache_write_tokens_details.ttl_12h_tokens)
        if into.cache_write_tokens_details
        else 0,
        web_searches=searches,
    )

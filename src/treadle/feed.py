"""One run's events on their way out: made only where somebody listens, numbered, and handed to the run's stream and the hub.

What an entry's events are is said in journal.py; what a front does with them is its own business. Entry: `Feed`, `EventStream`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import anyio
import msgspec

from treadle import events, model
from treadle.events import Event
from treadle.hub import Hub
from treadle.journal import Entry, ToolFinished, ToolStarted, events_of
from treadle.retry import Attempt
from treadle.types import now

STREAM_BUFFER = 1024
"""Events that may wait for a slow reader before neighbouring deltas are joined."""
JOINED_CHARS = 16_384
"""A joined delta grows no longer than this: joining stays linear however slow the reader is."""


class EventStream:
    """The run's events, in order. While the reader is slow, a delta is joined to the one before it, and a call's progress stands for
    what it had said just before; nothing else is dropped.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._closed = False
        self._news = anyio.Event()

    def put(self, event: Event) -> None:
        waiting = self._events
        if len(waiting) >= STREAM_BUFFER and isinstance(event, events.DELTAS) and (joined := _join(waiting[-1], event)):
            waiting[-1] = joined
            return
        if len(waiting) >= STREAM_BUFFER and isinstance(event, events.ToolProgress):
            _drop_older(waiting, event)
        waiting.append(event)
        if len(waiting) == 1:
            self._news.set()

    def close(self) -> None:
        self._closed = True
        self._news.set()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            self._news = anyio.Event()
            await self._news.wait()
        return self._events.popleft()


def _drop_older(waiting: deque[Event], new: events.ToolProgress) -> None:
    """Looks no further back than the last event that is no progress: what several calls say at once stays bounded by their number."""
    for i in range(len(waiting) - 1, -1, -1):
        older = waiting[i]
        if not isinstance(older, events.ToolProgress):
            return
        if older.call_id == new.call_id:
            del waiting[i]
            return


def _join(last: Event, new: Event) -> Event | None:
    match last, new:
        case (events.TextDelta(), events.TextDelta()) | (events.ReasoningDelta(), events.ReasoningDelta()):
            if last.message_id == new.message_id and last.attempt == new.attempt and len(last.text) < JOINED_CHARS:
                return msgspec.structs.replace(new, text=last.text + new.text)
        case events.ToolCallDelta(), events.ToolCallDelta():
            if last.call_id == new.call_id and last.attempt == new.attempt and len(last.arguments) < JOINED_CHARS:
                return msgspec.structs.replace(new, arguments=last.arguments + new.arguments)
        case _:
            pass
    return None


class Feed:
    """Where a run says what happens. Costs nearly nothing while nobody listens."""

    def __init__(self, run_id: str, session_id: str | None, hub: Hub, stream: EventStream | None = None) -> None:
        self._run_id = run_id
        self._session_id = session_id
        self._hub = hub
        self._stream = stream
        self._seq = 0
        self._attempt = Attempt(set())
        self._message_id = ""
        self._reasoning = False
        self._running_calls: set[str] = set()

    def say(self, kind: type[Event], fields: Mapping[str, Any], *, entry_id: str | None = None) -> None:
        """One event that is no delta; `entry_id` makes it durable."""
        if self._stream is None and not self._hub.heard:
            return
        self._seq += 1
        durable = {"id": entry_id} if entry_id is not None else {}
        self._put(kind(run_id=self._run_id, session_id=self._session_id, seq=self._seq, at=now(), **durable, **fields))

    def appended(self, entries: Sequence[Entry], first: int | None) -> None:
        """The durable events of entries that are in the journal, the first of them at sequence `first`.

        None: the journal would not take them; the same events, but not durable.
        """
        if self._stream is None and not self._hub.heard:
            return
        self.cut_reasoning()
        for seq, entry in enumerate(entries, first or 0):
            if isinstance(entry, ToolStarted):
                self._running_calls.add(entry.call_id)
            elif isinstance(entry, ToolFinished):
                self._running_calls.discard(entry.result.call_id)
            for k, (kind, fields) in enumerate(events_of(entry)):
                self.say(kind, fields, entry_id=None if first is None else f"{seq}.{k}")

    def progress(self, call_id: str, text: str, done: float | None, total: float | None) -> None:
        """Of a call that runs; what an abandoned thread says after its call's end is for nobody."""
        if call_id in self._running_calls:
            numbers = {name: value for name, value in (("done", done), ("total", total)) if value is not None}
            self.say(events.ToolProgress, {"call_id": call_id, "text": text, **numbers})

    def begin_message(self, message_id: str, attempt: Attempt) -> None:
        """What `hear` is told from now on belongs to this message."""
        self._message_id, self._attempt = message_id, attempt

    @property
    def listener(self) -> Callable[[model.Delta], None] | None:
        """What a response's deltas are told to; None where nobody listens when it begins."""
        return self.hear if self._stream is not None or self._hub.heard else None

    def hear(self, delta: model.Delta) -> None:
        """A delta of the open attempt, right after it was folded."""
        if isinstance(delta, model.TextDelta):
            if self._reasoning:
                self.cut_reasoning()
            self._seq += 1
            self._put(
                events.TextDelta(
                    run_id=self._run_id,
                    session_id=self._session_id,
                    seq=self._seq,
                    at=now(),
                    message_id=self._message_id,
                    attempt=self._attempt.number,
                    text=delta.text,
                )
            )
        else:
            self._hear_other(delta)

    def _hear_other(self, delta: model.Delta) -> None:
        match delta:
            case model.ReasoningDelta():
                if not self._reasoning:
                    self._delta(events.ReasoningStart)
                    self._reasoning = True
                self._delta(events.ReasoningDelta, text=delta.text)
            case model.ArgumentsDelta() if (call := self._attempt.fold.call) is not None:
                self._delta(events.ToolCallDelta, call_id=call.id, name=call.name, arguments=delta.text)
            case model.ToolCallStart() if (call := self._attempt.fold.call) is not None:
                self.cut_reasoning()
                self._delta(events.ToolCallDelta, call_id=call.id, name=call.name, arguments="")
            case model.Restart():
                self.cut_reasoning()
                self.say(events.Retry, {"attempt": self._attempt.number, "wait_s": 0.0, "kind": "network"})
            case model.Notice():
                self.say(events.Warned, {"text": delta.text})
            case _:
                self.cut_reasoning()

    def cut_reasoning(self) -> None:
        """Every reasoning_start has its end, also where the attempt was cut."""
        if self._reasoning:
            self._reasoning = False
            self._delta(events.ReasoningEnd)

    def _delta(self, kind: type[Event], **fields: Any) -> None:
        self.say(kind, {"message_id": self._message_id, "attempt": self._attempt.number, **fields})

    def _put(self, event: Event) -> None:
        if self._stream is not None:
            self._stream.put(event)
        if self._hub.heard:
            self._hub.publish(event)

"""Publishing of one run's events: numbers them, masks known secrets, and passes them to the run's
stream and the hub.

journal/projection.py defines the events of an entry. Entry points: `Feed`, `EventStream`.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import anyio
import msgspec

from treadle._internal.redaction import Masking, Redactor
from treadle.events.hooks import NO_HOOKS, Hooks
from treadle.events.hub import Hub
from treadle.events.joining import drop_older, joined
from treadle.journal.entries import Entry, ToolFinished, ToolStarted
from treadle.journal.projection import events_of, interrupted_call
from treadle.messages import events
from treadle.messages.events import Event
from treadle.models import model
from treadle.models.retry import ModelAttempt
from treadle.types import now

logger = logging.getLogger("treadle")

STREAM_BUFFER = 1024
"""Number of queued events above which adjacent deltas are joined."""
_BEGINNINGS = (model.TextStart, model.ReasoningStart, model.ToolCallStart)
_NO_ATTEMPT = ModelAttempt(frozenset())


class EventStream:
    """Queue of a run's events, in order. If the reader is slow, joins adjacent deltas and replaces
    a call's older progress with newer; drops nothing else.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._closed = False
        self.is_over = False
        """True after the reader has reached the end."""
        self._news = anyio.Event()

    def put(self, event: Event) -> None:
        waiting = self._events
        if not waiting:
            self._news.set()
        elif len(waiting) >= STREAM_BUFFER:
            if isinstance(event, events.DELTAS) and (whole := joined(waiting[-1], event)):
                waiting[-1] = whole
                return
            if isinstance(event, events.ToolProgress):
                drop_older(waiting, event)
        waiting.append(event)

    def close(self) -> None:
        self._closed = True
        self._news.set()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._closed:
                self.is_over = True
                raise StopAsyncIteration
            self._news = anyio.Event()
            await self._news.wait()
        return self._events.popleft()


class Feed:
    """Publisher of a run's events. Creates no events if there are no subscribers.

    Masks known secrets, also if they span several deltas, so that the deltas of a message still add
    up to its published text. History and journal are not masked.
    """

    def __init__(
        self,
        run_id: str,
        session_id: str | None,
        hub: Hub,
        to: EventStream | Feed | None = None,
        *,
        redactor: Callable[[], Redactor] = Redactor,
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        """Create a feed. `to`: the stream of the run, or the feed of its parent, whose stream it
        shares. `redactor` is called for each message, because credentials may change during the
        run.
        """
        parent = to if isinstance(to, Feed) else None
        self._hook = hooks.on_event if "on_event" in hooks.points else None
        self._run_id = run_id
        self._session_id = session_id
        self._parent_run_id = parent._run_id if parent is not None else None
        self._hub, self._agents, self._tools = hub, hub.agents, hub.tools
        self._stream = to._stream if isinstance(to, Feed) else to
        self._numbers = parent._numbers if parent is not None else itertools.count(1)
        self._attempt = _NO_ATTEMPT
        self._message_id = ""
        self._newest_redactor = redactor
        self._redactor = redactor()
        self._masking: Masking | None = None
        """Masking of the open part; None if no secrets are known."""
        self._open: type[Event] | None = None
        """Event type of the open part's deltas."""
        self._is_behind = False
        """True if earlier deltas of the current part were not published, because there were no
        subscribers.
        """
        self._call = {"call_id": "", "name": ""}
        """The call whose arguments arrived last."""
        self.running_calls: set[str] = set()
        """Calls whose start was published, and whose end was not."""

    def use(self, hooks: Hooks) -> None:
        """Publish from now on to these hooks, those of the agent that takes over."""
        self._hook = hooks.on_event if "on_event" in hooks.points else None

    @property
    def heard(self) -> bool:
        """True if a stream, a subscriber or a hook receives the events."""
        return (
            self._stream is not None
            or self._agents.heard
            or self._tools.heard
            or self._hook is not None
        )

    def say(
        self, kind: type[Event], fields: Mapping[str, Any], *, entry_id: str | None = None
    ) -> None:
        """Publish an event other than a delta. `entry_id`: id of a durable event; None for
        others.
        """
        if not self.heard:
            return
        if self._redactor:
            fields = {name: self._redactor.inside(value) for name, value in fields.items()}
        self._tell(kind, {"id": entry_id, **fields} if entry_id is not None else fields)

    def warn(self, text: str) -> None:
        """Publish a warning; log it if there are no subscribers."""
        if self.heard:
            self.say(events.Warned, {"text": text})
        else:
            logger.warning("run %s: %s", self._run_id, self._redactor.inside(text))

    def appended(self, entries: Sequence[Entry], first: int | None) -> None:
        """Publish the events of entries that were journaled from sequence number `first` on.

        `first`: None if the journal rejected the entries; their events are then not durable.
        """
        heard = self.heard
        if heard:
            self.cut()
        for seq, entry in enumerate(entries, first or 0):
            if type(entry) is ToolStarted:
                if entry.call_id in self.running_calls:
                    self.cut()
                    self.say(*interrupted_call(entry))
                self.running_calls.add(entry.call_id)
            elif type(entry) is ToolFinished:
                self.running_calls.discard(entry.result.call_id)
            for k, (kind, fields) in enumerate(events_of(entry) if heard else ()):
                self.say(kind, fields, entry_id=None if first is None else f"{seq}.{k}")

    def progress(self, call_id: str, text: str, done: float | None, total: float | None) -> None:
        """Publish progress of a running call. Drops progress that an abandoned thread reports after
        the end of its call.
        """
        if call_id in self.running_calls:
            numbers = {
                name: value
                for name, value in (("done", done), ("total", total))
                if value is not None
            }
            self.say(events.ToolProgress, {"call_id": call_id, "text": text, **numbers})

    def begin_message(self, message_id: str, attempt: ModelAttempt) -> None:
        """Begin an attempt at a message. The following deltas belong to it."""
        self._message_id, self._attempt, self._open, self._is_behind = (
            message_id,
            attempt,
            None,
            False,
        )
        self._redactor = self._newest_redactor()
        self._masking = self._redactor.masking() if self._redactor else None

    @property
    def listener(self) -> Callable[[model.Delta], None] | None:
        """Return a listener for a response's deltas; None if there are no subscribers and none may
        arrive later.
        """
        if self.heard:
            return self.hear
        return self._hear_late if self._hub.awaited else None

    def _hear_late(self, delta: model.Delta) -> None:
        """Publish a delta of a response that began without subscribers. If secrets are known,
        starts at the next part, because the rest of a secret could not be masked.
        """
        if not (self._agents.heard or self._tools.heard):
            if not self._is_behind:
                self._is_behind, self._open = True, None
                self._masking = self._redactor.masking() if self._redactor else None
        elif not self._is_behind or self._masking is None or isinstance(delta, _BEGINNINGS):
            self._is_behind = False
            self.hear(delta)

    def hear(self, delta: model.Delta) -> None:
        """Publish a delta. Call it after the attempt's fold has added the delta."""
        if isinstance(delta, model.TextDelta):
            if self._open is not events.TextDelta:
                self._begin(events.TextDelta)
            text = delta.text
            if self._masking is not None and not (text := self._masking.add(text)):
                return
            self._put(
                events.TextDelta(
                    run_id=self._run_id,
                    session_id=self._session_id,
                    seq=next(self._numbers),
                    at=now(),
                    message_id=self._message_id,
                    attempt=self._attempt.number,
                    text=text,
                )
            )
        else:
            self._hear_other(delta)

    def _hear_other(self, delta: model.Delta) -> None:
        match delta:
            case model.ReasoningDelta():
                if self._open is not events.ReasoningDelta:
                    self._begin(events.ReasoningDelta)
                    self._delta(events.ReasoningStart)
                self._piece(delta.text)
            case model.ArgumentsDelta() if self._open is events.ToolCallDelta:
                self._piece(delta.text)
            case model.ToolCallStart() if (call := self._attempt.fold.call) is not None:
                self._begin(events.ToolCallDelta)
                self._call = {
                    "call_id": self._redactor.exact(call.id),
                    "name": self._redactor.exact(call.name),
                }
                self._delta(events.ToolCallDelta, **self._call, arguments="")
            case model.Restart():
                self.cut()
                self.say(
                    events.Retry,
                    {"attempt": self._attempt.number, "wait_s": 0.0, "kind": "network"},
                )
            case model.ModelNotice():
                self.warn(delta.text)
            case _:
                self.cut()

    def cut(self) -> None:
        """End the open part, even if the attempt was interrupted: publish the text held back for
        masking, and the reasoning_end.
        """
        if self._open is None:
            return
        if self._masking is not None and (rest := self._masking.end()):
            self._part(rest)
        kind, self._open = self._open, None
        if kind is events.ReasoningDelta:
            self._delta(events.ReasoningEnd)

    def _begin(self, kind: type[Event]) -> None:
        self.cut()
        self._open = kind

    def _piece(self, text: str) -> None:
        if self._masking is None or (text := self._masking.add(text)):
            self._part(text)

    def _part(self, text: str) -> None:
        assert self._open is not None, "a piece belongs to a part"
        if self._open is events.ToolCallDelta:
            self._delta(self._open, **self._call, arguments=text)
        else:
            self._delta(self._open, text=text)

    def _delta(self, kind: type[Event], **fields: str) -> None:
        self._tell(
            kind, {"message_id": self._message_id, "attempt": self._attempt.number, **fields}
        )

    def _tell(self, kind: type[Event], fields: Mapping[str, Any]) -> None:
        if not self.heard:
            return
        self._put(
            kind(
                run_id=self._run_id,
                session_id=self._session_id,
                seq=next(self._numbers),
                at=now(),
                **fields,
            )
        )

    def _put(self, event: Event) -> None:
        if self._parent_run_id is not None:
            event = msgspec.structs.replace(event, parent_run_id=self._parent_run_id)
        if self._stream is not None:
            self._stream.put(event)
        if self._hook is not None:
            self._hook(event)
        if self._agents.heard or self._tools.heard:
            self._hub.publish(event)

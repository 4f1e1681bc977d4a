"""Deltas and progress for followers in other processes: sent as notifications, not journaled.

Deltas may be lost. Followers discard those that arrive after their message, or from an earlier
driver or attempt. Entry points: `Relay`, the sender; `Heard`, the receiver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from treadle._internal.json_text import decode_json, encode_json
from treadle.events.hub import Hub
from treadle.events.joining import joined
from treadle.journal.entries import (
    ModelRequested,
    ModelResponded,
    ModelSwitched,
    Record,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolFinished,
)
from treadle.journal.notifier import Notifier, delta_topic
from treadle.messages import events
from treadle.messages.events import Event
from treadle.types import Value

LOOK_S: Final = 0.1
"""Interval of the check for followers of active runs, in seconds."""
GATHER_S: Final = 0.05
GATHER_CHARS: Final = 4000
"""Maximum time and characters of deltas that are gathered for one notification."""
PAYLOAD_MOST: Final = 7500
"""Maximum size of a payload, in bytes. PostgreSQL accepts less than 8,000."""

Unkept: TypeAlias = (
    events.TextDelta
    | events.ReasoningStart
    | events.ReasoningDelta
    | events.ReasoningEnd
    | events.ToolCallDelta
    | events.ToolProgress
    | events.Retry
    | events.Warned
    | events.LimitWarning
    | events.ChildStart
    | events.ChildEnd
)
"""Events that are sent to followers although they are not journaled."""
_ENDS_WHAT_WAS_SAID: Final = (
    RunStarted,
    RunResumed,
    ModelRequested,
    ModelSwitched,
    ModelResponded,
    RunFinished,
)


class DeltaPlace(NamedTuple):
    """Position of a delta among the entries of its run."""

    fence: int
    """Fence of the driver."""
    seq: int
    """Sequence number of the last entry before the delta."""


class DeltaPayload(Value, frozen=True, kw_only=True):
    """Payload of one notification: deltas and their position."""

    fence: int
    seq: int
    events: tuple[Unkept, ...]


# ---------------------------------------------------------------- sender


class _Gathered:
    __slots__ = ("chars", "events", "place")

    def __init__(self, place: DeltaPlace) -> None:
        self.place = place
        self.events: list[Event] = []
        self.chars = 0


class Relay:
    """Sender of deltas and progress from a runtime's runs to followers. Listens to the hub only
    while there are followers, so that no events are created without them.
    """

    def __init__(self, hub: Hub, notifier: Notifier) -> None:
        self._hub, self._notifier = hub, notifier
        hub.awaited = True
        self._runs: dict[str, Callable[[], DeltaPlace]] = {}
        """Function that returns the current position, by the id of each active run."""
        self._wanted: frozenset[str] = frozenset()
        self._gathered: dict[str, _Gathered] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        """Event loop of `_looking`, the timer that checks for followers."""
        self._looking: asyncio.TimerHandle | None = None
        self._telling: asyncio.TimerHandle | None = None

    def begin(self, run_id: str, place: Callable[[], DeltaPlace]) -> None:
        """Start sending the deltas of a run that this process drives. `place` returns its position,
        and is called for each delta.
        """
        self._runs[run_id] = place
        if self._notifier.wanted(delta_topic(run_id)):
            self._listen(self._wanted | {run_id})
        if self._looking is None or self._loop is not asyncio.get_running_loop():
            self._look_later()

    def end(self, run_id: str) -> None:
        """Stop sending the deltas of a run. Idempotent."""
        self._runs.pop(run_id, None)
        self._gathered.pop(run_id, None)
        if self._wanted and not self._runs:
            self._listen(frozenset())

    def close(self) -> None:
        """Stop sending for all runs, until another run begins."""
        for timer in (self._looking, self._telling):
            if timer is not None:
                timer.cancel()
        self._looking = self._telling = None
        self._gathered.clear()
        self._listen(frozenset())

    def put(self, event: Event) -> None:
        if event.run_id not in self._wanted:
            return
        if isinstance(event.id, str):
            if isinstance(event, events.MessageAdded):
                self._gathered.pop(event.run_id, None)  # the message contains these deltas
        elif isinstance(event, Unkept):
            self._gather(event)

    def _look_later(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._looking = loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._looking = None
        if self._runs:
            self._look_later()
        self._listen(
            frozenset(run_id for run_id in self._runs if self._notifier.wanted(delta_topic(run_id)))
        )

    def _listen(self, wanted: frozenset[str]) -> None:
        if wanted and not self._wanted:
            self._hub.add(self)
        elif self._wanted and not wanted:
            self._hub.remove(self)
        self._wanted = wanted

    def _gather(self, event: Unkept) -> None:
        run_id = event.run_id
        if (place_of := self._runs.get(run_id)) is None:
            return
        place, gathered = place_of(), self._gathered.get(run_id)
        if gathered is not None and gathered.place != place:
            self._tell(run_id)
            gathered = None
        if gathered is None:
            gathered = self._gathered[run_id] = _Gathered(place)
        _add(gathered.events, event)
        gathered.chars += _size(event)
        if gathered.chars >= GATHER_CHARS:
            self._tell(run_id)
        elif self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(GATHER_S, self._tell_all)

    def _tell_all(self) -> None:
        self._telling = None
        for run_id in [*self._gathered]:
            self._tell(run_id)

    def _tell(self, run_id: str) -> None:
        gathered = self._gathered.pop(run_id)
        for payload in _payloads(gathered.place, gathered.events):
            self._notifier.tell(delta_topic(run_id), payload)


def _add(gathered: list[Event], event: Event) -> None:
    """Append an event, or join it to the last delta, or let it replace the call's last progress."""
    last = gathered[-1] if gathered else None
    if last is not None and (whole := joined(last, event)) is not None:
        gathered[-1] = whole
    elif (
        isinstance(event, events.ToolProgress)
        and isinstance(last, events.ToolProgress)
        and last.call_id == event.call_id
    ):
        gathered[-1] = event
    else:
        gathered.append(event)


def _size(event: Unkept) -> int:
    """Return the approximate size of an event, in characters."""
    match event:
        case events.TextDelta() | events.ReasoningDelta() | events.ToolProgress() | events.Warned():
            return len(event.text) + 1
        case events.ToolCallDelta():
            return len(event.arguments) + 1
        case _:
            return 100


def _payloads(place: DeltaPlace, said: Sequence[Event]) -> Iterator[bytes]:
    """Yield payloads of at most `PAYLOAD_MOST` bytes. Omits an event that is larger and cannot be
    split.
    """
    data = encode_json({"fence": place.fence, "seq": place.seq, "events": said})
    if len(data) <= PAYLOAD_MOST:
        yield data
    elif len(said) > 1:
        middle = len(said) // 2
        yield from _payloads(place, said[:middle])
        yield from _payloads(place, said[middle:])
    else:
        for piece in _pieces(said[0]):
            yield from _payloads(place, [piece])


def _pieces(event: Event) -> Iterator[Event]:
    """Split a delta in two, or truncate progress and warnings."""
    match event:
        case events.TextDelta(text=text) | events.ReasoningDelta(text=text) if len(text) > 1:
            for half in (text[: len(text) // 2], text[len(text) // 2 :]):
                yield msgspec.structs.replace(event, text=half)
        case events.ToolCallDelta(arguments=text) if len(text) > 1:
            for half in (text[: len(text) // 2], text[len(text) // 2 :]):
                yield msgspec.structs.replace(event, arguments=half)
        case events.ToolProgress(text=text) | events.Warned(text=text) if len(text) > 1:
            yield msgspec.structs.replace(event, text=text[: len(text) // 2])
        case _:
            return


# ---------------------------------------------------------------- follower


class Heard:
    """Receiver of payloads that drops outdated deltas.

    Pass every record to `seen`, in order, and every payload to `take`.
    """

    def __init__(self) -> None:
        self._fence = 0
        self._since = 0
        """Sequence number of the last entry that outdates earlier deltas."""
        self._ended: set[str] = set()
        """Ids of the turn's calls that have a result."""
        self._reasoning: events.ReasoningStart | None = None
        """Start of the open reasoning; None if no reasoning is open."""

    def seen(self, record: Record) -> list[Event]:
        """Record an entry of the journal, and return the events to deliver before its own."""
        entry = record.entry
        if isinstance(entry, ToolFinished):
            self._ended.add(entry.result.call_id)
        if not isinstance(entry, _ENDS_WHAT_WAS_SAID):
            return []
        if isinstance(entry, RunResumed):
            self._fence = max(self._fence, entry.fence)
        self._since = record.seq
        self._ended.clear()
        return self._cut()

    def take(self, payload: bytes) -> list[Event]:
        """Return the events of a payload that are still current. Read the journal up to the
        payload's arrival first.

        Returns an empty list for a payload that this version cannot decode.
        """
        try:
            told = decode_json(payload, DeltaPayload)
        except ValueError:
            return []
        if told.fence < self._fence or told.seq < self._since:
            return []
        self._fence = told.fence
        return [shown for event in told.events for shown in self._shown(event)]

    def _shown(self, event: Unkept) -> list[Event]:
        match event:
            case events.ToolProgress() if event.call_id in self._ended:
                return []
            case events.ReasoningStart():
                before, self._reasoning = self._cut(), event
                return [*before, event]
            case events.ReasoningDelta() if self._reasoning is None:  # its start was lost
                named = (
                    "run_id",
                    "session_id",
                    "seq",
                    "at",
                    "parent_run_id",
                    "message_id",
                    "attempt",
                )
                self._reasoning = events.ReasoningStart(
                    **{name: getattr(event, name) for name in named}
                )
                return [self._reasoning, event]
            case events.ReasoningEnd():
                return self._cut()
            case events.TextDelta() | events.ToolCallDelta() | events.Retry():
                return [*self._cut(), event]
            case _:
                return [event]

    def _cut(self) -> list[Event]:
        """Close the open reasoning, if any: return its end, so that every start has one."""
        start, self._reasoning = self._reasoning, None
        if start is None:
            return []
        return [
            events.ReasoningEnd(
                **{name: getattr(start, name) for name in start.__struct_fields__ if name != "id"}
            )
        ]

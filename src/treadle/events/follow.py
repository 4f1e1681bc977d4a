"""Following a run from any process: its journaled events, then new ones as entries arrive, without
gaps or duplicates.

A follower subscribes before it reads the journal, so that it misses no entry. live_deltas.py
transmits the deltas, which are not journaled. Entry points: `Follow`; `Projection`, which turns
records into events.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from treadle._internal.redaction import Redactor
from treadle.errors import AgentError
from treadle.events.live_deltas import Heard
from treadle.journal.entries import Record, RunFinished
from treadle.journal.journal import Journal
from treadle.journal.notifier import delta_topic, run_topic
from treadle.journal.projection import events_of
from treadle.messages.events import Event

_ID: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?")
_ALL: Final = 1_000_000_000


class Position(NamedTuple):
    """Position of a durable event in its run."""

    entry: int
    """Sequence number of the journal entry."""
    place: int
    """Index among the entry's events."""


BEGINNING: Final = Position(0, _ALL)


def position_of(event_id: str) -> Position:
    """Parse an event id, `ENTRY.K`. `ENTRY` alone is the position after all its events.

    Raises AgentError(invalid) for any other text.
    """
    if (found := _ID.fullmatch(event_id)) is None:
        raise AgentError(
            "invalid", f"{event_id!r} is not an event id: pass the `id` of an event, like '12.0'"
        )
    return Position(int(found[1]), int(found[2]) if found[2] else _ALL)


class Projection:
    """Converter from journal records to the durable events of one run, numbered from 1, with known
    secrets masked. Pass it the records in order.
    """

    def __init__(
        self, run_id: str, session_id: str | None, redactor: Callable[[], Redactor]
    ) -> None:
        """Create a projection. `redactor` is called for each record, because credentials may
        change.
        """
        self._run_id, self._session_id, self._redactor = run_id, session_id, redactor
        self._numbers = itertools.count(1)

    def of(self, record: Record, *, after: Position = BEGINNING) -> list[Event]:
        """Return this record's events after position `after`."""
        redactor, said = self._redactor(), list[Event]()
        for place, (kind, fields) in enumerate(events_of(record.entry)):
            if (record.seq, place) <= after:
                continue
            if redactor:
                fields = {name: redactor.inside(value) for name, value in fields.items()}
            own = {"id": f"{record.seq}.{place}", "seq": next(self._numbers), "at": record.entry.at}
            said.append(kind(run_id=self._run_id, session_id=self._session_id, **own, **fields))
        return said

    def numbered(self, event: Event) -> Event:
        """Return a copy of a delta with the next number in the run's sequence."""
        return msgspec.structs.replace(event, seq=next(self._numbers))


class Follow:
    """Async iterator over a run's events, for one reader; ends after run_end.

    `async with runtime.follow(run_id) as events: async for event in events: …`. A slow reader does
    not delay the run: it reads entries from the journal at its own pace, and misses the oldest
    deltas. If a journal error ends it, follow again after the last `id`.
    """

    def __init__(
        self,
        journal: Journal,
        run_id: str,
        redactor: Callable[[], Redactor],
        *,
        after: str | None = None,
        deltas: bool = True,
    ) -> None:
        self._journal, self._run_id, self._redactor = journal, run_id, redactor
        self._after = BEGINNING if after is None else position_of(after)
        self._deltas = deltas
        self._events = self._followed()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event. Raises AgentError(invalid) for an unknown run or a position beyond
        its end.
        """
        return await anext(self._events)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop following. Idempotent."""
        await self._events.aclose()

    async def _followed(self) -> AsyncGenerator[Event]:
        run_id, after = self._run_id, self._after
        topics = (run_topic(run_id), *((delta_topic(run_id),) if self._deltas else ()))
        async with self._journal.notifier.listen(*topics) as news:
            info = await self._journal.info(run_id)
            if after.entry > info.entries:
                raise AgentError(
                    "invalid",
                    (
                        f"run {run_id} has {info.entries} entries, so there are no events after "
                        f"{after.entry}: pass the id of one of its events"
                    ),
                )
            projection, heard = Projection(run_id, info.session_id, self._redactor), Heard()
            read, payloads = max(after.entry - 1, 0), list[bytes]()
            while True:
                for record in await self._journal.read(run_id, after=read):
                    read = record.seq
                    for event in heard.seen(record):
                        yield projection.numbered(event)
                    for event in projection.of(record, after=after):
                        yield event
                    if isinstance(record.entry, RunFinished):
                        return
                if info.status == "finished":  # and `after` is at run_end or beyond
                    return
                for payload in payloads:
                    for event in heard.take(payload):
                        if event.run_id == run_id:  # payloads are untrusted
                            yield projection.numbered(event)
                payloads = await news.wait()

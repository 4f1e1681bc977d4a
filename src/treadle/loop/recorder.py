"""Recording of a run: each entry goes into its state, then into its journal, then to subscribers.

The callers decide which entries there are. Entry point: `Pen`.
"""

from __future__ import annotations

from msgspec import structs

from treadle.events.feed import Feed
from treadle.journal.entries import Entry
from treadle.journal.journal import RunWriter
from treadle.journal.run_state import RunState
from treadle.loop.deadline import RunTime


class Pen:
    """Recorder of one run.

    It holds no reference to its callers, so that a finished run is freed at once.
    """

    __slots__ = ("_feed", "_state", "_time", "held", "writer")

    def __init__(self, state: RunState, feed: Feed, time: RunTime) -> None:
        self._state, self._feed, self._time = state, feed, time
        self.writer: RunWriter
        """Set once the run has begun."""
        self.held: list[Entry] = []
        """Entries that ride with the next append."""

    async def append(self, *entries: Entry, hold: bool = False) -> None:
        """Durable first, then seen; `hold` leaves the entries to the next append.

        What the journal refuses is held for the end.
        """
        self.keep(*entries)
        if hold or not self.held:
            return
        batch, self.held = self.held, []
        try:
            first = await self.writer.append(batch)
        except Exception:
            self.held[:0] = batch
            raise
        self._feed.appended(batch, first)

    def keep(self, *entries: Entry) -> None:
        """Apply entries that are true from here on and that the next append writes."""
        if entries and self._time.stood_s:
            entries = (structs.replace(entries[0], idle_s=self._time.take_stood_s()), *entries[1:])
        for entry in entries:
            self._state.apply(entry)
        self.held.extend(entries)

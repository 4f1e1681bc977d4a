"""Recording of a run: applies each entry to the state, journals it, then publishes it.

Entry point: `Pen`.
"""

from __future__ import annotations

from msgspec import structs

from treadle.events.feed import Feed
from treadle.journal.entries import Entry, RunStarted
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.run_state import RunState
from treadle.journal.sessions import ViewMark
from treadle.loop.deadline import RunTime
from treadle.loop.plan import Plan
from treadle.loop.recovery import resume
from treadle.loop.session_past import begun


class Pen:
    """Recorder of one run. It has no reference to its callers, so that a finished run is freed
    immediately.
    """

    __slots__ = ("_feed", "_state", "_time", "failed", "held", "writer")

    def __init__(self, state: RunState, feed: Feed, time: RunTime) -> None:
        self._state, self._feed, self._time = state, feed, time
        self.writer: RunWriter
        """Set by `begin`."""
        self.held: list[Entry] = []
        """Entries that the next append writes."""
        self.failed: Exception | None = None
        """Error of the first append that failed; later ones may only be its consequence."""

    async def begin(self, plan: Plan, journal: Journal) -> None:
        """Record the first entry of the run, or of the driver or agent that continues it.

        Raises the errors of `Journal.begin`.
        """
        entry: Entry
        if (switching := plan.switching) is not None:
            self.writer, entry = switching.writer, switching.entry
            await self.append(entry)
        elif plan.resumption is not None:
            self.writer = plan.resumption.writer
            entry = await resume(plan, self.writer, self.append, self._feed)
        else:

            async def start(found: ViewMark | None) -> tuple[RunStarted, RunWriter]:
                started = plan.started()
                return started, await journal.begin(started, found=found)

            entry, self.writer = await begun(plan.past, start)
            self._state.apply(entry)
            self._feed.appended([entry], 1)
            self.keep(*plan.compacted())
        self._time.counts_from(entry.at)

    async def append(self, *entries: Entry, hold: bool = False) -> None:
        """Apply the entries, journal them and publish them. `hold`: leave the last two steps to the
        next append.

        If the journal fails, the entries stay held.
        """
        self.keep(*entries)
        if hold or not self.held:
            return
        batch, self.held = self.held, []
        try:
            first = await self.writer.append(batch)
        except Exception as e:
            self.held[:0] = batch
            self.failed = self.failed or e
            raise
        self._feed.appended(batch, first)

    def keep(self, *entries: Entry) -> None:
        """Apply entries to the state. The next append writes them."""
        if entries and (idle_s := self._time.take_idle_s(entries[-1].at)):
            entries = (structs.replace(entries[0], idle_s=idle_s), *entries[1:])
        for entry in entries:
            self._state.apply(entry)
        self.held.extend(entries)

"""Reading runs from the journal, whichever process drives or drove them.

Entry point: `PastRuns`, a base class of `Runtime`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.events.follow import Follow, Projection
from treadle.journal.diff import RunDiff, compare
from treadle.journal.entries import Record, RunStarted
from treadle.journal.journal import Journal
from treadle.loop.ending import ending_of, unfinished
from treadle.messages.events import Event
from treadle.messages.result import RunResult
from treadle.runtime.assembly import Assembly
from treadle.runtime.results import result_of


class PastRuns:
    """Methods of a runtime that read runs."""

    journal: Journal
    _assembly: Assembly

    async def replay(self, run_id: str) -> RunResult[Any]:
        """Return the exact result of a run from its journal, without calling a model or a tool.

        Raises AgentError(invalid) for an unknown run. The outcome of an unfinished run is
        `approval_needed` if it waits for a user, otherwise `error`.
        """
        state = await self.journal.load(run_id)
        return result_of(
            state, ending_of(state) if state.finished is not None else unfinished(state)
        )

    async def events(self, run_id: str) -> list[Event]:
        """Return the durable events of a run from its journal, unchanged."""
        records = await self.journal.read(run_id)
        projection = Projection(run_id, _session_of(records), lambda: self._assembly.redactor)
        return [event for record in records for event in projection.of(record)]

    def follow(self, run_id: str, *, after: str | None = None, deltas: bool = True) -> Follow:
        """Follow the events of a run, whichever process drives it:

        `async with rt.follow(…) as events: async for event in events: …`.

        Durable events arrive exactly once and in order, those after `after` (the `id` of an event),
        across waits and takeovers, up to run_end. Events without an id (`deltas`) are batched
        briefly and can be lost. Waits for a queued run. Raises AgentError(invalid) if `after` is
        not an id; other errors are raised with the first event.
        """
        return Follow(
            self.journal, run_id, lambda: self._assembly.redactor, after=after, deltas=deltas
        )

    async def diff(self, run_id: str, other: str) -> RunDiff:
        """Return the point where two runs diverge, and how they ended."""
        return compare(await self.journal.load(run_id), await self.journal.load(other))


def _session_of(records: Sequence[Record]) -> str | None:
    started = records[0].entry
    return started.session_id if isinstance(started, RunStarted) else None

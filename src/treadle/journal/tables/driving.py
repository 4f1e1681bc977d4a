"""Parts of a run's driver that both databases share: checks of the entries that it appends, and the
row of a run that has ended.

Each journal decides when to write and checks that the driver still holds the run. Entry points:
`Hold`, `looked_over`, `DriverView`, `add_late`, `finish`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from treadle.errors import AgentError
from treadle.journal.entries import (
    AgentSwitched,
    Compaction,
    Entry,
    InputAdded,
    ModelResponded,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
)
from treadle.journal.receipts import Cleared, Summary, Withdrawn, read_receipt
from treadle.journal.tables.conversations import ran, recount
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.listing import stored_summary, summary_of
from treadle.journal.tables.rows import micros, showable


class SaidCount:
    """Counter of messages of a run observed from its beginning."""

    __slots__ = ("_open", "count")

    def __init__(self, started: RunStarted) -> None:
        self.count = len(started.messages) + (started.fork is None or started.fork.asks)
        self._open = 0
        """Open calls of the last response."""

    def add(self, entry: Entry) -> None:
        """Count an entry. Raises AgentError for a receipt of a newer version, and if only a fold
        can tell.
        """
        if isinstance(entry, ModelResponded):
            message = entry.message
            self.count += bool(message.parts)
            self._open = len(message.tool_calls) if entry.stop_reason is not None else 0
        elif isinstance(entry, ToolFinished):
            self._open -= 1
            self.count += self._open == 0
        elif isinstance(entry, (ToolLate, InputAdded)):
            if isinstance(entry, ToolLate) and entry.status is not None and self._open:
                raise AgentError("invalid", "it may be the result of an open call, and no message")
            self.count += 1
        elif isinstance(entry, Compaction):
            receipt = read_receipt(entry.receipt)
            self.count -= (
                0
                if isinstance(receipt, Cleared)
                else receipt.dropped - isinstance(receipt, Summary | Withdrawn)
            )


_ADVANCE_LATE = (
    "update runs set head = head + ?, updated_at_us = ?, waiting = case when ? = 1 then 0 else "
    "waiting end where num = ? and fence = ? and head = ?"
)
_FINISH = """
update runs set head = head + ?, updated_at_us = ?, finished = ?, summary = coalesce(?, summary), counted = ?, agent = coalesce(?, agent), owner = null, sent_to = null
where num = ? and fence = ? and head = ? and owner = ?
"""


class Hold:
    """Hold and progress of a driver. Belongs to the thread that writes."""

    __slots__ = ("fence", "head", "num", "owner", "run_id")

    def __init__(self, run_id: str, num: int, *, fence: int, head: int, owner: str) -> None:
        self.run_id = run_id
        self.num = num
        self.fence = fence
        self.head = head
        self.owner = owner

    def not_held(self) -> AgentError:
        return AgentError(
            "busy",
            (
                f"run {self.run_id} is no longer held by this driver: another one took it over, "
                "or it has ended. Nothing was appended"
            ),
        )


class Look(NamedTuple):
    end: int | None
    """Index of the run's end among the entries."""
    late: bool
    """True if only late results, or nothing, follow the end."""
    once: bool
    """True if a `once` call starts."""


def looked_over(run_id: str, entries: Sequence[Entry]) -> Look:
    """Check entries before they are appended.

    Raises AgentError(invalid) for entries that cannot follow the end of a run.
    """
    end, late, once = None, True, False
    for n, entry in enumerate(entries):
        if isinstance(entry, RunFinished):
            end, late = n, True
        elif not isinstance(entry, ToolLate):
            late = False
            once = once or (isinstance(entry, ToolStarted) and entry.effect == "once")
    if end is not None and not late:
        raise AgentError(
            "invalid",
            (f"run {run_id} has ended, so only tool.late can follow: nothing was appended"),
        )
    return Look(end, late, once)


class DriverView:
    """Facts that a driver knows about its run without reading it, sufficient for the row of a run
    that ends.
    """

    __slots__ = ("_begun", "_resumed", "_said", "_started", "_switched")

    def __init__(self, started: RunStarted, *, begun: bool) -> None:
        """Create a driver view. `begun`: True if the driver drives the run from its beginning, and
        so observes every entry.
        """
        self._started = started
        self._begun = begun
        self._resumed: RunResumed | None = None
        self._switched: AgentSwitched | None = None
        self._said = SaidCount(started) if begun and started.fork is None else None

    def note(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if type(entry) is RunResumed:
                self._resumed, self._switched = entry, None
                continue
            if type(entry) is AgentSwitched:
                self._switched = entry
            if self._said is not None:
                try:
                    self._said.add(entry)
                except AgentError:  # a receipt of a newer version, or a late result
                    self._said = None

    def forget_said(self) -> None:
        """Discard the count for entries that were not appended."""
        self._said = None

    @property
    def said(self) -> int | None:
        """Number of messages; None if it must be counted."""
        return None if self._said is None else self._said.count

    def summary(self, finished: RunFinished) -> bytes | None:
        """Return the summary of a finished run. None: lists fold its entries."""
        driver = self._resumed or (self._started if self._begun else None)
        return (
            None
            if driver is None
            else summary_of(self._started, driver, self._switched or driver, finished=finished)
        )

    @property
    def agent(self) -> str | None:
        """Name of the agent in charge; None if it has not changed since the run's row was written."""
        last = self._switched or self._resumed
        return None if last is None else showable(last.agent)


def add_late(db: Cursor, hold: Hold, entries: Sequence[Entry], *, wakes: bool) -> None:
    """Advance the head of a run, even after its end or release. `wakes`: it stops waiting for a
    user. If the run is no longer held, `db.changed` is 0.
    """
    at = entries[-1].at
    recount(db, hold.num, at)
    values = (len(entries), micros(at), int(wakes), hold.num, hold.fence, hold.head)
    db.execute(_ADVANCE_LATE, values)


def finish(db: Cursor, hold: Hold, entries: Sequence[Entry], end: int, seen: DriverView) -> None:
    """Advance the head and release the run. If it is no longer held, `db.changed` is 0."""
    finished = cast("RunFinished", entries[end])
    summary = seen.summary(finished)
    if db.seal is not None and summary is not None:
        summary = stored_summary(db, hold.run_id, summary)
    db.execute("delete from stops where run = ?", (hold.num,))
    ran(db, hold.num, finished.at, said=seen.said)
    changes = (
        len(entries),
        micros(entries[-1].at),
        hold.head + end + 1,
        summary,
        int(summary is not None),
        seen.agent,
    )
    db.execute(_FINISH, (*changes, hold.num, hold.fence, hold.head, hold.owner))

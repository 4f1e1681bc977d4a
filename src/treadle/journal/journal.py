"""Contract of a journal: storage of runs' entries, the right to append them, and lists of runs.

Entries are in entries.py, stores in memory/, sqlite/ and postgres/. Entry point: `Journal`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import date
from typing import Protocol

from typing_extensions import Unpack

from treadle.budget.costs import By, Costs
from treadle.errors import AgentError
from treadle.journal.entries import (
    AgentSwitched,
    Compaction,
    Entry,
    Fork,
    ModelRequested,
    ModelResponded,
    Record,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
)
from treadle.journal.import_bounds import ImportBounds
from treadle.journal.notifier import Notifier
from treadle.journal.queue import QueuePlace, RunQueue
from treadle.journal.run_info import Freed, Holder, RunFilter, RunInfo
from treadle.journal.run_state import RunState
from treadle.journal.session_names import is_id
from treadle.journal.sessions import Sessions, SessionView, ViewMark
from treadle.messages.message import ToolResult
from treadle.types import Time


class Append(Protocol):
    """Append entries to one run: state first, then the journal, then subscribers.

    `hold` delays them to the next append, which follows immediately.
    """

    def __call__(self, *entries: Entry, hold: bool = False) -> Awaitable[None]: ...


class RunWriter(Protocol):
    """The one driver of a run: only it can append while it holds the run."""

    @property
    def run_id(self) -> str: ...

    @property
    def fence(self) -> int:
        """Number of the driver: 1 for the first, one more after each takeover."""
        ...

    @property
    def failed_over(self) -> bool:
        """True if the database has failed over since the last driver; run.resumed records it."""
        ...

    async def append(
        self, entries: Sequence[Entry], *, put_back: QueuePlace | None = None, wakes: bool = False
    ) -> int:
        """Append all entries in order, or none, and return the sequence number of the first once
        they are durable.

        `put_back`: in the same transaction, release the run and queue it there, as
        `RunQueue.put_back` does. Not with run.finished or tool.late. `wakes`: in the same
        transaction, a run that waits for a user stops waiting: it becomes ready in its queue, or
        stopped. With tool.late only, which may be appended after the run was released. After
        run.finished only tool.late is accepted. Raises AgentError(busy) if another driver has taken
        the run over, and AgentError(agent) if the entries cannot be stored; then nothing was
        appended. Cancellation does not interrupt an append that has begun (`uninterrupted.py`).
        """
        ...

    async def verify(self) -> None:
        """Check in the store that this driver still holds the run, before an effect without a
        preceding append. Raises AgentError(busy) if it may not.
        """

    async def release(self, *, waiting: bool | None = False) -> None:
        """Release the run. It is then finished, waiting for a user (if `waiting`), ready in its
        queue, or stopped. None: nothing was appended, so the run stays as `take_over` found it,
        with the time of its place.

        Idempotent. Does not raise if the journal is lost.
        """


class Journal(Protocol):
    """Storage of runs. May be used from many tasks. Raises AgentError: invalid for an unknown run,
    busy for a run that another driver holds, agent for a failing store.
    """

    @property
    def sessions(self) -> Sessions:
        """The conversations formed by these runs."""
        ...

    @property
    def queue(self) -> RunQueue:
        """Runs of this journal that wait for a worker."""
        ...

    @property
    def notifier(self) -> Notifier:
        """Publisher of hints that a run has more entries or has become ready; closed with the
        journal.
        """
        ...

    async def begin(self, started: RunStarted, *, found: ViewMark | None = None) -> RunWriter:
        """Create a run, append run.started as sequence 1, and hold the run. Creates its session if
        missing.

        `found`: `SessionView.mark` of the view that the run was planned with. Raises
        SessionChanged, without creating the run, if the session has changed since; AgentError(busy)
        if the id exists or the session has an unfinished run.
        """
        ...

    async def take_over(self, run_id: str, *, force: bool = False) -> RunWriter:
        """Take a run without a driver and fence off its last one. The first append must begin with
        run.resumed; until then, a run that waits for a user still does, should this process die.

        Raises AgentError(busy) if a living process drives it (`force` ignores that),
        AgentError(invalid) if it is finished or unknown.
        """
        ...

    async def ask_to_stop(self, run_id: str) -> bool:
        """Ask the living driver of a run, in any process, to cancel it; False if it has none."""
        ...

    def on_stop(self, heard: Callable[[str], None]) -> None:
        """Register a callback for stop requests of a run driven from here: `heard(run_id)`, in the
        run's event loop.
        """
        ...

    def hurry(self) -> None:
        """Shorten the wait for an unresponsive store to a few seconds, because the process is about
        to end. Idempotent.
        """
        ...

    async def read(self, run_id: str, *, after: int = 0) -> list[Record]:
        """Return the records after `after`, in order. Raises AgentError(invalid) for an unknown
        run.
        """
        ...

    async def load(self, run_id: str) -> RunState:
        """Return the state of a run, including its past (`loading.load`).

        Raises AgentError(invalid) for an unknown run.
        """
        ...

    async def children(self, run_id: str) -> list[RunInfo]:
        """Return the runs that this run's calls started directly, oldest first."""
        ...

    async def load_fork(self, fork: Fork) -> RunState:
        """Return the fresh state of a run that continues from inside another run
        (`loading.forked`).
        """
        ...

    async def view(self, session_id: str) -> SessionView:
        """Return the messages in view of the session's next run, without blocking the event loop;
        none for an unknown session.
        """
        ...

    async def read_bytes(self, run_id: str) -> list[bytes]:
        """Return the stored bytes of every entry, in order, each a JSON object, as exports copy
        them.
        """
        ...

    async def add_run(self, entries: Sequence[bytes]) -> RunInfo:
        """Import a run from the output of `read_bytes`, unchanged. Raises AgentError(invalid) with
        the number of a broken entry or one that exceeds a limit of `ImportBounds`, or if the run
        exists or the run that it was forked from does not.
        """
        ...

    async def info(self, run_id: str) -> RunInfo:
        """Return a run's info. Raises AgentError(invalid) with the nearest ids for an unknown
        run.
        """
        ...

    async def runs(self, *, limit: int | None = None, **only: Unpack[RunFilter]) -> list[RunInfo]:
        """Return the runs that meet the conditions, newest first.

        Raises AgentError(invalid) for unknown conditions.
        """
        ...

    async def under_way(self, *, limit: int) -> list[RunInfo]:
        """Return the runs with a living driver, the one with the oldest last entry first."""
        ...

    async def left_behind(self, *, limit: int) -> list[str]:
        """Return the ids of runs whose driver died or closed before their end, newest first: in no
        queue, without an open approval request, and not started by another run.
        """
        ...

    async def orphans(self, *, limit: int) -> list[str]:
        """Return the ids of runs without an end or a living driver whose parent run has ended,
        newest first.
        """
        ...

    async def holder(self, session_id: str) -> Holder | None:
        """Return the driver of the session's run in any process, including this one; None if there
        is none, or the run waits or was abandoned.
        """
        ...

    async def costs(self, by: By, *, since: date | None = None) -> Costs:
        """Sum up all runs, running ones up to now; `since`: first day to count, in UTC."""
        ...

    async def prune(self, before: Time, *, apply: bool) -> Freed:
        """Delete finished runs whose last entry is older than `before`, with their messages;
        without `apply`, only report what that would free.

        Keeps runs from which a remaining run was forked; a run and its children are deleted
        together.
        """
        ...

    async def remove(self, run_ids: Collection[str]) -> Freed:
        """Delete finished runs with their messages and their children, whatever their age. Unknown
        ids are ignored.

        A run from which another was forked is kept. On return, the deletion is durable, and deleted
        text has been removed from the store's own files as far as possible. Raises
        AgentError(busy), and deletes nothing, if one is not finished.
        """
        ...

    async def aclose(self, *, keep_runs: bool = False) -> None:
        """Finish appends in progress and release the runs driven from here. Idempotent.

        `keep_runs`: runs still driven, also by another runtime, stay held; their calls may
        continue.
        """
        ...


def read_run(entries: Sequence[bytes]) -> list[Entry]:
    """Decode a whole run from the output of `read_bytes`.

    Raises AgentError(invalid) with the number of the first invalid or misplaced entry, also for one
    that exceeds a limit of `ImportBounds` or lies more than a day in the future.
    """
    read: list[Entry] = []
    state, bounds = RunState(), ImportBounds()
    for number, data in enumerate(entries, 1):
        try:
            entry = bounds.read(data)
            _check_place(entry, state)
            if isinstance(entry, Compaction | AgentSwitched) or (
                isinstance(entry, ModelRequested) and entry.view is not None
            ):
                bounds.compaction(len(state.history))
            state.apply(entry)
        except AgentError as e:
            raise AgentError("invalid", f"entry {number}: {e.message}") from e
        except ValueError as e:  # decoded from JSON inside a text
            raise AgentError("invalid", f"entry {number}: {e}") from e
        read.append(entry)
    if not read:
        raise AgentError("invalid", "there is no entry in it")
    return read


def _check_place(entry: Entry, state: RunState) -> None:
    """Check the position of an entry. Raises AgentError(invalid) if it cannot follow."""
    if (state.seq == 0) is not isinstance(entry, RunStarted):
        raise AgentError("invalid", "a run must begin with run.started, and have only one")
    if state.finished is not None and not isinstance(entry, ToolLate):
        raise AgentError("invalid", "only late results may follow run.finished")
    match entry:
        case ModelResponded(message=message):
            ids = Counter(call.id for call in message.tool_calls)
            if doubled := [call_id for call_id, times in ids.items() if times > 1]:
                raise AgentError(
                    "invalid",
                    f"two calls have the id {doubled[0]!r}: one answer would count for both",
                )
        case RunStarted(run_id=run_id, session_id=session_id, schema=schema):
            if schema < 1:
                raise AgentError("invalid", f"there is no schema {schema}: the first is 1")
            for given in (run_id, session_id):
                if given is not None and not is_id(given):
                    raise AgentError(
                        "invalid",
                        f"{given!r} is not a valid id: use up to 128 printable characters without slashes",
                    )
        case ToolStarted(call_id=call_id) | ToolFinished(result=ToolResult(call_id=call_id)):
            _check_call(call_id, state)
        case _:
            return


def _check_call(call_id: str, state: RunState) -> None:
    """Check that a call is known and has no result yet. Raises AgentError(invalid)."""
    if call_id not in state.current.call_ids:
        raise AgentError("invalid", f"no call {call_id!r} is requested before it")
    if call_id in state.current.results:
        raise AgentError("invalid", f"the call {call_id!r} already has a result")

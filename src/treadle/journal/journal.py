"""Contract of a journal: storage of runs' entries, the right to append them, and lists of runs.

Entries are in entries.py, implementations in memory/, sqlite/ and postgres/. Entry points:
`Journal`, `RunWriter`, `RunInfo`, `Holder`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import date
from typing import Literal, Protocol, TypeAlias

from treadle.budget.costs import By, Costs, RunCost
from treadle.errors import AgentError
from treadle.journal.entries import (
    Entry,
    Fork,
    Record,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
    read_entry,
)
from treadle.journal.notifier import Notifier
from treadle.journal.queue import QueuePlace, RunQueue
from treadle.journal.run_state import RunState
from treadle.journal.sessions import Sessions, SessionView, ViewMark, is_id, title_of
from treadle.messages.message import ToolResult
from treadle.messages.metrics import RunTotals
from treadle.types import Mode, Outcome, Spending, Time, Usage, Value

RunStatus: TypeAlias = Literal["queued", "running", "waiting", "stopped", "finished"]
"""queued: it waits for a worker, also after one that drove it died; running: a living process
drives it; waiting: for a person's approval; stopped: its process died, or closed, before its end,
and it is in no queue, or is parked there."""


UNCOUNTED = RunTotals(runs=0)
"""Placeholder of a `RunInfo` that its own entries do not complete: see journal/totals.py."""


class RunInfo(Value, frozen=True, kw_only=True):
    """A run as a list shows it: a fold of its entries."""

    run_id: str
    session_id: str | None
    parent_run_id: str | None
    forked_from: str | None
    agent: str
    model: str
    mode: Mode
    cwd: str
    status: RunStatus
    outcome: Outcome | None
    """None until it is finished."""
    started_at: Time
    updated_at: Time
    """Time of the last entry."""
    prompt: str
    """The first line of it."""
    turns: int
    tool_calls: int
    usage: Usage
    cost_usd: float | None = None
    """Cost of the responses with a known price; None if none had one."""
    spending: tuple[Spending, ...] = ()
    """Breakdown of both; empty if an older version wrote the run's end."""
    total: RunTotals = UNCOUNTED
    """Sums over the run and every run that it started, those under way up to now.

    `Journal` methods always fill it.
    """
    user_id: str | None = None
    """User id given to the run; None also if an older version wrote the run's end."""
    entries: int
    """Number of entries, and sequence number of the last."""
    queue: str | None = None
    """Queue in which it waits or waited for a worker; None: none."""
    tenant: str | None = None
    parked: str | None = None
    """Why no worker gets it any more, until it is woken."""
    imported: Time | None = None  # as in RunStarted


class Holder(Value, frozen=True, kw_only=True):
    """The driver of a session's current run."""

    run_id: str
    pid: int | None
    """Process id as that process sees it: in a container the number differs outside.

    None if the driver does not report it.
    """
    host: str | None
    """None where an older version drives it."""
    since: Time
    """When that run began, or was last resumed."""


class Freed(Value, frozen=True, kw_only=True):
    """Result of pruning, or of its preview."""

    runs: tuple[str, ...]
    kept: tuple[str, ...]
    """Old enough, but another run stays that was forked from them, goes on from what they said, or
    belongs to the same tree of runs.
    """
    size_bytes: int
    """Size of the entries; data shared with remaining runs is not counted."""


class Append(Protocol):
    """Append entries to one run: state first, then the journal, then subscribers.

    `hold` delays them to the next append, which follows at once.
    """

    def __call__(self, *entries: Entry, hold: bool = False) -> Awaitable[None]: ...


class RunWriter(Protocol):
    """The one driver of one run: as long as it holds the run, only it can append."""

    @property
    def run_id(self) -> str: ...

    @property
    def fence(self) -> int:
        """1 for the first driver, one more for each that took the run over."""
        ...

    async def append(self, entries: Sequence[Entry], *, put_back: QueuePlace | None = None) -> int:
        """All or nothing, in order; gives the sequence of the first. When it returns, they are
        durable.

        `put_back`: in the same transaction, release the run and queue it there, as
        `RunQueue.put_back` does. Not with run.finished or tool.late. After run.finished it takes
        nothing but tool.late. Raises AgentError(busy) where another driver has taken the run over,
        and AgentError(agent) where the entries cannot be stored; then nothing was appended.
        Cancellation: none. An append that began is finished, also while its caller is being
        cancelled (`uninterrupted.py`); the journal sees to it where it waits.
        """
        ...

    async def verify(self) -> None:
        """Ask the store whether the run is still this driver's, for an effect that no append
        precedes. Raises AgentError(busy) where it may not be.
        """

    async def release(self, *, waiting: bool = False) -> None:
        """Lets go of the run, which then is finished, `waiting` for a person, or stopped.

        Idempotent. Raises nothing for a lost journal.
        """


class Journal(Protocol):
    """Storage of runs. Safe from many tasks. Raises AgentError: invalid for an unknown run, busy
    for a run that another driver holds, agent for a failing store.
    """

    @property
    def sessions(self) -> Sessions:
        """The conversations that these runs make up."""
        ...

    @property
    def queue(self) -> RunQueue:
        """Runs of this journal that wait for a worker."""
        ...

    @property
    def notifier(self) -> Notifier:
        """Tells that a run has more entries, and that one became ready; closed with the journal."""
        ...

    async def begin(self, started: RunStarted, *, found: ViewMark | None = None) -> RunWriter:
        """Makes the run, appends run.started as sequence 1 and holds the run; makes its session
        where there is none.

        `found`: `SessionView.mark` of the view that the run was planned on. Raises SessionChanged,
        and begins nothing, where the session has changed since; AgentError(busy) where the id
        exists, or the session has a run that is not finished.
        """
        ...

    async def take_over(self, run_id: str, *, force: bool = False) -> RunWriter:
        """Take a run without a driver and fence off its last one. The first append must begin with
        run.resumed.

        Raises AgentError(busy) if a living process drives it (`force` ignores that),
        AgentError(invalid) if it is finished or unknown.
        """
        ...

    async def ask_to_stop(self, run_id: str) -> bool:
        """Ask the living driver of a run, in any process, to cancel it; False if it has none."""
        ...

    def on_stop(self, heard: Callable[[str], None]) -> None:
        """Call `heard(run_id)` in the event loop of a run driven from here when its stop is
        requested.
        """
        ...

    def hurry(self) -> None:
        """The process is about to end: from now on a store that does not answer is waited for a few
        seconds, and no longer. Idempotent.
        """
        ...

    async def read(self, run_id: str, *, after: int = 0) -> list[Record]:
        """The records above `after`, in order. Raises AgentError(invalid) for an unknown run."""
        ...

    async def load(self, run_id: str) -> RunState:
        """Everything that the journal says of a run, over what came before it (`loading.load`).

        Raises AgentError(invalid) for an unknown run.
        """
        ...

    async def children(self, run_id: str) -> list[RunInfo]:
        """The runs that calls of this one started, oldest first; not those that these started in
        turn.
        """
        ...

    async def load_fork(self, fork: Fork) -> RunState:
        """The fresh state of a run that goes on from inside another one (`loading.forked`)."""
        ...

    async def view(self, session_id: str) -> SessionView:
        """Messages in view of the session's next run, without blocking the event loop; none where
        there is no such session.
        """
        ...

    async def read_bytes(self, run_id: str) -> list[bytes]:
        """The stored bytes of every entry, in order, each a JSON object: what export copies."""
        ...

    async def add_run(self, entries: Sequence[bytes]) -> RunInfo:
        """Takes in what `read_bytes` gave elsewhere, as it is. Raises AgentError(invalid) that
        names the number of a broken entry, and where the run is here already, or the one that it
        was forked from is not.
        """
        ...

    async def info(self, run_id: str) -> RunInfo:
        """Raises AgentError(invalid) for an unknown run, with the nearest ids."""
        ...

    async def runs(
        self,
        *,
        limit: int | None = None,
        session_id: str | None = None,
        forked_from: str | None = None,
    ) -> list[RunInfo]:
        """All runs, or those of a session, or the forks of a run, newest first."""
        ...

    async def under_way(self, *, limit: int) -> list[RunInfo]:
        """Return the runs with a living driver, the one with the oldest last entry first."""
        ...

    async def left_behind(self, *, limit: int) -> list[str]:
        """Return the ids of runs whose driver died or closed before their end, newest first: in no
        queue, without an open question, and not started by another run.
        """
        ...

    async def orphans(self, *, limit: int) -> list[str]:
        """IDs of runs without an end and without a living driver whose parent run has ended, newest
        first.
        """
        ...

    async def holder(self, session_id: str) -> Holder | None:
        """Return the driver of the session's run, in any process, this one included; None if there
        is none, or the run waits or was left behind.
        """
        ...

    async def costs(self, by: By, *, since: date | None = None) -> Costs:
        """Sum up all runs, running ones up to now; `since`: the first day, in UTC, that counts."""
        ...

    async def prune(self, before: Time, *, apply: bool) -> Freed:
        """Takes away finished runs whose last entry is older, with their messages; where `apply` is
        false it only says what that would free.

        Runs that one which stays was forked from are kept; a run, and those that it started, go
        together.
        """
        ...

    async def remove(self, run_ids: Collection[str]) -> Freed:
        """Delete finished runs with their messages, and the runs that they started, whatever their
        age. Unknown ids are ignored.

        A run that another one was forked from is kept. When this returns, the deletion is durable,
        and the store's own files hold no deleted text where it can remove it. Raises
        AgentError(busy), and deletes nothing, where one of them is not finished.
        """
        ...

    async def aclose(self, *, keep_runs: bool = False) -> None:
        """Finish the appends under way, and release the runs driven from here. Idempotent.

        `keep_runs`: their calls still run, so keep them until this process ends.
        """
        ...


def read_run(entries: Sequence[bytes]) -> list[Entry]:
    """A whole run as `read_bytes` gave it.

    Raises AgentError(invalid) that names the number of the first entry which is none, or out of
    place.
    """
    read: list[Entry] = []
    state = RunState()
    for number, data in enumerate(entries, 1):
        try:
            entry = read_entry(data)
            _check_place(entry, state)
            state.apply(entry)
        except AgentError as e:
            raise AgentError("invalid", f"entry {number}: {e.message}") from e
        except ValueError as e:  # of what is JSON inside of a text
            raise AgentError("invalid", f"entry {number}: {e}") from e
        read.append(entry)
    if not read:
        raise AgentError("invalid", "there is no entry in it")
    return read


def _check_place(entry: Entry, state: RunState) -> None:
    """Raises AgentError(invalid) for what no run comes to."""
    if (state.seq == 0) is not isinstance(entry, RunStarted):
        raise AgentError("invalid", "a run begins with one run.started, and has no other")
    if state.finished is not None and not isinstance(entry, ToolLate):
        raise AgentError(
            "invalid", "after run.finished come results that were late, and nothing else"
        )
    match entry:
        case RunStarted(run_id=run_id, session_id=session_id):
            for given in (run_id, session_id):
                if given is not None and not is_id(given):
                    raise AgentError(
                        "invalid",
                        (
                            f"{given!r} is no id: ids are up to 128 printable characters without "
                            "slashes"
                        ),
                    )
        case ToolStarted(call_id=call_id) | ToolFinished(result=ToolResult(call_id=call_id)):
            _check_call(call_id, state)
        case _:
            return


def _check_call(call_id: str, state: RunState) -> None:
    """Raises AgentError(invalid)."""
    if call_id not in {call.id for call in state.current.calls}:
        raise AgentError("invalid", f"no call {call_id!r} was asked for before it")
    if call_id in state.current.results:
        raise AgentError("invalid", f"the call {call_id!r} has its result already")


def info_of(entries: Sequence[Entry], status: RunStatus) -> RunInfo:
    """Return the row of a run in a list."""
    state = RunState()
    for entry in entries:
        state.apply(entry)
    started, finished = state.started, state.finished
    assert started is not None, "a run begins with run.started"
    return RunInfo(
        run_id=started.run_id,
        session_id=started.session_id,
        parent_run_id=started.parent_run_id,
        forked_from=started.fork.run_id if started.fork else None,
        agent=started.agent,
        model=state.model,
        mode=state.mode,
        cwd=state.cwd,
        status=status,
        outcome=finished.outcome if finished else None,
        started_at=started.at,
        updated_at=entries[-1].at,
        prompt=title_of(started.input.text),
        turns=state.ledger.turns,
        tool_calls=state.ledger.tool_calls,
        usage=state.ledger.usage,
        cost_usd=state.ledger.cost_usd,
        spending=tuple(state.spending.by_day.values()),
        total=UNCOUNTED if finished is None or finished.total is None else finished.total,
        user_id=started.user_id,
        entries=len(entries),
        imported=started.imported,
    )


def spent(info: RunInfo) -> RunCost:
    """Return the figures of a run for a tally."""
    return RunCost(**{name: getattr(info, name) for name in RunCost.__struct_fields__})


def unknown_run(run_id: str, known: Collection[str]) -> AgentError:
    """Return the error, with the ids that were probably meant."""
    near = [name for name in known if name.startswith(run_id)][:3] if run_id else []
    if not near:
        from difflib import get_close_matches  # noqa: PLC0415  costs 5 ms of start-up, and ids are rarely wrong

        near = get_close_matches(run_id, list(known)[-1000:], n=3)
    return AgentError(
        "invalid",
        f"there is no run {run_id!r} here. "
        + (f"Did you mean {' or '.join(near)}?" if near else "`treadle runs list` shows them"),
    )

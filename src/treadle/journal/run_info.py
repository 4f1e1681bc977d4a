"""Runs as lists show them, with their figures and errors.

Entry points: `RunInfo`, `RunFilter`, `info_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal, TypeAlias, TypedDict, cast, get_args

import msgspec

from treadle.budget.costs import RunCost
from treadle.budget.spending import Spending
from treadle.errors import AgentError
from treadle.journal.entries import Entry
from treadle.journal.run_state import RunState
from treadle.journal.session_names import title_of
from treadle.messages.labels import Metadata
from treadle.messages.metrics import RunTotals
from treadle.types import Mode, Outcome, Time, Usage, Value

RunStatus: TypeAlias = Literal["queued", "running", "waiting", "stopped", "finished"]
"""queued: waits for a worker; running: a living process drives it; waiting: for a user; stopped:
its process died or closed before its end, and it is in no queue, or parked there.
"""
NEAR_MOST: Final = 100
"""Maximum number of ids that are compared with an unknown one: the newest."""
UNCOUNTED = RunTotals(runs=0)
"""Placeholder for totals that a run's own entries do not contain: see journal/totals.py."""


class RunInfo(Value, frozen=True, kw_only=True):
    """Summary of a run for lists, folded from its entries."""

    run_id: str
    session_id: str | None
    parent_run_id: str | None
    forked_from: str | None
    agent: str
    """Name of the agent in charge: the last one, if the run was handed over."""
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
    """First line of the prompt."""
    turns: int
    tool_calls: int
    usage: Usage
    cost_usd: float | None = None
    """Cost of the responses with a known price; None if none had one."""
    spending: tuple[Spending, ...] = ()
    """Breakdown of usage and cost; empty if an older version wrote the run's end."""
    total: RunTotals = UNCOUNTED
    """Totals of the run and its children, up to now. `Journal` always fills it."""
    user_id: str | None = None
    """User id of the run; also None if an older version wrote the run's end."""
    tags: tuple[str, ...] = ()
    metadata: Metadata = msgspec.field(default_factory=dict[str, "str | int | float | bool"])
    entries: int
    """Number of entries, and sequence number of the last."""
    queue: str | None = None
    """Queue in which it waits or waited for a worker; None if none."""
    tenant: str | None = None
    parked: str | None = None
    """Reason why it is not delivered until it is woken."""
    imported: Time | None = None  # as in RunStarted
    lease_s: float | None = None
    """Seconds for which a driver on another host still counts as living after its death; None if
    its death is noticed immediately.
    """


class RunFilter(TypedDict, total=False):
    """Conditions on listed runs, all of which must hold. None: no condition."""

    session_id: str | None
    forked_from: str | None
    """Id of the run from which they were forked."""
    status: RunStatus | Outcome | None
    """A status, or the outcome of finished runs."""
    user_id: str | None
    agent: str | None
    """Name of the agent in charge."""
    tag: str | None


_FIELDS: dict[str, Callable[[RunInfo], object]] = {
    "session_id": lambda info: info.session_id,
    "forked_from": lambda info: info.forked_from,
    "user_id": lambda info: info.user_id,
    "agent": lambda info: info.agent,
}


def checked_filter(only: RunFilter) -> RunFilter:
    """Return the conditions that are set. Raises AgentError(invalid) for unknown ones."""
    if unknown := sorted(only.keys() - RunFilter.__optional_keys__):
        known = ", ".join(sorted(RunFilter.__optional_keys__))
        raise AgentError("invalid", f"runs cannot be filtered by {unknown[0]!r}, but by: {known}")
    status, words = only.get("status"), (*get_args(RunStatus), *Outcome)
    if status is not None and status not in words:
        raise AgentError("invalid", f"status={status!r} is not one of: {', '.join(words)}")
    return cast("RunFilter", {name: value for name, value in only.items() if value is not None})


def meets(info: RunInfo, only: RunFilter) -> bool:
    """Return True if the run meets the conditions that are set."""
    return (
        all(field(info) == only.get(name) for name, field in _FIELDS.items() if name in only)
        and ("tag" not in only or only["tag"] in info.tags)
        and ("status" not in only or only["status"] in (info.status, info.outcome))
    )


class Holder(Value, frozen=True, kw_only=True):
    """The driver of a session's current run."""

    run_id: str
    pid: int | None
    """Process id as seen by that process itself; in a container, it differs from the one outside.

    None if the driver does not report it.
    """
    host: str | None
    """None if an older version drives it."""
    since: Time
    """Time at which the run began or was last resumed."""


class Freed(Value, frozen=True, kw_only=True):
    """Result of pruning, or of a preview of it."""

    runs: tuple[str, ...]
    kept: tuple[str, ...]
    """Old enough, but required by a remaining run: as the origin of a fork, for its messages, or as
    part of the same tree.
    """
    size_bytes: int
    """Size of the entries; data shared with remaining runs is not counted."""


def info_of(entries: Sequence[Entry], status: RunStatus) -> RunInfo:
    """Summarize a run from its entries, for lists of runs."""
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
        agent=state.agent.name,
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
        tags=started.tags,
        metadata=started.metadata,
        entries=len(entries),
        imported=started.imported,
    )


def spent(info: RunInfo) -> RunCost:
    """Return the figures of a run for a tally."""
    return RunCost(**{name: getattr(info, name) for name in RunCost.__struct_fields__})


class UnknownRun(AgentError):
    """Error for a run that the journal does not have. The message names similar ids, which are
    compared when it is read: `Runtime.ensure` asks for runs that do not exist, and reads none.
    """

    def __init__(self, run_id: str, known: Collection[str]) -> None:
        super().__init__("invalid", "")
        self.args = (run_id, known)
        self._run_id, self._known = run_id, known

    @AgentError.message.getter  # which keeps the setter
    def message(self) -> str:
        if self._message:
            return self._message
        run_id, known = self._run_id, self._known
        near = [name for name in known if name.startswith(run_id)][:3] if run_id else []
        if not near:
            from difflib import get_close_matches  # noqa: PLC0415  costs 5 ms of start-up, and ids are rarely wrong

            near = get_close_matches(run_id, list(known)[-NEAR_MOST:], n=3)
        hint = (
            f"Did you mean {' or '.join(near)}?"
            if near
            else "List the runs with `treadle runs list`"
        )
        self._message = f"unknown run {run_id!r}. {hint}"
        return self._message

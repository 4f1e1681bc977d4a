"""Snapshot of queues, workers and runs, with the reasons why some are stuck.

It is drawn by top_view.py. Entry points: `FrameSource`, `TopFrame`.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import one_line
from treadle._internal.units import ago, count
from treadle.cli.runs.row import row_of
from treadle.errors import AgentError
from treadle.journal.journal import Journal
from treadle.journal.queue import DEFAULT_QUEUE, Backlog, Parked, WorkerInfo
from treadle.journal.run_info import RunInfo
from treadle.types import Time, Value, now

QUIET: Final = timedelta(minutes=5)
"""Time without an entry after which an active run counts as possibly stuck."""
READY_LONG: Final = timedelta(seconds=60)
"""Waiting time after which a ready run counts as stuck. Workers poll every second."""
RUNS_MOST: Final = 200
"""Maximum number of active runs and of newest runs."""
RATE_OVER: Final = timedelta(minutes=1)


class RunRates(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Rates per minute, computed from two frames. Runs that start and end between two frames may be
    missed.
    """

    runs_ended: float
    entries: float


class Stuck(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Run or queue that will not make progress without intervention."""

    run_id: str | None
    """Id of the run; None if the whole queue is stuck."""
    queue: str | None
    why: str
    since: Time
    advice: str


class TopFrame(Value, frozen=True, kw_only=True, omit_defaults=False):
    at: Time
    queues: tuple[Backlog, ...]
    workers: tuple[WorkerInfo, ...]
    under_way: tuple[RunInfo, ...]
    """Active runs, least recently updated first."""
    stuck: tuple[Stuck, ...]
    rates: RunRates | None
    """Rates; None in the first frame."""

    def as_json(self, secrets: Redactor) -> dict[str, object]:
        fields = {
            name: getattr(self, name) for name in ("at", "queues", "workers", "stuck", "rates")
        }
        fields["workers"] = [
            {
                "worker": info.worker,
                **_flat(info.card),
                **{n: v for n, v in _flat(info).items() if n not in ("worker", "card")},
            }
            for info in self.workers
        ]
        return {**fields, "under_way": [row_of(info, secrets) for info in self.under_way]}


class FrameSource:
    """Source of frames, which computes rates from the changes between them."""

    def __init__(
        self, journal: Journal, *, known: Sequence[str], there: Sequence[str] = ()
    ) -> None:
        """Create a source. `known`: queues of the local configuration. `there`: `--journal URL` if
        the journal is not the default.
        """
        self._journal, self._known, self._there = journal, known, there
        self._heads: dict[str, int] = {}
        self._seen: deque[tuple[datetime, int, int]] = deque()
        """Time of each frame, with the runs that ended and the entries that were added since the
        previous one.
        """

    async def frame(self) -> TopFrame:
        """Return a new frame. Raises AgentError if the journal does not respond."""
        queue = self._journal.queue
        backlogs, workers, parked = (
            await queue.backlogs(),
            await queue.workers(),
            await queue.parked(limit=RUNS_MOST),
        )
        under_way = await self._journal.under_way(limit=RUNS_MOST)
        at = now()
        rates = await self._rates(at, under_way)
        stuck = (
            *self._parked(parked),
            *self._quiet(under_way, at),
            *self._not_taken(backlogs, workers, at),
        )
        return TopFrame(
            at=at,
            queues=tuple(backlogs),
            workers=tuple(workers),
            under_way=tuple(under_way),
            stuck=stuck,
            rates=rates,
        )

    # ------------------------------------------------------------ rates

    async def _rates(self, at: datetime, under_way: Sequence[RunInfo]) -> RunRates | None:
        newest = {
            info.run_id: info for info in (*await self._journal.runs(limit=RUNS_MOST), *under_way)
        }
        for run_id in self._heads.keys() - newest.keys():
            try:
                newest[run_id] = await self._journal.info(run_id)
            except AgentError:  # pruned since the last frame
                continue
        is_first, heads = not self._seen, self._heads
        ended = sum(
            info.status == "finished" and (run_id in heads or self._is_new(info))
            for run_id, info in newest.items()
        )
        entries = sum(
            info.entries - heads.get(run_id, 0 if self._is_new(info) else info.entries)
            for run_id, info in newest.items()
        )
        self._heads = {
            run_id: info.entries for run_id, info in newest.items() if info.status != "finished"
        }
        self._seen.append((at, 0 if is_first else ended, 0 if is_first else entries))
        while len(self._seen) > 2 and at - self._seen[1][0] >= RATE_OVER:
            self._seen.popleft()
        minutes = (at - self._seen[0][0]).total_seconds() / 60
        if is_first or minutes <= 0:
            return None
        later = list(self._seen)[1:]
        return RunRates(
            runs_ended=round(sum(each[1] for each in later) / minutes, 1),
            entries=round(sum(each[2] for each in later) / minutes, 1),
        )

    def _is_new(self, info: RunInfo) -> bool:
        """Return True if the run began after the last frame."""
        return bool(self._seen) and info.started_at > self._seen[-1][0]

    # ------------------------------------------------------------ stuck runs and queues

    def _command(self, *words: str) -> str:
        return shlex.join(["treadle", *words, *self._there])

    def _parked(self, parked: Sequence[Parked]) -> Iterator[Stuck]:
        for run in parked:
            advice = (
                f"fix that, then {self._command('runs', 'wake', run.run_id)}; or "
                f"{self._command('runs', 'kill', run.run_id)}"
            )
            yield Stuck(
                run_id=run.run_id,
                queue=run.queue,
                why=f"parked: {one_line(run.why)}",
                since=run.at,
                advice=advice,
            )

    def _quiet(self, under_way: Sequence[RunInfo], at: datetime) -> Iterator[Stuck]:
        for info in under_way:
            if at - info.updated_at >= QUIET:
                advice = (
                    f"{self._command('runs', 'show', info.run_id)} shows what it waits for; "
                    f"{self._command('runs', 'kill', info.run_id)} ends it"
                )
                yield Stuck(
                    run_id=info.run_id,
                    queue=None,
                    why=f"running, no progress for {ago(info.updated_at, at)}",
                    since=info.updated_at,
                    advice=advice,
                )

    def _not_taken(
        self, backlogs: Sequence[Backlog], workers: Sequence[WorkerInfo], at: datetime
    ) -> Iterator[Stuck]:
        for backlog in backlogs:
            oldest = backlog.oldest_ready_at
            if oldest is not None and at - oldest >= READY_LONG:
                why = f"{count(backlog.ready, 'run')} ready, the oldest for {ago(oldest, at)}"
                yield Stuck(
                    run_id=None,
                    queue=backlog.queue,
                    why=why,
                    since=oldest,
                    advice=self._why_not_taken(backlog, workers),
                )

    def _why_not_taken(self, backlog: Backlog, workers: Sequence[WorkerInfo]) -> str:
        start = self._command("worker", "--queue", backlog.queue)
        serving = [info for info in workers if info.alive and backlog.queue in info.card.queues]
        if not serving and backlog.queue not in self._known:
            other = self._command("runs", "wake", "ID", "--queue", DEFAULT_QUEUE)
            return (
                "no worker serves this queue, and the configuration here has no queue of that "
                f"name: add it under queues, or {other}, for each run"
            )
        if not serving:
            return f"no worker serves this queue: {start}"
        if all(info.draining for info in serving):
            return f"every worker of this queue is being stopped: {start}"
        if all(info.running >= info.card.slots for info in serving if not info.draining):
            return f"every slot is taken: {start} on another machine, or more --slots"
        return (
            f"there are free slots: a limit of queues.{backlog.queue} holds them back, or see "
            "the worker's log"
        )


def _flat(value: Value) -> Mapping[str, object]:
    return {name: getattr(value, name) for name in value.__struct_fields__}

"""Concurrent work on the prompts of a batch, until all are done or it is stopped. Entry points:
`Crew`, `begin`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio

from treadle._internal.environment import child_environment
from treadle.apps.batch.batch import Batch, Terms
from treadle.apps.batch.item import BatchItem
from treadle.apps.batch.leftovers import end_leftovers
from treadle.apps.batch.logbook import Logbook
from treadle.apps.batch.report import Report, ReportRow
from treadle.apps.batch.workshop import Watcher, Workshop, repository_of, workshop
from treadle.errors import AgentError
from treadle.messages.message import Part
from treadle.runtime.runtime import Runtime
from treadle.types import new_id

WAITED_FOR_MOST = 500
"""Maximum number of prompts that wait at workers. Others are queued as these finish."""


async def begin(
    shelf: Path, prompts: Sequence[str], terms: Terms, *, secrets: frozenset[str], watcher: Watcher
) -> Logbook:
    """Create the logbook of a new batch.

    Raises AgentError(invalid) if its worktrees have no base, or if it cannot be stored.
    """
    base = None
    if terms.worktree:
        repository = await repository_of(Path(terms.cwd), child_environment(secrets), needed=True)
        assert repository is not None, "it was needed"
        base = await repository.head()
        if await repository.is_changed():
            watcher.warns(
                f"{str(repository.git.folder)!r} has uncommitted changes: worktrees begin at "
                "HEAD, without them"
            )
    elif terms.at_once and len(prompts) > 1 and terms.mode != "plan":
        watcher.warns(
            "several prompts work in the same folder at the same time and may overwrite "
            "each "
            "other's "
            "changes: use --worktree to give each its own"
        )
    return Logbook.begin(
        shelf, Batch(id=new_id("work"), prompts=tuple(prompts), terms=terms, base=base)
    )


class Crew:
    """Execution of one batch, in this process."""

    def __init__(
        self, logbook: Logbook, runtime: Runtime, watcher: Watcher, attached: Sequence[Part] = ()
    ) -> None:
        """Create an execution. `attached`: parts that are added to each prompt."""
        self._logbook, self._runtime, self._watcher, self._attached = (
            logbook,
            runtime,
            watcher,
            attached,
        )
        self._scope = anyio.CancelScope()
        self._wrong: AgentError | None = None
        self._stopped = False
        self._rows: dict[int, ReportRow] = {}
        """Rows of unfinished prompts that cannot proceed now."""

    @property
    def has_runs(self) -> bool:
        """True if any prompt of the batch has a run."""
        batch, sessions = self._logbook.batch, self._runtime.sessions
        return any(sessions.get(batch.item_id(number)) is not None for number in batch.numbers)

    def stop(self) -> None:
        """Stop the execution; `work` then returns the results so far. Idempotent."""
        self._stopped = True
        self._scope.cancel()

    async def work(self) -> Report:
        """Work on every unfinished prompt, in order. An error of one prompt ends only that one and
        is recorded in its row.

        Raises AgentError for an error before the first run of the batch, which would likely affect
        all of them.
        """
        await end_leftovers(self._logbook.batch.id)
        pending, terms = self._logbook.pending, self._logbook.batch.terms
        at_once = terms.parallel if terms.queue is None else WAITED_FOR_MOST
        async with workshop(self._logbook, self._runtime, self._watcher, self._attached) as shop:
            with self._scope:
                async with anyio.create_task_group() as group:
                    numbers = iter(pending)
                    for _ in range(min(at_once, len(pending))):
                        group.start_soon(self._one_after_the_other, shop, numbers)
        with anyio.CancelScope(shield=True):
            for number in self._logbook.places:
                await BatchItem(shop, number).tidy()
            await self._logbook.tidy()
        if self._wrong is not None:
            raise self._wrong
        done = {**self._rows, **self._logbook.rows}
        rows = [
            done[number] if number in done else await BatchItem(shop, number).standing()
            for number in self._logbook.batch.numbers
        ]
        return Report.of(
            self._logbook.batch, rows, stopped=self._stopped, pending=len(self._logbook.pending)
        )

    async def detach(self) -> None:
        """Queue a run of every prompt for workers, without waiting for them.

        Raises AgentError for the first failure.
        """
        async with workshop(self._logbook, self._runtime, self._watcher, self._attached) as shop:
            for number in self._logbook.pending:
                await BatchItem(shop, number).begin()

    async def _one_after_the_other(self, shop: Workshop, numbers: Iterator[int]) -> None:
        for number in numbers:
            item = BatchItem(shop, number)
            try:
                self._rows[number] = await item.work()
            except AgentError as e:
                if not self.has_runs:
                    self._wrong = e
                    self._scope.cancel()
                    return
                # Not recorded as done, so that the batch can be resumed once the cause is fixed.
                row = self._rows[number] = await item.standing(e)
                self._watcher.ended(row)

"""Work on a single prompt of a batch, from its current state to its end. steps.py decides the next
step.

Entry point: `BatchItem`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import msgspec

from treadle._internal.units import usd
from treadle.apps.batch.changes import WorkingTreeChanges
from treadle.apps.batch.logbook import WorkPlace
from treadle.apps.batch.queue import Order
from treadle.apps.batch.report import Diff, GateResult, ReportRow
from treadle.apps.batch.steps import GO_ON, NextStep, Past, attempts_of, how_it_failed, next_step
from treadle.apps.batch.workshop import Workshop
from treadle.errors import AgentError
from treadle.messages.message import TextPart
from treadle.types import Outcome


class BatchItem:
    def __init__(self, workshop: Workshop, number: int) -> None:
        self._shop, self.number = workshop, number
        self._batch = workshop.logbook.batch
        self._terms = self._batch.terms
        self._id = self._batch.item_id(number)

    async def work(self) -> ReportRow:
        """Work on the prompt and return its row. The row is stored unless the prompt waits for
        approval. Raises AgentError for an error before a run begins.

        Cancellation is safe at any point: the next process resumes from the current state.
        """
        past = await self.past()
        place = await self._placed(begun=bool(past))
        gates = await self._judged(past, place)
        step = next_step(past, gates, self._batch.prompt(self.number), self._terms, entering=True)
        while step is not None:
            await self._run(step, place, past)
            past = await self.past()
            gates = await self._judged(past, place)
            step = next_step(past, gates, self._batch.prompt(self.number), self._terms)
        return await self._ended(past, place, gates)

    async def begin(self) -> None:
        """Queue the prompt's first run without waiting. Raises AgentError as `work` does."""
        past = await self.past()
        if past:
            return
        place = await self._placed(begun=False)
        step = next_step(past, (), self._batch.prompt(self.number), self._terms, entering=True)
        assert step is not None, "there is a first one"
        await self._shop.queue.submit(self._order(step, place, past))

    async def standing(self, wrong: AgentError | None = None) -> ReportRow:
        """Return the row of an unfinished prompt, with as much as can be read.

        `wrong`: error that keeps it from finishing.
        """
        try:
            past = await self.past()
        except AgentError as e:
            past, wrong = [], wrong or e
        row = self._row(past, gates=(), diff=None, kept=self._shop.logbook.places.get(self.number))
        return (
            row
            if wrong is None
            else msgspec.structs.replace(row, outcome=Outcome.ERROR, error=wrong.message)
        )

    @property
    def has_runs(self) -> bool:
        return self._shop.runtime.sessions.get(self._id) is not None

    async def past(self) -> list[Past]:
        """Return the runs of its session, oldest first."""
        runtime = self._shop.runtime
        if not self.has_runs:
            return []
        infos = await runtime.journal.runs(session_id=self._id)
        return [Past(info, await runtime.replay(info.run_id)) for info in reversed(infos)]

    # ------------------------------------------------------------ where

    async def _placed(self, *, begun: bool) -> WorkPlace:
        """Return the folder to work in, created if needed. Raises AgentError(invalid) if there is
        none.
        """
        logbook, worktrees = self._shop.logbook, self._shop.worktrees
        place = logbook.places.get(self.number)
        if worktrees is None:
            if place is None:
                place = WorkPlace(folder=self._terms.cwd, tree=await self._stands_there())
                await logbook.place(self.number, place)
            return place
        if place is not None and (begun or place.made) and _is_there(place, begun=begun):
            return place
        if place is not None:
            await worktrees.discard(place)
        else:
            place = worktrees.place(self.number)
            await logbook.place(self.number, place)
        self._shop.watcher.says(self.number, "checking out")
        await worktrees.make(place)
        place = msgspec.structs.replace(place, made=True)
        await logbook.place(self.number, place)
        return place

    async def _stands_there(self) -> str | None:
        """Return the current tree of the batch's folder; None if its changes cannot be
        distinguished from those of other prompts.
        """
        changes = self._changes(WorkPlace(folder=self._terms.cwd))
        if changes is None or self._terms.at_once:
            return None
        try:
            return await changes.moment()
        except AgentError:
            return None

    def _changes(self, place: WorkPlace) -> WorkingTreeChanges | None:
        repository = self._shop.repository
        if repository is None:
            return None
        root = Path(place.root) if place.root else repository.git.folder
        return WorkingTreeChanges(repository.git.within(root), self._shop.logbook.objects)

    # ------------------------------------------------------------ runs and gates

    async def _run(self, step: NextStep, place: WorkPlace, past: Sequence[Past]) -> None:
        attempts = attempts_of(past)
        goes_on = step.run_id is not None or step.text == GO_ON
        self._shop.watcher.says(
            self.number,
            "going on" if goes_on else f"attempt {attempts + 1}" if attempts else "working",
        )
        run_id = await self._shop.queue.submit(self._order(step, place, past))
        try:
            await self._shop.queue.wait(run_id)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._shop.queue.cancel(run_id)
            raise

    def _order(self, step: NextStep, place: WorkPlace, past: Sequence[Past]) -> Order:
        terms = self._terms
        return Order(
            session=self._id,
            prompt=(*(() if attempts_of(past) else self._shop.attached), TextPart(text=step.text)),
            cwd=place.folder,
            mode=terms.mode,
            settings=terms.settings,
            limits=step.limits,
            on_ask=terms.on_ask,
            on_unknown=terms.on_unknown,
            inputs=terms.inputs,
            run_id=step.run_id,
            new_id=self._batch.run_id(self.number, len(past) + 1),
        )

    async def _judged(self, past: Sequence[Past], place: WorkPlace) -> tuple[GateResult, ...]:
        if not past or past[-1].info.outcome is not Outcome.COMPLETED:
            return ()

        def begins(command: str) -> None:
            self._shop.watcher.says(self.number, f"gate {command}")

        async with self._shop.judging:
            return await self._shop.gates.judge(
                self._id, Path(place.folder), attempt=attempts_of(past), begins=begins
            )

    # ------------------------------------------------------------ the end

    async def _ended(
        self, past: Sequence[Past], place: WorkPlace, gates: Sequence[GateResult]
    ) -> ReportRow:
        """Store the result, then remove the worktree."""
        diff, is_clean = await self._compared(place)
        row_of = partial(self._row, past, gates=gates, diff=diff)
        row = row_of(kept=place)
        if past[-1].info.status != "waiting":
            if row.passed and is_clean:
                row = row_of(kept=None)
            await self._shop.logbook.done(row)
            await self.tidy()
        self._shop.watcher.ended(row)
        return row

    async def tidy(self) -> None:
        """Remove an unused worktree, and the clean worktree of a finished prompt. One with changes
        stays. Raises nothing.
        """
        worktrees, place = self._shop.worktrees, self._shop.logbook.places.get(self.number)
        if worktrees is None or place is None:
            return
        row = self._shop.logbook.rows.get(self.number)
        if row is not None and row.folder is None:
            await worktrees.remove(place)
        elif row is None and not self.has_runs:
            await (worktrees.remove(place) if place.made else worktrees.discard(place))

    async def _compared(self, place: WorkPlace) -> tuple[Diff | None, bool]:
        """Return the changes, with True if removing the worktree loses nothing."""
        changes = self._changes(place)
        if changes is None or place.tree is None:
            return None, False
        try:
            tree = await changes.moment()
            diff = await changes.between(place.tree, tree)
        except AgentError:
            return None, False
        return diff, self._shop.worktrees is not None and await self._shop.worktrees.is_clean(
            place, tree
        )

    def _row(
        self,
        past: Sequence[Past],
        *,
        gates: Sequence[GateResult],
        diff: Diff | None,
        kept: WorkPlace | None,
    ) -> ReportRow:
        results = [each.result for each in past]
        last = past[-1] if past else None
        totals = [result.metrics.total for result in results]
        ended = last is not None and last.info.status in ("finished", "waiting")
        outcome = last.result.outcome if last is not None and ended else None
        return ReportRow(
            number=self.number,
            prompt=self._batch.prompt(self.number),
            run_id=last.info.run_id if last else None,
            session_id=self._id if last else None,
            outcome=outcome,
            passed=outcome is Outcome.COMPLETED
            and all(gate.passed for gate in gates)
            and len(gates) == len(self._terms.gates),
            attempts=attempts_of(past),
            turns=sum(total.turns for total in totals),
            tool_calls=sum(total.tool_calls for total in totals),
            tokens=sum(total.usage.total_tokens for total in totals),
            cost_usd=usd(*(total.cost_usd for total in totals)),
            duration_s=round(sum(result.metrics.duration_s for result in results), 3),
            diff=diff,
            gates=tuple(gates),
            error=_why(last, gates) if ended else None,
            text=last.result.output_text if last else "",
            branch=kept.branch if kept else None,
            folder=kept.root if kept else None,
        )


def _is_there(place: WorkPlace, *, begun: bool) -> bool:
    """Return True if the worktree exists; False if nothing of it exists and no run has begun, so
    that it can be created. Raises AgentError(invalid) otherwise.
    """
    if os.path.isdir(place.folder):
        return True
    if begun or os.path.lexists(place.root or ""):
        raise AgentError("invalid", f"{place.folder!r}, the prompt's folder, no longer exists")
    return False


def _why(last: Past | None, gates: Sequence[GateResult]) -> str | None:
    """Return the reason why the prompt is not done; None if it is."""
    if failed := next((gate for gate in gates if gate.failed), None):
        return f"the gate {failed.command!r} failed: {how_it_failed(failed)}"
    if last is None or last.result.outcome is Outcome.COMPLETED:
        return None
    if last.info.status == "waiting":
        return f"run {last.info.run_id} waits for a person"
    return last.result.error.message if last.result.error is not None else None

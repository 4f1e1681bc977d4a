"""Runs that have ended here while a thread of their sync tools still runs, and the late results of
such calls.

Entry point: `LateRuns`.
"""

from __future__ import annotations

import logging

import anyio
from anyio.lowlevel import checkpoint

from treadle.loop.loop import Run
from treadle.loop.outcome import GRACE_S
from treadle.messages.message import Message
from treadle.runtime.assembly import Assembly
from treadle.tools.function.threads import abandoned_calls, wait_for_abandoned

logger = logging.getLogger("treadle")


class LateRuns:
    """Runs by id, kept until their last call has ended. A run without an end in the journal is
    released then.
    """

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self.runs: dict[str, Run] = {}

    def keep(self, run: Run) -> None:
        """Keep a run until its last call has ended."""
        self.runs[run.plan.run_id] = run

    def go_on_in(self, run: Run) -> None:
        """Forward the late results of the run's previous driver to this one."""
        if (before := self.runs.pop(run.plan.run_id, None)) is not None:
            before.inbox.late.go_on_in(run.inbox.late)

    async def leave(self, run: Run) -> None:
        """Release a run that has no end in the journal. If one of its calls still runs in a thread,
        `store` releases the run later.
        """
        self.keep(run)
        with anyio.move_on_after(GRACE_S, shield=True):
            # a call that has just ended reports its result in the next iteration of the event loop
            await checkpoint()
            await self.store()

    async def wait(self, grace_s: float) -> None:
        """Wait for threads of sync tools, which cannot be stopped. Those that exceed the grace
        period are logged by name.
        """
        calls = [call for run_id in self.runs for call in abandoned_calls(run_id)]
        for left in await wait_for_abandoned(calls, grace_s):
            logger.warning(
                "the sync tool %r of run %s still runs in its thread after %.0f s: left alone",
                left.tool,
                left.run_id,
                grace_s,
            )
        await self.store()

    async def store(self) -> bool:
        """Store late results of calls whose run has ended, for the model of the session's next run.
        Release the runs whose last call has ended.

        Return False if there were no results.
        """
        stored = False
        for run_id, run in list(self.runs.items()):
            if run.inbox.late.entries:
                stored = True
                said = await self._store(run)
                if (
                    run.plan.session_id is not None
                    and run.ending is not None
                    and not run.ending.waiting
                ):
                    self._assembly.journal.sessions.remember(
                        run.plan.session_id, said, run_id=run_id
                    )
            # two runs that begin concurrently both get here
            if abandoned_calls(run_id) or run_id not in self.runs:
                continue
            if not run.inbox.late.entries:  # otherwise they could not be stored yet
                del self.runs[run_id]
            if run.is_left:
                await run.pen.writer.release()
        return stored

    async def _store(self, run: Run) -> list[Message]:
        """Store the late results of a run. One that waited only for these stops waiting."""
        asked = run.state.approvals.asked.keys()
        closed = {late.call_id for late in run.inbox.late.entries if late.status is not None}
        return await run.inbox.late.store(
            run.pen.writer, self._assembly.redactor, wakes=bool(asked) and asked <= closed
        )

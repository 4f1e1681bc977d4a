"""Closing runs that have no driver, with those below them, and waiting for runs that have one.

Entry points: `close_run`, `close_orphans`, `until_idle`.
"""

from __future__ import annotations

import logging

import anyio

from treadle.errors import AgentError, ErrorKind
from treadle.journal.entries import CancelAsked
from treadle.journal.journal import Journal
from treadle.journal.run_info import RunInfo
from treadle.loop.calls import OpenCalls
from treadle.loop.ending import unfinished
from treadle.loop.plan import taken_over
from treadle.types import Outcome, now

logger = logging.getLogger("treadle")


ORPHANS_MOST = 500
"""Closed at a time."""
LOOK_S = 0.2
"""Interval at which a run that another process drives is polled."""


async def close_children(journal: Journal, run_id: str) -> None:
    """Close the children that have no driver."""
    for info in await journal.children(run_id):
        if info.status in ("queued", "stopped", "waiting"):
            await close_run(journal, info.run_id, by="parent")


async def close_orphans(journal: Journal) -> None:
    """End runs whose parent has ended and whose process died before it closed them.

    Several processes may call this at once. Raises AgentError if the journal does not answer.
    """
    for run_id in await journal.orphans(limit=ORPHANS_MOST):
        try:
            await close_run(journal, run_id, by="parent")
        except AgentError as e:
            if not await _is_over(journal, run_id):
                logger.warning(
                    "run %s, whose parent run has ended, could not be closed: %s", run_id, e.message
                )


async def _is_over(journal: Journal, run_id: str) -> bool:
    """Return True for a run that has ended, or that another process has deleted since."""
    try:
        return (await journal.info(run_id)).status == "finished"
    except AgentError as e:
        if e.kind is not ErrorKind.INVALID:
            raise
        return True


async def close_run(journal: Journal, run_id: str, *, by: str, force: bool = False) -> None:
    """End a run without a driver (`force`: with any) as `cancelled`, and the runs below it.

    Raises AgentError(busy) if it has a driver.
    """
    writer = await journal.take_over(run_id, force=force)
    try:
        state = await journal.load(run_id)
        total = (await journal.info(run_id)).total
        first = [taken_over(state, writer)] if writer.failed_over else []
        for entry in first:
            state.apply(entry)
        cut = [CancelAsked(at=now(), by=by), *OpenCalls(state).cut("The run was stopped")]
        open_turn, driven_s = state.turn or None, state.driven_s
        for entry in cut:
            state.apply(entry)
        await writer.append(
            [
                *first,
                *cut,
                unfinished(state, Outcome.CANCELLED, driven_s=driven_s, total=total).finished(
                    open_turn
                ),
            ]
        )
    finally:
        await writer.release()
    await close_children(journal, run_id)


async def until_idle(journal: Journal, run_id: str) -> RunInfo:
    """Wait while a living process drives the run. Raises AgentError(invalid) for an unknown run."""
    while (info := await journal.info(run_id)).status == "running":  # noqa: ASYNC110  another process drives it
        await anyio.sleep(LOOK_S)
    return info

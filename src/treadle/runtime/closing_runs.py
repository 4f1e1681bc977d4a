"""Closing runs without a driver, with their descendants, and waiting for runs that have one.

Entry points: `close_run`, `close_orphans`, `kill_run`, `until_idle`, `waiting_for`,
`driven_elsewhere`, `taken_unchanged`, `put_down`.
"""

from __future__ import annotations

import logging
from math import ceil

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from treadle.errors import AgentError, ErrorKind
from treadle.journal.engine import Engine
from treadle.journal.entries import CancelAsked
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.run_info import RunInfo
from treadle.journal.run_state import RunState
from treadle.loop.calls import OpenCalls
from treadle.loop.ending import unfinished
from treadle.loop.loop import Run
from treadle.loop.plan import taken_over
from treadle.types import Outcome, now

logger = logging.getLogger("treadle")

ORPHANS_MOST = 500
"""Maximum number of runs closed at a time."""
STOP_GRACE_S = 10.0
"""Seconds that `kill_run` waits for the process that drives the run."""
LOOK_S = 0.2
"""Seconds between polls of a run that another process drives."""


async def taken_unchanged(journal: Journal, run_id: str, state: RunState) -> RunWriter:
    """Take over a run that was read as `state`. Raises AgentError(busy) if it has changed since;
    then, and if it is cancelled, the run is released as it was found.
    """
    writer = await journal.take_over(run_id)
    try:
        if await journal.read(run_id, after=state.seq):
            raise AgentError(
                "busy",
                (
                    f"run {run_id} has just been advanced by another process: look at it, then "
                    "try again"
                ),
            )
        await checkpoint_if_cancelled()  # it would be driven, only to end as cancelled
    except BaseException:
        with anyio.CancelScope(shield=True):
            await writer.release(waiting=None)
        raise
    return writer


async def put_down(run: Run) -> None:
    """Release a run that an earlier driver or agent has begun, and this one could not continue."""
    if (switching := run.plan.switching) is not None:
        run.pen.writer, run.is_left = switching.writer, True
    elif (resumption := run.plan.resumption) is not None:
        with anyio.CancelScope(shield=True):
            await resumption.writer.release(waiting=None)


async def close_children(journal: Journal, run_id: str) -> None:
    """Close the children that have no driver."""
    for info in await journal.children(run_id):
        if info.status in ("queued", "stopped", "waiting"):
            await close_run(journal, info.run_id, by="parent")


async def close_orphans(journal: Journal) -> None:
    """End runs whose parent has ended and whose process died before it closed them.

    May be called by several processes concurrently. Raises AgentError if the journal does not
    respond.
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
    """End a run without a driver as `cancelled`, with its descendants. `force`: even if it has a
    driver.

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
        ending = unfinished(state, Outcome.CANCELLED, driven_s=driven_s, total=total)
        state.apply(finished := ending.finished(open_turn))
        await writer.append([*first, *cut, finished])
        _remember(journal, state)
    finally:
        with anyio.CancelScope(shield=True):
            await writer.release(waiting=None)  # if it could not be ended
    await close_children(journal, run_id)


def _remember(journal: Journal, state: RunState) -> None:
    """Add the messages of an ended run to its session, if that does not read them itself."""
    started = state.started
    assert started is not None, "a run begins with run.started"
    if started.session_id is not None:
        said = state.context.added(is_fork=started.fork is not None)
        journal.sessions.remember(started.session_id, said, run_id=started.run_id)


async def kill_run(
    journal: Journal, engine: Engine | None, run_id: str, *, force: bool = False
) -> RunInfo:
    """End a run as described in `Runtime.kill`. `engine`: the engine of this process, if any."""
    found = await journal.info(run_id)
    if found.status == "finished":
        return found
    if not force and await journal.ask_to_stop(run_id):
        with anyio.move_on_after(STOP_GRACE_S):
            while (found := await journal.info(run_id)).status == "running":  # noqa: ASYNC110  another process ends it
                await anyio.sleep(0.02)
        if found.status == "running":
            by_force = f"with force=True (`treadle runs kill {run_id} --force`)"
            raise AgentError(
                "busy",
                f"the process that drives run {run_id} does not answer: end that process, "
                f"or take the run away from it {by_force}",
            )
    try:
        await close_run(journal, run_id, by="kill", force=force)
    except AgentError as e:
        if (ended := await journal.info(run_id)).status == "finished":
            return ended
        if e.kind is not ErrorKind.BUSY or found.status == "running":
            raise
        return await kill_run(journal, engine, run_id, force=force)  # a worker has just started it
    if engine is not None and found.queue is not None:
        try:
            await engine.cancel(run_id)
        except AgentError as e:
            logger.info("run %s has ended, but may still be delivered: %s", run_id, e.message)
    return await journal.info(run_id)


async def until_idle(journal: Journal, run_id: str) -> RunInfo:
    """Wait while a living process drives the run, and log for how long at most if that process has
    died. Raises AgentError(invalid) for an unknown run.
    """
    info = await journal.info(run_id)
    if info.status == "running":
        logger.info(waiting_for(info))
    while info.status == "running":
        await anyio.sleep(LOOK_S)
        info = await journal.info(run_id)
    return info


def waiting_for(info: RunInfo) -> str:
    """Describe a wait for the driver of a run."""
    return f"waiting until no other process drives run {info.run_id}{_lease(info)}"


def driven_elsewhere(info: RunInfo) -> str:
    """Describe a run that another process drives, with the rest of its lease."""
    return f"run {info.run_id} is driven by another process{_lease(info)}"


def _lease(info: RunInfo) -> str:
    if info.lease_s is None:
        return ""
    return f": if that process has died, its lease ends in {max(ceil(info.lease_s), 1)} s"

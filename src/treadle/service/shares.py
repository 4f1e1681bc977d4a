"""Maintenance of the shares that runs reserve from the limits on all users: renewed while the run
is in progress, settled when it ends. Entry point: `watch`.

A share does not expire while its run may still use it. Runs that another process drives, queued
ones, and those whose process died are looked up in the journal.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from treadle.errors import AgentError, ErrorKind
from treadle.journal.run_info import RunInfo, RunStatus
from treadle.service.resuming import of_whom, settle
from treadle.service.spending import RunSpending, taken
from treadle.service.totals import RESERVED_S
from treadle.types import now

if TYPE_CHECKING:
    from treadle.service.state import Service

logger = logging.getLogger("treadle.service")

LOOK_S: Final = 60.0
"""Interval for checking shares."""
UNSEEN_S: Final = 3 * LOOK_S
"""Seconds since a renewal within which another process is considered to maintain a share."""


async def watch(service: Service) -> None:
    """Check shares until the service ends."""
    while not service.stopping.is_set():
        try:
            await look(service)
        except AgentError as e:
            logger.warning("cannot check the shares of runs: %s", e.message)
        except Exception:  # task boundary: the cause may be gone at the next attempt
            logger.exception("cannot check the shares of runs")
        with anyio.move_on_after(LOOK_S):
            await service.stopping.wait()


async def look(service: Service) -> None:
    """Renew the shares of runs that are driven here, and renew or settle each share that no other
    process maintains.
    """
    totals = service.limits.totals
    for run_id, expires_at in await service.database.read_unscoped(
        partial(totals.unseen, since_s=LOOK_S / 2)
    ):
        if service.live.get(run_id) is not None:
            await service.database.run_unscoped(partial(totals.renew, run_id=run_id))
            continue
        left_s = (expires_at - now()).total_seconds()
        if left_s > RESERVED_S - UNSEEN_S:
            continue
        info = await _info(service, run_id)
        if info is not None and info.status in ("queued", "running") and info.parked is None:
            await service.database.run_unscoped(partial(totals.renew, run_id=run_id))
        elif info is not None and (info.status != "stopped" or left_s <= 0):
            await _settle(service, run_id, info.status)
        elif left_s <= 0:  # until then another process with another journal may drive it
            await service.database.run_unscoped(
                partial(totals.settle, run_id=run_id, tokens=0, cost_usd=0.0)
            )


async def _settle(service: Service, run_id: str, status: RunStatus) -> None:
    """Count the usage of a run that has ended or waits for its user, and release its share."""
    if (scope := await of_whom(service, run_id)) is None:
        await service.database.run_unscoped(
            partial(service.limits.totals.settle, run_id=run_id, tokens=0, cost_usd=0.0)
        )
        return
    if status == "finished" and await settle(service, scope, run_id) is not None:
        return  # its reply is being stored together with its usage
    spending = RunSpending()
    spending.count(*await taken(service.runtime.journal, run_id))
    await service.database.run(
        scope, partial(service.limits.count, scope=scope, spending=spending, run_id=run_id)
    )


async def _info(service: Service, run_id: str) -> RunInfo | None:
    try:
        return await service.runtime.journal.info(run_id)
    except AgentError as e:
        if e.kind is ErrorKind.INVALID:
            return None
        raise

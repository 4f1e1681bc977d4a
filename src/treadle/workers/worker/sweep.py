"""Transfer of runs between journal and engine: passes ready runs to the engine, and recovers those
that the engine lost or that dead workers had.

Entry point: `Sweep.run`.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Sequence
from typing import Final

import anyio

from treadle._internal.clock import Clock
from treadle.errors import AgentError
from treadle.journal.engine import Engine
from treadle.journal.journal import Journal
from treadle.journal.notifier import QUEUE
from treadle.journal.queue import Ticket, WorkerCard, WorkerInfo
from treadle.runtime.closing_runs import close_orphans
from treadle.workers.engines.bare_group import bare_group
from treadle.workers.worker.driving import Driving

logger = logging.getLogger("treadle")

CLAIM_MOST: Final = 500
"""Maximum number of runs in one claim."""
AUDIT_S: Final = 30.0
"""Interval of the checks for runs that the engine lost, and for runs whose parent has ended."""
AUDIT_MOST: Final = 1000
SENIORS: Final = 3
"""Number of an engine's workers that recover the runs of dead ones: the oldest living ones that are
not draining. The others check every `AUDIT_S` whether they are among them, and as soon as the
process of one of those on this host is gone.
"""
BACKOFF_MOST_S: Final = 10.0
DOUBLED_MOST: Final = 16


class Sweep:
    """Sweep of one worker."""

    def __init__(
        self,
        journal: Journal,
        engine: Engine,
        driving: Driving,
        queues: Sequence[str],
        *,
        poll_s: float,
    ) -> None:
        self.worker = ""
        self._journal, self._queue, self._engine, self._driving = (
            journal,
            journal.queue,
            engine,
            driving,
        )
        self._queues, self._poll_s, self._clock = queues, poll_s, Clock()
        self._stirred = anyio.Event()
        self._ending = anyio.Event()
        self._failures = 0
        self._look_at = self._audit_at = self._orphans_at = 0.0
        self._rescued: set[str] = set()
        self._relied_on: Sequence[WorkerCard] = ()
        """Workers that recover the runs of dead ones, if this one does not."""
        self._asked = ""
        """Id of the last audited run."""
        if not engine.keeps:  # an engine with its own storage does not depend on free slots here
            driving.ended = self.stir

    def stir(self) -> None:
        """Sweep again immediately."""
        self._stirred.set()

    def end(self) -> None:
        """Stop claiming runs. Idempotent."""
        self._ending.set()
        self._stirred.set()

    async def run(self) -> None:
        """Sweep until `end`. Retries with growing intervals while the journal fails."""
        async with bare_group() as group:
            group.start_soon(self._listen)
            while not self._ending.is_set():
                self._stirred = anyio.Event()
                try:
                    await self._sweep()
                except AgentError as e:
                    await self._back_off(e)
                else:
                    self._answered()
                    with anyio.move_on_after(self._poll_s):
                        await self._stirred.wait()
            group.cancel_scope.cancel()

    async def _listen(self) -> None:
        while True:
            try:
                async with self._journal.notifier.listen(QUEUE) as listening:
                    self.stir()  # covers runs submitted before the subscription
                    while True:
                        if await listening.wait():
                            self.stir()
            except AgentError as e:  # polling continues
                logger.debug("no notifications of new runs: %s", e.message)
                await anyio.sleep(self._poll_s)

    async def _back_off(self, error: AgentError) -> None:
        self._failures += 1
        if self._failures == 1:
            logger.warning(
                "worker %s cannot claim runs for now; active runs continue: %s",
                self.worker,
                error.message,
            )
        with anyio.move_on_after(
            min(self._poll_s * 2 ** min(self._failures - 1, DOUBLED_MOST), BACKOFF_MOST_S)
        ):
            await self._ending.wait()

    def _answered(self) -> None:
        if self._failures:
            logger.warning("worker %s claims runs again", self.worker)
        self._failures = 0

    async def _sweep(self) -> None:
        await self._driving.pay()
        # runs that the engine may have, but that are not recorded as sent
        if self._engine.keeps and self._driving.waiting:
            await self._hand_over([*self._driving.waiting.values()])
        await self._claim()
        if self._engine.keeps and (
            self._clock.monotonic() >= self._look_at or any(map(_is_gone, self._relied_on))
        ):
            await self._look()
        if self._clock.monotonic() >= self._orphans_at:
            await close_orphans(self._journal)
            self._orphans_at = self._clock.monotonic() + AUDIT_S

    async def _claim(self) -> None:
        while not self._ending.is_set() and (most := min(self._engine.free(), CLAIM_MOST)) > 0:
            queues = [queue for queue in self._queues if self._engine.takes(queue)]
            tickets = await self._queue.claim(queues, engine=self._engine.name, most=most)
            if not tickets:
                return
            self._driving.waiting.update((ticket.run_id, ticket) for ticket in tickets)
            if self._ending.is_set():  # draining began during the claim: the worker returns them
                return
            await self._hand_over(tickets)

    async def _hand_over(self, tickets: Sequence[Ticket]) -> None:
        try:
            await self._engine.submit(tickets)
        except AgentError:
            await self._driving.give_back()
            raise
        if self._engine.keeps:
            await self._queue.sent([ticket.run_id for ticket in tickets], engine=self._engine.name)
            for ticket in tickets:
                self._driving.waiting.pop(ticket.run_id, None)

    async def _look(self) -> None:
        """Recover runs of dead workers, and audit the engine at intervals."""
        workers = await self._queue.workers()
        living = {worker.worker for worker in workers if worker.alive} | {self.worker}
        dead = {worker.worker for worker in workers} - living
        seniors = self._seniors(workers)
        if self.worker in {one.worker for one in seniors}:
            self._relied_on = ()
            if dead - self._rescued:
                await self._engine.rescue(living)
                self._rescued = dead
            if self._clock.monotonic() >= self._audit_at:
                await self._engine.rescue(living)
                await self._audit()
                self._audit_at = self._clock.monotonic() + AUDIT_S
            self._look_at = self._clock.monotonic() + self._poll_s
        else:
            self._relied_on = [one.card for one in seniors]
            self._look_at = self._clock.monotonic() + AUDIT_S

    def _seniors(self, workers: Sequence[WorkerInfo]) -> Sequence[WorkerInfo]:
        return sorted(
            (
                one
                for one in workers
                if one.alive and not one.draining and one.card.engine == self._engine.name
            ),
            key=lambda one: (one.since, one.worker),
        )[:SENIORS]

    async def _audit(self) -> None:
        """Return lost runs from the engine to the journal. Checks the next `AUDIT_MOST` runs."""
        tickets = await self._queue.with_engine(
            engine=self._engine.name, most=AUDIT_MOST, after=self._asked
        )
        self._asked = tickets[-1].run_id if len(tickets) == AUDIT_MOST else ""
        for ticket in await self._engine.forgotten(tickets):
            logger.info(
                "the engine %s has lost run %s: it is ready again",
                self._engine.name,
                ticket.run_id,
            )
            await self._queue.put_back(ticket.run_id)


def _is_gone(card: WorkerCard) -> bool:
    """Return True if there is no such process on this host: a reason to look, not a proof."""
    if sys.platform == "win32":  # where signal 0 is Ctrl-C
        return False
    try:
        return card.host == socket.gethostname() and os.kill(card.pid, 0) is not None
    except ProcessLookupError:
        return True
    except OSError:  # it is another user's
        return False

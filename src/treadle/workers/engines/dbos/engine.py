"""The engine on DBOS, in our event loop. Entry point: `DbosEngine`."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, Self, TypeVar

import anyio
from anyio import to_thread
from dbos import error as dbos_error
from sqlalchemy.exc import SQLAlchemyError

from treadle.errors import AgentError
from treadle.journal.engine import Deliver, Engine, QueueLimits
from treadle.journal.queue import Ticket
from treadle.journal.threads import none_left, run_in_thread
from treadle.types import Time, now
from treadle.workers.engines.bare_group import bare_group
from treadle.workers.engines.dbos import process
from treadle.workers.engines.dbos.handover import Handover
from treadle.workers.engines.dbos.store import Store, database_of, workflow_id

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("treadle")

TAKES: Final = 1000
"""Maximum number of tickets in one claim. DBOS stores any number."""
POLL_S: Final = 0.05
"""Polling interval in seconds. A poll takes 2 ms of CPU time."""
SETTLE_S: Final = 5.0
"""Maximum time in seconds to wait, at the end, until DBOS has recorded deliveries."""
LOST_S: Final = 15.0
"""Seconds after which a run that DBOS holds for this worker, neither delivered nor recorded as
done, counts as lost. Also the interval of checks on DBOS's threads.
"""


class DbosEngine:
    """Engine on DBOS: at most one per process, in one event loop. Its threads run only within
    `delivering`.
    """

    name = "dbos"
    keeps = True
    counts_globally = True

    def __init__(self, store: Store, *, poll_s: float = POLL_S) -> None:
        """Create an engine. Prefer `DbosEngine.open`."""
        self._store, self._poll_s = store, poll_s
        self._threads = anyio.CapacityLimiter(4)

    @classmethod
    def open(cls, url: str, *, poll_s: float = POLL_S) -> Self:
        """Open an engine on the journal's database. Raises AgentError(invalid) for a journal that
        processes cannot share.

        `url`: the journal's URL; DBOS has its own schema there. `poll_s`: interval in seconds at
        which each worker polls each queue.
        """
        process.quieten()
        return cls(Store(database_of(url)), poll_s=poll_s)

    async def __aenter__(self) -> Self:
        await self._in_thread(self._store.open)
        return self

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            await run_in_thread(self._store.close, or_here=True)

    @asynccontextmanager
    async def delivering(
        self, worker: str, lanes: Mapping[str, QueueLimits], deliver: Deliver, *, slots: int
    ) -> AsyncGenerator[None]:
        await self._in_thread(self._store.register, lanes, slots=slots, poll_s=self._poll_s)
        async with bare_group() as group:
            handover = Handover(group, deliver, slots=slots, give_back=self._give_back)
            await self._in_thread(process.launch, self._store.database, worker, lanes, handover)
            try:
                looking = anyio.CancelScope()
                group.start_soon(self._look_after, worker, lanes, handover, looking)
                try:
                    yield
                finally:
                    looking.cancel()
            except BaseException:
                group.cancel_scope.cancel()
                raise
            finally:
                process.stop()
                with anyio.CancelScope(shield=True):
                    await handover.close()
                    await self._end(worker, handover.left)

    def free(self) -> int:
        return TAKES

    def takes(self, queue: str) -> bool:
        return True

    async def submit(self, tickets: Sequence[Ticket]) -> None:
        async with bare_group() as group:
            for some in self._store.shares(tickets):
                group.start_soon(self._add, some)

    async def wake(self, ticket: Ticket, at: Time) -> None:
        name, delay_s = (
            f"{workflow_id(ticket)}@{round(at.timestamp() * 1000)}",
            max((at - now()).total_seconds(), 0.0),
        )
        await self._in_thread(self._store.add, [ticket], name=name, delay_s=delay_s)

    async def cancel(self, run_id: str) -> None:
        await self._in_thread(self._store.drop, run_id)

    async def rescue(self, living: Collection[str]) -> None:
        await self._in_thread(self._store.rescue, living)
        await self._in_thread(self._store.forget)

    async def forgotten(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        return await self._in_thread(self._store.forgotten, tickets)

    async def _add(self, tickets: Sequence[Ticket]) -> None:
        await self._in_thread(self._store.add, tickets)

    async def _give_back(self, name: str, queue: str) -> None:
        try:
            await self._in_thread(self._store.put_back_one, name, queue)
        except AgentError as e:
            logger.warning("%s stays with this worker until its end: %s", name, e.message)

    async def _look_after(
        self, worker: str, queues: Collection[str], handover: Handover, scope: anyio.CancelScope
    ) -> None:
        """Return lost deliveries until cancelled. If the database fails after DBOS's claim, or
        before DBOS records the end, a row would otherwise wait for this worker forever.

        Raises AgentError(agent) if DBOS no longer takes from the queues.
        """
        before: set[str] = set()
        was_taking = True
        with scope:
            while True:
                await anyio.sleep(LOST_S)
                is_taking = process.is_taking(queues)
                if not (is_taking or was_taking):
                    raise AgentError(
                        "agent",
                        "DBOS has no thread that takes runs from the queues, probably because the "
                        "system had none left: start the worker again",
                    )
                was_taking = is_taking
                try:
                    names = {
                        name
                        for name in await self._in_thread(self._store.under_way, worker)
                        if not handover.has(name)
                    }
                    # absent in two successive checks, because active deliveries disappear too
                    if lost := names & before:
                        await self._in_thread(self._store.put_back_lost, worker, lost)
                        logger.info(
                            "DBOS had lost %d deliveries to worker %s: they are delivered again",
                            len(lost),
                            worker,
                        )
                    before = names - lost
                except AgentError as e:
                    logger.debug(
                        "the check of DBOS's runs for worker %s failed and is retried later: %s",
                        worker,
                        e.message,
                    )

    async def _end(self, worker: str, left: int) -> None:
        """Record deliveries and return the rest to the other workers."""
        try:
            with anyio.move_on_after(SETTLE_S):
                while len(await self._in_thread(self._store.under_way, worker)) > left:  # noqa: ASYNC110  threads of DBOS end it
                    await anyio.sleep(0.02)
        except AgentError as e:
            logger.warning(
                "the runs that worker %s was driving may be delivered again: %s", worker, e.message
            )
        await run_in_thread(process.destroy, or_here=True)
        with suppress(AgentError):  # other workers rescue them
            await self._in_thread(self._store.put_back, worker)

    async def _in_thread(self, what: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await to_thread.run_sync(partial(what, *args, **kwargs), limiter=self._threads)
        except (SQLAlchemyError, dbos_error.DBOSException) as e:
            raise AgentError(
                "agent",
                f"the tables of DBOS in {self._store.database.url!r} do not answer: {_words(e)}",
            ) from e
        except RuntimeError as e:
            if "start new thread" not in str(e):
                raise
            raise none_left(e) from e


def _words(error: Exception) -> str:
    """Return the message of an error without SQL statements and their values."""
    said = getattr(error, "orig", None) or error
    return next(iter(str(said).splitlines()), "") or type(said).__name__


if TYPE_CHECKING:
    _: type[Engine] = DbosEngine

"""Handling of a delivery: drive the run, leave it to its driver, or hold it off. Entry point:
`Driving.deliver`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, TypeAlias

import anyio

from treadle.agents.agent import Agent
from treadle.errors import AgentError, ErrorKind
from treadle.journal.engine import Engine
from treadle.journal.queue import FRUITLESS_MOST, Ticket
from treadle.journal.run_info import RunInfo
from treadle.runtime.runtime import Runtime
from treadle.types import Time, now

logger = logging.getLogger("treadle")

AgentOf: TypeAlias = Callable[[RunInfo], Awaitable[Agent[Any, Any] | None]]
"""The agent of a run; None: the one of its name among `Runtime.agents`.

AgentError: it cannot be had here.
"""
DepsOf: TypeAlias = Callable[[RunInfo], Awaitable[Any]]

HELD_OFF_S: Final = 1.0
"""After the first delivery that came to nothing; twice as long after each further one."""
HELD_OFF_MOST_S: Final = 60.0
REASONS_MOST: Final = 100
"""Number of remembered reasons: a run is parked only after minutes, and until then only these
warnings explain what is missing.
"""
LEAVE_S: Final = 0.05


class Driving:
    """Counts are readable from any thread."""

    def __init__(
        self, runtime: Runtime, engine: Engine, agent_of: AgentOf | None, deps_of: DepsOf | None
    ) -> None:
        self._runtime, self._engine, self._agent_of, self._deps_of = (
            runtime,
            engine,
            agent_of,
            deps_of,
        )
        self._queue = runtime.journal.queue
        self.closed = False
        """True at the end: nothing begins any more, and deliveries are passed on."""
        self.ended: Callable[[], None] = lambda: None
        """Called after each delivery."""
        self.waiting: dict[str, Ticket] = {}
        """Claimed for this process and not delivered yet, by run."""
        self._owed: dict[str, Time | None] = {}
        """Runs that the journal did not take back, and until when they are held off."""
        self._told: set[str] = set()
        """Reasons for holding off runs that a warning has reported."""
        self.running = self.deliveries = self.held_off = 0

    async def deliver(self, ticket: Ticket) -> None:
        """A `Deliver`.

        Who cancels the task has `leave` called too: what runs is left as it is, and not ended.
        """
        if self.closed and not self._engine.keeps:  # it is given back with all that waits
            return
        self.waiting.pop(ticket.run_id, None)
        self.running += 1
        self.deliveries += 1
        try:
            with anyio.CancelScope(shield=True):
                await self._deliver(ticket)
        finally:
            self.running -= 1
            self.ended()

    async def leave(self) -> None:
        """Lets go of what runs, also of what is just beginning, until nothing does."""
        self.closed = True
        while self.running:
            self._runtime.let_go()
            await anyio.sleep(LEAVE_S)

    async def give_back(self) -> None:
        """Return claimed runs that were not delivered.

        Raises AgentError if the journal does not take them: then they are owed.
        """
        self._owed.update(dict.fromkeys(self.waiting))
        self.waiting.clear()
        await self.pay()

    async def pay(self) -> None:
        """Return the runs that the journal did not take back before, and those whose calls ran on:
        no other worker gets them while this process lives.

        Raises AgentError if it still does not.
        """
        await self._runtime.release_left()
        for run_id, at in [*self._owed.items()]:
            await self._put_back(run_id, at)
            self._owed.pop(run_id, None)

    async def _deliver(self, ticket: Ticket) -> None:
        if self.closed:
            await self._pass_on(ticket.run_id, None)
            return
        try:
            await self._drive(ticket)
        except AgentError as e:
            await self._not_driven(ticket, e)
        except (
            Exception
        ) as e:  # the edge of a task: an application's function, or a bug, must not end the worker
            logger.exception("run %s could not be driven", ticket.run_id)
            await self._hold_off(ticket, f"{type(e).__name__}: {e}")

    async def _drive(self, ticket: Ticket) -> None:
        info = await self._runtime.journal.info(ticket.run_id)
        if not _wants_a_driver(info):
            return
        agent = None if self._agent_of is None else await self._agent_of(info)
        deps = None if self._deps_of is None else await self._deps_of(info)
        await self._runtime.resume(ticket.run_id, agent, deps=deps)

    async def _not_driven(self, ticket: Ticket, error: AgentError) -> None:
        """Handle a run to which nothing was appended, or that was released and is ready for others
        already.
        """
        match error.kind:
            case ErrorKind.CANCELLED:
                return
            case ErrorKind.BUSY if await self._somebody_sees_to(ticket.run_id):
                return
            case _:
                await self._hold_off(ticket, error.message)

    async def _somebody_sees_to(self, run_id: str) -> bool:
        try:
            return not _wants_a_driver(await self._runtime.journal.info(run_id))
        except AgentError:
            return False

    async def _hold_off(self, ticket: Ticket, why: str) -> None:
        """Hold the run off for a while, longer each time; park it after many deliveries without
        progress.
        """
        self.held_off += 1
        why = self._runtime.redact(why)
        seconds = min(HELD_OFF_S * 2 ** (ticket.fruitless - 1), HELD_OFF_MOST_S)
        at = now() + timedelta(seconds=seconds)
        if ticket.fruitless < FRUITLESS_MOST:
            logger.log(
                self._loudness(why),
                "run %s cannot be driven here; it is held off for %.0f s: %s",
                ticket.run_id,
                seconds,
                why,
            )
            await self._pass_on(ticket.run_id, at)
            return
        try:
            await self._queue.park(ticket.run_id, why)
            logger.warning(
                "run %s is parked after %d deliveries that came to nothing: %s",
                ticket.run_id,
                ticket.fruitless,
                why,
            )
        except AgentError as e:
            if e.kind is not ErrorKind.INVALID:  # a run that is gone needs nothing
                self._owe(ticket.run_id, at, e)

    def _loudness(self, why: str) -> int:
        """A warning the first time; further runs with the same are many, or the same run again."""
        if why in self._told:
            return logging.INFO
        if len(self._told) >= REASONS_MOST:
            self._told.clear()
        self._told.add(why)
        return logging.WARNING

    async def _pass_on(self, run_id: str, at: Time | None) -> None:
        try:
            await self._put_back(run_id, at)
        except AgentError as e:
            self._owe(run_id, at, e)

    async def _put_back(self, run_id: str, at: Time | None) -> None:
        """Raises AgentError where the journal does not answer; a run that is gone needs nothing."""
        try:
            await self._queue.put_back(run_id, at=at)
        except AgentError as e:
            if e.kind is not ErrorKind.INVALID:
                raise

    def _owe(self, run_id: str, at: Time | None, error: AgentError) -> None:
        logger.warning(
            "run %s is ready again once the journal answers, or this process has ended: %s",
            run_id,
            error.message,
        )
        self._owed[run_id] = at


def _wants_a_driver(info: RunInfo) -> bool:
    """Return False for a run that is over, waits for a person, or has a living driver."""
    return info.status in ("queued", "stopped")

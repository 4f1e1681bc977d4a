"""Handling of deliveries: drives the run, leaves it to another driver, or delays it. Entry point:
`Driving.deliver`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, TypeAlias

import anyio

from treadle.agents.agent import Agent
from treadle.errors import AgentError, ErrorKind
from treadle.journal.engine import Engine
from treadle.journal.queue import FRUITLESS_MOST, Ticket
from treadle.journal.run_info import RunInfo, UnknownRun
from treadle.runtime.closing_runs import driven_elsewhere
from treadle.runtime.runtime import Runtime
from treadle.types import Time, now

logger = logging.getLogger("treadle")

AgentOf: TypeAlias = Callable[[RunInfo], Awaitable[Agent[Any, Any] | None]]
"""Function that returns the agent of a run; None for the one of that name in `Runtime.agents`.

Raises AgentError if this process does not have the agent.
"""
DepsOf: TypeAlias = Callable[[RunInfo], Awaitable[Any]]

HELD_OFF_S: Final = 1.0
"""Delay after the first delivery without progress, in seconds. It doubles with each further one."""
HELD_OFF_MOST_S: Final = 60.0
REASONS_MOST: Final = 100
"""Maximum number of reasons that are remembered, so that each is logged as a warning only once."""
LEAVE_S: Final = 0.05


class Driving:
    """Driver of the runs that an engine delivers. Its counts are readable from any thread."""

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
        """True when the worker ends: no run begins, and deliveries are returned to the journal."""
        self.ended: Callable[[], None] = lambda: None
        """Called after each delivery."""
        self.waiting: dict[str, Ticket] = {}
        """Claimed runs that are not delivered yet, by run id."""
        self._owed: dict[str, Time | None] = {}
        """Runs that could not be returned to the journal, with the time until which each is
        delayed.
        """
        self._dropped: set[str] = set()
        """Runs that others drive, and whose claim is not given up yet."""
        self._told: set[str] = set()
        """Reasons for delays that were already logged as a warning."""
        self.running = self.deliveries = self.held_off = 0

    async def deliver(self, ticket: Ticket) -> None:
        """Handle one delivery. Has the type `Deliver`.

        Shielded from cancellation: `leave` stops runs so that they can be resumed.
        """
        if self.closed and not self._engine.keeps:  # `give_back` returns it
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
        """Stop all runs, including those that are just beginning, so that they can be resumed."""
        self.closed = True
        while self.running:
            self._runtime.let_go()
            await anyio.sleep(LEAVE_S)

    async def give_back(self) -> None:
        """Return claimed runs that were not delivered to the journal.

        Raises AgentError if the journal fails; `pay` then retries.
        """
        self._owed.update(dict.fromkeys(self.waiting))
        self.waiting.clear()
        await self.pay()

    async def pay(self) -> None:
        """Return runs whose earlier return failed, and release runs whose calls have ended since.

        Until then, no other worker can drive them while this process lives. Raises AgentError if
        the journal fails.
        """
        await self._runtime.release_left()
        for run_id, at in [*self._owed.items()]:
            await self._put_back(run_id, at)
            self._owed.pop(run_id, None)
        await self._give_up()

    async def _deliver(self, ticket: Ticket) -> None:
        if self.closed:
            await self._pass_on(ticket.run_id, None)
            return
        try:
            await self._drive(ticket)
        except AgentError as e:
            await self._not_driven(ticket, e)
        except Exception as e:  # edge of the task; user code or a bug must not end the worker
            logger.exception("run %s could not be driven", ticket.run_id)
            await self._hold_off(ticket, f"{type(e).__name__}: {e}")

    async def _drive(self, ticket: Ticket) -> None:
        try:
            info = await self._runtime.journal.info(ticket.run_id)
        except UnknownRun:
            logger.info("ignored a delivery: run %s is no longer in the journal", ticket.run_id)
            return
        if not _wants_a_driver(info):
            await self._drop(ticket)
            return
        agent = None if self._agent_of is None else await self._agent_of(info)
        deps = None if self._deps_of is None else await self._deps_of(info)
        await self._runtime.resume(ticket.run_id, agent, deps=deps)

    async def _not_driven(self, ticket: Ticket, error: AgentError) -> None:
        """Delay a run that could not be driven, unless it was cancelled or has another driver."""
        match error.kind:
            case ErrorKind.CANCELLED:
                return
            case ErrorKind.BUSY if await self._somebody_sees_to(ticket):
                await self._drop(ticket)
            case _:
                await self._hold_off(ticket, error.message)

    async def _somebody_sees_to(self, ticket: Ticket) -> bool:
        """Return True if somebody has driven the run or put it back since it was claimed, which
        ends the claim.
        """
        try:
            place = await self._queue.place(ticket.run_id)
            if place is not None and place.ready_at != ticket.queued_at:
                return True
            return not _wants_a_driver(await self._runtime.journal.info(ticket.run_id))
        except AgentError:
            return False

    async def _hold_off(self, ticket: Ticket, why: str) -> None:
        """Delay the run, longer each time; park it after many deliveries without progress."""
        self.held_off += 1
        if await self._somebody_sees_to(ticket):
            await self._drop(ticket)
            return
        why = self._runtime.redact(why)
        seconds = min(HELD_OFF_S * 2 ** (ticket.fruitless - 1), HELD_OFF_MOST_S)
        at = now() + timedelta(seconds=seconds)
        if ticket.fruitless < FRUITLESS_MOST:
            logger.log(
                self._loudness(why),
                "run %s cannot be driven here; retrying in %.0f s: %s",
                ticket.run_id,
                seconds,
                why,
            )
            await self._pass_on(ticket.run_id, at)
            return
        try:
            await self._queue.park(ticket.run_id, why)
            logger.warning(
                "run %s is parked after %d deliveries without progress: %s",
                ticket.run_id,
                ticket.fruitless,
                why,
            )
        except AgentError as e:
            if e.kind is not ErrorKind.INVALID:  # the run no longer exists
                self._owe(ticket.run_id, at, e)

    async def _drop(self, ticket: Ticket) -> None:
        """Give up the claim on a run that others see to, so that any worker may have it if they
        die.
        """
        self._dropped.add(ticket.run_id)
        with suppress(AgentError):  # `pay` tries again
            await self._give_up()

    async def _give_up(self) -> None:
        for run_id in [*self._dropped]:
            try:
                await self._queue.drop(run_id)
            except AgentError as e:
                if e.kind is not ErrorKind.INVALID:  # the run no longer exists
                    raise
            self._dropped.discard(run_id)

    def _loudness(self, why: str) -> int:
        """Return WARNING for a new reason, INFO for a repeated one."""
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
        """Return a run to the journal; without a time, one that was not delivered. Raises
        AgentError if the journal fails; ignores a run that no longer exists.
        """
        try:
            await self._queue.put_back(run_id, at=at, counts=at is not None)
        except AgentError as e:
            if e.kind is not ErrorKind.INVALID:
                raise

    def _owe(self, run_id: str, at: Time | None, error: AgentError) -> None:
        logger.warning(
            "run %s will be ready again when the journal responds or this process ends: %s",
            run_id,
            error.message,
        )
        self._owed[run_id] = at


def _wants_a_driver(info: RunInfo) -> bool:
    """Return False, and log the reason, for a run that is over, waits for a person, or has a living
    driver: its delivery was late, or a duplicate.
    """
    if info.status in ("queued", "stopped"):
        return True
    why = {
        "running": driven_elsewhere(info),
        "waiting": f"run {info.run_id} waits for a person",
        "finished": f"run {info.run_id} is finished",
    }
    logger.info("ignored a delivery: %s", why[info.status])
    return False

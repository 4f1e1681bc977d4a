"""Submission of schedules' runs. The first worker that finds a due tick submits its run; the run's
id makes it unique.

Entry point: `Ticking.run`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import anyio

from treadle.config.serving import Schedule
from treadle.errors import AgentError, ErrorKind
from treadle.journal.queue import DEFAULT_QUEUE
from treadle.runtime.runtime import Runtime
from treadle.types import Time, now
from treadle.workers.schedules import Timetable

logger = logging.getLogger("treadle")

LOOK_MOST_S: Final = 60.0
"""Longest sleep, in seconds, because the clock may be changed."""
AGAIN_S: Final = 5.0


class Ticking:
    def __init__(self, runtime: Runtime, schedules: Mapping[str, Schedule]) -> None:
        """Create the submitter. Raises AgentError(invalid) for an invalid schedule."""
        self._runtime = runtime
        self._timetables = [Timetable(name, schedule) for name, schedule in schedules.items()]
        self._seen_to: dict[str, Time] = {}
        """Last submitted tick, by schedule."""

    async def run(self) -> None:
        """Submit due runs until cancelled."""
        while self._timetables:
            at = now()
            done = [await self._see_to(timetable, at) for timetable in self._timetables]
            soonest = min(timetable.after(at) for timetable in self._timetables)
            await anyio.sleep(
                min((soonest - now()).total_seconds(), LOOK_MOST_S if all(done) else AGAIN_S)
            )

    async def _see_to(self, timetable: Timetable, at: Time) -> bool:
        """Submit the run of the last due tick. Returns False if it must be retried."""
        tick = timetable.last(at)
        if tick is None or self._seen_to.get(timetable.name) == tick:
            return True
        try:
            await self._submit(timetable, tick)
        except AgentError as e:
            if e.kind not in (ErrorKind.BUSY, ErrorKind.INVALID):
                return False
            if e.kind is ErrorKind.INVALID:
                logger.warning(
                    "schedule %r: its run of %s could not be submitted: %s",
                    timetable.name,
                    tick,
                    e.message,
                )
        except Exception:  # edge of the task; user code or a bug must not end the worker
            logger.exception(
                "schedule %r: its run of %s could not be submitted", timetable.name, tick
            )
        self._seen_to[timetable.name] = tick
        return True

    async def _submit(self, timetable: Timetable, tick: Time) -> None:
        schedule = timetable.schedule
        agent = self._runtime.agents.get(schedule.agent)
        if agent is None:
            raise AgentError(
                "invalid",
                (
                    f"there is no agent {schedule.agent!r} here: register it with Runtime.agents, "
                    "or correct the schedule"
                ),
            )
        queue = schedule.queue or DEFAULT_QUEUE
        await self._runtime.submit(
            agent,
            schedule.prompt,
            queue=queue,
            run_id=timetable.run_id(tick),
            inputs=schedule.inputs,
        )

"""When the runs of a schedule are due. Who submits them is a worker's business. Entry: `Timetable`."""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from treadle.config.serving import Schedule
from treadle.errors import AgentError
from treadle.types import Time

MISSED_MOST: Final = timedelta(hours=1)
"""Maximum age of a missed tick that is made up for."""


class Timetable:
    """The ticks of one schedule, in UTC.

    In its time zone a tick inside an hour that is skipped comes after it; one inside an hour that
    comes twice, once.
    """

    def __init__(self, name: str, schedule: Schedule) -> None:
        """Raises AgentError(invalid) for a time zone or a cron expression that is none, and one
        that never comes.
        """
        self.name, self.schedule = name, schedule
        try:
            self._zone = UTC if schedule.timezone == "UTC" else ZoneInfo(schedule.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as e:
            raise AgentError(
                "invalid",
                (
                    f"schedule {name!r}: {schedule.timezone!r} is no time zone: use a name like "
                    "'Europe/Berlin', or leave it out"
                ),
            ) from e
        next(self._ticks(datetime.now(UTC)))

    def after(self, at: Time) -> Time:
        """The next one."""
        return next(self._ticks(at))

    def last(self, at: Time) -> Time | None:
        """The last one up to `at`; None where it is older than MISSED_MOST."""
        return max(takewhile(lambda tick: tick <= at, self._ticks(at - MISSED_MOST)), default=None)

    def run_id(self, tick: Time) -> str:
        """Return the id of a tick's only run."""
        return f"{self.name}@{tick:%Y-%m-%dT%H:%M:%SZ}"

    def _ticks(self, after: Time) -> Iterator[Time]:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415  most processes keep no schedule

        if len(self.schedule.cron.split()) != 5:
            raise self._refused(
                "it has five fields: minute, hour, day of the month, month, day of the week"
            )
        try:
            ticks = CronSim(self.schedule.cron, after.astimezone(self._zone))
            for tick in ticks:
                # where an hour comes twice, it looks into the first one again
                if (at := tick.astimezone(UTC)) > after:
                    yield at
        except CronSimError as e:
            raise self._refused(str(e)) from e
        raise self._refused("it never comes")

    def _refused(self, why: str) -> AgentError:
        return AgentError(
            "invalid",
            (
                f"schedule {self.name!r}: {self.schedule.cron!r} is no cron expression that can be "
                f"used ({why}); '0 3 * * *' is each day at 3"
            ),
        )

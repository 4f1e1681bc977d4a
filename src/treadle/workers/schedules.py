"""When the runs of a schedule are due. Who submits them is a worker's business. Entry: `Timetable`."""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from treadle.config.serving import Schedule
from treadle.errors import AgentError
from treadle.types import Time

MISSED_MOST: Final = timedelta(hours=1)
"""Maximum age of a missed tick that is made up for."""
SECOND: Final = timedelta(seconds=1)
LEAP: Final = timedelta(hours=6)
"""Less than the time between any two changes of a zone's clocks."""

WallTimes: TypeAlias = Callable[[str, datetime], Iterator[datetime]]
"""Matches of an expression after a time without a zone. cronsim's own rules for time zones follow
the spelling of the expression, and step by whole hours over a change of half an hour.
"""


class Timetable:
    """The ticks of one schedule, in UTC, the same from whichever moment they are computed.

    A schedule with a tick in each hour is due whenever the clock of its time zone shows one, so
    also in both of two equal hours. Any other tick comes once where the clock is set: the first
    time it is shown, or as soon as the clock has skipped it.
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
        try:
            from cronsim import CronSim, CronSimError  # noqa: PLC0415  few processes have schedules
        except ModuleNotFoundError as e:
            raise AgentError("invalid", "schedules need cronsim: pip install 'treadle[cli]'") from e

        if len(self.schedule.cron.split()) != 5:
            raise self._refused(
                "it has five fields: minute, hour, day of the month, month, day of the week"
            )
        try:
            hourly = CronSim(self.schedule.cron, datetime.min).hours == {*range(24)}
            yield from (self._whenever_shown if hourly else self._once_each)(after, CronSim)
        except CronSimError as e:
            raise self._refused(str(e)) from e
        raise self._refused("it never comes")

    def _whenever_shown(self, after: Time, walls: WallTimes) -> Iterator[Time]:
        done, offset = after.replace(microsecond=0), self._offset(after)
        changed = True
        while changed:
            changed = False
            for wall in walls(self.schedule.cron, _naive(done) + offset):
                tick = wall.replace(tzinfo=UTC) - offset
                if change := self._change(done, tick, offset):
                    done, offset, changed = change - SECOND, self._offset(change), True
                    break
                done = tick
                yield tick

    def _once_each(self, after: Time, walls: WallTimes) -> Iterator[Time]:
        last = after
        for wall in walls(self.schedule.cron, _naive(after.astimezone(self._zone))):
            if (tick := self._first(wall)) > last:  # a skipped hour may have had several
                last = tick
                yield tick

    def _first(self, wall: datetime) -> Time:
        """Return the first moment at which the clock shows `wall` or, where it skips that, a later
        time.
        """
        tick = wall.replace(tzinfo=self._zone).astimezone(UTC)
        skipped = _naive(tick.astimezone(self._zone)) - wall
        before = tick - skipped
        return self._change(before, tick, self._offset(before)) or tick if skipped else tick

    def _offset(self, at: Time) -> timedelta:
        return at.astimezone(self._zone).utcoffset() or timedelta()

    def _change(self, done: Time, tick: Time, offset: timedelta) -> Time | None:
        """Return the first moment after `done` and up to `tick` with another offset."""
        while done < tick:
            later = min(done + LEAP, tick)
            if self._offset(later) != offset:
                while (between := (later - done) // 2 // SECOND * SECOND) > timedelta():
                    if self._offset(done + between) == offset:
                        done += between
                    else:
                        later = done + between
                return later
            done = later
        return None

    def _refused(self, why: str) -> AgentError:
        return AgentError(
            "invalid",
            (
                f"schedule {self.name!r}: {self.schedule.cron!r} is no cron expression that can be "
                f"used ({why}); '0 3 * * *' is each day at 3"
            ),
        )


def _naive(at: datetime) -> datetime:
    return at.replace(tzinfo=None)

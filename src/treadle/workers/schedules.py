"""Times at which a schedule's runs are due. Workers submit the runs. Entry points: `Timetable`."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from treadle.config.serving import Schedule
from treadle.errors import AgentError
from treadle.types import Time

if TYPE_CHECKING:
    from cronsim import CronSim

MISSED_MOST: Final = timedelta(hours=1)
"""Maximum age of a missed tick whose run is still started."""
SECOND: Final = timedelta(seconds=1)
LEAP: Final = timedelta(hours=6)
"""Step of the search for clock changes; shorter than the time between two changes of any zone."""


class Timetable:
    """Ticks of one schedule, in UTC. They do not depend on the time of the computation.

    When clocks change, a schedule with ticks in every hour runs at each matching wall-clock time,
    in a repeated hour twice. Any other schedule runs once: at the first occurrence of a repeated
    time, or directly after a skipped one.
    """

    def __init__(self, name: str, schedule: Schedule) -> None:
        """Parse a schedule. Raises AgentError(invalid) for an unknown time zone, and for a cron
        expression that is invalid or never matches.
        """
        self.name, self.schedule = name, schedule
        try:
            self._zone = UTC if schedule.timezone == "UTC" else ZoneInfo(schedule.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as e:
            raise AgentError(
                "invalid",
                (
                    f"schedule {name!r}: {schedule.timezone!r} is not a time zone: use a name like "
                    "'Europe/Berlin', or leave it out"
                ),
            ) from e
        self._expression = self._parse()
        next(self._ticks(datetime.now(UTC)))

    def after(self, at: Time) -> Time:
        """Return the first tick after `at`."""
        return next(self._ticks(at))

    def last(self, at: Time) -> Time | None:
        """Return the last tick up to `at`; None if it is older than `MISSED_MOST`."""
        return max(takewhile(lambda tick: tick <= at, self._ticks(at - MISSED_MOST)), default=None)

    def run_id(self, tick: Time) -> str:
        """Return the id of the tick's run, which makes the run unique."""
        return f"{self.name}@{tick:%Y-%m-%dT%H:%M:%SZ}"

    def _parse(self) -> CronSim:
        try:
            from cronsim import CronSim, CronSimError  # noqa: PLC0415  few processes have schedules
        except ModuleNotFoundError as e:
            raise AgentError("invalid", "schedules need cronsim: pip install 'treadle[cli]'") from e

        if len(self.schedule.cron.split()) != 5:
            raise self._refused(
                "it has five fields: minute, hour, day of the month, month, day of the week"
            )
        try:
            return CronSim(self.schedule.cron, datetime.min)
        except CronSimError as e:
            raise self._refused(str(e)) from e

    def _ticks(self, after: Time) -> Iterator[Time]:
        hourly = self._expression.hours == {*range(24)}
        yield from self._whenever_shown(after) if hourly else self._once_each(after)
        raise self._refused("it never matches")

    def _walls(self, after: datetime) -> Iterator[datetime]:
        """Yield the matches of the expression after a time, both without time zone: cronsim's own
        time zone rules depend on the spelling of the expression, and mishandle half-hour changes.
        """
        walls = copy(self._expression)  # parsing takes longer than most searches
        walls.dt = after.replace(microsecond=0)
        return walls

    def _whenever_shown(self, after: Time) -> Iterator[Time]:
        done, offset = after.replace(microsecond=0), self._offset(after)
        changed = True
        while changed:
            changed = False
            for wall in self._walls(_naive(done) + offset):
                tick = wall.replace(tzinfo=UTC) - offset
                if change := self._change(done, tick, offset):
                    done, offset, changed = change - SECOND, self._offset(change), True
                    break
                done = tick
                yield tick

    def _once_each(self, after: Time) -> Iterator[Time]:
        last = after
        for wall in self._walls(_naive(after.astimezone(self._zone))):
            if (tick := self._first(wall)) > last:  # ticks of a skipped hour coincide
                last = tick
                yield tick

    def _first(self, wall: datetime) -> Time:
        """Return the first moment at which the clock shows `wall`, or the end of the gap if it
        skips `wall`.
        """
        tick = wall.replace(tzinfo=self._zone).astimezone(UTC)
        skipped = _naive(tick.astimezone(self._zone)) - wall
        before = tick - skipped
        return self._change(before, tick, self._offset(before)) or tick if skipped else tick

    def _offset(self, at: Time) -> timedelta:
        return at.astimezone(self._zone).utcoffset() or timedelta()

    def _change(self, done: Time, tick: Time, offset: timedelta) -> Time | None:
        """Return the first moment after `done`, up to `tick`, with an offset other than `offset`;
        None if there is none.
        """
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
                f"schedule {self.name!r}: {self.schedule.cron!r} is not a usable cron expression "
                f"({why}); '0 3 * * *' is every day at 3"
            ),
        )


def _naive(at: datetime) -> datetime:
    return at.replace(tzinfo=None)

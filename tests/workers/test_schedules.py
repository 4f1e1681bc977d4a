"""When the runs of a schedule are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treadle.config.serving import Schedule
from treadle.errors import AgentError
from treadle.workers.schedules import MISSED_MOST, Timetable


def table(cron: str, timezone: str = "UTC") -> Timetable:
    return Timetable("nightly", Schedule(agent="a", prompt="p", cron=cron, timezone=timezone))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_next_tick_is_after_the_moment_and_the_last_one_up_to_it() -> None:
    daily = table("0 3 * * *")
    assert daily.after(utc("2026-11-21 02:59")) == utc("2026-11-21 03:00")
    assert daily.after(utc("2026-11-21 03:00")) == utc("2026-11-22 03:00")
    assert daily.last(utc("2026-11-21 03:00")) == utc("2026-11-21 03:00")
    assert daily.last(utc("2026-11-21 03:59")) == utc("2026-11-21 03:00")


def test_a_tick_that_is_too_old_is_not_made_up_for_and_of_several_the_last_one_is() -> None:
    assert table("0 3 * * *").last(utc("2026-11-21 04:00:01")) is None
    assert table("*/10 * * * *").last(utc("2026-11-21 03:37")) == utc("2026-11-21 03:30")


def test_ticks_are_those_of_the_time_zone_also_where_its_clocks_change() -> None:
    berlin = table("30 2 * * *", "Europe/Berlin")
    assert berlin.after(utc("2026-06-01 12:00")) == utc("2026-06-02 00:30")
    # there is no 2:30 on that day: right after it
    assert berlin.after(utc("2026-03-28 12:00")) == utc("2026-03-29 01:00")
    # there are two: the first
    assert berlin.after(utc("2026-10-24 12:00")) == utc("2026-10-25 00:30")
    assert berlin.after(utc("2026-10-25 00:30")) == utc("2026-10-26 01:30")


def test_in_an_hour_that_comes_twice_the_next_tick_is_never_one_that_was() -> None:
    """Whoever waits for it would not wait at all, for an hour."""
    hourly = table("15 1-3 * * *", "Europe/Berlin")
    assert hourly.after(utc("2026-10-25 00:20")) == utc("2026-10-25 02:15")
    assert hourly.after(utc("2026-10-25 01:00")) == utc("2026-10-25 02:15")
    # it was at 00:30
    assert table("30 2 * * *", "Europe/Berlin").last(utc("2026-10-25 02:10")) is None


def test_the_run_of_a_tick_has_one_id_in_every_process() -> None:
    assert (
        table("0 3 * * *", "Europe/Berlin").run_id(utc("2026-11-21 02:00"))
        == "nightly@2026-11-21T02:00:00Z"
    )


@given(
    st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(["*/7 * * * *", "5 * * * *", "0 0 * * *", "15 2,14 * * 1"]),
)
def test_the_last_tick_is_the_one_before_the_next(at: datetime, cron: str) -> None:
    for zone in ("UTC", "America/New_York"):
        timetable = table(cron, zone)
        last = timetable.last(at)
        assert timetable.after(at) > at
        if last is not None:
            assert at - MISSED_MOST < last <= at or last == at
            assert timetable.after(last - timedelta(seconds=1)) == last
            assert timetable.after(last) == timetable.after(at)


@pytest.mark.parametrize(
    ("cron", "timezone", "words"),
    [
        ("61 * * * *", "UTC", "Bad minute"),
        ("* * * * * *", "UTC", "five fields"),
        ("@daily", "UTC", "five fields"),
        ("0 0 31 2 *", "UTC", "Bad day"),
        ("0 0 * * *", "Europe/Atlantis", "not a time zone"),
        ("0 0 * * *", "", "not a time zone"),
        ("0 0 * * *", "../../etc/passwd", "not a time zone"),
    ],
)
def test_what_is_no_schedule_is_refused_with_its_name(cron: str, timezone: str, words: str) -> None:
    with pytest.raises(AgentError, match=words) as caught:
        table(cron, timezone)
    assert caught.value.kind == "invalid"
    assert "'nightly'" in caught.value.message


# ---------------------------------------------------------------- clocks that change

CHANGES = [
    ("Australia/Lord_Howe", "2026-04-05"),  # half an hour back
    ("Australia/Lord_Howe", "2026-10-04"),  # half an hour ahead
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/Santiago", "2026-09-06"),  # no midnight
    ("America/Havana", "2026-11-01"),  # two midnights
    ("America/St_Johns", "2010-11-07"),  # back into the day before
    ("Africa/Cairo", "2026-10-29"),
    ("Antarctica/Troll", "2026-03-29"),  # two hours ahead
    ("Asia/Pyongyang", "2018-05-05"),  # half an hour ahead, for good
    ("Pacific/Apia", "2011-12-30"),  # a day that was left out
    ("Asia/Kathmandu", "2026-04-05"),  # none
]
MINUTE = timedelta(minutes=1)


@cache
def shown(zone: str, day: datetime) -> list[tuple[datetime, datetime]]:
    """Every minute of a week, and what the clock shows then."""
    moments = [day + n * MINUTE for n in range(-3 * 1440, 4 * 1440)]
    return [(at, at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for at in moments]


def enumerated(zone: str, day: datetime, minutes: set[int], hours: set[int]) -> list[datetime]:
    """The ticks of three days, from the table of all minutes."""
    begin, end = day - timedelta(days=1), day + timedelta(days=2)
    if len(hours) == 24:
        ticks = {at for at, wall in shown(zone, day) if wall.minute in minutes}
    else:
        first: dict[datetime, datetime] = {}
        for at, wall in shown(zone, day):
            first.setdefault(wall, at)
        ticks, wall, earliest, coming = set[datetime](), max(first), min(first), end
        while wall > earliest:
            coming = first.get(wall, coming)  # of the next minute that the clock shows
            if wall.minute in minutes and wall.hour in hours:
                ticks.add(coming)
            wall -= MINUTE
    return sorted(at for at in ticks if begin <= at <= end)


def written(values: set[int], size: int, *, star: bool) -> str:
    """A field of an expression."""
    step = min((n for n in range(1, size) if values == {*range(0, size, n)}), default=None)
    if step is not None and star:
        return "*" if step == 1 else f"*/{step}"
    return ",".join(str(value) for value in sorted(values))


def some(size: int) -> st.SearchStrategy[set[int]]:
    return st.one_of(
        st.integers(1, size - 1).map(lambda step: {*range(0, size, step)}),
        st.sets(st.integers(0, size - 1), min_size=1, max_size=4),
    )


@settings(deadline=None, max_examples=30)
@given(
    change=st.sampled_from(CHANGES),
    minutes=some(60),
    hours=some(24),
    star=st.booleans(),
    looks=st.lists(st.integers(0, 3 * 86400), min_size=3, max_size=3),
)
@example(CHANGES[0], {5}, {*range(0, 24, 2)}, True, [9 * 3600, 39 * 3600, 52 * 3600])
@example(CHANGES[1], {5}, {*range(0, 24, 2)}, True, [9 * 3600, 39 * 3600, 52 * 3600])
@example(CHANGES[0], {45}, {*range(24)}, True, [38 * 3600, 39 * 3600 - 1, 39 * 3600])
@example(CHANGES[2], {0, 30}, {2}, True, [24 * 3600, 25 * 3600, 26 * 3600])
def test_each_tick_comes_once_wherever_its_clock_changes(
    change: tuple[str, str], minutes: set[int], hours: set[int], star: bool, looks: list[int]
) -> None:
    zone, date = change
    cron = f"{written(minutes, 60, star=star)} {written(hours, 24, star=star)} * * *"
    timetable, begin = table(cron, zone), utc(date) - timedelta(days=1)
    expected = enumerated(zone, utc(date), minutes, hours)
    found, at = list[datetime](), begin - timedelta(seconds=1)
    while (at := timetable.after(at)) <= begin + timedelta(days=3):
        found.append(at)
    assert found == expected, cron
    for look in looks:
        at = begin + timedelta(seconds=look)
        coming = [tick for tick in expected if tick > at]
        assert [timetable.after(at)] == coming[:1] or not coming, (cron, at)
        been = [tick for tick in expected if at - MISSED_MOST < tick <= at]
        if at - MISSED_MOST >= begin:
            assert timetable.last(at) == max(been, default=None), (cron, at)

"""When the runs of a schedule are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
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
        ("0 0 * * *", "Europe/Atlantis", "no time zone"),
        ("0 0 * * *", "", "no time zone"),
        ("0 0 * * *", "../../etc/passwd", "no time zone"),
    ],
)
def test_what_is_no_schedule_is_refused_with_its_name(cron: str, timezone: str, words: str) -> None:
    with pytest.raises(AgentError, match=words) as caught:
        table(cron, timezone)
    assert caught.value.kind == "invalid"
    assert "'nightly'" in caught.value.message

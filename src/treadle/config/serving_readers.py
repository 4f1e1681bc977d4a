"""Readers of values for the service, workers and schedules. Entry points: `cron`,
`host_and_port`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.config.document import Plain
from treadle.config.readers import Reader, Wrong, text, texts

HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")


def host_names(value: Plain) -> tuple[str, ...]:
    for i, name in enumerate(names := texts(value)):
        if not HOST_NAME.fullmatch(name):
            raise Wrong(
                "a list of names like tasks.example.org, each without scheme, port and path", item=i
            )
    return names


def addresses(value: Plain) -> tuple[str, ...]:
    import ipaddress  # noqa: PLC0415  hardly anybody has proxies, and it costs a few ms

    found: list[str] = []
    for i, address in enumerate(texts(value)):
        try:
            found.append(str(ipaddress.ip_address(address)))
        except ValueError as e:
            raise Wrong("a list of IP addresses, like 10.0.0.2", item=i) from e
    return tuple(found)


GRACE_MOST_S = 8
"""Maximum grace period. Service managers kill a process after ten seconds, and closing takes part
of that time.
"""


def grace(value: Plain) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= GRACE_MOST_S
    ):
        raise Wrong(f"seconds from 0 to {GRACE_MOST_S}")
    return value


LEASE_LEAST_S, LEASE_MOST_S = 1, 3600
POLL_LEAST_S, POLL_MOST_S = 0.05, 60
GRACE_OF_WORKERS_MOST_S = 86_400


def _between(least: float, most: float) -> Reader:
    def read(value: Plain) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not least <= value <= most
        ):
            raise Wrong(f"seconds from {least} to {most}")
        return value

    return read


lease = _between(LEASE_LEAST_S, LEASE_MOST_S)
poll = _between(POLL_LEAST_S, POLL_MOST_S)
seconds = _between(0, GRACE_OF_WORKERS_MOST_S)

HOST_AND_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]{1,253})):(\d{1,5})")


def host_and_port(value: Plain) -> str:
    found = HOST_AND_PORT.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[3]) > 65535:
        raise Wrong("HOST:PORT, like 127.0.0.1:9464")
    return found[0]


def split_address(text: str) -> tuple[str, int]:
    """Split a validated `host_and_port`. Raises ValueError for any other text."""
    found = HOST_AND_PORT.fullmatch(text)
    if found is None or int(found[3]) > 65535:
        raise ValueError(text)
    return found[1] or found[2], int(found[3])


CRON_FIELDS = 5
"""Number of fields. cronsim accepts a sixth for seconds, but a sixth field is most likely a
mistake.
"""


def cron(value: Plain) -> str:
    expected = Wrong("minute, hour, day of the month, month and day of the week, like 0 3 * * *")
    if not isinstance(value, str) or len(value.split()) != CRON_FIELDS:
        raise expected
    from datetime import UTC, datetime  # noqa: PLC0415  here and below: only who has schedules needs it

    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415  as above
    except ModuleNotFoundError:  # the worker needs cronsim and reports that it is missing
        return " ".join(value.split())
    try:
        next(CronSim(value, datetime(2026, 1, 1, tzinfo=UTC)))
    except CronSimError as e:
        raise Wrong(expected.expected, hint=f": {str(e)[:1].lower()}{str(e)[1:]}") from e
    except StopIteration as e:
        raise Wrong(expected.expected, hint=": there is no such day") from e
    return " ".join(value.split())


def timezone(value: Plain) -> str:
    from zoneinfo import ZoneInfo  # noqa: PLC0415  as in cron

    try:
        return ZoneInfo(text(value)).key
    except (ValueError, OSError, KeyError) as e:  # ZoneInfoNotFoundError is a KeyError
        raise Wrong("a time zone, like Europe/Vienna") from e

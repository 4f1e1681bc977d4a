"""Readers of configuration values. Each returns the value in its final type or raises Wrong.

keys.py assigns readers to keys. Entry points: `Reader`, `Wrong`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, get_args
from urllib.parse import urlsplit

from treadle.config.rules import BadRule, parse_rule
from treadle.errors import ErrorKind
from treadle.types import SLOTS_MAX, Effort, HostedTool

if TYPE_CHECKING:
    from treadle.config.document import Plain

ALIASES = {"claude": "anthropic"}
REFUSAL = "refusal"
"""A reason for a fallback to another model that is not an error kind."""


class Wrong(Exception):
    """Raised for a value that its key does not accept."""

    def __init__(self, expected: str, *, hint: str = "", item: int | None = None) -> None:
        super().__init__(expected)
        self.expected = expected
        self.hint = hint
        self.item = item
        """Index of the invalid item, if the value is a list."""


Reader: TypeAlias = "Callable[[Plain], object]"


def text(value: Plain) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong("text", hint=": put it in quotes" if isinstance(value, int | float) else "")
    return value


def one_of(*names: str) -> Reader:
    def read(value: Plain) -> str:
        if not isinstance(value, str) or value not in names:
            near = nearest(value, names) if isinstance(value, str) else None
            raise Wrong(
                f"one of {', '.join(names)}", hint=f": did you mean {near!r}?" if near else ""
            )
        return value

    return read


def whole(value: Plain) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Wrong("a whole number of at least 1")
    return value


def slots(value: Plain) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= SLOTS_MAX:
        raise Wrong(f"a whole number from 1 to {SLOTS_MAX:,}")
    return value


def positive(value: Plain) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise Wrong("a number greater than 0")
    return value


def price(value: Plain) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise Wrong("USD for a million tokens: a number of at least 0")
    return value


def max_tokens(value: Plain) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Wrong("a whole number of at least 1, or 0 for the default")
    return value or None


def temperature(value: Plain) -> float | None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not (0 <= value <= 2 or value == -1)
    ):
        raise Wrong("a number from 0 to 2, or -1 for the default")
    return None if value == -1 else value


def thinking(value: Plain) -> object:
    if (
        isinstance(value, bool)
        or value in ("adaptive", "between_tools")
        or (isinstance(value, int) and value > 0)
    ):
        return value
    raise Wrong("true, false, adaptive, between_tools or a number of tokens")


def cache(value: Plain) -> object:
    if isinstance(value, bool) or value in ("5m", "1h"):
        return value
    raise Wrong("true, false, 5m or 1h")


def texts(value: Plain) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Wrong("a list of texts")
    for i, item in enumerate(value):
        if not isinstance(item, str) or not item.strip():
            raise Wrong("a list of texts", item=i)
    return tuple(str(item) for item in value)


def rules(value: Plain) -> tuple[str, ...]:
    given = texts(value)
    for i, text in enumerate(given):
        try:
            parse_rule(text)
        except BadRule as e:
            raise Wrong(f"a list of rules, each {e}", item=i) from e
    return given


def command(value: Plain) -> tuple[str, ...]:
    if not (words := texts(value) if isinstance(value, list) else ()):
        raise Wrong("a list: the program and its arguments")
    return words


MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def modules(value: Plain) -> tuple[str, ...]:
    names = texts(value)
    for i, name in enumerate(names):
        if not MODULE.fullmatch(name):
            raise Wrong("a list of Python modules, like my_package.agents", item=i)
    return names


URL = re.compile(r"https?://[^\s/?#]+(?:[/?#]\S*)?", re.IGNORECASE)


def url(value: Plain) -> str:
    if not isinstance(value, str) or not URL.fullmatch(value):
        raise Wrong("a URL like https://host/path")
    try:
        fits = urlsplit(value).port != 0
    except ValueError:  # it is no number, or beyond 65535
        fits = False
    if not fits:
        raise Wrong("a URL like https://host/path, its port from 1 to 65535")
    return value


def base_url(value: Plain) -> str:
    """Read a URL without query or fragment; a trailing slash is removed before paths."""
    if "?" in (address := url(value)) or "#" in address:
        raise Wrong("a URL without ? and #")
    return address.rstrip("/")


def credential(value: Plain) -> str:
    """Read a key of printable ASCII without spaces.

    Anything else is a clipboard accident, and would break the request header.
    """
    stripped = text(value).strip()
    if not stripped.isascii() or not stripped.isprintable() or " " in stripped:
        raise Wrong("a key in one piece, of printable ASCII characters")
    return stripped


def header(value: Plain) -> str:
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        raise Wrong("text of printable ASCII characters")
    return value.strip()


def any_text(value: Plain) -> str:
    if not isinstance(value, str):
        raise Wrong("text", hint=": put it in quotes")
    return value


JOURNAL = re.compile(r"memory:|sqlite:///.+|postgresql://.+")


def journal(value: Plain) -> str:
    if not isinstance(value, str) or not JOURNAL.fullmatch(value):
        is_path = isinstance(value, str) and value != "" and ":" not in value
        raise Wrong(
            "memory:, sqlite:///FILE or postgresql://HOST/DATABASE",
            hint=f": use 'sqlite:///{value}'" if is_path else "",
        )
    return value


AGE = re.compile(r"(\d{1,6})([hdw])")
"""Ages in hours, days or weeks. Months and minutes are excluded, because `m` is ambiguous."""
_HOURS = {"h": 1, "d": 24, "w": 24 * 7}


def age(value: Plain) -> str:
    if not isinstance(value, str) or not AGE.fullmatch(value):
        raise Wrong("a number and h, d or w, like 12h, 30d, 8w")
    return value


def span_of(text: str) -> timedelta:
    """Parse an age, capped at a century because dates are bounded.

    Raises ValueError for any other text.
    """
    found = AGE.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    return min(timedelta(hours=int(found[1]) * _HOURS[found[2]]), timedelta(days=36_500))


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
    for i, text in enumerate(texts(value)):
        try:
            found.append(str(ipaddress.ip_address(text)))
        except ValueError as e:
            raise Wrong("a list of IP addresses, like 10.0.0.2", item=i) from e
    return tuple(found)


GRACE_MOST_S = 8
"""Maximum grace period: service managers kill after ten seconds, and closing takes part of them."""


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


lease, poll, seconds = (
    _between(LEASE_LEAST_S, LEASE_MOST_S),
    _between(POLL_LEAST_S, POLL_MOST_S),
    _between(0, GRACE_OF_WORKERS_MOST_S),
)

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
"""Number of fields. cronsim accepts seconds as a sixth, most likely a mistake."""


def cron(value: Plain) -> str:
    expected = Wrong("minute, hour, day of the month, month and day of the week, like 0 3 * * *")
    if not isinstance(value, str) or len(value.split()) != CRON_FIELDS:
        raise expected
    from datetime import UTC, datetime  # noqa: PLC0415  here and below: only who has schedules needs it

    from cronsim import CronSim, CronSimError  # noqa: PLC0415  as above

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


def anything(value: Plain) -> object:
    return value


def file_path(value: Plain) -> str:
    """Read an absolute path, or one below the home directory, so that it does not depend on the
    working directory.
    """
    if (
        not isinstance(value, str)
        or "\0" in value
        or not (os.path.isabs(value) or value.startswith("~/"))
    ):
        raise Wrong("a file's path that begins with / or ~/")
    return value


def yes_or_no(value: Plain) -> bool:
    if not isinstance(value, bool):
        raise Wrong("true or false")
    return value


def efforts(value: Plain) -> tuple[str, ...]:
    known = get_args(Effort)
    for i, name in enumerate(names := texts(value)):
        if name not in known:
            raise Wrong(f"a list of {', '.join(known)}; [] if it takes none", item=i)
    return names


def hosted_tools(value: Plain) -> tuple[str, ...]:
    known = get_args(HostedTool)
    for i, name in enumerate(names := texts(value)):
        if name not in known:
            raise Wrong(f"a list of {', '.join(known)}", item=i)
    return names


def model_names(value: Plain) -> tuple[str, ...]:
    return tuple(model_name(name) for name in texts(value))


def fallback_kinds(value: Plain) -> tuple[str, ...]:
    known = (*(kind.value for kind in ErrorKind), REFUSAL)
    for i, kind in enumerate(names := texts(value)):
        if kind not in known:
            raise Wrong(f"a list of {', '.join(known)}", item=i)
    return names


def model_name(value: Plain) -> str:
    provider, colon, name = text(value).partition(":")
    if not colon or not provider or not name:
        given = text(value)
        raise Wrong(f"PROVIDER:MODEL, like {likely_name(given if '-' in given else '')}")
    return f"{ALIASES.get(provider, provider)}:{name}"


def likely_name(model: str) -> str:
    """Complete a model name that lacks its provider, or return an example."""
    vendors = {
        **dict.fromkeys(("claude", "opus", "sonnet", "haiku"), "anthropic"),
        **dict.fromkeys(("gpt", "o1", "o3", "o4"), "openai"),
        "gemini": "gemini",
    }
    vendor = next((vendor for start, vendor in vendors.items() if model.startswith(start)), None)
    return "anthropic:claude-opus-5-5" if vendor is None or ":" in model else f"{vendor}:{model}"


def nearest(name: str, names: Collection[str]) -> str | None:
    import difflib  # noqa: PLC0415  only for a message

    return next(iter(difflib.get_close_matches(name.lower()[:64], names, n=1, cutoff=0.6)), None)

"""Readers of configuration values. Each returns the value in its final type or raises Wrong.

keys.py assigns readers to keys. Entry points: `Reader`, `Wrong`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, cast, get_args
from urllib.parse import urlsplit

from treadle.config.plugins import PluginKind, offers
from treadle.config.rule import BadRule, parse_rule
from treadle.errors import ErrorKind
from treadle.types import SLOTS_MAX, Effort, HostedTool

if TYPE_CHECKING:
    from treadle.config.document import Plain

ALIASES = {"claude": "anthropic"}
REFUSAL = "refusal"
"""Trigger of a fallback that is not an error kind: the model refused."""


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


def plugged(kind: PluginKind, *built_in: str) -> Reader:
    """Accept the built-in names, and those of installed plug-ins."""

    def read(value: Plain) -> str:
        if isinstance(value, str) and value not in built_in and offers(kind, value):
            return value
        return cast("str", one_of(*built_in)(value))

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
    except ValueError:  # not a number, or above 65535
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


JOURNAL = re.compile(r"memory:|sqlite:///.+|postgresql://.+|postgresql\+shards:///.+")


def journal(value: Plain) -> str:
    scheme, colon, _ = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not isinstance(value, str) or not (
        JOURNAL.fullmatch(value) or (colon and offers("journals", scheme))
    ):
        is_path = isinstance(value, str) and value != "" and ":" not in value
        raise Wrong(
            "memory:, sqlite:///FILE, postgresql://HOST/DATABASE or postgresql+shards:///FILE",
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


def anything(value: Plain) -> object:
    return value


def file_path(value: Plain) -> str:
    """Read a path that is absolute or below the home directory, so that it does not depend on the
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

"""Remaining rate limits of an account, from response headers in Anthropic's or OpenAI's format,
which other servers adopted.

retry.py handles exhausted limits. Entry points: `rate_limits`. Source: platform.claude.com, "Rate
limits"; developers.openai.com, "Rate limits"; read 2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from treadle.messages.response_details import RateLimit

Header = Callable[[str], str | None]

_ANTHROPIC = ("requests", "tokens", "input-tokens", "output-tokens")
_OPENAI = ("requests", "tokens")
_SPAN = re.compile(
    r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)
_SECONDS = (86_400, 3_600, 60, 1, 0.001)


def rate_limits(header: Header) -> tuple[RateLimit, ...]:
    """Return the limits in the vendors' order; empty if the server reports none."""
    if (
        header("anthropic-ratelimit-requests-remaining") is not None
        or header("anthropic-ratelimit-tokens-remaining") is not None
    ):
        said = [
            _limit(header, name, f"anthropic-ratelimit-{name}-{{}}", _until) for name in _ANTHROPIC
        ]
    elif (
        header("x-ratelimit-remaining-requests") is not None
        or header("x-ratelimit-remaining-tokens") is not None
    ):
        said = [_limit(header, name, f"x-ratelimit-{{}}-{name}", _span) for name in _OPENAI]
    else:
        return ()
    return tuple(limit for limit in said if limit is not None)


def _limit(
    header: Header, name: str, pattern: str, seconds: Callable[[str], float | None]
) -> RateLimit | None:
    remaining, reset = _whole(header(pattern.format("remaining"))), header(pattern.format("reset"))
    if remaining is None:
        return None
    reset_s = None if reset is None else seconds(reset)
    return RateLimit(
        name=name.replace("-", "_"),
        remaining=remaining,
        limit=_whole(header(pattern.format("limit"))),
        reset_s=reset_s,
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,15}", text) else None


def _until(text: str) -> float | None:
    """Return the seconds until a time like `2026-11-22T10:00:00Z`."""
    try:
        until = datetime.fromisoformat(text)
    except ValueError:
        return None
    return max(
        round((until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 1),
        0.0,
    )


def _span(text: str) -> float | None:
    """Return the seconds of a span like `6m0s`, `1.2s` or `20ms`."""
    found = _SPAN.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    return round(
        sum(
            float(number) * unit
            for number, unit in zip(found.groups(), _SECONDS, strict=True)
            if number
        ),
        3,
    )

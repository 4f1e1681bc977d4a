"""Numbers, money, sizes and times, formatted for people. Entry points: `count`, `tokens`, `usd`,
`money`, `size`, `lasting`, `ago`, `local`.
"""

from __future__ import annotations

from datetime import datetime


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tokens(number: int) -> str:
    """Format a number of tokens in at most five characters."""
    if number < 1000:
        return str(number)
    if number < 999_950:
        return f"{number / 1000:.1f}k" if number < 99_950 else f"{number / 1000:.0f}k"
    return f"{number / 1e6:.1f}M"


def money(usd: float | None, *, more: bool = False) -> str:
    """Format US dollars: $0.0042, $0.42, $12.30. None: unknown price.

    `more`: part of the amount has no known price.
    """
    if usd is None:
        return "unknown"
    shown = (
        f"${usd:,.2f}"
        if usd >= 0.995 or usd == 0
        else f"${usd:.2f}"
        if usd >= 0.0995
        else f"${usd:.4f}"
        if usd >= 0.00005
        else "<$0.0001"
    )
    return f"{shown} + unknown" if more else shown


def size(size_bytes: int) -> str:
    number = float(size_bytes)
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def lasting(seconds: float) -> str:
    """Format a duration: 12 ms, 3.1 s, 2:41 min, 5:02 h, 3.2 days."""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 3599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}:{rest:02} min"
    if seconds < 86_370:
        hours, rest = divmod(round(seconds / 60), 60)
        return f"{hours}:{rest:02} h"
    return f"{seconds / 86_400:.1f} days"


def ago(at: datetime, now: datetime) -> str:
    """Format an age as one number."""
    seconds = max((now - at).total_seconds(), 0)
    for most, unit, seconds_each in ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600)):
        if seconds < most:
            return f"{seconds / seconds_each:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def local(at: datetime) -> str:
    """Format a date and time in the local time zone."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def usd(*amounts: float | None) -> float | None:
    """Return the sum of the known amounts; None if none is known.

    Rounded to a trillionth of a dollar, so that sums stay readable.
    """
    known = [amount for amount in amounts if amount is not None]
    return round(sum(known), 12) if known else None

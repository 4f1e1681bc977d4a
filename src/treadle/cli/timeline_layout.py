"""Layout of a run's timeline: lines with the elapsed time and texts below them. Entry points:
`TimelineLayout`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from treadle._internal.terminal_text import columns, cut, wrapped
from treadle._internal.units import count
from treadle.cli.terminal import Ink, Style, width
from treadle.types import Time

CLOCK = 9
"""Width of the column with the elapsed time."""
MARGIN = " " * (CLOCK + 2)
VERBOSE_LINES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLayout:
    """Formatter for the lines of a timeline."""

    began: Time
    clean: Callable[[str], str]
    """Function that removes secrets and escape sequences."""
    ink: Ink
    verbose: bool
    width: int = field(default_factory=width)

    def line(self, at: Time, shown: str, used: int, right: str = "", style: Style = "") -> str:
        """Format a line with the elapsed time. `used`: width of `shown`, which may contain escape
        sequences.
        """
        gap = " " * (self.width - len(MARGIN) - used - columns(right)) if right else ""
        return f"{self.ink(self.clock(at), 'dim')}  {shown}{gap}{self.ink(right, style)}"

    def under(self, text: str, style: Style) -> str:
        return f"{MARGIN}{self.ink(cut(text, self.width - len(MARGIN)), style)}"

    def clock(self, at: Time) -> str:
        seconds = max((at - self.began).total_seconds(), 0)
        return f"{_since(seconds):>{CLOCK}}"

    def text(self, text: str, most: int, style: Style) -> Iterator[str]:
        lines = wrapped(self.clean(text).strip(), self.width - len(MARGIN) - 2)
        bar = f"{MARGIN}{self.ink('│', 'dim')} "
        for line in lines[:most]:
            yield bar + self.ink(line, style)
        if len(lines) > most:
            yield bar + self.ink(f"… {count(len(lines) - most, 'more line')}", "dim")


def _since(seconds: float) -> str:
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours:02}:{minutes:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

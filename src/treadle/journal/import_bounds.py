"""Limits on the size of an imported run, checked before it is decoded, and on its figures and times.
docs/runs.md lists them for users.

Entry point: `ImportBounds`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NoReturn, cast

from treadle._internal.json_text import count_values
from treadle.errors import AgentError
from treadle.journal.entries import Compaction, Entry, ModelResponded, RunStarted
from treadle.journal.entry_codec import read_entry
from treadle.journal.receipts import read_receipt
from treadle.messages.message import Message, ToolResult
from treadle.types import Settings, Time, Value, now

LINE_BYTES: Final = 32 << 20
"""Maximum size in bytes of a line of an export, and of an entry: a prompt with some images has a
few megabytes.
"""
RUN_BYTES: Final = 256 << 20
LINES: Final = 100_000
"""Maximum number of lines of an export, and of entries of a run: 10,000 turns have about 60,000."""
VALUES: Final = 2_000_000
"""Maximum number of JSON values of a run. Small ones take a hundred times more memory than text."""
REWRITTEN: Final = 5_000_000
"""Maximum number of messages that all compactions of a run process together, because each processes
the whole history.
"""
FIGURE_MOST: Final = 10**12
"""Largest count, number of seconds or dollars in an entry, so that sums fit into a column."""
YEARS: Final = range(1970, 9999)
"""Valid years of entries: a time close to the ends of the calendar has no local time."""
AHEAD: Final = timedelta(days=1)
"""Maximum time by which an entry may be in the future, because clocks differ."""


class ImportBounds:
    """Size of a run so far. Every method raises AgentError(invalid) at the first limit that is
    exceeded.
    """

    def __init__(self) -> None:
        self._lines = self._bytes = self._values = self._rewritten = 0
        self._latest = now() + AHEAD

    def read(self, data: bytes) -> Entry:
        """Count an entry, then decode it and check its figures and time. Raises ValueError for JSON
        that cannot be read.
        """
        self.line(len(data))
        self.text(data.decode())
        entry = read_entry(data)
        self.inside(entry)
        _check_figures(entry)
        if isinstance(entry, Compaction):
            _check_figures(read_receipt(entry.receipt))
        _check_time(entry.at, self._latest)
        return entry

    def line(self, size_bytes: int) -> None:
        """Count a line of an export, or an entry."""
        self._lines += 1
        self._bytes += size_bytes
        if size_bytes > LINE_BYTES:
            _refuse("it is too long", f"{LINE_BYTES >> 20} MiB in a line")
        if self._bytes > RUN_BYTES:
            _refuse("the run is too large", f"{RUN_BYTES >> 20} MiB in all")
        if self._lines > LINES:
            _refuse("the run has too many entries", f"{LINES:,} lines")

    def text(self, text: str) -> None:
        """Count the values in JSON text before it is decoded."""
        self._values += count_values(text)
        if self._values > VALUES:
            _refuse("the run has too many parts", f"{VALUES:,} JSON values in all")

    def compaction(self, messages: int) -> None:
        """Count a compaction of that many messages."""
        self._rewritten += messages
        if self._rewritten > REWRITTEN:
            _refuse("the run has too many compactions", f"{REWRITTEN:,} compacted messages in all")

    def inside(self, entry: Entry) -> None:
        """Count the values of the JSON texts in an entry that the import decodes."""
        match entry:
            case (
                RunStarted(inputs=inner)
                | ModelResponded(provider_data=str() as inner)
                | Compaction(receipt=inner)
            ):
                self.text(inner)
            case _:
                return


def _check_time(at: Time, latest: Time) -> None:
    if at.tzinfo is None or at.year not in YEARS:
        raise AgentError(
            "invalid", f"its time must have an offset and a year from {YEARS[0]} to {YEARS[-1]}"
        )
    if at > latest:
        raise AgentError(
            "invalid",
            f"its time {at.isoformat()} is more than a day ahead of this machine's clock. Set the "
            "clock if it is slow; otherwise correct the time in the file",
        )


def _check_figures(value: object) -> None:
    """Check every figure of an entry outside messages, whose figures are never summed."""
    match value:
        case Message() | Settings() | ToolResult():
            return
        case Value():
            for name in value.__struct_fields__:
                _check_figure(name, getattr(value, name))
        case tuple():
            for each in cast("tuple[object, ...]", value):
                _check_figures(each)
        case _:
            return


def _check_figure(name: str, value: object) -> None:
    if not isinstance(value, int | float):
        _check_figures(value)
        return
    least = -FIGURE_MOST if name in ("idle_s", "schema") else 0  # the clock was set back
    if not least <= value <= FIGURE_MOST:
        raise AgentError(
            "invalid", f"its {name} must be a number from {least:,} to {FIGURE_MOST:,}"
        )


def _refuse(what: str, limit: str) -> NoReturn:
    raise AgentError(
        "invalid",
        f"{what}: an import reads up to {limit}. To move a larger run, copy the whole journal",
    )

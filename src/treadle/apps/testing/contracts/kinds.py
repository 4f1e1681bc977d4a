"""Implementations that a contract is tested over. Entry points: `JournalKind`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from treadle.journal.journal import Journal


@dataclass(frozen=True)
class JournalKind:
    """A kind of journal.

    Attributes:
        open: Open a journal in a folder. Two in one folder share their contents if it is durable.
        durable: True if its contents outlive the object.
    """

    open: Callable[[Path], Awaitable[Journal]]
    durable: bool

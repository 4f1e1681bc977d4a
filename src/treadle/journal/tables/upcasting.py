"""Conversion of entries of older versions when they are read. Stored entries are never changed.
Entry: `upcast`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from treadle.journal.entries import SCHEMA

Upcaster: TypeAlias = Callable[[bytes], bytes]
"""Function that converts an entry of one schema to the next."""

UPCASTERS: Mapping[int, Upcaster] = {}
"""Upcasters by the schema that they read, which is stored in run.started."""


def upcast(
    entry: bytes, schema: int, *, upcasters: Mapping[int, Upcaster] = UPCASTERS, to: int = SCHEMA
) -> bytes:
    """Convert an entry to schema `to`. One of a newer schema is unchanged, and its reader reports
    it.
    """
    for step in range(schema, to):
        entry = upcasters[step](entry)
    return entry

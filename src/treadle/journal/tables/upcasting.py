"""Entries of older versions, made into those of this one when they are read; what is stored is
never touched. Entry: `upcast`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from treadle.journal.entries import SCHEMA

Upcaster: TypeAlias = Callable[[bytes], bytes]
"""Converts an entry of a schema to the next one."""

UPCASTERS: Mapping[int, Upcaster] = {}
"""Upcasters by the schema that they read, which is stored in a run's run.started."""


def upcast(
    entry: bytes, schema: int, *, upcasters: Mapping[int, Upcaster] = UPCASTERS, to: int = SCHEMA
) -> bytes:
    """The entry as the schema `to` has it; one of a newer schema stays as it is, and its reader
    says so.
    """
    for step in range(schema, to):
        entry = upcasters[step](entry)
    return entry

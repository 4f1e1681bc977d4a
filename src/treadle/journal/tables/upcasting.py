"""Entries of older versions, made into those of this one when they are read; what is stored is
never touched. Entry: `upcast`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from treadle.journal.entries import SCHEMA

Upcaster: TypeAlias = Callable[[bytes], bytes]
"""One entry of a schema as one of the next."""

UPCASTERS: Mapping[int, Upcaster] = {}
"""By the schema that they read, which stands in a run's run.started."""


def upcast(
    entry: bytes, schema: int, *, upcasters: Mapping[int, Upcaster] = UPCASTERS, to: int = SCHEMA
) -> bytes:
    """The entry as the schema `to` has it; one of a newer schema stays as it is, and its reader
    says so.
    """
    for step in range(schema, to):
        entry = upcasters[step](entry)
    return entry

"""Connections that a forked child must not touch: its parent's, whose threads do not exist there
and whose locks are the parent's.

Each object abandons its own. Entry point: `abandon_in_children`.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Abandonable(Protocol):
    """Something of which a forked child has a copy."""

    def abandon(self) -> None:
        """Close this object in the child, before anything else runs there; the parent's stays as it
        is.
        """
        ...


_open: weakref.WeakSet[Abandonable] = weakref.WeakSet()


def abandon_in_children(thing: Abandonable) -> None:
    """Register an object for as long as it lives."""
    _open.add(thing)


def _after_fork() -> None:
    for thing in list(_open):
        thing.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""Protection of the parent's connections in a forked child, where its threads do not exist and its
locks stay locked.

Each object abandons its own connections. Entry point: `abandon_in_children`.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Abandonable(Protocol):
    """Object that may be copied into a forked child."""

    def abandon(self) -> None:
        """Detach this object in the child, before anything else runs there; the parent's object is
        unchanged.
        """
        ...


_open: weakref.WeakSet[Abandonable] = weakref.WeakSet()


def abandon_in_children(thing: Abandonable) -> None:
    """Register an object for its lifetime."""
    _open.add(thing)


def _after_fork() -> None:
    for thing in list(_open):
        thing.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""What a forked child must not touch: connections of its parent, whose threads are not there, and
whose locks are the parent's.

What each thing does about it is its own business. Entry: `abandon_in_children`.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Abandonable(Protocol):
    """Something of which a forked child has a copy."""

    def abandon(self) -> None:
        """In the child, before anything else runs there: it is closed, and the parent's stays as it
        is.
        """
        ...


_open: weakref.WeakSet[Abandonable] = weakref.WeakSet()


def abandon_in_children(thing: Abandonable) -> None:
    """As long as it lives."""
    _open.add(thing)


def _after_fork() -> None:
    for thing in list(_open):
        thing.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

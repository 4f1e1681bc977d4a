"""Rules for the settings of a workspace, which can only tighten the user's.

keys.py assigns the rules to keys. Entry points: `Rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias, cast

from treadle.config.hosts import HostList
from treadle.types import Mode

Rule: TypeAlias = Callable[[object, object, Collection[str]], str | None]
"""(value of the workspace, current value, providers known to the user) -> why it is ignored, or
None.
"""


CLOSED = {
    "never": "a workspace may not set it, only your own configuration",
    "when trusted": "a workspace that is not trusted may not set it",
}
UNKNOWN_YET = "this version does not support it"


def free(new: object, now: object, providers: Collection[str]) -> str | None:
    return None


def own_provider(new: object, now: object, providers: Collection[str]) -> str | None:
    """Accept only providers of the user's configuration. Stand-ins are rejected: the author of a
    script could make the model run any command.
    """
    known = str(new).partition(":")[0] in providers
    return (
        None if known else "a workspace may only name a provider that your own configuration knows"
    )


def lower(new: object, now: object, providers: Collection[str]) -> str | None:
    fits = isinstance(new, int | float) and (
        now is None or (isinstance(now, int | float) and new <= now)
    )
    return None if fits else f"a workspace may only lower it, and it is {now} already"


def narrower(new: object, now: object, providers: Collection[str]) -> str | None:
    if new == "none" or now == "open":
        return None
    wanted, allowed = (
        HostList.of(cast("tuple[str, ...]", each), {}) if isinstance(each, tuple) else None
        for each in (new, now)
    )
    fits = wanted is not None and allowed is not None and allowed.covers(wanted)
    return (
        None
        if fits
        else (
            "a workspace may only tighten it: to none, or to hosts that your own configuration "
            "lists"
        )
    )


TIGHT_TO_LOOSE: tuple[Mode, ...] = ("plan", "ask", "accept-edits", "full")


def tighter(new: object, now: object, providers: Collection[str]) -> str | None:
    order: tuple[object, ...] = TIGHT_TO_LOOSE
    return (
        None
        if order.index(new) <= order.index(now)
        else f"a workspace may only tighten it, and it is {now!r} already"
    )

"""Lookup of a session by its id, an id prefix, or `last`. Entry points: `find_session`,
`no_sessions`.
"""

from __future__ import annotations

from typing import NoReturn

from treadle.cli.exits import CommandFailed
from treadle.journal.sessions import SessionInfo, Sessions

LAST = "last"
PREFIX = "session_"


def find_session(store: Sessions, given: str) -> SessionInfo:
    """Return the session with this id or id prefix, or the `last` one.

    Raises CommandFailed for an unknown id, with the nearest ones.
    """
    if given != LAST and (found := store.get(given)) is not None:
        return found
    known = store.list()
    if not known:
        no_sessions(given)
    if given == LAST:
        return known[0]
    meant = [info for info in known if given and info.id.startswith((given, PREFIX + given))]
    if len(meant) == 1:
        return meant[0]
    if meant:
        shown = ", ".join(info.id for info in meant[:3]) + ("" if len(meant) <= 3 else ", …")
        raise CommandFailed(f"{given!r} matches {len(meant)} ids: {shown}. Write more of it")
    import difflib  # noqa: PLC0415  costs 5 ms of start-up; only needed for wrong ids

    near = difflib.get_close_matches(given, [info.id for info in known[:1000]], n=3)
    hint = (
        f"Did you mean {' or '.join(near)}?" if near else "List them with `treadle sessions list`"
    )
    raise CommandFailed(f"there is no session {given!r} here. {hint}")


def no_sessions(given: str) -> NoReturn:
    """Report that there are no sessions. Raises CommandFailed."""
    none = "there are no sessions yet"
    raise CommandFailed(none if given == LAST else f"there is no session {given!r}: {none}")

"""Commands on conversations: open, rename, compact and clear them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle._internal.terminal_text import one_line
from treadle.errors import AgentError
from treadle.journal.sessions import SessionInfo, Sessions
from treadle.tui.confirm import confirm

if TYPE_CHECKING:
    from treadle.tui.desk import Desk

LAST: Final = "last"
PREFIX: Final = "session_"
NOTHING_SAID: Final = "this conversation is empty"


async def pick(desk: Desk, rest: str) -> None:
    from treadle.tui.pickers.sessions import pick_session  # noqa: PLC0415  only for the picker

    session_id = await pick_session(desk)
    if session_id is not None and (session_id != desk.conversation.session_id or rest):
        await desk.open(session_id)


async def resume(desk: Desk, rest: str) -> None:
    """Open the session with the given id. Without an id, offer to resume the last run if it is
    unfinished, else open the picker.
    """
    if rest:
        await desk.open(
            find_session(
                desk.conversation.runtime.sessions, rest, besides=desk.conversation.session_id
            ).id
        )
    elif await desk.conversation.unfinished() is not None:
        await desk.open(desk.conversation.session_id)
    else:
        await pick(desk, rest)


def find_session(store: Sessions, given: str, *, besides: str | None = None) -> SessionInfo:
    """Return the session with this id or id prefix, or the `last` one, ignoring `besides`.

    Raises AgentError(invalid) with the nearest ids.
    """
    if given != LAST and (found := store.get(given)) is not None:
        return found
    known = store.list()
    if given == LAST:
        for info in known:
            if info.id != besides:
                return info
        raise AgentError("invalid", "there is no other conversation yet")
    meant = [info for info in known if info.id.startswith((given, PREFIX + given))]
    if len(meant) == 1:
        return meant[0]
    if meant:
        shown = ", ".join(one_line(info.id) for info in meant[:3]) + (
            "" if len(meant) <= 3 else ", …"
        )
        raise AgentError(
            "invalid", f"{given!r} matches {len(meant)} ids: {shown}. Write more of it"
        )
    import difflib  # noqa: PLC0415  costs 5 ms of start-up; only needed for wrong ids

    near = difflib.get_close_matches(given[:200], [info.id for info in known[:1000]], n=3)
    raise AgentError(
        "invalid",
        f"there is no conversation {given[:80]!r} here. "
        + (f"Did you mean {' or '.join(near)}?" if near else "/sessions shows them"),
    )


async def begin(desk: Desk, rest: str) -> None:
    await desk.open(None)
    desk.tell("Started a new conversation. The previous one is in /sessions.")


async def rename(desk: Desk, rest: str) -> None:
    title = " ".join(one_line(rest, 200).split())
    if not title:
        raise AgentError("invalid", "give a title: /rename TITLE")
    if (
        session_id := desk.conversation.session_id
    ) is None or not desk.conversation.runtime.sessions.update_title(session_id, title):
        raise AgentError(
            "invalid", f"{NOTHING_SAID}: a conversation can be renamed once it has begun"
        )
    desk.status.session = title
    desk.screen.refresh()
    desk.tell(f"Renamed this conversation to “{title}”.")


async def compact(desk: Desk, rest: str) -> None:
    if (session_id := desk.conversation.session_id) is None:
        raise AgentError("invalid", f"{NOTHING_SAID}: there is nothing to compact")
    if desk.conversation.runtime.compact(session_id):
        desk.tell(
            "The context is compacted before the next request: old results are removed, then older "
            "messages are summarised. All of it stays stored."
        )
    else:
        desk.tell(
            "The context is compacted with your next message: old results are removed, then older "
            "messages are summarised. All of it stays stored."
        )


async def clear(desk: Desk, rest: str) -> None:
    conversation = desk.conversation
    if (session_id := conversation.session_id) is None:
        desk.screen.redraw()
        return
    question = "Clear this conversation? The model will not see any of it. Files are not changed."
    if not await confirm(desk.screen, question, yes="Clear it", no="Keep it", danger=True):
        return
    await conversation.runtime.clear(session_id)
    desk.screen.redraw()
    await desk.open(session_id)
    desk.tell("Cleared. The runs stay in the journal: `treadle runs list` shows them.")


async def leave(desk: Desk, rest: str) -> None:
    desk.leave()

"""Conversations of many runs: the contract of a store.

runtime.py decides which run uses a session, and when; window.py limits the view of a long one.
Entry point: `Sessions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from treadle.errors import AgentError
from treadle.journal.receipts import Said, Summary
from treadle.messages.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session as a list shows it."""

    id: str
    title: str
    created_at: datetime
    updated_at: datetime
    message_count: int


class ViewMark(NamedTuple):
    """Mark of a session's view. Equal marks mean equal views.

    A session that does not exist has `NO_MARK`.
    """

    changed: int
    removed: int = 0


NO_MARK: Final = ViewMark(0)


class SessionView(NamedTuple):
    """Messages in view of a session's next run, and the mark that identifies them."""

    messages: Sequence[Message]
    """Oldest first."""
    mark: ViewMark
    late: Mapping[str, int]
    """Run id -> sequence number of the last late result in view, for runs with any after their
    end.
    """


class SessionChanged(AgentError):
    """Raised if the session has changed since the caller read it. Nothing was written; read it
    again and retry.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(
            "busy",
            (
                f"session {session_id!r} has changed since it was read: nothing was started; read it "
                "again"
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """Message found by a search."""

    session_id: str
    title: str
    role: str
    at: datetime
    excerpt: str
    """Line around the first match."""


class Sessions(Protocol):
    """Store of conversations.

    Every method may be called from any thread, and is fast enough to be called in a front end's
    event loop.
    """

    def create(self, title: str = "", *, session_id: str | None = None) -> SessionInfo:
        """Create a session and make it the current one.

        Raises AgentError(invalid) if the id is taken or not valid.
        """
        ...

    def get(self, session_id: str) -> SessionInfo | None: ...

    def current(self) -> SessionInfo:
        """Return the current session of this process, creating it on first use."""
        ...

    def set_current(self, session_id: str) -> bool:
        """Set the current session; False if there is no such session."""
        ...

    def list(self) -> list[SessionInfo]:
        """Return all sessions, most recently changed first."""
        ...

    def delete(self, session_id: str) -> bool:
        """Delete the session with all its messages; False if there is none.

        Raises AgentError(busy) while a run of it is not finished.
        """
        ...

    def add_message(self, session_id: str, message: Message) -> bool: ...

    def add_messages(self, session_id: str, messages: Iterable[Message]) -> bool:
        """Append all messages in order, or none; False if there is no such session.

        The user's first message names an unnamed session.
        """
        ...

    def get_messages(self, session_id: str, *, before: str | None = None) -> Sequence[Message]:
        """Return a copy of the messages in view, oldest first; empty if there is no such session.

        `before`: those in view when that run of the session began.
        """
        ...

    def everything(self, session_id: str) -> Sequence[Message]:
        """Return all messages since the session was last cleared, oldest first, including those out
        of view; a summary follows the messages that it replaces.
        """
        ...

    def clear_messages(self, session_id: str) -> bool:
        """Remove all messages from view; False if there is no such session.

        A store shared by processes raises AgentError(busy) while one of them drives a run of
        the session.
        """
        ...

    def update_title(self, session_id: str, title: str) -> bool: ...

    def remember(self, session_id: str, said: Sequence[Said], *, run_id: str) -> None:
        """Add the messages of an ended run to the view, unless the session was cleared or recreated
        since the run began. Stores that read the journal do nothing.
        """
        ...

    def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        """Return messages of users and models that contain all the words, including those out of
        view; newest first.
        """
        ...


def spoken(said: Iterable[Said]) -> list[Message]:
    """Return the messages, with each summary at the position where it was made."""
    return [
        one if isinstance(one, Message) else one.message
        for one in said
        if isinstance(one, Message | Summary)
    ]

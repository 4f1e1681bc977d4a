"""The session messages that a new run continues from, read again if the session changes before the
run begins.

Entry points: `SessionPast`, `begun`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from treadle.journal.run_state import RunState
from treadle.journal.sessions import SessionChanged, SessionView, ViewMark
from treadle.journal.window import MAX_SESSION_MESSAGES, WindowReceipt, window

T = TypeVar("T")


class SessionPast:
    """View of a session, for the plan of one new run."""

    def __init__(
        self,
        read: Callable[[], Awaitable[SessionView]],
        view: SessionView,
        limit: int = MAX_SESSION_MESSAGES,
    ) -> None:
        """Create a view of the session's past. `read` returns the current view of the session;
        `view` is its last result. `limit`: how many of its messages the run sees at most.
        """
        self._read, self._limit = read, limit
        self.state = RunState()
        """State of the run before its first entry."""
        self.window: WindowReceipt | None = None
        """Receipt of the messages that leave the view; None if all remain."""
        self.view = view
        self._stand()

    async def read_again(self) -> None:
        """Replace the view with the current one. Call it only before the run's first entry.

        Raises AgentError.
        """
        self.view = await self._read()
        self._stand()

    def _stand(self) -> None:
        messages = self.view.messages
        self.window = window(messages, self._limit)
        self.state.stand_on(messages if self.window is None else self.window.of(messages))


async def begun(past: SessionPast | None, begin: Callable[[ViewMark | None], Awaitable[T]]) -> T:
    """Call `begin` with the mark of the planned view; if the session has changed, read it and
    retry.

    Raises the errors of `begin` except SessionChanged. The loop terminates because each retry means
    that another writer made progress.
    """
    if past is None:
        return await begin(None)
    while True:
        try:
            return await begin(past.view.mark)
        except SessionChanged:
            await past.read_again()

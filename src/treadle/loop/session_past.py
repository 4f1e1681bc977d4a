"""Messages of a session on which a new run is based, read again if the session changes before the
run begins.

Entry points: `SessionPast`, `begun`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from treadle.journal.run_state import RunState
from treadle.journal.sessions import SessionChanged, SessionView, ViewMark
from treadle.journal.window import WindowReceipt, window

T = TypeVar("T")


class SessionPast:
    """View of one session, for planning one new run."""

    def __init__(self, read: Callable[[], Awaitable[SessionView]], view: SessionView) -> None:
        """`read` returns the current view of the session; `view` is its last result."""
        self._read = read
        self.state = RunState()
        """State of the run before its first entry."""
        self.window: WindowReceipt | None = None
        """Receipt for messages that left the view; None if all remain."""
        self.view = view
        self._stand()

    async def read_again(self) -> None:
        """Plan on the current view. Only before the run's first entry. Raises AgentError."""
        self.view = await self._read()
        self._stand()

    def _stand(self) -> None:
        messages = self.view.messages
        self.window = window(messages)
        self.state.stand_on(messages if self.window is None else self.window.of(messages))


async def begun(past: SessionPast | None, begin: Callable[[ViewMark | None], Awaitable[T]]) -> T:
    """Call `begin` with the mark of the view that the run is planned on, again after each re-read
    of a changed session.

    Raises the errors of `begin`, except SessionChanged. Each retry means that another writer
    changed the session.
    """
    if past is None:
        return await begin(None)
    while True:
        try:
            return await begin(past.view.mark)
        except SessionChanged:
            await past.read_again()

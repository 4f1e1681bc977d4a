"""Messages of a session that a new run goes on from, and reading them again where the session
changed before the run began.

Entry: `SessionPast`, `begun`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from treadle.journal.run_state import RunState
from treadle.journal.sessions import SessionChanged, SessionView, ViewMark
from treadle.journal.window import WindowReceipt, window

T = TypeVar("T")


class SessionPast:
    """View of one session, as one new run is planned on it."""

    def __init__(self, read: Callable[[], Awaitable[SessionView]], view: SessionView) -> None:
        """`read`: reads the session's view as it is now; `view`: what it gave."""
        self._read = read
        self.state = RunState()
        """State of the run before its first entry."""
        self.window: WindowReceipt | None = None
        """Receipt for what left the view; None: all of it stays."""
        self.view = view
        self._stand()

    async def read_again(self) -> None:
        """Plan on the view as it is now. Only before the run's first entry. Raises AgentError."""
        self.view = await self._read()
        self._stand()

    def _stand(self) -> None:
        messages = self.view.messages
        self.window = window(messages)
        self.state.stand_on(messages if self.window is None else self.window.of(messages))


async def begun(past: SessionPast | None, begin: Callable[[ViewMark | None], Awaitable[T]]) -> T:
    """Call `begin` with the mark of the view that the run is planned on; read the view again each
    time the session has changed since.

    Raises what `begin` raises, SessionChanged excepted. Each further attempt means that another
    writer changed the session.
    """
    if past is None:
        return await begin(None)
    while True:
        try:
            return await begin(past.view.mark)
        except SessionChanged:
            await past.read_again()

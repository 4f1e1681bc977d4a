"""Operations on a session by its id: on its run in progress, and on its messages.

Entry point: `SessionControl`, a base class of `Runtime`.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.errors import AgentError
from treadle.journal.journal import Journal
from treadle.journal.sessions import Sessions
from treadle.loop.loop import Run
from treadle.messages.message import Message
from treadle.runtime.assembly import Assembly
from treadle.runtime.options import checked_mode
from treadle.runtime.runs import StartedRuns
from treadle.runtime.stream_reading import check_steering
from treadle.types import Mode


class SessionControl(StartedRuns):
    """Methods of a runtime that take the id of a session."""

    journal: Journal
    _assembly: Assembly

    @property
    def sessions(self) -> Sessions:
        """Stored conversations."""
        return self.journal.sessions

    def steer(self, session_id: str, text: str) -> None:
        """Send text to the session's run in progress. Raises AgentError(invalid) if there is none,
        or if the text is empty.
        """
        check_steering(text)
        if not self._runs.busy.tell(session_id, lambda run: run.inbox.add(text)):
            raise AgentError(
                "invalid", f"no run is active in session {session_id!r}: send the text instead"
            )

    def cancel(self, session_id: str | None = None, *, run_id: str | None = None) -> bool:
        """End the session's active run, or the run with that id, as `cancelled`; callers that await
        it receive its result. False if this runtime drives no such run.

        Call it with `run_id` in the event loop of the run; `kill` ends a run in any process. Raises
        AgentError(invalid) without exactly one of the two.
        """
        if (session_id is None) is (run_id is None):
            raise AgentError("invalid", "cancel takes a session's id, or run_id=: pass one of them")
        return (
            self._runs.cancel(run_id)
            if session_id is None
            else self._runs.busy.tell(session_id, Run.cancel)
        )

    def compact(self, session_id: str) -> bool:
        """Compact a conversation, even if it still fits the context window: old results are
        removed, then a model summarizes older messages.

        Happens before the next request of the run in progress; without one (returns False), when
        the session's next run starts in this runtime. Removed content stays stored and searchable.
        Raises AgentError(invalid) for an unknown session.
        """
        if self.sessions.get(session_id) is None:
            raise AgentError("invalid", f"there is no session {session_id!r}")
        return self._runs.busy.compact(session_id)

    def allow(self, session_id: str, pattern: Sequence[str]) -> None:
        """Grant an `ApprovalRequest.pattern` for all runs of this session in this runtime,
        including the active one.

        Raises AgentError(invalid) for a rule that is never offered.
        """
        self._assembly.toolboxes.grants.allow(session_id, pattern)

    def use_mode(self, session_id: str, mode: Mode) -> None:
        """Set the mode of the session's active run, and of runs that it starts, from its next call
        on. Without an active run, nothing changes.

        Raises AgentError(invalid) for an unknown mode.
        """
        self._assembly.toolboxes.grants.use_mode(session_id, checked_mode(mode))

    def is_busy(self, session_id: str) -> bool:
        """Return True if a run of this session is in progress in this runtime."""
        return self._runs.busy.is_busy(session_id)

    async def messages(self, session_id: str) -> list[Message]:
        """Return the conversation of a session, oldest message first."""
        return list((await self.journal.view(session_id)).messages)

    async def clear(self, session_id: str) -> None:
        """Remove the session's messages from view. Raises AgentError(busy) while a run is
        active.
        """
        self._runs.busy.while_idle(session_id, self.sessions.clear_messages)
        self._assembly.toolboxes.forget(session_id)

"""Runs that this process drives. They belong to the service and continue if a subscriber leaves.

See also: the work of a run (chat.py, runs.py), subscribers (fan_out.py). Entry point: `LiveRuns`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeAlias

import anyio
from anyio.abc import TaskGroup

from treadle.errors import AgentError, ErrorKind
from treadle.messages.events import ErrorRaised, Event, OutputReady, RunEnd, ToolCallEnd, TurnEnd
from treadle.service.database.scope import Scope
from treadle.service.fan_out import Channels, EncodedEvent, Position
from treadle.service.problems import TROUBLE
from treadle.service.sse import frame_of, said
from treadle.tools.approval import ApprovalRequest, Approve, Deny, Unanswered

logger = logging.getLogger("treadle.service")

LET_GO_S: Final = 2.0
LEAVING_S: Final = 1.0
"""Seconds for released runs to stop."""
Decision: TypeAlias = Approve | Deny
ENDS: Final = (TurnEnd, ToolCallEnd, OutputReady, ErrorRaised, RunEnd)
"""Events that, without an id, mark the end of driving in this process and not of the run."""


class Approvals:
    """A user's decisions on the pending calls of one run. A call without a decision releases the
    run, which then waits in the journal and can be approved from any process.
    """

    def __init__(self) -> None:
        self._answers: dict[str, Decision] = {}
        self._left: dict[str, Decision] = {}
        """Decisions that the run has not requested yet."""

    async def ask(self, request: ApprovalRequest) -> Decision:
        """Return the decision on a call, as the run's approver. Raises Unanswered if there is
        none.
        """
        self._left.pop(request.call_id, None)
        if (found := self._answers.get(request.call_id)) is None:
            raise Unanswered
        return found

    def answer(self, call_id: str, decision: Decision, *, told: bool = False) -> bool:
        """Record a decision. Return False if there is one already. `told`: True if the run has
        received it.
        """
        if call_id in self._answers:
            return False
        self._answers[call_id] = decision
        if not told:
            self._left[call_id] = decision
        return True

    def left(self) -> dict[str, Decision]:
        """Return decisions that arrived after the run had stopped asking."""
        return dict(self._left)


@dataclass(frozen=True, slots=True)
class StoredReply:
    """Stored reply to a person's message."""

    response: str
    conversation_id: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    late: bool = False
    """True if the run timed out; its earlier effects remain."""

    @property
    def shown(self) -> dict[str, Any]:
        return {
            "response": self.response,
            "conversation_id": self.conversation_id,
            "tool_calls": self.tool_calls,
        }


class LiveRun:
    """Run that this process drives."""

    def __init__(self, run_id: str, scope: Scope, channels: Channels) -> None:
        self.run_id, self.scope = run_id, scope
        self.approvals = Approvals()
        self.begun = anyio.Event()
        """Set once the run is in the journal or has ended."""
        self.over = anyio.Event()
        self.error: Exception | None = None
        """Error that stopped the driving of a run that has not ended."""
        self.reply: StoredReply | None = None
        """Reply to a message, once the run has ended."""
        self.goes_on = False
        """True if the run was released before its end, because it waits for its user or another
        process drives it.
        """
        self.told: Position | None = None
        """Final frame for subscribers."""
        self._ends: list[Event] = []
        self._channels = channels

    def tell(self, event: Event) -> None:
        """Publish an event to subscribers. An end without an id is held back, because it may not be
        the run's end.
        """
        if isinstance(event, ENDS) and not isinstance(event.id, str):
            self._ends.append(event)
            return
        self._tell(event)

    @property
    def is_kept_back(self) -> bool:
        """True if `tell` holds back an end of the run."""
        return bool(self._ends)

    def tell_ends(self) -> None:
        """Publish the ends that were held back: the run has ended, although the journal does not
        show it.
        """
        for event in self._ends:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        frame = frame_of(event, self.run_id)
        if event.run_id == self.run_id and frame.position is not None:
            self.told = frame.position
        self._channels.tell(self.run_id, frame)

    def tell_frame(self, frame: EncodedEvent) -> None:
        self._channels.tell(self.run_id, frame)


Work: TypeAlias = Callable[[LiveRun], Awaitable[None]]


class LiveRuns:
    """Driver of runs, each in its own task. Usable from any task of one event loop while
    `opened`.
    """

    def __init__(
        self, stopping: anyio.Event, *, grace_s: float, let_go: Callable[[], object]
    ) -> None:
        """Create the set of live runs. `stopping`: set when the service shuts down.

        `let_go` releases runs that are still in progress after `grace_s`; the next start resumes
        them.
        """
        self.channels = Channels()
        self._stopping, self._grace_s, self._let_go = stopping, grace_s, let_go
        self._group: TaskGroup | None = None
        self._runs: dict[str, LiveRun] = {}
        self.on_start: Callable[[str], None] = _nothing
        """Called before a run is driven here."""
        self.on_let_go: Callable[[LiveRun], None] = _nothing
        """Called when an unfinished run is no longer driven here."""
        self._idle = anyio.Event()
        self._drained = anyio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Open the driver. On exit, runs get `grace_s` seconds to finish, pending approvals stay
        pending, and the remaining runs are released.
        """
        async with anyio.create_task_group() as self._group:
            self._group.start_soon(self.channels.beat)
            self._group.start_soon(self._drain)
            try:
                yield
            finally:
                self._stopping.set()
                with anyio.CancelScope(shield=True):
                    await self.drained()
                self._group.cancel_scope.cancel()

    async def drained(self) -> None:
        """Wait until `stopping` is set and all runs are finished or released."""
        await self._drained.wait()

    async def _drain(self) -> None:
        """Close streams and drain runs once the service shuts down."""
        try:
            await self._stopping.wait()
            self.channels.close(but=self._runs)
            with anyio.move_on_after(self._grace_s):
                await self._rest()
            self._let_go()
            with anyio.move_on_after(LEAVING_S):
                await self._rest()
        finally:
            self.channels.close()
            self._drained.set()

    async def _rest(self) -> None:
        while self._runs:
            if self._idle.is_set():
                self._idle = anyio.Event()
            await self._idle.wait()

    # ------------------------------------------------------------ runs

    def get(self, run_id: str) -> LiveRun | None:
        return self._runs.get(run_id)

    def __len__(self) -> int:
        return len(self._runs)

    def start(self, run_id: str, scope: Scope, work: Work) -> LiveRun:
        """Await `work` in a task of the service. Its exception is kept in `error`."""
        assert self._group is not None, "runs are started while the service is open"
        self.on_start(run_id)
        run = self._runs[run_id] = LiveRun(run_id, scope, self.channels)
        self._group.start_soon(self._driven, run, work)
        return run

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a small background job."""
        assert self._group is not None, "work is started while the service is open"
        self._group.start_soon(_logged, work)

    async def _driven(self, run: LiveRun, work: Work) -> None:
        try:
            await work(run)
        except Exception as e:  # task boundary
            run.error = e
            if isinstance(e, AgentError) and e.kind is ErrorKind.BUSY:
                run.goes_on = True
                logger.info("run %s is driven elsewhere: %s", run.run_id, e.message)
            else:
                logger.warning("run %s could not be completed", run.run_id, exc_info=e)
        finally:
            del self._runs[run.run_id]
            self._tell_end(run)
            run.begun.set()
            run.over.set()
            self._idle.set()

    def _tell_end(self, run: LiveRun) -> None:
        if run.goes_on and not self._stopping.is_set():
            self.on_let_go(run)
            return
        if run.error is not None:
            run.tell_frame(said("error", {"kind": "unavailable", "message": TROUBLE}))
        self.channels.end(run.run_id)

    # ------------------------------------------------------------ notices

    def notify(self, scope: Scope, name: str) -> None:
        """Send the notice of this name to the person's open streams for it."""
        if self.channels.is_read(key := notices_of(scope, name)):
            self.channels.tell(key, notice(name))


@cache
def notice(name: str) -> EncodedEvent:
    """Return an event without data that makes clients reload its subject."""
    return replace(said(name, {}), lossy=True)


def notices_of(scope: Scope, name: str) -> str:
    """Return the channel's key."""
    return f"{name} of {scope.user_id}"


def _nothing(what: object, /) -> None: ...


async def _logged(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:  # task boundary
        logger.exception("a background job failed")

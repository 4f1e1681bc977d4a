"""The runs that are under way here. Whoever follows one may leave: it is the service's, and goes
on.

Not here: what a run does (chat.py, runs.py), who is told of it (fan_out.py). Entry: `LiveRuns`.
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
"""How long runs that were let go may take to stop."""
Decision: TypeAlias = Approve | Deny
ENDS: Final = (TurnEnd, ToolCallEnd, OutputReady, ErrorRaised, RunEnd)
"""Without an id they are the end of driving here, and not of the run."""


class Approvals:
    """A person's answers to the calls of one run that wait for them. Where there is none yet the
    run is let go, and waits in the journal: it may be answered anywhere.
    """

    def __init__(self) -> None:
        self._answers: dict[str, Decision] = {}
        self._left: dict[str, Decision] = {}
        """Those that nobody has asked for."""

    async def ask(self, request: ApprovalRequest) -> Decision:
        """The run's approver. Raises Unanswered."""
        self._left.pop(request.call_id, None)
        if (found := self._answers.get(request.call_id)) is None:
            raise Unanswered
        return found

    def answer(self, call_id: str, decision: Decision, *, told: bool = False) -> bool:
        """False where there is an answer already. `told`: the run knows it."""
        if call_id in self._answers:
            return False
        self._answers[call_id] = decision
        if not told:
            self._left[call_id] = decision
        return True

    def left(self) -> dict[str, Decision]:
        """What came when the run had stopped asking."""
        return dict(self._left)


@dataclass(frozen=True, slots=True)
class StoredReply:
    """What a message of a person got, stored."""

    response: str
    conversation_id: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    late: bool = False
    """The run was out of time; what it did before that stays."""

    @property
    def shown(self) -> dict[str, Any]:
        return {
            "response": self.response,
            "conversation_id": self.conversation_id,
            "tool_calls": self.tool_calls,
        }


class LiveRun:
    """One that is driven here."""

    def __init__(self, run_id: str, scope: Scope, channels: Channels) -> None:
        self.run_id, self.scope = run_id, scope
        self.approvals = Approvals()
        self.begun = anyio.Event()
        """Set once it is in the journal, or over."""
        self.over = anyio.Event()
        self.error: Exception | None = None
        """What it ended with, where that is not an end of a run."""
        self.reply: StoredReply | None = None
        """Of a message, once it is over."""
        self.goes_on = False
        """It is let go before its end: it waits for a person, or another process drives it."""
        self.told: Position | None = None
        """What whoever follows it was told last."""
        self._ends: list[Event] = []
        self._channels = channels

    def tell(self, event: Event) -> None:
        """Whoever follows it. An end that is in no journal is kept back: it may be none."""
        if isinstance(event, ENDS) and not isinstance(event.id, str):
            self._ends.append(event)
            return
        self._tell(event)

    @property
    def is_kept_back(self) -> bool:
        """Whether an end is."""
        return bool(self._ends)

    def tell_ends(self) -> None:
        """It is over, though no journal has it."""
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
    """Drives runs in tasks of its own. Usable from any task of one event loop, inside `opened`."""

    def __init__(
        self, stopping: anyio.Event, *, grace_s: float, let_go: Callable[[], None]
    ) -> None:
        """`stopping`: set when the service is about to end.

        `let_go`: leaves what runs after `grace_s` to the next start.
        """
        self.channels = Channels()
        self._stopping, self._grace_s, self._let_go = stopping, grace_s, let_go
        self._group: TaskGroup | None = None
        self._runs: dict[str, LiveRun] = {}
        self.on_start: Callable[[str], None] = _nothing
        """Told before a run is driven here."""
        self.on_let_go: Callable[[LiveRun], None] = _nothing
        """Told when a run that goes on is not driven here any more."""
        self._idle = anyio.Event()
        self._drained = anyio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """At its end runs get a while to end by themselves, and what waits for a person is left
        waiting; what is left then is let go.
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
        """Once `stopping` is set: until what was under way is over, or let go."""
        await self._drained.wait()

    async def _drain(self) -> None:
        """Once the service is about to end."""
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
        """`work` is awaited in a task of the service; what it raises is kept in `error`."""
        assert self._group is not None, "runs are started while the service is open"
        self.on_start(run_id)
        run = self._runs[run_id] = LiveRun(run_id, scope, self.channels)
        self._group.start_soon(self._driven, run, work)
        return run

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Something small that nobody waits for."""
        assert self._group is not None, "work is started while the service is open"
        self._group.start_soon(_logged, work)

    async def _driven(self, run: LiveRun, work: Work) -> None:
        try:
            await work(run)
        except Exception as e:  # the edge of a task
            run.error = e
            if isinstance(e, AgentError) and e.kind is ErrorKind.BUSY:
                run.goes_on = True
                logger.info("run %s is driven elsewhere: %s", run.run_id, e.message)
            else:
                logger.warning("run %s could not be driven to its end", run.run_id, exc_info=e)
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
        """Send the notice of this name to each of the person's streams that is open for it."""
        if self.channels.is_read(key := notices_of(scope, name)):
            self.channels.tell(key, notice(name))


@cache
def notice(name: str) -> EncodedEvent:
    """An event without data: what it is about is to be read anew."""
    return replace(said(name, {}), lossy=True)


def notices_of(scope: Scope, name: str) -> str:
    """The key of the channel."""
    return f"{name} of {scope.user_id}"


def _nothing(what: object, /) -> None: ...


async def _logged(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:  # the edge of a task
        logger.exception("work in the background failed")

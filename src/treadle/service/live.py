"""The runs that are under way here. Whoever follows one may leave: it is the service's, and goes on.

Not here: what a run does (chat.py, runs.py), who is told of it (fan_out.py). Entry: `LiveRuns`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import anyio
from anyio.abc import TaskGroup

from treadle.asking import ApprovalRequest, Approve, Deny
from treadle.database.scope import Scope
from treadle.events import Event
from treadle.service.fan_out import Channels, Frame, Reader
from treadle.service.problems import TROUBLE
from treadle.service.sse import frame_of, said

logger = logging.getLogger("treadle.service")

LET_GO_S: Final = 2.0
LEAVING_S: Final = 1.0
"""How long runs that were let go may take to stop."""
Decision: TypeAlias = Approve | Deny


class Approvals:
    """A person's answers to the calls of one run that wait for them, whichever comes first, the question or the answer."""

    def __init__(self) -> None:
        self._answers: dict[str, Decision] = {}
        self._asked: dict[str, anyio.Event] = {}
        self._closed = False

    async def ask(self, request: ApprovalRequest) -> Decision:
        """The run's approver: waits for an answer. Raises RuntimeError when the service closes; the call then stays open."""
        news = self._asked.setdefault(request.call_id, anyio.Event())
        if not self._closed:
            await news.wait()
        if (found := self._answers.get(request.call_id)) is None:
            raise RuntimeError("the service is closing; the call goes on waiting")
        return found

    def answer(self, call_id: str, decision: Decision) -> bool:
        """False where there is an answer already."""
        if call_id in self._answers:
            return False
        self._answers[call_id] = decision
        self._asked.setdefault(call_id, anyio.Event()).set()
        return True

    def close(self) -> None:
        self._closed = True
        for news in self._asked.values():
            news.set()


@dataclass(frozen=True, slots=True)
class Reply:
    """What a message of a person got, stored."""

    response: str
    conversation_id: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    late: bool = False
    """The run was out of time; what it did before that stays."""

    @property
    def shown(self) -> dict[str, Any]:
        return {"response": self.response, "conversation_id": self.conversation_id, "tool_calls": self.tool_calls}


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
        self.reply: Reply | None = None
        """Of a message, once it is over."""
        self._channels = channels

    def tell(self, event: Event) -> None:
        """Whoever follows it."""
        if self._channels.is_read(self.run_id):
            self._channels.tell(self.run_id, frame_of(event, self.run_id))

    def tell_frame(self, frame: Frame) -> None:
        self._channels.tell(self.run_id, frame)


Work: TypeAlias = Callable[[LiveRun], Awaitable[None]]


class LiveRuns:
    """Drives runs in tasks of its own. Usable from any task of one event loop, inside `opened`."""

    def __init__(self, stopping: anyio.Event, *, grace_s: float, let_go: Callable[[], None]) -> None:
        """`stopping`: set when the service is about to end. `let_go`: leaves what runs after `grace_s` to the next start."""
        self.channels = Channels()
        self._stopping, self._grace_s, self._let_go = stopping, grace_s, let_go
        self._group: TaskGroup | None = None
        self._runs: dict[str, LiveRun] = {}
        self._idle = anyio.Event()
        self._drained = anyio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """At its end runs get a while to end by themselves, and what waits for a person is left waiting; what is left then is let go."""
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
            for run in self._runs.values():
                run.approvals.close()
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
        run = self._runs[run_id] = LiveRun(run_id, scope, self.channels)
        if self._stopping.is_set():
            run.approvals.close()
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
            logger.warning("run %s could not be driven to its end", run.run_id, exc_info=e)
        finally:
            del self._runs[run.run_id]
            if run.error is not None:
                run.tell_frame(said("error", {"kind": "unavailable", "message": TROUBLE}))
            self.channels.end(run.run_id)
            run.begun.set()
            run.over.set()
            self._idle.set()

    # ------------------------------------------------------------ tasks

    def open_tasks(self, scope: Scope) -> Reader:
        """Told each time this person's tasks have changed, by whomever."""
        return self.channels.open(tasks_of(scope))

    def leave_tasks(self, scope: Scope, reader: Reader) -> None:
        self.channels.leave(tasks_of(scope), reader)

    def tasks_changed(self, scope: Scope) -> None:
        if self.channels.is_read(key := tasks_of(scope)):
            self.channels.tell(key, TASKS_CHANGED)


TASKS_CHANGED: Final = replace(said("tasks", {}), lossy=True)


def tasks_of(scope: Scope) -> str:
    return f"tasks of {scope.user_id}"


async def _logged(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:  # the edge of a task
        logger.exception("work in the background failed")

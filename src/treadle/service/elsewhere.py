"""Runs that this process reads and others drive: another replica, a worker, or none yet. Each has
one follower, shared by all its readers.

A reader reads the journal up to a position before it watches, and skips events up to there. It thus
receives each event once, however often followers and drivers of this process alternate. A follower
begins after the position of its first reader; a reader that is further behind reads the journal
again (`Reader.begins`).

See also: following itself (following.py of the library), readers (fan_out.py). Entry point:
`RemoteRuns`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import anyio
import msgspec
from anyio import lowlevel
from anyio.abc import TaskGroup
from sqlmodel import Session

from treadle.errors import AgentError, ErrorKind
from treadle.messages.events import ChildStart, Event, ToolCallEnd
from treadle.runtime.runtime import Runtime
from treadle.service.application import EventView
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.database import Database
from treadle.service.database.scope import Scope
from treadle.service.database.tables import ServedRun
from treadle.service.fan_out import EncodedEvent, Position
from treadle.service.live import LiveRun, LiveRuns, StoredReply
from treadle.service.sse import frame_of, position_of, said

logger = logging.getLogger("treadle.service")

AGAIN_S: Final = 0.5
"""Seconds until the journal or the database is queried again."""
DEPTH_MOST: Final = 4
"""Maximum depth of child runs."""
AT_ONCE: Final = 32
"""Number of frames published before their readers are scheduled."""


class RemoteRuns:
    """Followers of one open service."""

    def __init__(
        self,
        live: LiveRuns,
        database: Database,
        runtime: Runtime,
        view_of: Callable[[Scope, ServedRun], EventView | None],
    ) -> None:
        """Create a view of runs in other processes. `view_of` returns the event filter of a chat
        run, or None for other runs, whose events are all visible.
        """
        self.live, self.database, self.runtime, self.view_of = live, database, runtime, view_of
        self._watched: dict[str, _Watch] = {}
        live.on_start = self.stop
        live.on_let_go = self._let_go

    def watch(self, scope: Scope, run: ServedRun, after: Position | None) -> None:
        """Publish events after `after` to the run's readers until no reader is left or the run is
        driven here. No effect if it is already watched or driven here.
        """
        if run.run_id in self._watched or self.live.get(run.run_id) is not None:
            return
        watch = self._watched[run.run_id] = _Watch(self, scope, run, after)
        if after is not None:
            self.live.channels.begin(run.run_id, after)
        self.live.spawn(partial(self._told, watch))

    def stop(self, run_id: str) -> None:
        """Stop following the run from now on. Idempotent."""
        if (watch := self._watched.pop(run_id, None)) is not None:
            watch.stop()

    def left(self, run_id: str) -> None:
        """Handle the departure of a reader: stop following a run without readers."""
        if not self.live.channels.is_read(run_id):
            self.stop(run_id)

    def __len__(self) -> int:
        return len(self._watched)

    async def _told(self, watch: _Watch) -> None:
        try:
            await watch.tell_all()
        finally:
            if self._watched.get(watch.run_id) is watch:
                del self._watched[watch.run_id]

    def _let_go(self, live: LiveRun) -> None:
        if self.live.channels.is_read(live.run_id):
            self.live.spawn(partial(self._again, live))

    async def _again(self, live: LiveRun) -> None:
        run = await self.database.read(live.scope, partial(_row, live.scope, live.run_id))
        if run is not None and self.live.channels.is_read(live.run_id):
            self.watch(live.scope, run, live.told)
        elif run is None:
            self.live.channels.end(live.run_id)


class _Watch:
    """Follower of one run."""

    def __init__(
        self, remote: RemoteRuns, scope: Scope, run: ServedRun, after: Position | None
    ) -> None:
        self.run_id = run.run_id
        self._remote, self._scope, self._run, self._after = remote, scope, run, after
        self._cancel = anyio.CancelScope()
        self._is_over = False
        self._told = 0
        self._children: dict[str, anyio.Event] = {}
        """Child runs by id. The event is set once all events of the child are published."""

    def stop(self) -> None:
        self._is_over = True
        self._cancel.cancel()

    async def tell_all(self) -> None:
        """Follow the run to its end, retrying on journal errors."""
        with self._cancel:
            while not await self._tried():  # noqa: ASYNC110  the journal is what must answer again
                await anyio.sleep(AGAIN_S)
            if self._run.conversation_id is not None:
                await self._tell_reply()
            if not self._is_over:
                self._remote.live.channels.end(self.run_id)

    async def _tried(self) -> bool:
        """Follow once. Return True if the run's end was reached."""
        view = self._remote.view_of(self._scope, self._run)
        try:
            await (self._follow_run() if view is None else self._follow_reply(view))
        except AgentError as e:
            if e.kind is not ErrorKind.INVALID:
                logger.warning("run %s cannot be followed now: %s", self.run_id, e.message)
                return False
            run = await self._remote.database.read(
                self._scope, partial(_row, self._scope, self.run_id)
            )
            return run is None or run.finished_at is not None  # the run never began, or was deleted
        return True

    # ------------------------------------------------------------ any run

    async def _follow_run(self) -> None:
        """Follow the run and its child runs."""
        failed: AgentError | None = None
        async with anyio.create_task_group() as group:
            try:
                await self._follow_tree(self.run_id, None, DEPTH_MOST, group)
            except AgentError as e:  # the task group would wrap it
                failed = e
            group.cancel_scope.cancel()
        if failed is not None:
            raise failed

    async def _follow_tree(
        self, run_id: str, parent: str | None, depth: int, group: TaskGroup
    ) -> None:
        own = run_id == self.run_id
        last: Position = (self._after if own else None) or (0, -1)
        after = f"{last[0]}.{last[1]}" if own and self._after is not None else None
        async with self._remote.runtime.follow(run_id, after=after) as events:
            async for event in events:
                if depth and isinstance(event, ChildStart):
                    self._begin_child(event.child_run_id, run_id, depth, group)
                if depth and isinstance(event, ToolCallEnd):
                    await self._tell_children(run_id, depth, group)
                frame = frame_of(event if parent is None else _under(event, parent), self.run_id)
                if frame.position is None:
                    frame = replace(frame, run_id=run_id, before=(last[0], last[1] + 1))
                else:
                    last = frame.position
                await self._tell(frame)
                if own:
                    self._after = last

    def _begin_child(self, child: str, parent: str, depth: int, group: TaskGroup) -> anyio.Event:
        if (over := self._children.get(child)) is None:
            over = self._children[child] = anyio.Event()
            group.start_soon(self._follow_child, child, parent, depth, group)
        return over

    async def _follow_child(self, child: str, parent: str, depth: int, group: TaskGroup) -> None:
        """Follow a child run after checking its parent in the journal. Notifications about child
        runs also come from outside, and nothing else verifies their owner.
        """
        try:
            if (await self._remote.runtime.journal.info(child)).parent_run_id != parent:
                logger.warning(
                    "ignored a notification: in the journal, run %s is not a child of run %s",
                    child,
                    parent,
                )
                return
            await self._follow_tree(child, parent, depth - 1, group)
        except AgentError as e:
            logger.info(
                "run %s, which run %s has started, cannot be followed: %s", child, parent, e.message
            )
        finally:
            self._children[child].set()

    async def _tell_children(self, run_id: str, depth: int, group: TaskGroup) -> None:
        """Publish finished child runs before the end of the call that started them."""
        for info in await self._remote.runtime.journal.children(run_id):
            over = self._begin_child(info.run_id, run_id, depth, group)
            if info.status == "finished":
                await over.wait()

    # ------------------------------------------------------------ the chat's

    async def _follow_reply(self, view: EventView) -> None:
        """Follow from the beginning each time, because which events are visible depends on all
        earlier ones.
        """
        async with self._remote.runtime.follow(self.run_id, deltas=False) as events:
            async for event in events:
                at = position_of(event.id) if isinstance(event.id, str) else None
                for seen in view.take(event):
                    frame = frame_of(seen, self.run_id)
                    await self._tell(
                        frame
                        if frame.position is not None
                        else replace(frame, run_id=self.run_id, before=at)
                    )

    async def _tell_reply(self) -> None:
        """Wait for the reply, which the driving process stores when the run is over."""
        while not self._is_over:
            if (
                reply := await self._remote.database.read(
                    self._scope, partial(reply_of, self._scope, self.run_id)
                )
            ) is not None:
                await self._tell(said("reply", reply.shown, last=True))
                return
            if (
                await self._remote.database.read(
                    self._scope, partial(_row, self._scope, self.run_id)
                )
                is None
            ):
                return  # the conversation was deleted
            await anyio.sleep(AGAIN_S)

    async def _tell(self, frame: EncodedEvent) -> None:
        if self._is_over:  # this process now drives the run and publishes its events
            await lowlevel.checkpoint()
            return
        self._remote.live.channels.tell(self.run_id, frame)
        self._told += 1
        if self._told % AT_ONCE == 0:
            await lowlevel.checkpoint()


def reply_of(scope: Scope, run_id: str, session: Session) -> StoredReply | None:
    """Return the stored reply to the run's message, or None if there is none (yet)."""
    asked = ConversationStore(session, scope).asked(run_id)
    if asked is None or asked.answer is None:
        return None
    return StoredReply(asked.answer.content, asked.conversation_id, tuple(asked.answer.tool_calls))


def _row(scope: Scope, run_id: str, session: Session) -> ServedRun | None:
    return ConversationStore(session, scope).run(run_id)


def _under(event: Event, parent_run_id: str) -> Event:
    return (
        event
        if isinstance(event.parent_run_id, str)
        else msgspec.structs.replace(event, parent_run_id=parent_run_id)
    )

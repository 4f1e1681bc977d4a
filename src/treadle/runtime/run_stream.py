"""A run whose events are read while it runs. Entry: `RunStream`, created by `Runtime.stream`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Never, Self

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from treadle.errors import AgentError
from treadle.events.callbacks import Listeners
from treadle.events.feed import EventStream
from treadle.loop.loop import Run
from treadle.messages.events import Event
from treadle.messages.result import Out, RunResult
from treadle.runtime.stream_reading import ReadableStream, check_steering


@dataclass(slots=True, kw_only=True, eq=False)
class RunHandle(Generic[Out]):
    """A run that is ready to be driven, and its result."""

    run: Run
    drive: Callable[[RunHandle[Out]], Awaitable[None]]
    """Drive the run and set `result`. Raises only on cancellation of the task."""
    result: RunResult[Out] | AgentError | None = None
    """Result, or the error that prevented the start. None until then."""

    def unwrap(self) -> RunResult[Out]:
        """Return the result. Raises AgentError(invalid) before the end, and the error that
        prevented the start.
        """
        if isinstance(self.result, AgentError):
            raise self.result
        if self.result is None:
            raise AgentError("invalid", "this run has not ended: read its events to the end first")
        return self.result


class RunStream(ReadableStream[Out]):
    """Events of a run in progress: `async with … as run: async for event in run: …`, then
    `run.result`.

    The run starts with the block and continues in its own task; leaving the block early cancels it.
    Each event is delivered once, to one reader. Callbacks receive each event when it is read, and
    unread events when the block is left.
    """

    def __init__(
        self, start: Callable[[EventStream], Awaitable[RunHandle[Out]]], listeners: Listeners | None
    ) -> None:
        self._start = start
        self._listeners = listeners
        self._events = EventStream()
        self._group: TaskGroup | None = None
        self._job: RunHandle[Out] | None = None

    @property
    def _begun(self) -> RunHandle[Out]:
        if self._job is None:
            raise AgentError(
                "invalid", "this run has not started: enter it with `async with` first"
            )
        return self._job

    @property
    def _run(self) -> Run:
        return self._begun.run

    @property
    def run_id(self) -> str:
        """Id of the run, known before it begins."""
        return self._begun.run.plan.run_id

    @property
    def session_id(self) -> str | None:
        """Session of the run, or None."""
        return self._begun.run.plan.session_id

    @property
    def result(self) -> RunResult[Out]:
        """Result of the run. Raises AgentError(invalid) before the end, and the error that
        prevented the start.
        """
        return self._begun.unwrap()

    def steer(self, text: str) -> None:
        """Send text that the model reads at its next turn. Raises AgentError(invalid) if it is
        empty or the run is over.
        """
        check_steering(text)
        if self._begun.result is not None:
            raise AgentError("invalid", "this run has ended: its model cannot read the text")
        self._begun.run.inbox.add(text)

    def cancel(self) -> None:
        """End the run as `cancelled`. Its events close, and `result` has everything produced so
        far.

        Idempotent.
        """
        self._begun.run.cancel()

    def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over the events. Raises AgentError(invalid) if the run has not started, or if its
        events were already read.
        """
        if self._begun.result is not None and self._events.is_over:
            raise AgentError(
                "invalid",
                (
                    "the events of this run can be read only once: keep them, or "
                    "read them again with `await runtime.events(run_id)`"
                ),
            )
        return self._events if self._listeners is None else self

    async def __anext__(self) -> Event:
        event = await anext(self._events)
        if self._listeners is not None:
            await self._listeners.hear(event)
        return event

    if not TYPE_CHECKING:

        def __await__(self) -> Never:
            raise AgentError(
                "invalid",
                "a stream cannot be awaited: use `async with runtime.stream(…) as run`, or `await "
                "runtime.run(…)`",
            )

    async def __aenter__(self) -> Self:
        """Start the run. Raises AgentError for errors that occur before the start."""
        if self._job is not None:
            raise AgentError(
                "invalid", "this run was entered already: make another stream for another run"
            )
        self._job = await self._start(self._events)
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._main, self._job)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        assert self._group is not None, "entered"
        if self._begun.result is None:
            self._begun.run.cancel()
        if isinstance(error, anyio.get_cancelled_exc_class()):
            return await self._group.__aexit__(kind, error, trace)
        # the caller's own error must not be wrapped by the task group
        await self._group.__aexit__(None, None, None)
        if self._listeners is not None:
            while not self._events.is_over:
                with suppress(StopAsyncIteration):
                    await anext(self)
            if isinstance(self._begun.result, RunResult):
                await self._listeners.end(self._begun.result)
        if error is None:  # if an enclosing timeout has ended the run, it also ends the caller
            await checkpoint_if_cancelled()
        return None

    async def _main(self, job: RunHandle[Out]) -> None:
        try:
            await job.drive(job)
        finally:
            self._events.close()


async def collect(
    start: Callable[[EventStream | None], Awaitable[RunHandle[Out]]], listeners: Listeners | None
) -> RunResult[Out]:
    """Return the result of a run. Without subscribers, it has no events and no separate task."""
    if listeners is None:
        job = await start(None)
        await job.drive(job)
        return job.unwrap()
    async with RunStream(start, listeners) as stream:
        async for _ in stream:
            pass
    return stream.result

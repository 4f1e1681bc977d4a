"""A run whose events are read while it runs. Entry: `RunStream`, made by `Runtime.stream`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Generic, Self

import anyio

from treadle.errors import AgentError
from treadle.events import Event
from treadle.feed import EventStream
from treadle.loop import Run
from treadle.result import Out, RunResult


class RunStream(Generic[Out]):
    """`async with … as run: async for event in run: …`, then `run.result`.

    The run goes on in a task of its own; leaving the block before its end cancels it. Events come once, to one reader.
    """

    def __init__(self, run: Run, events: EventStream, drive: Callable[[], Awaitable[RunResult[Out]]]) -> None:
        self._run = run
        self._events = events
        self._drive = drive
        self._group = anyio.create_task_group()
        self._result: RunResult[Out] | AgentError | None = None

    @property
    def run_id(self) -> str:
        return self._run.plan.run_id

    @property
    def session_id(self) -> str | None:
        return self._run.plan.session_id

    @property
    def result(self) -> RunResult[Out]:
        """Raises AgentError(invalid) before the end."""
        if isinstance(self._result, AgentError):
            raise self._result
        if self._result is None:
            raise AgentError("invalid", "this run is not over: read its events to the end first")
        return self._result

    def steer(self, text: str) -> None:
        """Text that the model reads at its next turn."""
        self._run.steer(text)

    def cancel(self) -> None:
        """Ends the run as `cancelled`; its events close, and `result` has what there was. Idempotent."""
        self._run.cancel()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._group.start_soon(self._main)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        if self._result is None:
            self._run.cancel()
        return await self._group.__aexit__(kind, error, trace)

    async def _main(self) -> None:
        try:
            self._result = await self._drive()
        except AgentError as e:  # the run could not begin: told by `result`, not as a group
            self._result = e
        finally:
            self._events.close()

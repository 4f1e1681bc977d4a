"""Submission of runs: the interface between a batch and the processes that drive its runs. Entry
points: `RunSubmitter`, `LocalQueue`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskStatus

from treadle.agents.agent import Agent
from treadle.errors import AgentError
from treadle.messages.events import Event
from treadle.messages.message import Part
from treadle.messages.result import RunResult
from treadle.runtime.run_stream import RunStream
from treadle.runtime.runtime import Runtime
from treadle.types import Limits, Mode, OnAsk, OnUnknown, Settings, Value


class Order(Value, frozen=True, kw_only=True):
    """Order to start or resume a run, with everything that its driver needs."""

    session: str
    prompt: Sequence[Part]
    cwd: str
    mode: Mode
    settings: Settings
    limits: Limits
    on_ask: OnAsk
    on_unknown: OnUnknown
    inputs: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    run_id: str | None = None
    """Run to resume on its original terms and remaining limits. The prompt is then ignored."""
    new_id: str
    """Id for a new run. A repeated submission uses the same id, for when it is unknown whether the
    first one succeeded.
    """


class RunSubmitter(Protocol):
    """Driver of runs. It drives a submitted run whether or not the caller waits."""

    async def submit(self, order: Order) -> str:
        """Start or resume a run, and return its id once it is in the journal.

        Raises AgentError for an error before the start; busy if another process drives the run, or
        another run of its session.
        """
        ...

    async def wait(self, run_id: str) -> RunResult[Any]:
        """Wait until the run ends or waits for approval. Cancellation does not affect the run.

        Raises AgentError for a run that could not begin.
        """
        ...

    async def cancel(self, run_id: str) -> None:
        """Request that the run ends as `cancelled`. `wait` returns when it has."""
        ...


class _Driven:
    def __init__(self, stream: RunStream[Any]) -> None:
        self.stream = stream
        self.over = anyio.Event()


class LocalQueue:
    """Driver that runs everything in this process, concurrently.

    An async context manager: leaving it cancels running runs and waits for them.
    """

    def __init__(
        self,
        runtime: Runtime,
        agent: Callable[[Path], Agent[Any, Any]],
        heard: Callable[[Event], None],
    ) -> None:
        """Create a driver. `agent`: builds the agent for a folder, and may block. `heard`: called
        with each event of each run.
        """
        self._runtime, self._agent, self._heard = runtime, agent, heard
        self._group = anyio.create_task_group()
        self._runs: dict[str, _Driven] = {}

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for driven in self._runs.values():
            driven.stream.cancel()
        # First, each run is closed in its journal.
        self._group.cancel_scope.shield = True
        await self._group.__aexit__(None, None, None)

    async def submit(self, order: Order) -> str:
        return await self._group.start(self._drive, order)

    async def wait(self, run_id: str) -> RunResult[Any]:
        driven = self._found(run_id)
        await driven.over.wait()
        return driven.stream.result

    async def cancel(self, run_id: str) -> None:
        self._found(run_id).stream.cancel()

    def _found(self, run_id: str) -> _Driven:
        if run_id not in self._runs:
            raise AgentError("invalid", f"no run {run_id!r} was submitted here")
        return self._runs[run_id]

    async def _drive(self, order: Order, *, task_status: TaskStatus[str]) -> None:
        agent = await anyio.to_thread.run_sync(self._agent, Path(order.cwd))
        async with self._stream(order, agent) as stream:
            driven = self._runs[stream.run_id] = _Driven(stream)
            task_status.started(stream.run_id)
            try:
                async for event in stream:
                    self._heard(event)
            finally:
                driven.over.set()

    def _stream(self, order: Order, agent: Agent[Any, Any]) -> RunStream[Any]:
        if order.run_id is not None:
            return self._runtime.resume_stream(order.run_id, agent, on_unknown=order.on_unknown)
        return self._runtime.stream(
            agent,
            order.prompt,
            session=order.session,
            inputs=order.inputs,
            cwd=order.cwd,
            mode=order.mode,
            settings=order.settings,
            limits=order.limits,
            on_ask=order.on_ask,
            on_unknown=order.on_unknown,
        )


if TYPE_CHECKING:
    _: type[RunSubmitter] = LocalQueue

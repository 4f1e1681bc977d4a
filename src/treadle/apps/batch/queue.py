"""Who runs what is submitted: the seam between a batch and the processes, one or many, that drive
runs. Entry: `RunSubmitter`, `LocalQueue`.
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
    """A run to be begun, or one to be gone on with: all that whoever drives it has to know."""

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
    """This one goes on, as it was begun, with what is left of its limits; the prompt counts for
    nothing.
    """
    new_id: str
    """Of a run that is begun: the same for who submits it again, because nobody knows whether it
    was.
    """


class RunSubmitter(Protocol):
    """Drives runs. What is submitted is driven, whoever waits for it or not."""

    async def submit(self, order: Order) -> str:
        """Gives the run's id once the run is in the journal, or gone on with.

        Raises AgentError for what is wrong before it starts; busy where the run, or another one of
        its session, is driven elsewhere.
        """
        ...

    async def wait(self, run_id: str) -> RunResult[Any]:
        """Its end, or where it waits for a person. Cancellation leaves the run alone.

        Raises AgentError for a run that could not begin.
        """
        ...

    async def cancel(self, run_id: str) -> None:
        """Asks for its end as `cancelled`; `wait` tells when it has come."""
        ...


class _Driven:
    def __init__(self, stream: RunStream[Any]) -> None:
        self.stream = stream
        self.over = anyio.Event()


class LocalQueue:
    """Drives every run in this process, at once.

    An async context manager: leaving it cancels what still runs, and waits for it.
    """

    def __init__(
        self,
        runtime: Runtime,
        agent: Callable[[Path], Agent[Any, Any]],
        heard: Callable[[Event], None],
    ) -> None:
        """`agent` works the orders of a folder, and may block while it is made; `heard` is told
        each event of each run.
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
        # each run is closed in its journal before anybody goes on
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

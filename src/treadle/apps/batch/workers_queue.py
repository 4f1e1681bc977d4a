"""Submission of a batch's runs to a queue for workers, in any processes on any machines.

Entry point: `WorkersQueue`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import anyio.to_thread

from treadle.agents.agent import Agent
from treadle.apps.batch.queue import Order
from treadle.errors import AgentError, ErrorKind
from treadle.journal.queue import QueuePlace
from treadle.messages.events import Event
from treadle.messages.result import RunResult
from treadle.runtime.runtime import Runtime

LOOK_S: Final = 1.0
"""Interval of the checks whether a run waits for approval or is parked, in seconds."""


class WorkersQueue:
    """Submitter that queues runs for workers and follows them.

    A `RunSubmitter`; an async context manager, whose exit does not affect the runs.
    """

    def __init__(
        self,
        runtime: Runtime,
        agent: Callable[[Path], Agent[Any, Any]],
        heard: Callable[[Event], None],
        queue: str,
    ) -> None:
        """Create a submitter. `agent`: builds the agent for a folder, and may block. `heard`:
        called with each durable event of each run.
        """
        self._runtime, self._agent, self._heard, self._queue = runtime, agent, heard, queue

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def submit(self, order: Order) -> str:
        """Submit a run. Idempotent: a run that was submitted already stays unchanged."""
        if order.run_id is not None:
            return await self._again(order.run_id)
        agent = await anyio.to_thread.run_sync(self._agent, Path(order.cwd))
        try:
            return await self._runtime.submit(
                agent,
                order.prompt,
                queue=self._queue,
                run_id=order.new_id,
                session=order.session,
                inputs=order.inputs,
                cwd=order.cwd,
                mode=order.mode,
                settings=order.settings,
                limits=order.limits,
                on_ask=order.on_ask,
                on_unknown=order.on_unknown,
            )
        except AgentError as e:
            if e.kind is ErrorKind.BUSY and await self._is_there(order):
                return order.new_id
            raise

    async def _again(self, run_id: str) -> str:
        """Queue a run that no process would resume. Any other run needs nothing."""
        if (await self._runtime.journal.info(run_id)).status == "stopped":
            await self._runtime.wake(run_id, place=QueuePlace(queue=self._queue))
        return run_id

    async def _is_there(self, order: Order) -> bool:
        with suppress(AgentError):
            return (await self._runtime.journal.info(order.new_id)).session_id == order.session
        return False

    async def wait(self, run_id: str) -> RunResult[Any]:
        """Wait for the end of a run. Raises AgentError(agent) if it is parked, because no worker
        could drive it.
        """
        wrong: AgentError | None = None
        async with (
            self._runtime.follow(run_id, deltas=False) as events,
            anyio.create_task_group() as group,
        ):
            group.start_soon(self._while_somebody_will, run_id, group.cancel_scope)
            try:
                async for event in events:
                    self._heard(event)
            except AgentError as e:  # raised outside, where no task group wraps it
                wrong = e
            group.cancel_scope.cancel()
        info = await self._runtime.journal.info(run_id)
        if info.parked is not None and info.status == "stopped":
            raise AgentError(
                "agent",
                f"run {run_id} is parked, because no worker could execute it: {info.parked}",
            )
        if wrong is not None:
            raise wrong
        return await self._runtime.replay(run_id)

    async def _while_somebody_will(self, run_id: str, scope: anyio.CancelScope) -> None:
        """Stop waiting for a run that waits for approval or is parked."""
        while True:
            with suppress(AgentError):  # the follower reports a journal that does not answer
                if (await self._runtime.journal.info(run_id)).status in ("waiting", "stopped"):
                    scope.cancel()
                    return
            await anyio.sleep(LOOK_S)

    async def cancel(self, run_id: str) -> None:
        # If its worker does not answer, it receives the request later, or the run is resumed.
        with suppress(AgentError):
            await self._runtime.kill(run_id)


if TYPE_CHECKING:
    from treadle.apps.batch.queue import RunSubmitter

    _: type[RunSubmitter] = WorkersQueue

"""The activity side: drives runs under the heartbeats of Temporal. Entry point: `TreadlePlugin`."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, TypeAlias

import anyio
from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, CancelledError
from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from treadle.agents.agent import Agent
from treadle.errors import AgentError, ErrorKind
from treadle.journal.run_info import UnknownRun
from treadle.messages.result import RunResult
from treadle.runtime.children import open_below
from treadle.runtime.closing_runs import LOOK_S
from treadle.runtime.ensured_runs import OtherRun
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import AnswerOptions, RunOptions
from treadle.workers.engines.temporal.workflow import (
    KILL_ACTIVITY,
    RUN_ACTIVITY,
    AgentRun,
    OpenCall,
    RunAnswer,
    RunReply,
    TemporalRun,
    packed,
    unpacked,
)

logger = logging.getLogger("treadle")

DepsOfRequest: TypeAlias = Callable[[TemporalRun], Awaitable[Any]]
"""Function that returns the dependencies of a run."""

BEATS: Final = 4
"""Number of heartbeats within the heartbeat timeout."""
BEAT_S: Final = 10.0
"""Seconds between heartbeats if there is no heartbeat timeout."""
OUTPUT_MOST: Final = 1_000_000
"""Longest output in a reply, in bytes. Temporal refuses payloads of 2 MB."""
AT_ONCE: Final = timedelta(milliseconds=100)
"""Delay before a released run is delivered to another worker."""


class TreadlePlugin(SimplePlugin):
    """Plug-in for a worker of Temporal: adds the activities and the workflow `AgentRun`, and lets
    workflows import Treadle.

    `temporalio.worker.Worker(client, task_queue="agents", plugins=[TreadlePlugin(runtime)])`
    """

    def __init__(self, runtime: Runtime, *, deps_of: DepsOfRequest | None = None) -> None:
        """Create a plug-in. `runtime`: an open runtime, with the agents in `runtime.agents`; its
        journal is that of all workers. `deps_of`: returns the deps of a run; None: no run has deps.
        """
        driving = _Activities(runtime, deps_of)
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  its activities are Callable
            "treadle",
            activities=[driving.run, driving.kill],
            workflows=[AgentRun],
            workflow_runner=_passing,
        )


def _passing(runner: WorkflowRunner | None) -> WorkflowRunner:
    """Import Treadle in workflows outside the sandbox, which would load the runtime again."""
    runner = runner or SandboxedWorkflowRunner()
    if isinstance(runner, SandboxedWorkflowRunner):
        restrictions = runner.restrictions.with_passthrough_modules("treadle")
        return dataclasses.replace(runner, restrictions=restrictions)
    return runner


class _Activities:
    def __init__(self, runtime: Runtime, deps_of: DepsOfRequest | None) -> None:
        self._runtime, self._deps_of = runtime, deps_of

    @activity.defn(name=RUN_ACTIVITY)
    async def run(self, packed_request: RawValue) -> RawValue:
        """Drive the run to its end, or until it waits.

        Cancellation, for any reason, releases the run; the next attempt resumes it.
        """
        request = unpacked(packed_request, TemporalRun)
        found = list[RunReply | Exception]()
        scope, ended, cancelled = anyio.CancelScope(), anyio.Event(), False
        task = asyncio.current_task()
        assert task is not None, "activities are tasks"

        async def drive() -> None:
            try:
                with scope:
                    found.append(await self._reply(request))
            except Exception as e:  # noqa: BLE001  raised below, without the group
                found.append(e)
            finally:
                ended.set()

        async with anyio.create_task_group() as group:
            group.start_soon(_beat)
            group.start_soon(drive)
            while not ended.is_set():
                try:
                    with anyio.CancelScope(shield=cancelled):  # the group may be cancelled too
                        await ended.wait()
                except asyncio.CancelledError:
                    if not cancelled and not self._runtime.let_go(request.run_id):
                        scope.cancel()  # only prepares the run, or waits for another driver
                    cancelled = True
                    # otherwise the group's own cancellation below would leave it as this one
                    task.uncancel()
            group.cancel_scope.cancel()
        reply = found[0] if found else None
        if isinstance(reply, RunReply):
            return packed(reply)
        raise _released(request.run_id) if cancelled or reply is None else _failure(reply)

    @activity.defn(name=KILL_ACTIVITY)
    async def kill(self, run_id: str) -> None:
        """End the run as cancelled, if it was started."""
        try:
            await self._runtime.kill(run_id)
        except UnknownRun:
            return
        except AgentError as e:
            raise _failure(e) from e

    async def _reply(self, request: TemporalRun) -> RunReply:
        agent = self._runtime.agents.get(request.agent)
        if agent is None:
            known = ", ".join(sorted(found.name for found in self._runtime.agents)) or "none"
            raise ApplicationError(
                f"this worker has no agent {request.agent!r} (it has: {known}): register it with "
                "Runtime.agents",
                type="UnknownAgent",
            )
        deps = None if self._deps_of is None else await self._deps_of(request)
        result, refused = None, None
        if (answer := request.answer) is not None and (
            answer.approve or answer.deny or answer.results
        ):
            result, refused = await self._answered(agent, deps, request.run_id, answer)
        if result is None:
            result = await self._runtime.ensure(
                agent, request.text, deps=deps, **_options_of(request)
            )
        return await self._reply_of(result, refused)

    async def _answered(
        self, agent: Agent[Any, Any], deps: object, run_id: str, answer: RunAnswer
    ) -> tuple[RunResult[Any] | None, str | None]:
        """Resume the run with the answer. Returns the reason instead of a result if the answer does
        not apply: an earlier attempt has applied it, or it names another call.
        """
        given: AnswerOptions = {
            "approve": answer.approve,
            "deny": answer.deny,
            "results": answer.results,
        }
        if answer.seen is not None:
            given["seen"] = answer.seen
        while True:
            try:
                return await self._runtime.resume(
                    run_id, agent, deps=deps, wait=True, **given
                ), None
            except AgentError as e:
                if e.kind not in (ErrorKind.BUSY, ErrorKind.INVALID):
                    raise
                info = await self._runtime.journal.info(run_id)
                if e.kind is ErrorKind.INVALID or info.entries != answer.seen:
                    logger.info("run %s: an answer was not applied: %s", run_id, e.message)
                    return None, e.message
            await anyio.sleep(LOOK_S)

    async def _reply_of(self, result: RunResult[Any], refused: str | None) -> RunReply:
        text, entries, open_calls = result.output_text, 0, list[OpenCall]()
        if result.waiting:
            state = await self._runtime.journal.load(result.run_id)
            entries = state.seq
            for one in (state, *await open_below(self._runtime.journal, state)):
                assert one.started is not None, "a run begins with run.started"
                open_calls += (
                    OpenCall(
                        run_id=one.started.run_id,
                        call_id=asked.call_id,
                        tool=asked.name,
                        arguments=asked.arguments_json,
                    )
                    for asked in one.approvals.asked.values()
                )
        return RunReply(
            run_id=result.run_id,
            outcome=result.outcome.value,
            waiting=result.waiting,
            output_text=text if len(text.encode()) <= OUTPUT_MOST else None,
            error=refused if result.error is None else result.error.message,
            cost_usd=result.metrics.total.cost_usd,
            entries=entries,
            open_calls=open_calls,
        )


async def _beat() -> None:
    timeout = activity.info().heartbeat_timeout
    every_s = BEAT_S if timeout is None else timeout.total_seconds() / BEATS
    while True:
        await anyio.sleep(every_s)
        activity.heartbeat()


def _options_of(request: TemporalRun) -> RunOptions:
    return {
        "run_id": request.run_id,
        "session": request.session,
        "user_id": request.user_id,
        "tags": request.tags,
        "metadata": request.metadata,
        "inputs": request.inputs,
        "on_ask": request.on_ask,
        "on_unknown": request.on_unknown,
    }


def _released(run_id: str) -> BaseException:
    """Return the error that ends a cancelled activity: Temporal delivers the run again, unless the
    cancellation was requested.
    """
    why = activity.cancellation_details()
    if why is not None and why.cancel_requested:
        return CancelledError(f"run {run_id} was released, because its workflow was cancelled")
    return ApplicationError(
        f"run {run_id} was released, and the next attempt resumes it",
        type="Released",
        category=ApplicationErrorCategory.BENIGN,
        next_retry_delay=AT_ONCE,
    )


def _failure(error: Exception) -> Exception:
    """Return the error with its kind; final if another attempt could not succeed."""
    if not isinstance(error, AgentError):
        return error
    return ApplicationError(
        error.message, type=error.kind.value, non_retryable=isinstance(error, OtherRun)
    )

"""The workflow side: a run as one activity, its answers as signals, its cancellation.

Deterministic, and imported inside Temporal's sandbox: it uses nothing of the runtime. Entry points:
`run_agent`, `AgentRun`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, Literal, TypeVar, get_type_hints

import msgspec
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import Priority, RawValue, RetryPolicy
from temporalio.exceptions import is_cancelled_exception

T = TypeVar("T")

RUN_ACTIVITY: Final = "treadle.run"
KILL_ACTIVITY: Final = "treadle.kill"
HEARTBEAT: Final = timedelta(seconds=10)
"""Default heartbeat timeout: time after which Temporal gives a run to another worker, and the
longest time until a cancellation reaches the run.
"""
LONGEST: Final = timedelta(days=1)
"""Default time limit of one attempt. A run that exceeds it is released and continues in the next.
"""
KILL_S: Final = 60.0
_STEPS: Final = ((500, 1), (1, 2), (0, 3), (-499, 4))


@dataclass(frozen=True, kw_only=True)
class RunAnswer:
    """A person's answer to open calls of a waiting run; empty: the run was answered elsewhere.

    Attributes:
        approve: Ids of calls that may run.
        deny: Ids of calls that may not run, and the reasons.
        results: Results by call id.
        seen: Number of entries of the run that the person had seen. None: those of the last reply.
    """

    approve: list[str] = field(default_factory=list[str])
    deny: dict[str, str] = field(default_factory=dict[str, str])
    results: dict[str, str] = field(default_factory=dict[str, str])
    seen: int | None = None


@dataclass(frozen=True, kw_only=True)
class TemporalRun:
    """A run to start, or to continue, under your own id.

    Attributes:
        agent: Name of an agent in the `Runtime.agents` of the workers.
        text: Prompt.
        run_id: Id under which the run is found again.
        session: Session id, as in `RunOptions`; so are `user_id`, `tags`, `metadata` and `inputs`.
        user_id: User of the run.
        tags: Tags of the run.
        metadata: Metadata of the run.
        inputs: Values for the agent's `${variables}`.
        on_ask: `deny` or `wait`: what happens to calls that need approval.
        on_unknown: `tell`, `wait` or `fail`: what happens to `once` calls of unknown outcome.
        on_cancel: `kill` ends the run as cancelled when its workflow is cancelled; `release` stops
            it so that it can be resumed.
        priority: From -1000 to 1000; higher runs first.
        tenant: Owner of the run; Temporal divides the workers fairly among owners.
        answer: Set by `run_agent`.
    """

    agent: str
    text: str
    run_id: str
    session: str | None = None
    user_id: str | None = None
    tags: list[str] = field(default_factory=list[str])
    metadata: dict[str, str | int | float | bool] = field(
        default_factory=dict[str, "str | int | float | bool"]
    )
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    on_ask: Literal["deny", "wait"] = "deny"
    on_unknown: Literal["tell", "wait", "fail"] = "tell"
    on_cancel: Literal["kill", "release"] = "kill"
    priority: int = 0
    tenant: str | None = None
    answer: RunAnswer | None = None


@dataclass(frozen=True, kw_only=True)
class OpenCall:
    """A call that waits for a person.

    Attributes:
        run_id: The run, or one of its children.
        call_id: Id of the call, for `RunAnswer`.
        tool: Name of the tool.
        arguments: Arguments of the call, as JSON.
    """

    run_id: str
    call_id: str
    tool: str
    arguments: str


@dataclass(frozen=True, kw_only=True)
class RunReply:
    """Result of a run as its workflow receives it; the journal has the rest, by `run_id`.

    Attributes:
        run_id: Id of the run.
        outcome: As in `RunResult`.
        waiting: True if the run waits for answers to `open_calls`.
        output_text: As in `RunResult`; None if it is longer than 1 MB.
        error: Error of the run, or the reason why its answer was not applied.
        cost_usd: Cost of the run and its children; None if no price is known.
        entries: Number of the run's entries, for `RunAnswer.seen`.
        open_calls: Calls that wait for a person.
    """

    run_id: str
    outcome: str
    waiting: bool = False
    output_text: str | None = None
    error: str | None = None
    cost_usd: float | None = None
    entries: int = 0
    open_calls: list[OpenCall] = field(default_factory=list[OpenCall])


# Temporal evaluates annotations that are texts again for each value that it decodes.
for _kind in (RunAnswer, TemporalRun, OpenCall, RunReply):
    _kind.__annotations__ = get_type_hints(_kind)
# Of a union, it takes the first type that fits: 0.5 would become 0, and True 1.
TemporalRun.__annotations__["metadata"] = dict[str, Any]


def packed(value: TemporalRun | RunReply) -> RawValue:
    """Convert a value as Temporal's default converter does, at a tenth of its cost."""
    data = msgspec.json.encode(value)
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data))


def unpacked(value: RawValue, kind: type[T]) -> T:
    """Return the value that `packed` converted."""
    return msgspec.json.decode(value.payload.data, type=kind)


def answer_signal(run_id: str) -> str:
    """Return the name of the signal that takes a `RunAnswer` for the run."""
    return f"treadle.answer:{run_id}"


def priority_of(priority: int = 0, tenant: str | None = None) -> Priority:
    """Return Temporal's priority, from 1 to 5, of a priority from -1000 to 1000."""
    key = next((key for least, key in _STEPS if priority >= least), 5)
    return Priority(priority_key=key, fairness_key=_cut(tenant))


def _cut(tenant: str | None) -> str | None:
    """Return the first 64 bytes, which is Temporal's limit."""
    return None if tenant is None else tenant.encode()[:64].decode(errors="ignore")


async def run_agent(
    request: TemporalRun,
    *,
    task_queue: str | None = None,
    heartbeat: timedelta = HEARTBEAT,
    longest: timedelta = LONGEST,
    retry_policy: RetryPolicy | None = None,
    on_wait: Callable[[RunReply], Awaitable[None]] | None = None,
) -> RunReply:
    """Run an agent inside a workflow, and return the reply at its end. Every end is an outcome.

    While the run waits for a person, the workflow waits for the signal `answer_signal(run_id)`.
    `task_queue`: of workers with a `TreadlePlugin`; None: that of the workflow. `on_wait`: called
    with each reply that waits, for example to notify a person in an activity. Raises ActivityError
    if the run cannot be started. Cancelling the workflow stops the run first, as `on_cancel` says.
    """
    answers, name = deque[RunAnswer](), answer_signal(request.run_id)
    workflow.set_signal_handler(name, _into(answers))  # pyright: ignore[reportUnknownMemberType]
    try:
        while True:
            ended = await workflow.execute_activity(
                RUN_ACTIVITY,
                packed(request),
                result_type=RawValue,
                task_queue=task_queue,
                heartbeat_timeout=heartbeat,
                start_to_close_timeout=longest,
                retry_policy=retry_policy,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                priority=priority_of(request.priority, request.tenant),
                summary=request.run_id,
            )
            reply = unpacked(ended, RunReply)
            if not reply.waiting:
                return reply
            if on_wait is not None:
                await on_wait(reply)
            await workflow.wait_condition(lambda: bool(answers))
            answer = answers.popleft()
            seen = reply.entries if answer.seen is None else answer.seen
            request = replace(request, answer=replace(answer, seen=seen))
    except BaseException as e:
        if is_cancelled_exception(e) and request.on_cancel == "kill":
            await asyncio.shield(_kill(request.run_id, task_queue))
        raise


def _into(answers: deque[RunAnswer]) -> Callable[[RunAnswer], None]:
    def answered(answer: RunAnswer) -> None:
        answers.append(answer)

    # Temporal evaluates annotations that are texts for each handler.
    answered.__annotations__ = {"answer": RunAnswer, "return": type(None)}
    return answered


async def _kill(run_id: str, task_queue: str | None) -> None:
    await workflow.execute_activity(
        KILL_ACTIVITY,
        run_id,
        task_queue=task_queue,
        start_to_close_timeout=timedelta(seconds=KILL_S),
    )


@workflow.defn(name="treadle.run", sandboxed=False)
class AgentRun:
    """A workflow of one run. Use the run's id as the workflow's id.

    It runs outside the sandbox, which costs CPU for each workflow.
    """

    def __init__(self) -> None:
        self._waiting: RunReply | None = None

    @workflow.run
    async def run(self, request: TemporalRun) -> RunReply:
        """Return the reply of `run_agent`."""
        return await run_agent(request, on_wait=self._wait)

    @workflow.query
    def waiting(self) -> RunReply | None:
        """Return the last reply with open calls; None if the run has not waited."""
        return self._waiting

    async def _wait(self, reply: RunReply) -> None:
        self._waiting = reply

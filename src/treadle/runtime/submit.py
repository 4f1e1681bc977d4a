"""Runs that wait for a worker: their place in a queue, and answers to runs driven elsewhere.

queue.py is the queue itself. Entry points: `QueuedRuns`, a base class of `Runtime`; `place_of`,
`wake`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import anyio
import msgspec
from typing_extensions import Unpack

from treadle._internal.json_text import encode_json
from treadle.agents.agent import Agent
from treadle.errors import AgentError
from treadle.journal.journal import Journal
from treadle.journal.queue import DEFAULT_QUEUE, QueuePlace, no_place
from treadle.journal.run_info import RunInfo
from treadle.journal.run_state import RunState
from treadle.journal.sessions import ViewMark
from treadle.loop.answers import Answers
from treadle.loop.plan import Plan, taken_over
from treadle.loop.recovery import answered
from treadle.messages.message import Prompt
from treadle.runtime.assembly import Assembly
from treadle.runtime.children import divided, open_below
from treadle.runtime.closing_runs import taken_unchanged
from treadle.runtime.continuing import ContinuingRuns
from treadle.runtime.options import answers_of
from treadle.runtime.session import RunOptions, WakeOptions, check_options
from treadle.tools.approval import Approve
from treadle.types import Time

PRIORITY_MOST: Final = 1000
_LIVES_HERE: Final = ("deps", "callbacks", "on_event", "on_approval")


def place_of(
    known: Collection[str], queue: str, *, priority: int, tenant: str | None, at: Time | None
) -> QueuePlace:
    """Return the place in a queue. `known`: names of the existing queues. Raises
    AgentError(invalid).
    """
    check_queue(known, queue)
    if wrong := _wrong(priority, tenant, at):
        raise AgentError("invalid", wrong)
    return QueuePlace(queue=queue, priority=priority, tenant=tenant, ready_at=at)


def _wrong(priority: object, tenant: object, at: object) -> str | None:
    """Return the error of any of them."""
    if not isinstance(priority, int) or isinstance(priority, bool) or abs(priority) > PRIORITY_MOST:
        return (
            f"priority={priority!r} is not a whole number from -{PRIORITY_MOST} to "
            f"{PRIORITY_MOST}; higher priorities run first"
        )
    if not isinstance(tenant, str | None) or tenant == "":
        return f"tenant={tenant!r} is not a name: pass a string, like the id of a customer"
    if at is not None and not (isinstance(at, datetime) and at.tzinfo is not None):
        return (
            f"at={at!r} is not a time: pass a datetime with its time zone, like datetime.now(UTC) "
            "+ timedelta(hours=1)"
        )
    return None


def check_queue(known: Collection[str], queue: str) -> None:
    """Check that the queue exists. Raises AgentError(invalid)."""
    if queue not in known:
        raise AgentError(
            "invalid",
            (
                f"unknown queue {queue!r}. Available: {', '.join(known)}. To add it, "
                "list it under queues in the configuration"
            ),
        )


def refuse_what_lives_here(options: Mapping[str, object]) -> None:
    """Reject options that another process cannot receive. Raises AgentError(invalid)."""
    if given := [name for name in _LIVES_HERE if options.get(name) is not None]:
        instead = (
            "a worker gets deps from its deps_of="
            if given == ["deps"]
            else "follow the run, and answer with wake()"
        )
        raise AgentError(
            "invalid",
            (
                f"{given[0]}= lives in this process, and a submitted run is driven by a worker: "
                f"leave it out; {instead}"
            ),
        )


def changed(answers: Answers, arguments: Mapping[str, Mapping[str, Any]]) -> Answers:
    """Return the answers with the changed arguments of approved calls.

    Raises AgentError(invalid) for another call, or for values that are not JSON.
    """
    if strange := sorted(arguments.keys() - answers.approve):
        raise AgentError(
            "invalid", f"arguments= of the call {strange[0]!r}, which approve= does not name"
        )
    try:
        texts = {
            call_id: encode_json(dict(Approve(given).arguments or {})).decode()
            for call_id, given in arguments.items()
        }
    except (TypeError, ValueError) as e:
        raise AgentError(
            "invalid", f"arguments= contains a value that JSON cannot represent: {e}"
        ) from e
    return replace(answers, arguments=texts)


async def wake(
    journal: Journal, run_id: str, answers: Answers, *, at: Time | None, place: QueuePlace | None
) -> RunInfo:
    """Store the answers and queue the run again.

    Raises AgentError: invalid for an unknown or finished run, a run that is in no queue, and an
    answer to a call that is not open; busy if the run is being driven.
    """
    state = await journal.load(run_id)
    if state.finished is not None:
        raise AgentError("invalid", f"run {run_id} is finished: replay it, or fork it")
    if place is None:
        there = await journal.queue.place(run_id)
        if there is None:
            raise no_place(run_id)
        place = msgspec.structs.replace(there, ready_at=None)
    place = msgspec.structs.replace(place, ready_at=at or place.ready_at)
    mine, below = await divided(journal, state, answers)
    if below:
        for child in await open_below(journal, state):
            if theirs := below.only({call.id for call in child.current.open_calls}):
                await _keep(journal, child, theirs)
    if mine:
        await _keep(journal, state, mine, place)
    elif not await journal.queue.put_back(run_id, place=place):
        raise AgentError("busy", f"run {run_id} is being driven, so it does not need to be woken")
    return await journal.info(run_id)


async def _keep(
    journal: Journal, state: RunState, answers: Answers, place: QueuePlace | None = None
) -> None:
    """Append answers to a run for its next driver. With a place, also queue the run there, in the
    same transaction.
    """
    assert state.started is not None, "a run begins with run.started"
    run_id = state.started.run_id
    writer = await taken_unchanged(journal, run_id, state)
    waits: bool | None = None
    try:
        state.apply(last := taken_over(state, writer))
        await writer.append([last, *answered(state, answers)], put_back=place)
        waits = bool(state.approvals.asked.keys() - answers.calls)
    finally:
        with anyio.CancelScope(shield=True):
            await writer.release(waiting=waits)


class QueuedRuns:
    """Methods of a runtime for runs that workers drive."""

    journal: Journal
    _assembly: Assembly
    _continuing: ContinuingRuns

    async def submit(
        self,
        agent: Agent[Any, Any],
        text: Prompt,
        *,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        tenant: str | None = None,
        at: Time | None = None,
        **options: Unpack[RunOptions],
    ) -> str:
        """Submit a run to a queue, from which a worker (`treadle worker`) takes it, and return its
        id. The run is in the journal when this returns.

        `priority`: from -1000 to 1000; higher runs first, then older ones. `at`: earliest start.
        `tenant`: owner for limits; None: `user_id`. Objects of this process (deps, callbacks,
        on_event, on_approval) are not stored; keys and tool servers are the worker's.

        Raises AgentError: invalid for an error in the run or its queue; busy if the session has an
        unfinished run, or `run_id` is taken.
        """
        refuse_what_lives_here(options)
        place = place_of(
            self._assembly.config.queue_names,
            queue,
            priority=priority,
            tenant=tenant if tenant is not None else options.get("user_id"),
            at=at,
        )

        async def add(plan: Plan, found: ViewMark | None) -> None:
            await self.journal.queue.add([plan.started(), *plan.compacted()], place, found=found)

        return await self._continuing.submit(agent, text, options, add)

    async def wake(self, run_id: str, **options: Unpack[WakeOptions]) -> RunInfo:
        """Requeue a run that waits for a user, is parked or was stopped: now or at a given time,
        and with `place` in another queue.

        Answers and `seen` are as for `resume`; `arguments` replace those of approved calls. All of
        them are in the journal when this returns, and the next worker applies them. Raises
        AgentError: invalid for an unknown or finished run, a run that is in no queue, and an answer
        to a call that is not open; busy if a living process drives the run.
        """
        check_options(options, WakeOptions)
        answers = changed(answers_of(options), options.get("arguments", {}))
        at, place = options.get("at"), options.get("place")
        if place is not None:
            check_queue(self._assembly.config.queue_names, place.queue)
        return await wake(self.journal, run_id, answers, at=at, place=place)

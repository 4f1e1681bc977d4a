"""Runs that wait for a worker: their place in a queue, and answers to runs driven elsewhere.

queue.py is the queue itself. Entry points: `place_of`, `wake`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import anyio
import msgspec

from treadle._internal.json_text import encode_json
from treadle.errors import AgentError
from treadle.journal.entries import RunResumed
from treadle.journal.journal import Journal, RunInfo
from treadle.journal.queue import QueuePlace, no_place
from treadle.journal.run_state import RunState
from treadle.loop.recovery import Answers, answered
from treadle.runtime.children import divided, open_below
from treadle.tools.approval import Approve
from treadle.types import Time, now

PRIORITY_MOST: Final = 1000
_LIVES_HERE: Final = ("deps", "callbacks", "on_event", "on_approval")


def place_of(
    known: Collection[str], queue: str, *, priority: int, tenant: str | None, at: Time | None
) -> QueuePlace:
    """`known`: the queues that there are. Raises AgentError(invalid)."""
    check_queue(known, queue)
    if wrong := _wrong(priority, tenant, at):
        raise AgentError("invalid", wrong)
    return QueuePlace(queue=queue, priority=priority, tenant=tenant, ready_at=at)


def _wrong(priority: object, tenant: object, at: object) -> str | None:
    """Return the error of any of them."""
    if not isinstance(priority, int) or isinstance(priority, bool) or abs(priority) > PRIORITY_MOST:
        return (
            f"priority={priority!r} is no whole number from -{PRIORITY_MOST} to {PRIORITY_MOST}; "
            "the higher goes first"
        )
    if not isinstance(tenant, str | None) or tenant == "":
        return f"tenant={tenant!r} is no name: give a text, like the id of a customer"
    if at is not None and not (isinstance(at, datetime) and at.tzinfo is not None):
        return (
            f"at={at!r} is no moment: give a datetime with its time zone, like datetime.now(UTC) "
            "+ timedelta(hours=1)"
        )
    return None


def check_queue(known: Collection[str], queue: str) -> None:
    """Raises AgentError(invalid)."""
    if queue not in known:
        raise AgentError(
            "invalid",
            (
                f"there is no queue {queue!r}: known are {', '.join(known)}; others are named in "
                "the configuration, under queues:"
            ),
        )


def refuse_what_lives_here(options: Mapping[str, object]) -> None:
    """Raises AgentError(invalid) for what another process cannot have."""
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
        raise AgentError("invalid", f"arguments= holds what JSON has no word for: {e}") from e
    return replace(answers, arguments=texts)


async def wake(
    journal: Journal, run_id: str, answers: Answers, *, at: Time | None, place: QueuePlace | None
) -> RunInfo:
    """Raises AgentError: invalid for an unknown or finished run, one in no queue, and an answer to
    a call that is not open; busy where it is driven.
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
        raise AgentError("busy", f"run {run_id} is being driven: it needs nobody to wake it")
    return await journal.info(run_id)


async def _keep(
    journal: Journal, state: RunState, answers: Answers, place: QueuePlace | None = None
) -> None:
    """Append answers to a run for its next driver; with a place, queue the run there in the same
    transaction.
    """
    started = state.started
    assert started is not None, "a run begins with run.started"
    run_id = started.run_id
    writer, waits = await journal.take_over(run_id), bool(state.approvals.asked)
    try:
        if await journal.read(run_id, after=state.seq):
            raise AgentError(
                "busy",
                (
                    f"run {run_id} has moved on just now, driven by another process: look at it, "
                    "then try again"
                ),
            )
        last = RunResumed(
            at=now(),
            fence=writer.fence,
            agent=started.agent,
            agent_hash=state.agent_hash,
            model=state.model,
            mode=state.mode,
            cwd=state.cwd,
        )
        await writer.append([last, *answered(state, answers)], put_back=place)
        waits = bool(state.approvals.asked.keys() - answers.calls)
    finally:
        with anyio.CancelScope(shield=True):
            await writer.release(waiting=waits)

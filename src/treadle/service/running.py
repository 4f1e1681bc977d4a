"""Runs of served agents other than the chat: start, resumption, and the user's decisions on their
calls.

See also: routes (runs.py), messages of a conversation (answering.py). Entry points: `start_run`,
`go_on`, `open_calls`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from math import ceil
from typing import Any, Final

import anyio
from sqlmodel import Session

from treadle.agents.agent import Agent
from treadle.errors import AgentError, ErrorKind
from treadle.journal.run_info import RunInfo
from treadle.messages.events import ApprovalRequested, ApprovalResolved, Event
from treadle.runtime.run_stream import RunStream
from treadle.runtime.session import RunOptions
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.scope import Scope
from treadle.service.database.tables import ServedRun
from treadle.service.elsewhere import AT_ONCE, DEPTH_MOST
from treadle.service.following import of_tree
from treadle.service.live import Decision, LiveRun
from treadle.service.problems import HttpProblem
from treadle.service.queueing import queued, reserve_again, wake
from treadle.service.spending import RunSpending, beyond, measurable, taken
from treadle.service.state import Service
from treadle.tools.approval import Approve, Deny
from treadle.types import Limits, new_id

LETS_GO_S: Final = 5.0
"""Seconds that a decision waits for another process to release the run."""
CANNOT_RUN: Final = "This agent cannot run at the moment: the service's log has the reason."


def served_agent(service: Service, name: str) -> Agent[Any, Any] | None:
    return service.runtime.agents.get(name) if name in service.agents else None


def deps_of(service: Service, name: str, scope: Scope) -> Any:
    """Return the dependencies of a served agent's tools for this user."""
    for served in service.application.agents:
        if served.agent.name == name and served.deps is not None:
            return served.deps(scope)
    return None


async def info_of(service: Service, run_id: str) -> RunInfo | None:
    """Return the state of a run, or None if it never began."""
    try:
        return await service.runtime.journal.info(run_id)
    except AgentError as e:
        if e.kind is ErrorKind.INVALID:
            return None
        raise


async def start_run(
    service: Service, scope: Scope, agent: Agent[Any, Any], prompt: str, options: RunOptions
) -> str:
    """Start a run and return its id once it is in the journal.

    Raises Problem if the run is not allowed, and AgentError if it cannot start.
    """
    run_id = new_id("run")
    if service.settings.queue is not None:
        return await queued(service, scope, agent, prompt, {**options, "run_id": run_id})
    async with AsyncExitStack() as held:
        spending = await held.enter_async_context(service.limits.run(scope, run_id, agent))
        await service.database.run(
            scope, lambda session: ConversationStore(session, scope).add_run(run_id, agent.name)
        )
        work = partial(
            _begin,
            service,
            agent,
            prompt,
            options,
            await measurable(service.runtime, agent, spending.limits),
        )
        live = service.live.start(
            run_id, scope, partial(_held, service, agent.name, held.pop_all(), spending, work)
        )
    await live.begun.wait()
    if live.error is not None:
        raise live.error
    return run_id


def _begin(
    service: Service,
    agent: Agent[Any, Any],
    prompt: str,
    options: RunOptions,
    limits: Limits,
    live: LiveRun,
) -> RunStream[Any]:
    asked: RunOptions = {
        **options,
        "run_id": live.run_id,
        "user_id": live.scope.user_id,
        "limits": limits,
        "mode": service.config.defaults.mode,
        "on_ask": "wait",
        "on_approval": live.approvals.ask,
    }
    deps = deps_of(service, agent.name, live.scope)
    return service.runtime.stream(agent, prompt, deps=deps, **asked)


async def go_on(
    service: Service, scope: Scope, run: ServedRun, decisions: Mapping[str, Decision]
) -> LiveRun | None:
    """Resume a run that no process drives. `decisions`: the user's decisions on pending calls.

    Return None if its agent is no longer served.
    """
    agent = served_agent(service, run.agent)
    state = await service.runtime.journal.load(run.run_id)
    if agent is None or state.started is None or state.started.user_id != scope.user_id:
        return None
    async with AsyncExitStack() as held:
        before = await taken(service.runtime.journal, run.run_id)
        spending = await held.enter_async_context(
            service.limits.run(scope, run.run_id, agent, before)
        )
        limits = await measurable(
            service.runtime,
            agent,
            beyond(
                state.ledger.limits,
                before,
                spending.limits,
            ),
        )
        # Another request was faster. Nothing is awaited between this check and the start.
        if (live := service.live.get(run.run_id)) is not None:
            for call_id, decision in decisions.items():
                _answer(live, call_id, decision)
            return live
        work = partial(_resume, service, agent, decisions, limits)
        return service.live.start(
            run.run_id, scope, partial(_held, service, agent.name, held.pop_all(), spending, work)
        )


def _resume(
    service: Service,
    agent: Agent[Any, Any],
    decisions: Mapping[str, Decision],
    limits: Limits,
    live: LiveRun,
) -> RunStream[Any]:
    for call_id, decision in decisions.items():
        live.approvals.answer(
            call_id, decision, told=decision == Approve() or isinstance(decision, Deny)
        )
    return service.runtime.resume_stream(
        live.run_id,
        agent,
        deps=deps_of(service, agent.name, live.scope),
        limits=limits,
        on_approval=live.approvals.ask,
        approve=[call_id for call_id, said in decisions.items() if said == Approve()],
        deny={
            call_id: said.reason for call_id, said in decisions.items() if isinstance(said, Deny)
        },
    )


async def _held(
    service: Service,
    agent: str,
    held: AsyncExitStack,
    spending: RunSpending,
    work: Any,
    live: LiveRun,
) -> None:
    async with held:
        stream: RunStream[Any] = work(live)
        try:
            async with stream as events:
                live.begun.set()
                async for event in events:
                    if live.told is None:
                        await _tell_before(service, live, event)
                    live.tell(event)
            service.metrics.runs.labels(agent, stream.result.outcome.value).inc()
            await spending.count_run(service.runtime.journal, live.run_id, stream.result.metrics)
        except AgentError:
            if await info_of(service, live.run_id) is None:
                await finish(service, live)
            raise
        if stream.result.waiting or (
            live.is_kept_back and await is_elsewhere(service, live.run_id)
        ):
            live.goes_on = True
        else:
            live.tell_ends()
            await finish(service, live)
    # Nothing is awaited from here until the run is no longer live: a decision either is among
    # these, or finds the run released.
    if stream.result.waiting and (left := live.approvals.left()):
        service.live.spawn(partial(_go_on_later, service, live, left))


async def _tell_before(service: Service, live: LiveRun, first: Event) -> None:
    """Publish the run's earlier events to subscribers that watched it elsewhere. They skip the ones
    they have.
    """
    if (
        first.run_id != live.run_id
        or not isinstance(first.id, str)
        or not service.live.channels.is_read(live.run_id)
    ):
        return
    for n, event in enumerate(await of_tree(service, live.run_id)):
        if (event.run_id, event.id) == (first.run_id, first.id):
            return
        live.tell(event)
        if n % AT_ONCE == AT_ONCE - 1:
            await anyio.lowlevel.checkpoint()


async def is_elsewhere(service: Service, run_id: str) -> bool:
    """Return True if a run without a journaled end has ended, or will end, in another process that
    took it over.
    """
    info = await info_of(service, run_id)
    return info is not None and info.status in ("running", "queued", "finished")


async def _go_on_later(service: Service, live: LiveRun, decisions: Mapping[str, Decision]) -> None:
    """Resume with decisions that arrived after the run had stopped asking."""
    await live.over.wait()
    run = await service.database.read(
        live.scope, lambda session: ConversationStore(session, live.scope).run(live.run_id)
    )
    if run is not None:
        await go_on(service, live.scope, run, decisions)


async def finish(service: Service, live: LiveRun) -> None:
    """Mark the run's row as finished."""

    def work(session: Session) -> None:
        ConversationStore(session, live.scope).finish(live.run_id)

    with anyio.CancelScope(shield=True):
        await service.database.run(live.scope, work)


# ---------------------------------------------------------------- pending approvals


async def open_calls(
    service: Service, run_id: str, depth: int = DEPTH_MOST
) -> tuple[dict[str, ApprovalRequested], set[str]]:
    """Return the calls of a run and its child runs that wait for approval, by id, and the ids of
    those already answered.
    """
    try:
        events = await service.runtime.events(run_id)
    except AgentError as e:
        if e.kind is ErrorKind.INVALID:
            return {}, set()
        raise
    waiting, answered = dict[str, ApprovalRequested](), set[str]()
    for event in events:
        match event:
            case ApprovalRequested():
                waiting[event.call_id] = event
            case ApprovalResolved():
                waiting.pop(event.call_id, None)
                answered.add(event.call_id)
            case _:
                pass
    for child in await service.runtime.journal.children(run_id) if depth else ():
        below, said = await open_calls(service, child.run_id, depth - 1)
        waiting |= below
        answered |= said
    return waiting, answered


async def decide(
    service: Service, scope: Scope, run: ServedRun, call_id: str, decision: Decision
) -> None:
    """Apply a decision. Raises Problem: 404 for a call that never asked for approval, 409 if it is
    already answered or its run has ended.
    """
    waiting, answered = await open_calls(service, run.run_id)
    if call_id not in waiting:
        raise (
            HttpProblem(409, "This call is already answered.")
            if call_id in answered
            else HttpProblem(404, "There is nothing here.")
        )
    info = await info_of(service, run.run_id)
    if info is None or info.status == "finished":
        raise HttpProblem(409, "This run has ended.")
    if (live := service.live.get(run.run_id)) is not None:
        _answer(live, call_id, decision)
        return
    if info.status == "running":
        await _let_go_of(service, info)
    if info.queue is not None:
        await reserve_again(service, scope, run.run_id)
        await wake(service, run.run_id, call_id, decision)
    elif await go_on(service, scope, run, {call_id: decision}) is None:
        raise HttpProblem(409, "The agent of this run is no longer served here.")


async def _let_go_of(service: Service, info: RunInfo) -> None:
    """Wait until the run is released, which happens once only approvals are pending.

    Raises Problem(409) if that takes too long.
    """
    with anyio.move_on_after(LETS_GO_S):
        while (now := await info_of(service, info.run_id)) is not None and now.status == "running":
            info = now
            await anyio.sleep(0.05)
        return
    raise HttpProblem(
        409,
        "Another process is executing this run's other calls: send the decision again later."
        + lease_note(info),
        headers={"Retry-After": str(max(ceil(info.lease_s or 0), 5))},
    )


def lease_note(info: RunInfo | None) -> str:
    """Return a sentence that says when another process can continue a run; "" if its process is
    this one, or its death is noticed immediately.
    """
    if info is None or info.lease_s is None:
        return ""
    return f" If that process has died, its lease ends in {ceil(info.lease_s)} s."


def _answer(live: LiveRun, call_id: str, decision: Decision) -> None:
    if not live.approvals.answer(call_id, decision):
        raise HttpProblem(409, "This call is already answered.")

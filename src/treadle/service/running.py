"""Runs of agents that are served beside the task assistant: how each begins, goes on, and what a person says to its calls.

Not here: routes (runs.py), messages of a conversation (answering.py). Entry: `start_run`, `go_on`, `open_calls`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import anyio
from sqlmodel import Session

from treadle.agent import Agent
from treadle.asking import Approve, Deny
from treadle.database.scope import Scope
from treadle.database.tables import ServedRun
from treadle.errors import AgentError, ErrorKind
from treadle.events import ApprovalRequested, ApprovalResolved
from treadle.journal import RunInfo
from treadle.run_stream import RunStream
from treadle.service.conversation_store import ConversationStore
from treadle.service.limits import Spending
from treadle.service.live import Decision, LiveRun
from treadle.service.problems import Problem
from treadle.service.state import Service
from treadle.types import new_id

DEPTH_MOST: Final = 4
"""Of runs that runs have started."""
CANNOT_RUN: Final = "This agent cannot run just now: whoever runs this service finds the reason in its log."


def served_agent(service: Service, name: str) -> Agent[Any, Any] | None:
    return service.runtime.agents.get(name) if name in service.agents else None


async def info_of(service: Service, run_id: str) -> RunInfo | None:
    """None for a run that never began."""
    try:
        return await service.runtime.journal.info(run_id)
    except AgentError as e:
        if e.kind is ErrorKind.INVALID:
            return None
        raise


async def start_run(service: Service, scope: Scope, agent: Agent[Any, Any], prompt: str, inputs: Mapping[str, Any]) -> str:
    """Its id, once it is in the journal. Raises Problem where it may not begin, and AgentError where it cannot."""
    run_id = new_id("run")
    async with AsyncExitStack() as held:
        spending = await held.enter_async_context(service.limits.run(scope))
        await service.database.run(scope, lambda session: ConversationStore(session, scope).add_run(run_id, agent.name))
        work = partial(_begin, service, agent, prompt, inputs)
        live = service.live.start(run_id, scope, partial(_held, service, agent.name, held.pop_all(), spending, work))
    await live.begun.wait()
    if live.error is not None:
        raise live.error
    return run_id


def _begin(service: Service, agent: Agent[Any, Any], prompt: str, inputs: Mapping[str, Any], live: LiveRun) -> RunStream[Any]:
    return service.runtime.stream(
        agent,
        prompt,
        run_id=live.run_id,
        user_id=live.scope.user_id,
        inputs=inputs,
        mode=service.config.defaults.mode,
        on_ask="wait",
        on_approval=live.approvals.ask,
    )


async def go_on(service: Service, scope: Scope, run: ServedRun, decisions: Mapping[str, Decision]) -> LiveRun | None:
    """With a run that nobody drives. `decisions`: what a person said to calls that wait. None where its agent is not served any more."""
    agent = served_agent(service, run.agent)
    state = await service.runtime.journal.load(run.run_id)
    if agent is None or state.started is None or state.started.user_id != scope.user_id:
        return None
    async with AsyncExitStack() as held:
        spending = await held.enter_async_context(service.limits.run(scope))
        if (live := service.live.get(run.run_id)) is not None:  # somebody was quicker
            for call_id, decision in decisions.items():
                _answer(live, call_id, decision)
            return live
        work = partial(_resume, service, agent, decisions)
        return service.live.start(run.run_id, scope, partial(_held, service, agent.name, held.pop_all(), spending, work))


def _resume(service: Service, agent: Agent[Any, Any], decisions: Mapping[str, Decision], live: LiveRun) -> RunStream[Any]:
    for call_id, decision in decisions.items():
        live.approvals.answer(call_id, decision)
    return service.runtime.resume_stream(
        live.run_id,
        agent,
        on_approval=live.approvals.ask,
        approve=[call_id for call_id, said in decisions.items() if said == Approve()],
        deny={call_id: said.reason for call_id, said in decisions.items() if isinstance(said, Deny)},
    )


async def _held(service: Service, agent: str, held: AsyncExitStack, spending: Spending, work: Any, live: LiveRun) -> None:
    async with held:
        stream: RunStream[Any] = work(live)
        try:
            async with stream as events:
                live.begun.set()
                async for event in events:
                    live.tell(event)
            service.metrics.runs.labels(agent, stream.result.outcome.value).inc()
            spending.count(stream.result.metrics.usage.total_tokens, stream.result.metrics.cost_usd)
            if not stream.result.waiting:
                await finish(service, live)
        except AgentError:
            if await info_of(service, live.run_id) is None:
                await finish(service, live)
            raise


async def finish(service: Service, live: LiveRun) -> None:
    """Its row says that it is over."""

    def work(session: Session) -> None:
        ConversationStore(session, live.scope).finish(live.run_id)

    with anyio.CancelScope(shield=True):
        await service.database.run(live.scope, work)


# ---------------------------------------------------------------- what waits for a person


async def open_calls(service: Service, run_id: str, depth: int = DEPTH_MOST) -> tuple[dict[str, ApprovalRequested], set[str]]:
    """Of a run and those that it started: calls that wait for a yes, by id; and ids of those that had an answer."""
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


async def decide(service: Service, scope: Scope, run: ServedRun, call_id: str, decision: Decision) -> None:
    """Raises Problem: 404 for a call that was never asked about, 409 for one that has its answer, or whose run is over."""
    waiting, answered = await open_calls(service, run.run_id)
    if call_id not in waiting:
        raise Problem(409, "This call has its answer already.") if call_id in answered else Problem(404, "There is nothing here.")
    info = await info_of(service, run.run_id)
    if info is None or info.status == "finished":
        raise Problem(409, "This run is over.")
    if (live := service.live.get(run.run_id)) is not None:
        _answer(live, call_id, decision)
    elif await go_on(service, scope, run, {call_id: decision}) is None:
        raise Problem(409, "The agent of this run is not served here any more.")


def _answer(live: LiveRun, call_id: str, decision: Decision) -> None:
    if not live.approvals.answer(call_id, decision):
        raise Problem(409, "This call has its answer already.")

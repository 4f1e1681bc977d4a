"""Other ways to begin a run than with a prompt: resume it, fork it, or submit it to a worker.

runs.py starts and drives runs; continued_runs.py has the methods for callers. Entry point:
`ContinuingRuns`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import structs

from treadle._internal.clock import Clock
from treadle.agents.agent import Agent, Deps
from treadle.agents.registry import AgentRegistry
from treadle.budget.ledger import Ledger
from treadle.budget.limits import LIMIT_NAMES, BudgetSpent
from treadle.errors import AgentError, ErrorKind
from treadle.events.feed import EventStream
from treadle.events.hub import Hub
from treadle.journal.entries import Fork, RunStarted
from treadle.journal.fork import check_results, fork_of
from treadle.journal.journal import Journal
from treadle.journal.run_state import RunState
from treadle.journal.sessions import ViewMark
from treadle.loop.plan import ParentCall, Plan, Resumption
from treadle.loop.recovery import missing_tool
from treadle.loop.session_past import begun
from treadle.messages.message import Message, Prompt
from treadle.messages.result import Out, RunResult
from treadle.models.retry import RetryPolicy
from treadle.runtime.assembly import Assembly, RunOrigin
from treadle.runtime.children import Children, ParentRun, divided
from treadle.runtime.chosen_model import Asker
from treadle.runtime.closing_runs import taken_unchanged, until_idle
from treadle.runtime.evaluating import PlannedRun, as_submitted, going_on
from treadle.runtime.evaluating import begun as begun_agent
from treadle.runtime.handing_over import check_agent_of, finished_result, forked_agent, in_charge
from treadle.runtime.mcp_servers import More
from treadle.runtime.options import (
    ForkPoint,
    answers_of,
    check_agent,
    check_words,
    checked_mode,
    directory_of,
    forked_options,
    headers_of,
    labels_again,
    limits_over,
    merged_settings,
    output_settings,
    session_id_of,
)
from treadle.runtime.prompt import prompt_of, system_again
from treadle.runtime.run_stream import RunHandle
from treadle.runtime.runs import RunClaim, Runs
from treadle.runtime.session import ForkOptions, ResumeOptions, RunOptions
from treadle.tools.offered import SEARCH, GoneTool, is_deferred
from treadle.types import NOTHING_SET, new_id


class ContinuingRuns(Runs):
    """Runs of a runtime, however they begin."""

    def __init__(
        self,
        assembly: Assembly,
        hub: Hub,
        registry: AgentRegistry,
        clock: Clock,
        retries: RetryPolicy,
    ) -> None:
        super().__init__(assembly, hub, registry, clock, retries)
        self._children = Children(assembly.journal, self)

    async def submit(
        self,
        agent: Agent[Any, Any],
        text: Prompt,
        options: RunOptions,
        add: Callable[[Plan, ViewMark | None], Awaitable[None]],
    ) -> str:
        """Plan a run for another driver and create it with `add`.

        Needs no key, sandbox or MCP server.
        """
        self.check(options, RunOptions)
        check_agent(agent)
        prompt, session_id = prompt_of(text), session_id_of(options.get("session"))
        await self.late.store()
        if session_id is not None:
            self.busy.claim(session_id)
        try:
            plan = await self._assembly.plan(agent, prompt, session_id, options, submits=True)
            await begun(plan.past, partial(add, await as_submitted(plan)))
        finally:
            if session_id is not None:
                self.busy.let_go(session_id)
        self.agents.remember(agent)
        return plan.run_id

    async def fork(
        self,
        point: ForkPoint,
        agent: Agent[Deps, Out] | None,
        deps: Deps,
        options: ForkOptions,
        stream: EventStream | None,
    ) -> RunHandle[Out]:
        self.check(options, ForkOptions)
        await self.late.store()
        run_id, turn, text = point
        state = await self.journal.load(run_id)
        fork = fork_of(
            run_id, state, turn, options.get("results", {}), asks=text is not None or turn == 0
        )
        records = await self.journal.read(run_id)
        check_results(fork, records)
        started = state.started
        assert started is not None, "a run begins with run.started"
        found = self.agents.known(agent, started.agent, run_id)
        found = forked_agent(found, started, records[: fork.seq], self.agents.get)
        forked, given = forked_options(found, started, state, options)
        session_id = None if started.session_id is None else new_id("session")
        prompt = started.input if text is None else prompt_of(text)
        with RunClaim(self, session_id) as claim:
            now = forked
            if forked.is_dynamic:
                now, given = await begun_agent(forked, deps, session_id, given)
            plan = await forked_plan(self._assembly, now, fork, prompt, session_id, given)
            await checkpoint_if_cancelled()
            job = self.ready(claim, PlannedRun(now, plan, (forked,)), deps, stream)
        self.agents.remember(found)  # not the agent with the changes of this fork
        return job

    async def resume(
        self,
        run_id: str,
        agent: Agent[Deps, Out] | None,
        deps: Deps,
        options: ResumeOptions,
        hears: EventStream | ParentRun | None,
        *,
        read: RunState | None = None,
    ) -> RunHandle[Out]:
        """Resume a run. Errors are raised before it is taken over.

        `read`: the run as just read, which this call owns from now on.
        """
        self.check(options, ResumeOptions)
        check_words(options)
        if options.get("wait") and read is None:
            await until_idle(self.journal, run_id)
        # before the run is read, because the session may be its own
        stored = await self.late.store()
        state = await self.journal.load(run_id) if stored or read is None else read
        started = state.started
        assert started is not None, "a run begins with run.started"
        if state.finished is not None:
            raise AgentError("invalid", f"run {run_id} is finished: replay it, or fork it")
        check_agent_of(state, agent)
        found = self.agents.known(agent, started.agent, run_id)
        answers, below = await divided(self.journal, state, answers_of(options))

        caller = hears.caller if isinstance(hears, ParentRun) else None
        with RunClaim(self, started.session_id) as claim:
            last = in_charge(found, state, self.agents.get)
            now = await going_on(last, deps, state, options) if last.is_dynamic else last
            plan = await resumed_plan(self._assembly, now, state, options, caller=caller)
            writer = await taken_unchanged(self.journal, run_id, state)
            resumption = Resumption(writer=writer, answers=answers, below=below)
            plan = structs.replace(plan, resumption=resumption)
            try:
                job = self.ready(claim, PlannedRun(now, plan, (found, last)), deps, hears)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await writer.release(waiting=None)
                raise
            if caller is None:
                await self._reserve(job)
            return job

    async def _reserve(self, job: RunHandle[Any]) -> None:
        """Reserve the budget of a run that is resumed by itself, maybe below another run."""
        try:
            job.run.reserve()
        except BudgetSpent as e:
            with anyio.CancelScope(shield=True):
                await self.drop(job)
            raise _nothing_left(job.run.plan.run_id, e) from e

    def finished(self, state: RunState, agent: Agent[Any, Out] | None) -> RunResult[Out]:
        """Return the result of a finished run, from its journal."""
        return finished_result(state, agent, self.agents.get)

    async def drop(self, job: RunHandle[Any]) -> None:
        """Release a run that will not be driven after all."""
        if (resumption := job.run.plan.resumption) is not None:
            await resumption.writer.release(waiting=None)
        self.release(job)


# ---------------------------------------------------------------- plans


async def forked_plan(
    assembly: Assembly,
    agent: Agent[Any, Any],
    fork: Fork,
    prompt: Message,
    session_id: str | None,
    options: RunOptions,
) -> Plan:
    """Plan a run that continues from inside another one."""
    state = await assembly.journal.load_fork(fork)
    return await assembly.plan_from(agent, prompt, session_id, options, RunOrigin(state, fork=fork))


async def resumed_plan(
    assembly: Assembly,
    agent: Agent[Any, Any],
    state: RunState,
    options: ResumeOptions,
    *,
    caller: ParentCall | None = None,
) -> Plan:
    """Plan a resumed run, without its `Resumption`. The answers to its calls have been
    checked.
    """
    started = _started(state)
    await assembly.toolboxes.confining.check(agent)
    limits = limits_over(options.get("limits"), state.ledger.limits)
    more = await assembly.more_tools(
        agent, limits, awaited={call.name for call in state.current.open_calls}
    )
    _check_open_calls(agent, more, state)
    last = state.model if isinstance(agent.model, str | None) else None
    wanted = assembly.asked(agent, options.get("model") or last)
    headers = headers_of(assembly.choice, wanted, options, caller)
    batch = assembly.batches.again(started)
    asker = Asker(started.run_id, started.session_id, state=state, headers=headers, batch=batch)
    above = caller.plan.state.ledger if caller else await _ledger_above(assembly.journal, state)
    chosen = await assembly.choice.choose(wanted, asker, limits, above=above)
    system, changed = system_again(agent, started, state)
    lower = state.agent.settings.over(output_settings(agent))
    settings, dropped = merged_settings(NOTHING_SET, lower, chosen.model)
    await _count_children(assembly.journal, started.run_id, state)
    mode = checked_mode(options.get("mode") or state.mode)
    return Plan(
        **{**assembly.shared(agent, chosen, asker, more, caller), "above": above},
        system=system,
        settings=settings,
        limits=limits,
        mode=mode,
        cwd=directory_of(options.get("cwd") or state.cwd),
        state=state,
        prompt=started.input,
        inputs_json=started.inputs,
        **labels_again(started),
        parent_run_id=started.parent_run_id,
        parent_call_id=started.parent_call_id,
        family=caller.plan.family if caller else started.session_id or started.run_id,
        on_ask="wait" if options.get("on_approval") else options.get("on_ask", started.on_ask),
        on_unknown=options.get("on_unknown", started.on_unknown),
        fork=started.fork,
        approver=options.get("on_approval"),
        warnings=(*changed, *dropped, *more.missed, *assembly.announced(agent, mode, caller)),
    )


async def _ledger_above(
    journal: Journal, state: RunState, seen: frozenset[str] = frozenset()
) -> Ledger | None:
    """Return the ledger of the run that started this one, which is resumed by itself; None if it
    has none. The limits of all runs above still apply. `seen`: runs below, because imported runs
    may name each other as parents.
    """
    started = _started(state)
    run_id, seen = started.parent_run_id, seen | {started.run_id}
    if run_id is None or run_id in seen:
        return None
    try:
        parent = await journal.load(run_id)
    except AgentError as e:
        if e.kind is not ErrorKind.INVALID:
            raise
        return None
    await _count_children(journal, run_id, parent)
    for cut in parent.under_way:
        parent.ledger.lose(cut)
    try:
        parent.ledger.begin(await _ledger_above(journal, parent, seen), run_id=run_id)
    except BudgetSpent as e:
        raise _nothing_left(started.run_id, e) from e
    for cut in state.under_way:  # the run counts it itself
        parent.ledger.take_back(cut)
    return parent.ledger


def _nothing_left(run_id: str, spent: BudgetSpent) -> AgentError:
    return AgentError(
        "limit",
        f"run {run_id} cannot be resumed: the limit of {LIMIT_NAMES[spent.outcome]} of the run "
        "that started it leaves nothing",
    )


async def _count_children(journal: Journal, run_id: str, state: RunState) -> None:
    """Add the usage of child runs at any depth, because limits apply to all of them."""
    for child in await journal.children(run_id):
        spent = await journal.load(child.run_id)
        await _count_children(journal, child.run_id, spent)
        # lost with its process; reversed if the child resumes and counts it itself
        for cut in spent.under_way:
            spent.ledger.lose(cut)
        state.ledger.add_below(child.run_id, spent.ledger)


def _check_open_calls(agent: Agent[Any, Any], more: More, state: RunState) -> None:
    """Check that the tool of every open call still exists. Raises AgentError(invalid)."""
    own = [tool for tool in agent.own_tools if not isinstance(tool, GoneTool)]
    tools = {tool.name: tool for tool in (*own, *more.tools)}
    gone = missing_tool(state, tools)
    if gone == SEARCH and any(map(is_deferred, (*tools.values(), *agent.mcp_servers))):
        from treadle.tools.tool_search import SearchTools  # noqa: PLC0415  only for deferred tools

        gone = missing_tool(state, {**tools, SEARCH: SearchTools({})})
    if gone is not None:
        raise AgentError(
            "invalid",
            f"run {_started(state).run_id} has an open call of the tool {gone!r}, which agent "
            f"{agent.name!r} has no more: pass an agent that has it",
        )


def _started(state: RunState) -> RunStarted:
    assert state.started is not None, "a run begins with run.started"
    return state.started

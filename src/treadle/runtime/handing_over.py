"""Handoffs: the plan with which another agent continues a run, in the process that drives it.

tools/handoff.py is the tool that the model calls. Entry points: `handed_over`, `in_charge`,
`forked_agent`, `finished_result`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from treadle._internal.json_text import decode_json
from treadle.agents.agent import Agent
from treadle.agents.evaluation import evaluated
from treadle.errors import AgentError
from treadle.journal.entries import AgentSwitched, Record, RunStarted, ToolFinished
from treadle.journal.run_state import RunState
from treadle.journal.view import View, view_of
from treadle.loop.ending import ending_of
from treadle.loop.loop import Run
from treadle.loop.plan import Plan, Switching
from treadle.loop.processing import checked_messages
from treadle.messages.message import Message, TextPart
from treadle.messages.result import Out, RunResult
from treadle.runtime.assembly import Assembly
from treadle.runtime.chosen_model import Asker
from treadle.runtime.evaluating import PlannedRun, context_of
from treadle.runtime.options import merged_settings, output_settings
from treadle.runtime.results import result_of, with_output
from treadle.tools.handoff import Handoff
from treadle.tools.run_context import RunContext, called_with
from treadle.types import now

MAX_HANDOFFS: Final = 10
"""Handoffs in one run."""
SUMMARY = "[{before} handed this conversation over to you. Its summary:]\n\n{text}"

Find = Callable[[str], Agent[Any, Any] | None]


async def handed_over(
    assembly: Assembly, agents: Sequence[Agent[Any, Any]], deps: object, before: Run, find: Find
) -> PlannedRun[Any]:
    """Plan the rest of a run for the agent to which the last of `agents` handed over.

    `agents`: definitions of the run's agents so far; `find` knows others by name. Raises
    AgentError: agent if the run was handed over too often, invalid if the next agent is not known
    or its history is not valid, and the errors before a start of a run.
    """
    state, plan = before.state, before.plan
    call = state.agent.handing
    assert call is not None, "the model has called a handoff"
    path = (*state.agent.before, plan.agent, call.hands_to)
    if len(path) - 1 > MAX_HANDOFFS:
        raise AgentError(
            "agent",
            f"this run was handed over {MAX_HANDOFFS} times ({' → '.join(path)}): say in the "
            "instructions of these agents which agent answers what, or leave out a handoff back",
        )
    one = next((one for one in agents[-1].handoffs if one.name == call.hands_to), None)
    if one is None:
        raise AgentError(
            "invalid",
            f"agent {plan.agent!r} no longer has a handoff to {call.hands_to!r}: resume the run "
            "with an agent that has it",
        )
    definition = _known(one, agents, find)
    ctx = context_of(definition, plan, deps)
    found = await evaluated(definition, ctx) if definition.is_dynamic else definition
    shown = await _shown(one, ctx, state, call)
    view = None if shown is None else view_of(state.context.history[:], shown)
    plan = await _plan(assembly, found, before, ctx, view)
    return PlannedRun(found, plan, (*agents, definition))


def _known(
    one: Handoff[Any, Any], agents: Sequence[Agent[Any, Any]], find: Find
) -> Agent[Any, Any]:
    if isinstance(one.agent, Agent):
        return one.agent
    found = next((agent for agent in agents if agent.name == one.name), None) or find(one.name)
    if found is None:
        raise AgentError(
            "invalid",
            f"the agent {one.name!r} of a handoff is not known here: pass the agent itself in "
            "handoffs=, or register it with Runtime.agents",
        )
    return found


async def _shown(
    one: Handoff[Any, Any], ctx: RunContext[Any], state: RunState, call: ToolFinished
) -> Sequence[Message] | None:
    """Return the messages that the next agent sees; None: all."""
    history, started = one.history, state.started
    assert started is not None, "a run begins with run.started"
    if history == "all":
        return None
    if history == "none":
        return [started.input]
    if history == "summary":
        arguments = state.current.starts[call.result.call_id].arguments_json
        text = decode_json(arguments.encode(), dict[str, str]).get("summary", "")
        said = SUMMARY.format(before=state.agent.name, text=text)
        key = f"{call.result.call_id}_summary"
        return [Message(id=key, role="user", parts=(TextPart(text=said),), created_at=call.at)]
    label = f"history= of the handoff to {one.name!r}"
    messages = state.context.history[:]
    given = await called_with(ctx, lambda ctx: history(ctx, messages), label, "")
    return checked_messages(given, label)


async def _plan(
    assembly: Assembly, agent: Agent[Any, Any], before: Run, ctx: RunContext[Any], view: View | None
) -> Plan:
    """Return the plan of the run with the agent, model, tools and settings of the next agent."""
    plan = before.plan
    await assembly.toolboxes.confining.check(agent)
    more = await assembly.more_tools(agent, plan.limits)
    asker = Asker(plan.run_id, plan.session_id, headers=plan.headers, batch=plan.batch)
    chosen = await assembly.choice.choose(
        assembly.asked(agent), asker, plan.limits, above=plan.above
    )
    settings, dropped = merged_settings(
        output_settings(agent), agent.settings.over(assembly.settings), chosen.model
    )
    system = agent.system(ctx.inputs)
    entry = AgentSwitched(
        at=now(),
        agent=agent.name,
        before=plan.agent,
        agent_hash=agent.fingerprint,
        model=chosen.name,
        settings=settings,
        evaluated=agent.evaluated,
        passing=()
        if plan.session_id is None
        else tuple([block.text for block in system if block.passing]),
        view=view,
    )
    return msgspec.structs.replace(
        plan,
        **assembly.shared(agent, chosen, asker, more, None),
        system=system,
        settings=settings,
        past=None,
        resumption=None,
        switching=Switching(writer=before.pen.writer, entry=entry),
        warnings=(*dropped, *more.missed),
    )


# ---------------------------------------------------------------- runs that were handed over


def in_charge(agent: Agent[Any, Out], state: RunState, find: Find) -> Agent[Any, Any]:
    """Return the agent in charge of a run that began with `agent`, which may be either of them.

    Raises AgentError(invalid) if it is not known.
    """
    if not state.agent.before:
        return agent
    if (found := agent_at(agent, state.agent.name) or find(state.agent.name)) is not None:
        return found
    assert state.started is not None, "a run begins with run.started"
    raise AgentError(
        "invalid",
        f"run {state.started.run_id} was handed over to {state.agent.name!r}, which is not among "
        f"the handoffs of {agent.name!r}: pass an agent that has it, or register it with "
        "Runtime.agents",
    )


def check_agent_of(state: RunState, agent: Agent[Any, Any] | None) -> None:
    """Raise AgentError(invalid) if the agent neither began the run nor is in charge of it."""
    started = state.started
    assert started is not None, "a run begins with run.started"
    if agent is not None and agent.name not in (started.agent, state.agent.name):
        raise AgentError(
            "invalid",
            f"run {started.run_id} is a run of agent {started.agent!r}, not {agent.name!r}: pass "
            "that agent, or the id of another run",
        )


def agent_at(agent: Agent[Any, Any], name: str) -> Agent[Any, Any] | None:
    """Return the agent of this name among `agent` and those that it can reach by handoffs."""
    if agent.name == name:
        return agent
    below = (one.agent for one in agent.handoffs if isinstance(one.agent, Agent))
    return next((found for one in below if (found := agent_at(one, name)) is not None), None)


def forked_agent(
    agent: Agent[Any, Out], started: RunStarted, records: Sequence[Record], find: Find
) -> Agent[Any, Out]:
    """Return the agent in charge after these records, of a run that began with `agent`; `agent` if
    it is not known.
    """
    name = started.agent
    for record in records:
        if isinstance(record.entry, AgentSwitched):
            name = record.entry.agent
        elif isinstance(record.entry, ToolFinished) and record.entry.hands_to:
            name = record.entry.hands_to
    if name == started.agent:
        return agent
    return agent_at(agent, name) or find(name) or agent


def finished_result(state: RunState, agent: Agent[Any, Out] | None, find: Find) -> RunResult[Out]:
    """Return the result of a finished run, from its journal: with the output as a value if the
    agent that answered is known.
    """
    assert state.started is not None, "a run begins with run.started"
    result, name = result_of(state, ending_of(state)), state.agent.name
    check_agent_of(state, agent)
    first = agent or find(state.started.agent)
    last = first and (agent_at(first, name) or find(name) or first)
    return result if last is None else with_output(result, last)

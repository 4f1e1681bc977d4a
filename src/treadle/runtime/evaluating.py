"""Evaluation of agents whose definitions contain functions, for a run that begins or resumes.

agents/evaluation.py calls the functions. Entry points: `begun`, `going_on`,
`as_submitted`, `context_of`, `hooked_run`, `output_check`, `processor`, `PlannedRun`.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any, Generic, NamedTuple

import anyio
import msgspec

from treadle.agents.agent import Agent
from treadle.agents.evaluation import evaluated
from treadle.errors import AgentError
from treadle.events.hooks import HookedRun, RunBlocked
from treadle.journal.run_state import RunState
from treadle.loop.guarding import Check, rewritten
from treadle.loop.plan import Plan
from treadle.loop.processing import Processor, checked_messages
from treadle.messages.message import Message
from treadle.messages.result import Out
from treadle.runtime.options import checked_mode, directory_of
from treadle.runtime.prompt import run_id_of
from treadle.runtime.session import ResumeOptions, RunOptions
from treadle.tools.failures import ToolFailed, words_of
from treadle.tools.run_context import RunContext, called_with

logger = logging.getLogger("treadle")


class PlannedRun(NamedTuple, Generic[Out]):
    """An agent as evaluated for one run, and the run's plan."""

    agent: Agent[Any, Out]
    plan: Plan
    definitions: Sequence[Agent[Any, Any]]
    """Definitions of the run's agents that are known by now, the agent's own last."""


async def begun(
    agent: Agent[Any, Any], deps: object, session_id: str | None, options: RunOptions
) -> tuple[Agent[Any, Any], RunOptions]:
    """Return the agent of a new run, and its options with the run's id.

    Raises the errors of `evaluated`, and AgentError(invalid) for wrong inputs.
    """
    run_id = run_id_of(options.get("run_id"))
    ctx = RunContext(
        deps=deps,
        inputs=agent.values(options.get("inputs") or {}),
        agent=agent.name,
        run_id=run_id,
        session_id=session_id,
        user_id=options.get("user_id"),
        cwd=directory_of(options.get("cwd")),
        mode=checked_mode(options.get("mode", "full")),
    )
    return await evaluated(agent, ctx), {**options, "run_id": run_id}


async def going_on(
    agent: Agent[Any, Any], deps: object, state: RunState, options: ResumeOptions
) -> Agent[Any, Any]:
    """Return the agent of a resumed run: as stored in the journal, and evaluated now if nothing is
    stored.

    Raises the errors of `evaluated`.
    """
    started = state.started
    assert started is not None, "a run begins with run.started"
    ctx = RunContext(
        deps=deps,
        inputs=agent.values_again(msgspec.json.decode(started.inputs, type=dict[str, Any])),
        agent=agent.name,
        run_id=started.run_id,
        session_id=started.session_id,
        user_id=started.user_id,
        cwd=directory_of(options.get("cwd") or state.cwd),
        mode=checked_mode(options.get("mode") or state.mode),
    )
    return await evaluated(agent, ctx, state.evaluated)


def hooked_run(
    plan: Plan,
    deps: object,
    spawn: Callable[..., Awaitable[Any]] | None = None,
    known: dict[str, Any] | None = None,
) -> HookedRun[Any]:
    """Return the run as its hooks see it. `spawn`: starts a child run for a call of the run.
    `known`: results of child runs by key, which all agents of a run share.
    """
    known = {} if known is None else known
    asking = defaultdict[str, anyio.Lock](anyio.Lock)

    async def run_child(key: str, *asked: Any, **options: Any) -> Any:
        assert spawn is not None, "a hook that can start runs"
        async with asking[key]:
            if key not in known:
                known[key] = await spawn(key, plan.resumption is not None, *asked, **options)
        return known[key]

    return HookedRun(
        run_id=plan.run_id,
        session_id=plan.session_id,
        parent_run_id=plan.parent_run_id,
        user_id=plan.user_id,
        agent=plan.agent,
        model=plan.model_name,
        deps=deps,
        inputs=msgspec.json.decode(plan.inputs_json, type=dict[str, Any]),
        run_child=None if spawn is None else run_child,
    )


async def as_submitted(plan: Plan) -> Plan:
    """Return the plan of a queued run with its prompt as hooks changed it, without dependencies.

    Raises AgentError(agent) if a hook fails.
    """
    if "before_input" not in plan.hooks.points:
        return plan
    plan.hooks.begin(hooked_run(plan, None), logger.warning)
    return await rewritten(plan)


def context_of(agent: Agent[Any, Any], plan: Plan, deps: object) -> RunContext[Any]:
    """Return the context of a run for functions of its agent, or of the next one.

    Raises AgentError(invalid) if the agent needs an input that the run does not have.
    """
    return RunContext(
        deps=deps,
        inputs=agent.values_again(msgspec.json.decode(plan.inputs_json, type=dict[str, Any])),
        agent=agent.name,
        run_id=plan.run_id,
        session_id=plan.session_id,
        user_id=plan.user_id,
        cwd=plan.cwd,
        mode=plan.mode,
    )


def processor(agent: Agent[Any, Any], plan: Plan, deps: object) -> Processor:
    """Return the agent's processor of the messages that its model sees, in one run.

    It raises AgentError: agent if it fails, invalid for messages that are not a valid history.
    """
    process = agent.history
    assert process is not None, "an agent with a processor"
    label = f"agent {agent.name!r}: history="

    async def processed(messages: list[Message]) -> Sequence[Message]:
        ctx = context_of(agent, plan, deps)
        given = await called_with(ctx, lambda ctx: process(ctx, messages), label, "")
        return checked_messages(given, label)

    return processed


def output_check(
    agent: Agent[Any, Any], plan: Plan, deps: object, clean: Callable[[str], str]
) -> Check:
    """Return the check of an output by the agent and then by the hooks, in one run. `clean` masks
    secrets.

    It raises ToolFailed for an output that is rejected, RunBlocked, and AgentError(agent) if it
    fails. The agent does not check the value of a tool that ended the run.
    """
    check, hooks = agent.output_check, plan.hooks

    async def checked(output: Any, ended: bool) -> None:
        try:
            if check is not None and not ended:
                said = check(context_of(agent, plan, deps), output)
                if isawaitable(said):
                    await said
            await hooks.check_output(output)
        except ToolFailed as e:
            raise ToolFailed(clean(e.message), ends_run=e.ends_run) from e
        except RunBlocked:
            raise
        except AgentError:
            raise
        except Exception as e:
            raise AgentError(
                "agent",
                f"agent {agent.name!r}: output_check= failed: {words_of(e)}. To reject an output, "
                "raise ToolFailed",
            ) from e

    return checked

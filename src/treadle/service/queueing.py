"""Queued runs of served agents, driven by workers: submission, usage accounting, and the user's
decisions on their calls.

See also: the queue itself (queue.py), runs driven by the service (running.py). Entry points:
`queued`, `account`, `wake`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sqlmodel import Session

from treadle.agents.agent import Agent
from treadle.errors import AgentError, ErrorKind
from treadle.journal.run_info import RunInfo
from treadle.runtime.session import RunOptions
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.scope import Scope
from treadle.service.database.tables import ServedRun
from treadle.service.problems import HttpProblem, too_many
from treadle.service.spending import RunSpending, measurable, taken
from treadle.service.totals import TotalsShare
from treadle.tools.approval import Approve, Deny
from treadle.types import now

BEGINS_S: Final = 40.0
"""Seconds in which a run that is not in our journal may still begin, or turn out to belong to
another process; longer than any run of the task assistant.
"""

if TYPE_CHECKING:
    from treadle.service.live import Decision
    from treadle.service.state import Service


async def queued(
    service: Service,
    scope: Scope,
    agent: Agent[Any, Any],
    prompt: str,
    options: RunOptions,
) -> str:
    """Submit a run and return its id once it is queued. `options` state its id.

    Raises Problem if the run is not allowed, and AgentError if it cannot be submitted.
    """
    assert service.settings.queue is not None, "asked before"
    assert "run_id" in options, "its caller chooses it"
    run_id = options["run_id"]
    await account(service, scope)
    spending = RunSpending()
    await service.database.run(scope, partial(_admit, service, scope, agent, run_id, spending))
    try:
        return await service.runtime.submit(
            agent,
            prompt,
            queue=service.settings.queue,
            tenant=scope.user_id,
            **{
                **options,
                "user_id": scope.user_id,
                "limits": await measurable(service.runtime, agent, spending.limits),
                "mode": service.config.defaults.mode,
                "on_ask": "wait",
            },
        )
    except AgentError:
        await service.database.run(scope, partial(_ended, service, scope, run_id, RunSpending()))
        raise


def _admit(
    service: Service,
    scope: Scope,
    agent: Agent[Any, Any],
    run_id: str,
    spending: RunSpending,
    session: Session,
) -> None:
    """Add the run to the database. Raises Problem(429)."""
    service.limits.afford(session, scope, spending, run_id, agent, queued=True)
    store = ConversationStore(session, scope)
    under_way = sum(run.agent != service.application.name for run in store.unfinished())
    if under_way >= service.settings.limits.runs:
        raise too_many(
            (
                f"{under_way} of your runs are in progress or queued, which is the limit: wait "
                "until one ends, or cancel one."
            ),
            5,
        )
    store.add_run(run_id, agent.name)


async def account(service: Service, scope: Scope) -> None:
    """Count the usage of this user's runs that ended elsewhere, each once. Mark runs that never
    began as finished.
    """
    runs = await service.database.read(scope, partial(_open, service, scope))
    for run in runs:
        if (
            service.live.get(run.run_id) is None
            and await settled(service, scope, run.run_id) is None
            and (now() - run.created_at).total_seconds() > BEGINS_S
        ):
            await service.database.run(
                scope, partial(_ended, service, scope, run.run_id, RunSpending())
            )


async def settled(service: Service, scope: Scope, run_id: str) -> RunInfo | None:
    """Return the state of a run that another process drives, or None if it is not in the journal.
    If it has ended, mark its row as finished and count its usage.
    """
    try:
        info = await service.runtime.journal.info(run_id)
    except AgentError as e:
        if e.kind is ErrorKind.INVALID:
            return None
        raise
    if info.status == "finished":
        spending = RunSpending()
        spending.count(*await taken(service.runtime.journal, run_id))
        await service.database.run(scope, partial(_ended, service, scope, run_id, spending))
    return info


def _ended(
    service: Service, scope: Scope, run_id: str, spending: RunSpending, session: Session
) -> None:
    if ConversationStore(session, scope).finish(run_id):
        service.limits.count(session, scope, spending, run_id)


def _open(service: Service, scope: Scope, session: Session) -> list[ServedRun]:
    """Return unfinished runs, except those of the chat, which are counted with their reply."""
    unfinished = ConversationStore(session, scope).unfinished()
    return [run for run in unfinished if run.agent != service.application.name]


async def reserve_again(service: Service, scope: Scope, run_id: str) -> None:
    """Restore the reservation of a run that waited for its user, because a long wait releases it
    (shares.py). Raises Problem(503).
    """
    limits = (await service.runtime.journal.load(run_id)).ledger.limits
    before = await taken(service.runtime.journal, run_id)
    wanted = TotalsShare(limits.tokens or 0, limits.cost_usd or 0.0)
    await service.database.run(
        scope, lambda session: service.limits.totals.reserve_again(session, run_id, wanted, before)
    )


async def wake(service: Service, run_id: str, call_id: str, decision: Decision) -> None:
    """Journal a decision and requeue the run.

    Raises Problem(409) if another process is driving the run.
    """
    approve = [call_id] if isinstance(decision, Approve) else []
    deny = {call_id: decision.reason} if isinstance(decision, Deny) else {}
    arguments = (
        {call_id: decision.arguments}
        if isinstance(decision, Approve) and decision.arguments is not None
        else {}
    )
    try:
        await service.runtime.wake(run_id, approve=approve, deny=deny, arguments=arguments)
    except AgentError as e:
        if e.kind is not ErrorKind.BUSY:
            raise
        raise HttpProblem(
            409,
            "This run is in progress: send the decision again in a moment.",
            headers={"Retry-After": "1"},
        ) from e

"""`/runs`: starting, following, cancelling and approving the user's own runs of the served agents.

See also: driving a run (running.py), messages of the chat (chat.py). Entry point: `router`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Query
from pydantic import BaseModel, Field, StringConstraints
from pydantic.json_schema import SkipJsonSchema
from sqlmodel import Session
from starlette.responses import Response

from treadle.errors import AgentError, ErrorKind
from treadle.journal.run_info import RunStatus
from treadle.messages.events import RunEnd
from treadle.messages.labels import TAGS_MOST, checked_metadata, checked_tags
from treadle.messages.metrics import RunTotals
from treadle.runtime.children import check_seen
from treadle.runtime.session import RunOptions
from treadle.service.answering import ask, start
from treadle.service.bodies import RequestModel
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.scope import Scope
from treadle.service.database.tables import ServedRun
from treadle.service.following import events_so_far, follow
from treadle.service.forms import Data, Id, InPath, Line, Moment, Whole, Words, problems
from treadle.service.problems import HttpProblem, not_found, unavailable
from treadle.service.queueing import settled
from treadle.service.resuming import settle
from treadle.service.running import CANNOT_RUN, decide, info_of, open_calls, served_agent, start_run
from treadle.service.signed_in import SignedIn, TheService
from treadle.service.sse import MEDIA_TYPE, POSITION_PATTERN, position_of
from treadle.service.state import Service
from treadle.tools.approval import Approve, Deny
from treadle.types import Outcome, Usage

LISTED_MOST: Final = 100
PAGES_MOST: Final = 10
"""Maximum number of pages searched for runs that meet conditions."""
EventId = Annotated[str, StringConstraints(pattern=POSITION_PATTERN)]
router = APIRouter(prefix="/runs", tags=["runs"])


class RunRequest(RequestModel):
    # openapi.py adds that the chat's agent takes no inputs, tags and metadata.
    agent: Id
    prompt: Words
    inputs: Data = Field(default_factory=dict)
    tags: Annotated[list[Line], Field(max_length=TAGS_MOST)] = Field(default_factory=list)
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)


class RunStartedOut(BaseModel):
    run_id: str


class RunHead(BaseModel):
    run_id: str
    agent: str
    """Agent in charge: the last one, if the run was handed over."""
    conversation_id: str | None
    status: RunStatus
    """queued: waits for a worker. waiting: waits for this user's approval. stopped: continues when
    the service restarts.
    """
    lease_s: float | None = None
    """Seconds after which another process continues a running run if the process that drives it has
    died. None if it is not running, or its death is noticed immediately.
    """
    outcome: str | None
    """Outcome of the run; None until it is finished."""
    created_at: datetime
    finished_at: datetime | None
    tags: list[str]
    metadata: dict[str, str | int | float | bool]


class WaitingCall(BaseModel):
    call_id: str
    name: str
    arguments: dict[str, Any] | str
    reason: str


class TokensUsed(BaseModel):
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int


class TreeTotal(BaseModel):
    """Sums over the run and its child runs."""

    runs: int
    turns: int
    tool_calls: int
    usage: TokensUsed
    cost_usd: float | None
    """Cost of the responses whose price is known, in USD."""
    unpriced: int
    """Number of responses whose price is unknown."""


class WholeRun(RunHead):
    text: str
    output: Any
    """Typed output of an agent that has one, as JSON."""
    usage: TokensUsed
    cost_usd: float | None
    turns: int
    tool_calls: int
    total: TreeTotal
    waiting: list[WaitingCall]
    entries: int
    """Number of entries of the run; pass it as `seen` with a decision."""


class DecisionOnCall(RequestModel):
    decision: Literal["approve", "deny"]
    reason: Line = ""
    """Reason for a denial, for the model."""
    arguments: Data | None = None
    """Replacement of all arguments of an approved call."""
    seen: Annotated[int, Field(ge=0, lt=10**15), Whole] | None = None
    """`entries` of the run as the client read it. A decision on a call that has since started, or
    asked again, is refused.
    """


@router.post("", status_code=201, responses=problems(404))
async def create_run(body: RunRequest, scope: SignedIn, service: TheService) -> RunStartedOut:
    """Start a run of a served agent.

    A run of `{agent}` begins a conversation, as `POST /chat` does.
    """
    if service.stopping.is_set():
        raise unavailable()
    if body.agent == service.application.name:
        return RunStartedOut(run_id=await _say(service, scope, body))
    if (agent := served_agent(service, body.agent)) is None:
        raise HttpProblem(404, "There is no agent with this name here.")
    try:
        agent.values(body.inputs)
        options: RunOptions = {
            "inputs": body.inputs,
            "tags": checked_tags(body.tags),
            "metadata": checked_metadata(body.metadata),
        }
    except AgentError as e:
        raise HttpProblem(422, f"{e.message}.") from e
    try:
        return RunStartedOut(run_id=await start_run(service, scope, agent, body.prompt, options))
    except AgentError as e:
        if e.kind is not ErrorKind.INVALID:
            raise
        raise unavailable(CANNOT_RUN) from e


async def _say(service: Service, scope: Scope, body: RunRequest) -> str:
    for name in ("inputs", "tags", "metadata"):
        if getattr(body, name):
            raise HttpProblem(422, f"The agent {body.agent} takes no {name}.")
    async with AsyncExitStack() as held:
        spending = await held.enter_async_context(service.limits.place(scope))
        asked = await service.database.run(scope, ask(service, None, body.prompt, scope, spending))
        return start(service, scope, asked, held.pop_all(), spending).run_id


async def _conditions(  # FastAPI calls a synchronous dependency in a thread
    status: Annotated[
        RunStatus | Outcome | None, Query(description="A status or an outcome.")
    ] = None,
    agent: Annotated[Id | None, Query()] = None,
    tag: Annotated[Line | None, Query()] = None,
) -> dict[str, str]:
    given = {"status": status, "agent": agent, "tag": tag}
    return {name: value for name, value in given.items() if value is not None}


def _meets(head: RunHead, only: Mapping[str, str]) -> bool:
    return (
        only.get("status") in (None, head.status, head.outcome)
        and only.get("agent") in (None, head.agent)
        and ("tag" not in only or only["tag"] in head.tags)
    )


@router.get("")
async def runs(
    scope: SignedIn,
    service: TheService,
    only: Annotated[dict[str, str], Depends(_conditions)],
    limit: Annotated[int, Query(ge=1, le=LISTED_MOST)] = 50,
    before: Annotated[
        Moment | None, Query(description="Return only those whose `created_at` is earlier.")
    ] = None,
) -> list[RunHead]:
    """List the user's runs, newest first. With conditions, among the newest thousand."""
    found = list[RunHead]()
    for _ in range(PAGES_MOST):
        page = partial(_rows, scope, limit=LISTED_MOST if only else limit, before=before)
        rows = await service.database.read(scope, page)
        heads = [RunHead(**await _head(service, scope, row)) for row in rows]
        found += [head for head in heads if _meets(head, only)]
        if len(found) >= limit or not only or len(rows) < LISTED_MOST:
            break
        before = rows[-1].created_at
    return found[:limit]


@router.get("/{run_id}", responses=problems(404))
async def run(run_id: InPath, scope: SignedIn, service: TheService) -> WholeRun:
    row = await _own(service, scope, run_id)
    info = await info_of(service, run_id)
    waiting, _ = await open_calls(service, run_id)
    end = next(
        (
            event
            for event in reversed(await events_so_far(service, scope, row))
            if isinstance(event, RunEnd) and event.run_id == run_id
        ),
        None,
    )
    usage = Usage() if info is None else info.usage
    return WholeRun(
        **await _head(service, scope, row),
        text="" if end is None else end.text,
        output=None if end is None or end.output == end.text else end.output,
        usage=TokensUsed.model_validate(usage, from_attributes=True),
        cost_usd=None if info is None else info.cost_usd,
        turns=0 if info is None else info.turns,
        tool_calls=0 if info is None else info.tool_calls,
        total=TreeTotal.model_validate(
            RunTotals() if info is None else info.total, from_attributes=True
        ),
        waiting=[]
        if end is not None
        else [WaitingCall.model_validate(call, from_attributes=True) for call in waiting.values()],
        entries=0 if info is None else info.entries,
    )


@router.get(
    "/{run_id}/events",
    responses={
        200: {
            "description": "The run's events, in the format of `treadle run --output stream-json`.",
            "content": {MEDIA_TYPE: {}},
        },
        204: {"description": "The run has ended, and the client has all of its events."},
        **problems(404),
    },
)
async def run_events(
    run_id: InPath,
    scope: SignedIn,
    service: TheService,
    after: Annotated[
        EventId | None, Query(description="Id of the last event that the client has.")
    ] = None,
    last_event_id: Annotated[
        EventId | SkipJsonSchema[None],
        Header(description="The same; takes precedence over `after`."),
    ] = None,
) -> Response:
    """Stream the run's events: those in the journal after `after`, then live ones.

    Deltas may be omitted; other events are not.
    """
    known = last_event_id or after
    row = await _own(service, scope, run_id)
    return await follow(service, scope, row, None if known is None else position_of(known))


@router.post("/{run_id}/cancel", status_code=202, responses=problems(404))
async def cancel(run_id: InPath, scope: SignedIn, service: TheService) -> RunStartedOut:
    """Request cancellation. A finished run is unaffected."""
    await _own(service, scope, run_id)
    service.live.spawn(partial(_kill, service, scope, run_id))
    return RunStartedOut(run_id=run_id)


async def _kill(service: Service, scope: Scope, run_id: str) -> None:
    """Cancel the run, even if it is about to begin.

    The driving process stores the reply to a message; without one, this function does.
    """
    if (live := service.live.get(run_id)) is not None:
        await live.begun.wait()
    if await info_of(service, run_id) is None:
        return
    info = await service.runtime.kill(run_id)
    if (
        info.status == "finished"
        and (live := service.live.get(run_id) or await settle(service, scope, run_id)) is not None
    ):
        await live.over.wait()


@router.post("/{run_id}/approvals/{call_id}", status_code=202, responses=problems(404, 409))
async def approve(
    run_id: InPath, call_id: InPath, body: DecisionOnCall, scope: SignedIn, service: TheService
) -> RunStartedOut:
    """Approve or deny a waiting call, even after a restart of the service."""
    row = await _own(service, scope, run_id)
    if body.seen is not None:
        try:
            await check_seen(service.runtime.journal, run_id, [call_id], body.seen)
        except AgentError as e:
            raise HttpProblem(
                409, "This call has changed since you read the run: read it again, then decide."
            ) from e
    decision = Approve(body.arguments) if body.decision == "approve" else Deny(body.reason)
    await decide(service, scope, row, call_id, decision)
    return RunStartedOut(run_id=run_id)


def _rows(scope: Scope, session: Session, **page: Any) -> list[ServedRun]:
    return ConversationStore(session, scope).runs(**page)


async def _own(service: Service, scope: Scope, run_id: str) -> ServedRun:
    def work(session: Session) -> ServedRun:
        if (row := ConversationStore(session, scope).run(run_id)) is None:
            raise not_found()
        return row

    return await service.database.read(scope, work)


async def _head(service: Service, scope: Scope, row: ServedRun) -> dict[str, Any]:
    info = await info_of(service, row.run_id)
    if (
        info is not None
        and info.status == "finished"
        and info.queue is not None
        and row.finished_at is None
    ):
        # a worker drove the run and did not update the row
        await settled(service, scope, row.run_id)
        row = await _own(service, scope, row.run_id)
    live = service.live.get(row.run_id) is not None
    status = ("running" if live else "stopped") if info is None else info.status
    if live and status in ("stopped", "queued"):
        status = "running"
    return {
        "run_id": row.run_id,
        "agent": row.agent if info is None else info.agent,
        "conversation_id": row.conversation_id,
        "status": status,
        "lease_s": None if info is None or live else info.lease_s,
        "outcome": None if info is None or info.outcome is None else info.outcome.value,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
        "tags": [] if info is None else [*info.tags],
        "metadata": {} if info is None else info.metadata,
    }

"""`POST /chat`: a message from a user and its reply, as JSON or as a stream. See also: how the
reply is produced (answering.py).

Entry point: `router`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import anyio
import msgspec
from fastapi import APIRouter, Request
from pydantic import BaseModel
from sqlmodel import Session
from starlette.responses import Response

from treadle.agents.agent import Agent
from treadle.errors import AgentError, ErrorKind
from treadle.service.answering import LATE, ask, busy, start
from treadle.service.bodies import RequestModel
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.scope import Scope
from treadle.service.database.tables import ServedRun
from treadle.service.following import follow
from treadle.service.forms import Id, Words, problems
from treadle.service.live import LiveRun
from treadle.service.problems import HttpProblem, not_found, unavailable
from treadle.service.resuming import settle
from treadle.service.running import info_of
from treadle.service.signed_in import SignedIn, TheService
from treadle.service.spending import RunSpending
from treadle.service.sse import MEDIA_TYPE, SseResponse, position_of
from treadle.service.state import Service
from treadle.service.stored_messages import StoredMessage, Unsettled

PATIENCE_S: Final = 15.0
"""Seconds that a response waits for the reply after the run's own limit."""

RUN_S: Final = 30.0
"""Time limit in seconds of a run whose agent has none."""

router = APIRouter(tags=["chat"])


class ChatRequest(RequestModel):
    message: Words
    conversation_id: Id | None = None
    """Conversation to continue; None begins one. The service keeps the history, so clients do not
    send it.
    """


class CallOfReply(BaseModel):
    tool_name: str
    parameters: dict[str, Any]
    result: dict[str, Any]
    duration_ms: int


class ChatReply(BaseModel):
    response: str
    conversation_id: str
    tool_calls: list[CallOfReply]


@router.post(
    "/chat",
    response_model=ChatReply,
    responses={
        200: {
            "description": (
                "The reply. With `Accept: text/event-stream`, a stream of the run's events that "
                "ends with the reply, as event `reply`."
            ),
            "content": {MEDIA_TYPE: {}},
        },
        **problems(404, 409, 504),
    },
)
async def chat(
    body: ChatRequest, request: Request, scope: SignedIn, service: TheService
) -> Response:
    """Send a message to {title}. The reply is stored in the conversation even if the client
    disconnects.

    To resume the stream of the newest message, send `Last-Event-ID` with the same message and its
    `conversation_id`.
    """
    if service.stopping.is_set():
        raise unavailable()
    streamed = MEDIA_TYPE in request.headers.get("accept", "")
    if streamed and (last := request.headers.get("last-event-id")):
        return await _again(service, scope, body, last)
    if streamed:
        return await _streamed(service, scope, body)
    async with AsyncExitStack() as held:
        spending = await held.enter_async_context(service.limits.place(scope))
        asked = await _asked(service, scope, body, spending)
        live = start(service, scope, asked, held.pop_all(), spending)
    return await replied(live, _seconds(service.chat.agent) + PATIENCE_S)


async def _streamed(service: Service, scope: Scope, body: ChatRequest) -> SseResponse:
    async with AsyncExitStack() as held, AsyncExitStack() as open_stream:
        spending = await held.enter_async_context(service.limits.place(scope))
        await open_stream.enter_async_context(service.limits.stream(scope))
        asked = await _asked(service, scope, body, spending)
        channels = service.live.channels
        reader = channels.open(asked.run_id)
        open_stream.callback(channels.leave, asked.run_id, reader)
        start(service, scope, asked, held.pop_all(), spending)
        return SseResponse(reader, over=open_stream.pop_all().aclose)


async def _asked(
    service: Service, scope: Scope, body: ChatRequest, spending: RunSpending
) -> StoredMessage:
    """Store the message. Raises Problem: 404 for a conversation of another user, 409 while the
    previous message is being answered.
    """
    try:
        return await service.database.run(
            scope, ask(service, body.conversation_id, body.message, scope, spending)
        )
    except Unsettled as e:
        await settle(service, scope, e.run_id)
        is_here = service.live.get(e.run_id) is not None
        info = None if is_here else await info_of(service, e.run_id)
        raise busy(info if info is not None and info.status == "running" else None) from e


async def _again(service: Service, scope: Scope, body: ChatRequest, last: str) -> Response:
    """Resume the stream of the newest message after event `last`."""
    if (after := position_of(last)) is None:
        raise HttpProblem(422, "Last-Event-ID must be the id of an event that this service sent.")
    run, asked = await service.database.read(scope, partial(_newest, scope, body.conversation_id))
    if asked.message != body.message:
        raise HttpProblem(
            409,
            (
                "Last-Event-ID resumes only the newest message of a conversation, which is a "
                "different one: omit the header to send this message."
            ),
        )
    return await follow(service, scope, run, after)


def _newest(
    scope: Scope, conversation_id: str | None, session: Session
) -> tuple[ServedRun, StoredMessage]:
    store = ConversationStore(session, scope)
    run = store.newest_run(conversation_id) if conversation_id is not None else None
    asked = store.asked(run.run_id) if run is not None else None
    if run is None or asked is None:
        raise not_found()
    return run, asked


def _seconds(agent: Agent[Any, Any]) -> float:
    return (agent.limits and agent.limits.seconds) or RUN_S


async def replied(live: LiveRun, patience_s: float) -> Response:
    """Wait for the reply of a run and return it as a response.

    Raises Problem(504) if the run timed out, and the run's error if it has no reply.
    """
    with anyio.move_on_after(patience_s):
        await live.over.wait()
    if isinstance(live.error, AgentError) and live.error.kind is ErrorKind.CANCELLED:
        raise unavailable(
            "The service is shutting down. Your message is saved and will be answered when the "
            "service is back."
        )
    if isinstance(live.error, AgentError) and live.error.kind is ErrorKind.BUSY:
        raise unavailable(
            "Another process has taken over your message: its reply will be in the conversation "
            "in a moment."
        )
    if live.error is not None:
        raise live.error
    if live.reply is None or live.reply.late:
        raise HttpProblem(
            504, LATE, conversation_id=None if live.reply is None else live.reply.conversation_id
        )
    return Response(msgspec.json.encode(live.reply.shown), media_type="application/json")

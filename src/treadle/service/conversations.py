"""`/conversations`: listing, reading and deleting conversations. See also: new messages (chat.py).
Entry point: `router`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel
from sqlmodel import Session
from starlette.responses import Response

from treadle.service.chat import CallOfReply
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.tables import ChatMessage, Conversation
from treadle.service.forgetting import forget
from treadle.service.forms import InPath, Moment, problems
from treadle.service.problems import not_found
from treadle.service.resuming import settle
from treadle.service.signed_in import SignedIn, TheService

LISTED_MOST: Final = 100
router = APIRouter(prefix="/conversations", tags=["conversations"])


class ConversationHead(BaseModel):
    id: str
    title: str
    created_at: datetime
    updated_at: datetime


class MessageOut(BaseModel):
    id: str
    role: str
    content: str
    tool_calls: list[CallOfReply]
    run_id: str | None
    created_at: datetime


class WholeConversation(ConversationHead):
    messages: list[MessageOut]
    """Last 200 messages, oldest first."""
    run_id: str | None
    """Id of the run that answers the newest message; None once the reply is stored."""


@router.get("")
async def conversations(
    scope: SignedIn,
    service: TheService,
    limit: Annotated[int, Query(ge=1, le=LISTED_MOST)] = 50,
    before: Annotated[
        Moment | None, Query(description="Return only those whose `updated_at` is earlier.")
    ] = None,
) -> list[ConversationHead]:
    """List conversations, newest first."""

    def work(session: Session) -> list[ConversationHead]:
        return [
            ConversationHead(**_head(row))
            for row in ConversationStore(session, scope).all(limit=limit, before=before)
        ]

    return await service.database.read(scope, work)


@router.get("/{conversation_id}", responses=problems(404))
async def conversation(
    conversation_id: InPath, scope: SignedIn, service: TheService
) -> WholeConversation:
    def work(session: Session) -> WholeConversation:
        store = ConversationStore(session, scope)
        if (found := store.get(conversation_id)) is None:
            raise not_found()
        newest = store.newest_run(conversation_id)
        under_way = newest.run_id if newest is not None and newest.finished_at is None else None
        return WholeConversation(
            **_head(found),
            messages=[_said(row) for row in store.messages(conversation_id)],
            run_id=under_way,
        )

    whole = await service.database.read(scope, work)
    # The run's process died, and no other process has resumed it.
    if whole.run_id is not None and service.live.get(whole.run_id) is None:
        await settle(service, scope, whole.run_id)
        return await service.database.read(scope, work)
    return whole


@router.delete("/{conversation_id}", status_code=204, responses=problems(404, 409))
async def delete_conversation(
    conversation_id: InPath, scope: SignedIn, service: TheService
) -> Response:
    """Delete a conversation with all its messages, including their journal entries.

    A run in progress is cancelled first. {keeps}
    """
    await forget(service, scope, conversation_id)
    return Response(status_code=204)


def _head(row: Conversation) -> dict[str, Any]:
    return {
        "id": row.id,
        "title": row.title,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def _said(row: ChatMessage) -> MessageOut:
    calls = [CallOfReply.model_validate(call) for call in row.tool_calls]
    return MessageOut(
        id=row.id,
        role=row.role,
        content=row.content,
        tool_calls=calls,
        run_id=row.run_id,
        created_at=row.created_at,
    )

"""The work that a chat request of the service cannot avoid, on the same libraries: FastAPI reads the
token and the body, and four transactions of SQLModel execute the service's own statements.

There is no run, no journal, no limit in memory, no isolation of users, no log and no metrics.
`python benchmarks/service.py --floor` measures it beside the service. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import uvicorn
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request
from pydantic import BaseModel
from sqlalchemy import Table, bindparam, delete, func, insert, update
from sqlmodel import Session, col, select

from treadle.apps.assistant.tables import Change, Task
from treadle.service.database.engines import connected
from treadle.service.database.migrating import newest
from treadle.service.database.tables import (
    ChatMessage,
    Conversation,
    Login,
    Reserved,
    ServedRun,
    Spent,
    SpentByAll,
)
from treadle.service.tokens import Tokens, signing_key

T = TypeVar("T")
any_select: Any = select


def _insertion(table: Any) -> Any:
    return insert(cast("Table", table.__table__))


MINE = bindparam("mine")
LOGIN = select(Login.account_id, Login.expires_at, Login.revoked_at).where(
    col(Login.id) == bindparam("login")
)
SPENT = select(Spent.tokens, Spent.cost_usd).where(
    col(Spent.user_id) == MINE, col(Spent.day) == bindparam("day")
)
SPENT_BY_ALL = select(SpentByAll.tokens, SpentByAll.cost_usd).where(
    col(SpentByAll.day) == bindparam("day")
)
RELEASED = delete(Reserved).where(col(Reserved.run_id) == bindparam("run"))
HELD = select(
    func.coalesce(func.sum(Reserved.tokens), 0),
    func.coalesce(func.sum(Reserved.cost_usd), 0),
    func.count(col(Reserved.run_id)),
).where(col(Reserved.expires_at) > bindparam("at"))
TOUCHED = (
    update(Conversation)
    .where(col(Conversation.user_id) == MINE, col(Conversation.id) == bindparam("conversation"))
    .values(updated_at=bindparam("at"))
    .execution_options(synchronize_session=False)
)
LAST_SAID = (
    any_select(
        ChatMessage.number,
        ChatMessage.role,
        ChatMessage.content,
        ChatMessage.created_at,
        ChatMessage.run_id,
    )
    .where(
        col(ChatMessage.user_id) == MINE,
        col(ChatMessage.conversation_id) == bindparam("conversation"),
    )
    .order_by(col(ChatMessage.number).desc())
    .limit(20)
)
CHANGED = select(Change).where(col(Change.user_id) == MINE, col(Change.run_id) == bindparam("run"))
TASKS = (
    select(Task)
    .where(col(Task.user_id) == MINE, col(Task.deleted_at).is_(None))
    .order_by(col(Task.created_at).desc())
    .limit(20)
)
FINISHED = (
    update(ServedRun)
    .where(col(ServedRun.user_id) == MINE, col(ServedRun.run_id) == bindparam("run"))
    .values(finished_at=bindparam("at"))
    .execution_options(synchronize_session=False)
)
COUNTED = (
    update(SpentByAll)
    .where(col(SpentByAll.day) == bindparam("today"))
    .values(tokens=SpentByAll.tokens + bindparam("more"))
    .execution_options(synchronize_session=False)
)


class ChatRequest(BaseModel):
    message: str
    conversation_id: str | None = None


class ChatReply(BaseModel):
    response: str
    conversation_id: str
    tool_calls: list[dict[str, Any]]


def create_app(url: str, key: bytes) -> FastAPI:
    engines, tokens = connected(url), Tokens(key)
    newest(engines.writing)
    readers, writers = CapacityLimiter(engines.readers), CapacityLimiter(1)
    app = FastAPI()

    async def transaction(work: Callable[[Session], T], *, reads: bool = False) -> T:
        def once() -> T:
            engine = engines.reading if reads else engines.writing
            with Session(engine, expire_on_commit=False) as session:
                result = work(session)
                session.commit()
                return result

        return await to_thread.run_sync(once, limiter=readers if reads else writers)

    async def user(request: Request) -> str:
        claims = tokens.verified(request.headers["authorization"][7:], "access")
        assert claims is not None
        found = await transaction(
            lambda s: s.exec(LOGIN, params={"login": claims.login_id}).first(), reads=True
        )
        assert found is not None
        return claims.account_id

    @app.post("/chat")
    async def chat(body: ChatRequest, request: Request) -> ChatReply:
        mine = await user(request)
        at, run, who = datetime.now(UTC), uuid.uuid4().hex, {"mine": mine}
        known, conversation = body.conversation_id, body.conversation_id or str(uuid.uuid4())
        owned = {"user_id": mine, "conversation_id": conversation, "run_id": run, "created_at": at}

        def say(session: Session, number: int, role: str, text: str) -> None:
            row = {"id": str(uuid.uuid4()), "number": number, "role": role, "content": text}
            session.execute(_insertion(ChatMessage), {**owned, **row, "tool_calls": []})

        def asked(session: Session) -> int:
            session.exec(SPENT, params={**who, "day": at.date()}).first()
            session.exec(SPENT_BY_ALL, params={"day": at.date()}).first()
            session.exec(cast("Any", RELEASED), params={"run": run})
            session.exec(HELD, params={"at": at}).first()
            until = at + timedelta(minutes=5)
            held = {
                "run_id": run,
                "day": at.date(),
                "tokens": 9,
                "cost_usd": 0,
                "expires_at": until,
            }
            session.execute(_insertion(Reserved), held)
            if known is None:
                begun = {"id": conversation, "title": "", "created_at": at, "updated_at": at}
                session.execute(_insertion(Conversation), {**begun, "user_id": mine})
            told = {**who, "conversation": conversation}
            session.exec(cast("Any", TOUCHED), params={**told, "at": at})
            before = session.exec(LAST_SAID, params=told).all()
            number = before[0].number + 1 if before else 1
            say(session, number, "user", body.message)
            served = {**owned, "agent": "tasks", "journal": "", "finished_at": None}
            session.execute(_insertion(ServedRun), served)
            return number

        def act(session: Session) -> str:
            verb, _, title = body.message.partition(" ")
            if verb == "show":
                return "\n".join(f"1. ☐ {task.title}" for task in session.exec(TASKS, params=who))
            session.exec(CHANGED, params={**who, "run": run}).first()
            if verb == "add":
                session.add(Task(user_id=mine, title=title))
            else:
                found = session.exec(TASKS, params=who).all()
                next(task for task in found if task.title == title).completed = True
            session.add(Change(user_id=mine, tool=verb, key=None, run_id=run, before=[], result={}))
            session.flush()
            done = "Got it! Added" if verb == "add" else "Great! I've marked"
            return f"{done} '{title}'"

        def answered(session: Session) -> None:
            session.exec(cast("Any", FINISHED), params={**who, "run": run, "at": at})
            session.exec(
                cast("Any", TOUCHED), params={**who, "conversation": conversation, "at": at}
            )
            say(session, number + 1, "assistant", reply)
            session.exec(cast("Any", RELEASED), params={"run": run})
            session.exec(cast("Any", COUNTED), params={"today": at.date(), "more": 9})

        number = await transaction(asked)
        reply = "" if body.message == "thanks" else await transaction(act)
        await transaction(answered)
        return ChatReply(response=reply, conversation_id=conversation, tool_calls=[])

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--home", type=Path, required=True)
    given = parser.parse_args()
    app = create_app(f"sqlite:///{given.home}/tasks.db", signing_key({}, given.home))
    uvicorn.run(app, host="127.0.0.1", port=given.port, log_level="warning", http="httptools")


if __name__ == "__main__":
    main()

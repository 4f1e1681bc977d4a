"""Answering of a user's message: its run is driven until the reply is stored, even if the client
disconnects.

See also: routes (chat.py), how the application answers (application.py). Entry points: `ask`,
`answer`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Final

import anyio
from sqlmodel import Session

from treadle._internal.terminal_text import plain
from treadle.errors import AgentError, ErrorKind
from treadle.journal.run_info import RunInfo
from treadle.messages.events import RunEnd
from treadle.service.application import ChatTurn, NewMessage
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.scope import Scope
from treadle.service.live import LiveRun, StoredReply
from treadle.service.problems import TROUBLE, HttpProblem, not_found
from treadle.service.running import is_elsewhere, lease_note
from treadle.service.spending import RunSpending, measurable
from treadle.service.sse import said
from treadle.service.state import Service
from treadle.service.stored_messages import StoredMessage
from treadle.types import Outcome, new_id

logger = logging.getLogger("treadle.service")

LATE: Final = "This took too long and was stopped. Everything done before that is kept."
STORE_WAITS_S: Final = (0.1, 0.5, 2.0)
"""Delays before retrying to store a reply that the database rejected."""


def ask(
    service: Service, conversation_id: str | None, message: str, scope: Scope, spending: RunSpending
) -> Callable[[Session], StoredMessage]:
    """Return a function that stores a message and its run in a transaction.

    It raises Unsettled, and Problem: 404 for a conversation of another user, 429 and 503 at the
    daily limits.
    """
    run_id = new_id("run")

    def work(session: Session) -> StoredMessage:
        chat = service.chat
        service.limits.afford(session, scope, spending, run_id, chat.agent)
        asked = ConversationStore(session, scope).ask(
            conversation_id, message, run_id, service.application.name, journal=service.journal
        )
        if asked is None:
            raise not_found()
        new = NewMessage(asked.conversation_id, message, run_id)
        return replace(asked, note=chat.on_message(session, scope, new))

    return work


def busy(info: RunInfo | None = None) -> HttpProblem:
    """Return the problem of a conversation whose last message has no reply yet.

    `info`: its run, if another process drives it.
    """
    by = " by another process" if info is not None else ""
    return HttpProblem(
        409,
        f"Your previous message is still being answered{by}: wait for its reply."
        + lease_note(info),
        headers={"Retry-After": "1"},
    )


def start(
    service: Service,
    scope: Scope,
    asked: StoredMessage,
    held: AsyncExitStack,
    spending: RunSpending,
    *,
    again: bool = False,
) -> LiveRun:
    """Start the run in a task of the service. `held` is closed when the run ends. `again`: True if
    a process that died had started the run.
    """
    return service.live.start(
        asked.run_id, scope, partial(_held, service, asked, held, spending, again)
    )


async def _held(
    service: Service,
    asked: StoredMessage,
    held: AsyncExitStack,
    spending: RunSpending,
    again: bool,
    live: LiveRun,
) -> None:
    async with held:
        await answer(service, live, asked, spending, again=again)


async def answer(
    service: Service,
    live: LiveRun,
    asked: StoredMessage,
    spending: RunSpending,
    *,
    again: bool = False,
) -> None:
    """Drive the run, store its reply and publish it to subscribers.

    Raises AgentError: network if the database does not respond, cancelled if the run was released,
    busy if another process drives it. In these cases, and on cancellation, the journal has the run,
    and the reply is stored once the run has ended.
    """
    try:
        reply = await _driven(service, live, asked, spending, again=again)
    except AgentError as e:
        if e.kind in (ErrorKind.CANCELLED, ErrorKind.BUSY):
            raise
        logger.warning("the message of run %s could not be answered: %s", asked.run_id, e.message)
        reply = StoredReply(
            TROUBLE if plain(asked.message).strip() else service.chat.unclear,
            asked.conversation_id,
        )
    await store(service, live.scope, asked, reply, spending)
    live.reply = reply
    live.tell_frame(said("reply", reply.shown, last=True))


async def _driven(
    service: Service, live: LiveRun, asked: StoredMessage, spending: RunSpending, *, again: bool
) -> StoredReply:
    chat, turn = service.chat, _turn(live.scope, asked)
    if again:
        stream = chat.resume(turn)
    else:
        stream = chat.stream(turn, await measurable(service.runtime, chat.agent, spending.limits))
    async with stream as events:
        live.begun.set()
        async for event in events:
            if isinstance(event, RunEnd) and event.outcome is Outcome.TIMEOUT:
                live.tell_frame(
                    said("error", {"type": "error", "kind": "timeout", "message": LATE})
                )
            live.tell(event)
    if live.is_kept_back:
        if await is_elsewhere(service, asked.run_id):
            raise AgentError(
                "busy",
                f"run {asked.run_id} was taken over by another process, which stores its reply",
            )
        live.tell_ends()
    if stream.outcome is not None:
        service.metrics.runs.labels(service.application.name, stream.outcome.value).inc()
    await spending.count_run(service.runtime.journal, asked.run_id, stream.metrics)
    reply = stream.reply
    return StoredReply(reply.text, asked.conversation_id, reply.tool_calls, late=reply.late)


def _turn(scope: Scope, asked: StoredMessage) -> ChatTurn:
    return ChatTurn(
        scope=scope,
        conversation_id=asked.conversation_id,
        message=asked.message,
        run_id=asked.run_id,
        history=asked.history,
        note=asked.note,
    )


async def store(
    service: Service, scope: Scope, asked: StoredMessage, reply: StoredReply, spending: RunSpending
) -> None:
    """Store the reply together with the run's usage, with retries.

    Raises AgentError(network) after the last retry. The journal has the run, and its reply is
    stored at the next start.
    """

    def work(session: Session) -> None:
        ConversationStore(session, scope).answer(asked, reply.response, reply.tool_calls)
        service.limits.count(session, scope, spending, asked.run_id)

    for wait_s in (*STORE_WAITS_S, None):
        try:
            await service.database.run(scope, work)
        except AgentError as e:
            if e.kind is not ErrorKind.NETWORK or wait_s is None:
                raise
            await anyio.sleep(wait_s)
        else:
            service.limits.counted(spending)
            return

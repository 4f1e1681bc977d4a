"""Deletion of a conversation: its rows, and its runs' journal entries. Entry points: `forget`,
`keep_scrubbed`.

The journal entries go first. A crash in between leaves a conversation that can be deleted again,
and no orphaned text.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from typing import Final

import anyio
from sqlmodel import Session

from treadle.errors import AgentError
from treadle.service.answering import busy
from treadle.service.application import ChatBackend
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.scope import Scope
from treadle.service.database.tables import ServedRun
from treadle.service.problems import not_found
from treadle.service.queueing import BEGINS_S
from treadle.service.running import info_of
from treadle.service.state import Service
from treadle.types import now

logger = logging.getLogger("treadle.service")

SCRUB_S: Final = 2.0
"""Seconds before another attempt to empty the database's log, if a reader prevented the first."""
ROUNDS: Final = 3
"""Rounds for deleting messages that arrive during the deletion."""


async def forget(service: Service, scope: Scope, conversation_id: str) -> None:
    """Cancel this conversation's runs in progress, then delete it from the journal and the
    database. Durable when it returns.

    Raises Problem: 404 for a conversation of another user, 409 if another process is about to begin
    a run of it or keeps adding messages. Raises AgentError(busy) if the process that drives a run
    does not respond.
    """
    gone: set[str] = set()
    for _ in range(ROUNDS):
        runs = await service.database.read(scope, partial(_runs, scope, conversation_id))
        for run in runs:
            if run.finished_at is None:
                await _end(service, run)
        new = {run.run_id for run in runs} - gone
        await service.runtime.journal.remove(new)
        gone |= new
        delete = partial(_delete, service.chat, scope, conversation_id, gone)
        if await service.database.run(scope, delete):
            await service.database.scrub()
            return
    raise busy()


async def keep_scrubbed(service: Service) -> None:
    """Empty the database's log again whenever a reader prevented it, until the service ends."""
    while not service.stopping.is_set():
        if service.database.owes_log:
            try:
                await service.database.scrub(wait_s=0)
            except AgentError as e:
                logger.warning(
                    "deleted text may remain in the log of the database for now: %s", e.message
                )
        with anyio.move_on_after(SCRUB_S):
            await service.stopping.wait()


def _runs(scope: Scope, conversation_id: str, session: Session) -> list[ServedRun]:
    store = ConversationStore(session, scope)
    if store.get(conversation_id) is None:
        raise not_found()
    return store.runs_of(conversation_id)


def _delete(
    chat: ChatBackend, scope: Scope, conversation_id: str, gone: Collection[str], session: Session
) -> bool:
    """Delete the conversation. Return False and delete nothing if a message has arrived whose run
    is not in `gone`.
    """
    store = ConversationStore(session, scope)
    if store.get(conversation_id, lock=True) is None:
        raise not_found()
    if any(run.run_id not in gone for run in store.runs_of(conversation_id)):
        return False
    chat.on_delete(session, scope, conversation_id)
    return store.delete(conversation_id)


async def _end(service: Service, run: ServedRun) -> None:
    """Cancel the run, and wait until this process has stopped writing it."""
    if (live := service.live.get(run.run_id)) is not None:
        await live.begun.wait()
    if await info_of(service, run.run_id) is not None:
        await service.runtime.kill(run.run_id)
    elif live is None and (now() - run.created_at).total_seconds() <= BEGINS_S:
        raise busy()
    if live is not None:
        await live.over.wait()

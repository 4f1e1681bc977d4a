"""Runs whose process died: at the next start each goes on, or gets an honest end. Not here: how a run goes on (runtime.py).

Entry: `resume_all`, in the background of a service that has just opened; `settle`, for one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import anyio
from sqlmodel import Session, col, select

from treadle.database.scope import Identity, Scope
from treadle.database.tables import Account, ServedRun
from treadle.errors import AgentError
from treadle.service.answering import start, store
from treadle.service.conversation_store import Asked, ConversationStore
from treadle.service.limits import Spending
from treadle.service.live import LiveRun, Reply
from treadle.service.problems import TROUBLE, Problem
from treadle.service.running import go_on, info_of
from treadle.service.state import Service
from treadle.tasks.agent import NAME
from treadle.types import now

logger = logging.getLogger("treadle.service")

AT_ONCE: Final = 4
"""Runs that go on at the same time, beside those that people start meanwhile."""
PAGE: Final = 500
BEGINS_S: Final = 40.0
"""So long a run that is in no journal of ours may yet begin, or be another process's: longer than any of the task assistant takes."""


async def resume_all(service: Service) -> None:
    """Everything that was served and is not over. What fails is logged, and tried again when its person comes back, or at the next start."""
    await _resume_all(service)
    await anyio.sleep(BEGINS_S)
    await _resume_all(service)


async def _resume_all(service: Service) -> None:
    places = anyio.CapacityLimiter(AT_ONCE)
    async with anyio.create_task_group() as group:
        async for scope in _people(service):
            for run in await service.database.read(scope, partial(_unfinished, scope)):
                if service.live.get(run.run_id) is None:
                    await places.acquire_on_behalf_of(run.run_id)
                    group.start_soon(_again, service, scope, run, places)


async def _again(service: Service, scope: Scope, run: ServedRun, places: anyio.CapacityLimiter) -> None:
    try:
        if not service.stopping.is_set() and (live := await settle(service, scope, run.run_id)) is not None:
            await live.over.wait()
    except (AgentError, Problem) as e:
        logger.warning("run %s does not go on now: %s", run.run_id, e)
    except Exception:  # the edge of a task: the others go on
        logger.exception("run %s does not go on", run.run_id)
    finally:
        places.release_on_behalf_of(run.run_id)


async def settle(service: Service, scope: Scope, run_id: str) -> LiveRun | None:
    """Makes a run go on that nobody drives; None where there is nothing to wait for here: it is over now, or waits for its person, or may yet begin."""
    run, asked = await service.database.read(scope, partial(_served, scope, run_id))
    info = await info_of(service, run_id)
    if (live := service.live.get(run_id)) is not None or run is None or run.finished_at is not None:
        return live
    if info is None:
        if asked is not None and service.journal and run.journal == service.journal and run.created_at < service.opened_at:
            return start(service, scope, asked, AsyncExitStack(), Spending())  # its process died before it began: the journal begins no run twice
        if (now() - run.created_at).total_seconds() > BEGINS_S:
            await _never_began(service, scope, run_id, asked)
        return None
    if asked is not None:
        return start(service, scope, asked, AsyncExitStack(), Spending(), again=True)
    if run.agent == NAME and info.status != "finished":  # its client has gone with the process: nobody would get the answer
        info = await service.runtime.kill(run_id)
    if info.status == "finished":
        await service.database.run(scope, partial(_finish, scope, run_id))
        return None
    return None if info.status == "waiting" else await go_on(service, scope, run, {})


async def _never_began(service: Service, scope: Scope, run_id: str, asked: Asked | None) -> None:
    """Its person is told: nothing was done."""
    if asked is not None:
        await store(service, scope, asked, Reply(TROUBLE, asked.conversation_id), Spending())
    else:
        await service.database.run(scope, partial(_finish, scope, run_id))


def _finish(scope: Scope, run_id: str, session: Session) -> None:
    ConversationStore(session, scope).finish(run_id)


async def _people(service: Service) -> AsyncIterator[Scope]:
    """All that have an account."""
    last = ""
    while page := await service.database.read_unscoped(partial(_accounts, last)):
        for account_id in page:
            yield Scope(Identity(account_id, "journal"))
        last = page[-1]


def _accounts(after: str, session: Session) -> list[str]:
    return [*session.exec(select(Account.id).where(col(Account.id) > after).order_by(col(Account.id)).limit(PAGE))]


def _unfinished(scope: Scope, session: Session) -> list[ServedRun]:
    return ConversationStore(session, scope).unfinished()


def _served(scope: Scope, run_id: str, session: Session) -> tuple[ServedRun | None, Asked | None]:
    rows = ConversationStore(session, scope)
    return rows.run(run_id), rows.asked(run_id)

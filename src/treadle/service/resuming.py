"""Recovery of runs whose process died: each is resumed, at the next start or in another replica, or
marked as failed. See also: how a run resumes (runtime.py).

Entry points: `resume_all`, in the background of a service that has just opened; `take_up`, while it
is open; `settle`, for one run.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Final

import anyio
from sqlmodel import Session, col, select

from treadle.errors import AgentError, ErrorKind
from treadle.runtime.closing_runs import close_orphans, driven_elsewhere
from treadle.service.answering import start, store
from treadle.service.conversation_store import ConversationStore
from treadle.service.database.scope import Identity, Scope
from treadle.service.database.tables import Account, ServedRun
from treadle.service.live import LiveRun, StoredReply
from treadle.service.problems import TROUBLE, HttpProblem
from treadle.service.queueing import BEGINS_S, settled
from treadle.service.running import go_on, info_of
from treadle.service.spending import RunSpending
from treadle.service.state import Service
from treadle.service.stored_messages import StoredMessage
from treadle.types import now

logger = logging.getLogger("treadle.service")

AT_ONCE: Final = 4
"""Concurrent resumed runs, in addition to newly started ones."""
PAGE: Final = 500
LATE_S: Final = 5.0
"""Seconds after which another process may begin a run of our journal."""
TAKE_UP_S: Final = 5.0
"""Seconds between two searches for runs of other replicas."""
LEFT_MOST: Final = 500


async def resume_all(service: Service) -> None:
    """Resume all unfinished runs of the service.

    Failures are logged and retried when the user returns, or at the next start.
    """
    await _resume_all(service)
    await anyio.sleep(BEGINS_S)
    await _resume_all(service)


async def take_up(service: Service) -> None:
    """Take over runs of other replicas that die or shut down while this one is open.

    Several replicas may try concurrently; the journal gives each run to one of them.
    """
    strange, places = dict[str, None](), anyio.CapacityLimiter(AT_ONCE)
    while not service.stopping.is_set():
        with anyio.move_on_after(min(TAKE_UP_S, service.config.workers.lease_s / 3)):
            await service.stopping.wait()
        try:
            await _take_up(service, strange, places)
        except AgentError as e:
            logger.warning("cannot look for runs that other replicas left behind: %s", e.message)
        except Exception:  # task boundary: the cause may be gone at the next attempt
            logger.exception("cannot look for runs that other replicas left behind")


async def _take_up(
    service: Service, strange: dict[str, None], places: anyio.CapacityLimiter
) -> None:
    """Take over runs once. `strange`: runs without a user of this service when last checked, oldest
    first.
    """
    await close_orphans(service.runtime.journal)
    for run_id in await service.runtime.journal.left_behind(limit=LEFT_MOST):
        if run_id in strange or service.live.get(run_id) is not None or service.stopping.is_set():
            continue
        scope = await of_whom(service, run_id)
        run = (
            None
            if scope is None
            else (await service.database.read(scope, partial(_served, service, scope, run_id)))[0]
        )
        if scope is not None and run is not None and run.finished_at is None:
            await places.acquire_on_behalf_of(run_id)
            service.live.spawn(partial(_again, service, scope, run, places))
            continue
        strange[run_id] = None
        if len(strange) > 2 * LEFT_MOST:
            del strange[next(iter(strange))]


async def of_whom(service: Service, run_id: str) -> Scope | None:
    """Return the user's scope, or None if the run has no user here, was deleted, or was written by
    a newer version.
    """
    try:
        started = (await service.runtime.journal.load(run_id)).started
    except AgentError as e:
        if e.kind is not ErrorKind.INVALID:
            raise
        return None
    return (
        None
        if started is None or started.user_id is None
        else Scope(Identity(started.user_id, "journal"))
    )


async def _resume_all(service: Service) -> None:
    places = anyio.CapacityLimiter(AT_ONCE)
    async with anyio.create_task_group() as group:
        async for scope in _people(service):
            for run in await service.database.read(scope, partial(_unfinished, scope)):
                if service.live.get(run.run_id) is None:
                    await places.acquire_on_behalf_of(run.run_id)
                    group.start_soon(_again, service, scope, run, places)


async def _again(
    service: Service, scope: Scope, run: ServedRun, places: anyio.CapacityLimiter
) -> None:
    try:
        if (
            not service.stopping.is_set()
            and (live := await settle(service, scope, run.run_id)) is not None
        ):
            await live.over.wait()
    except (AgentError, HttpProblem) as e:
        logger.warning("run %s cannot be resumed now: %s", run.run_id, e)
    except Exception:  # task boundary: the other runs continue
        logger.exception("run %s could not be resumed", run.run_id)
    finally:
        places.release_on_behalf_of(run.run_id)


async def settle(service: Service, scope: Scope, run_id: str) -> LiveRun | None:
    """Resume a run that no process drives. Return None if there is nothing to wait for here: the
    run has ended, waits for its user, or may yet begin.
    """
    run, asked = await service.database.read(scope, partial(_served, service, scope, run_id))
    info = await info_of(service, run_id)
    if (live := service.live.get(run_id)) is not None or run is None or run.finished_at is not None:
        return live
    if info is None:
        if (
            asked is not None
            and service.journal
            and run.journal == service.journal
            and _is_late(service, run)
        ):
            # Its process died before it began, and the journal cannot begin a run twice.
            return start(service, scope, asked, AsyncExitStack(), RunSpending())
        if (now() - run.created_at).total_seconds() > BEGINS_S:
            await _never_began(service, scope, run_id, asked)
        return None
    if info.status in ("running", "queued"):  # driven by another process
        if info.status == "running":
            logger.info("not resumed: %s", driven_elsewhere(info))
        return None
    if info.queue is not None:
        await settled(service, scope, run_id)
        return None
    if asked is not None:
        return start(service, scope, asked, AsyncExitStack(), RunSpending(), again=True)
    # The client disconnected when the process died, so there is no recipient for the answer.
    if run.agent == service.application.name and info.status != "finished":
        info = await service.runtime.kill(run_id)
    if info.status == "finished":
        await settled(service, scope, run_id)
        return None
    return None if info.status == "waiting" else await go_on(service, scope, run, {})


def _is_late(service: Service, run: ServedRun) -> bool:
    """Return True if the process that should begin the run has died, or is so slow that it will
    find the run begun.
    """
    return run.created_at < service.opened_at or (now() - run.created_at).total_seconds() > LATE_S


async def _never_began(
    service: Service, scope: Scope, run_id: str, asked: StoredMessage | None
) -> None:
    """Store a reply that nothing was done."""
    if asked is not None:
        await store(
            service, scope, asked, StoredReply(TROUBLE, asked.conversation_id), RunSpending()
        )
    else:
        await service.database.run(scope, partial(_finish, service, scope, run_id))


def _finish(service: Service, scope: Scope, run_id: str, session: Session) -> None:
    ConversationStore(session, scope).finish(run_id)
    service.limits.totals.settle(session, run_id, 0, 0.0)


async def _people(service: Service) -> AsyncIterator[Scope]:
    """Iterate over all accounts."""
    last = ""
    while page := await service.database.read_unscoped(partial(_accounts, last)):
        for account_id in page:
            yield Scope(Identity(account_id, "journal"))
        last = page[-1]


def _accounts(after: str, session: Session) -> list[str]:
    return [
        *session.exec(
            select(Account.id).where(col(Account.id) > after).order_by(col(Account.id)).limit(PAGE)
        )
    ]


def _unfinished(scope: Scope, session: Session) -> list[ServedRun]:
    return ConversationStore(session, scope).unfinished()


def _served(
    service: Service, scope: Scope, run_id: str, session: Session
) -> tuple[ServedRun | None, StoredMessage | None]:
    rows = ConversationStore(session, scope)
    asked = rows.asked(run_id)
    if asked is not None and asked.answer is None:
        asked = replace(asked, note=service.chat.note_of(session, scope, run_id))
    return rows.run(run_id), asked

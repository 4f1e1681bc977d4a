"""Runs whose process died: each goes on, at the next start or in another replica, or gets an honest
end. Not here: how a run goes on (runtime.py).

Entry: `resume_all`, in the background of a service that has just opened; `take_up`, as long as it
is open; `settle`, for one.
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
from treadle.runtime.children import close_orphans
from treadle.service.answering import start, store
from treadle.service.conversation_store import ConversationStore, StoredMessage
from treadle.service.database.scope import Identity, Scope
from treadle.service.database.tables import Account, ServedRun
from treadle.service.limits import RunSpending
from treadle.service.live import LiveRun, StoredReply
from treadle.service.problems import TROUBLE, HttpProblem
from treadle.service.queueing import BEGINS_S, settled
from treadle.service.running import go_on, info_of
from treadle.service.state import Service
from treadle.types import now

logger = logging.getLogger("treadle.service")

AT_ONCE: Final = 4
"""Runs that go on at the same time, beside those that people start meanwhile."""
PAGE: Final = 500
LATE_S: Final = 5.0
"""After which somebody else begins a run, where it is to be in a journal of ours."""
TAKE_UP_S: Final = 5.0
"""How often runs of other replicas are looked for, at least."""
LEFT_MOST: Final = 500


async def resume_all(service: Service) -> None:
    """Everything that was served and is not over.

    What fails is logged, and tried again when its person comes back, or at the next start.
    """
    await _resume_all(service)
    await anyio.sleep(BEGINS_S)
    await _resume_all(service)


async def take_up(service: Service) -> None:
    """Runs of other replicas that die or close, as long as this one is open.

    Several may try at once: the journal lets one have each.
    """
    strange, places = dict[str, None](), anyio.CapacityLimiter(AT_ONCE)
    while not service.stopping.is_set():
        with anyio.move_on_after(min(TAKE_UP_S, service.config.workers.lease_s / 3)):
            await service.stopping.wait()
        try:
            await _take_up(service, strange, places)
        except AgentError as e:
            logger.warning(
                "runs that other replicas left behind cannot be looked for now: %s", e.message
            )
        except Exception:  # the edge of a task: the next look may find what is wrong gone
            logger.exception("runs that other replicas left behind cannot be looked for now")


async def _take_up(
    service: Service, strange: dict[str, None], places: anyio.CapacityLimiter
) -> None:
    """`strange`: runs that were nobody's here when they were looked at, the oldest first."""
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
    """None where it is nobody's of ours, or is gone, or a newer version wrote it."""
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
        logger.warning("run %s does not go on now: %s", run.run_id, e)
    except Exception:  # the edge of a task: the others go on
        logger.exception("run %s does not go on", run.run_id)
    finally:
        places.release_on_behalf_of(run.run_id)


async def settle(service: Service, scope: Scope, run_id: str) -> LiveRun | None:
    """Makes a run go on that nobody drives; None where there is nothing to wait for here: it is
    over now, or waits for its person, or may yet begin.
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
            # its process died before it began: the journal begins no run twice
            return start(service, scope, asked, AsyncExitStack(), RunSpending())
        if (now() - run.created_at).total_seconds() > BEGINS_S:
            await _never_began(service, scope, run_id, asked)
        return None
    if info.status in ("running", "queued"):  # somebody else's
        return None
    if info.queue is not None:
        await settled(service, scope, run_id)
        return None
    if asked is not None:
        return start(service, scope, asked, AsyncExitStack(), RunSpending(), again=True)
    # its client has gone with the process: nobody would get the answer
    if run.agent == service.application.name and info.status != "finished":
        info = await service.runtime.kill(run_id)
    if info.status == "finished":
        await settled(service, scope, run_id)
        return None
    return None if info.status == "waiting" else await go_on(service, scope, run, {})


def _is_late(service: Service, run: ServedRun) -> bool:
    """Whoever was to begin it has died, or is slow and then finds it begun."""
    return run.created_at < service.opened_at or (now() - run.created_at).total_seconds() > LATE_S


async def _never_began(
    service: Service, scope: Scope, run_id: str, asked: StoredMessage | None
) -> None:
    """Its person is told: nothing was done."""
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
    """All that have an account."""
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

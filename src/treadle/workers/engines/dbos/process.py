"""The single DBOS instance of a process: launched for a worker, and destroyed with it.

Entry points: `launch`, `is_taking`, `stop`, `destroy`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from dbos import DBOS, WorkflowSerializationFormat
from sqlalchemy import Engine as Database

from treadle.errors import AgentError
from treadle.journal.queue import Ticket
from treadle.workers.engines.dbos.handover import Handover
from treadle.workers.engines.dbos.store import APPLICATION, SCHEMA, VERSION, WORKFLOW

TAKER: Final = "queue-worker-"
"""Name prefix of DBOS's threads that take from a queue."""
TAKEN_S: Final = 5.0
"""Maximum seconds to wait for these threads at the end."""

_handover: Handover | None = None
"""Handover of the current worker."""
_dbos: DBOS | None = None


def quieten() -> None:
    """Silence DBOS's log on standard error, because the engine reports errors."""
    logger = logging.getLogger("dbos")
    logger.setLevel(logging.CRITICAL)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


async def _deliver(ticket: str) -> None:
    assert _handover is not None, "it is set before DBOS is launched"
    name = DBOS.workflow_id
    assert name is not None, "this is a workflow"
    await _handover.take(name, Ticket.from_json(ticket))


def launch(database: Database, worker: str, queues: Collection[str], handover: Handover) -> None:
    """Launch DBOS. Blocks. Call it in a thread without an event loop, so that DBOS creates its own.

    Raises AgentError(busy) if the process already has a DBOS instance.
    """
    global _handover, _dbos
    if _dbos is not None:
        raise AgentError(
            "busy",
            (
                "this process delivers with DBOS already, which it can do for one worker only: "
                "start another process"
            ),
        )
    dbos = DBOS(
        config={
            "name": APPLICATION,
            "system_database_engine": database,
            "dbos_system_schema": SCHEMA,
            "application_version": VERSION,
            "executor_id": worker,
            "run_migrations": False,
            "use_listen_notify": False,
            "enable_otlp": False,
            "log_level": "CRITICAL",
        }
    )
    if DBOS.executor_id != worker:
        raise AgentError(
            "busy",
            (
                "the application uses DBOS in this process already: run the worker in a separate "
                "process (`treadle worker`)"
            ),
        )
    _dbos, _handover = dbos, handover
    DBOS.workflow(
        name=WORKFLOW,
        max_recovery_attempts=None,
        serialization_type=WorkflowSerializationFormat.PORTABLE,
    )(_deliver)
    DBOS.listen_queues([*queues])
    try:
        DBOS.launch()
    except BaseException:
        destroy()
        raise


def is_taking(queues: Collection[str]) -> bool:
    """Return True while DBOS has a thread for each queue. If one cannot be started, DBOS silently
    starts no others.
    """
    alive = {thread.name for thread in threading.enumerate()}
    return all(TAKER + queue in alive for queue in queues)


def stop() -> None:
    """Stop taking runs from the queues. Active runs continue."""
    if _dbos is not None:
        for event in _dbos.background_thread_stop_events:
            event.set()


def destroy() -> None:
    """Shut DBOS down. Blocks until its threads have ended. Idempotent."""
    global _handover, _dbos
    if _dbos is not None:
        stop()
        until = time.monotonic() + TAKEN_S
        # the runs they have just taken need DBOS's event loop; without it they would wait forever
        for thread in threading.enumerate():
            if thread.name.startswith(TAKER):
                # a thread that has not begun yet stops before it takes anything
                with suppress(RuntimeError):
                    thread.join(max(until - time.monotonic(), 0))
        DBOS.destroy()
    _handover = _dbos = None

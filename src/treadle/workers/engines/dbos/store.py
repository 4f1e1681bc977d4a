"""DBOS's tables: adding, finding and returning tickets. All functions block, and can be called from
any thread.

Entry point: `Store`.
"""

from __future__ import annotations

import logging
import sqlite3
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from dbos import DBOS, DBOSClient, EnqueueOptions, WorkflowSerializationFormat, WorkflowStatus
from sqlalchemy import Engine as Database
from sqlalchemy import create_engine, event, make_url

from treadle._internal.write_ahead import use_write_ahead_log
from treadle.errors import AgentError
from treadle.journal.engine import QueueLimits
from treadle.journal.queue import Ticket
from treadle.types import now

logger = logging.getLogger("treadle")

APPLICATION: Final = "treadle"
VERSION: Final = "1"
"""Version of the ticket format, not of Treadle, so that workers of several versions share a queue.
"""
SCHEMA: Final = "treadle_dbos"
WORKFLOW: Final = "treadle.deliver"
KEPT: Final = timedelta(hours=1)
"""Minimum time that finished tickets stay in the tables."""
FORGET_MOST: Final = 1000
SHARE: Final = 125
CONNECT_S: Final = 10
ALIVE: Final = ["ENQUEUED", "DELAYED", "PENDING"]
ENDED: Final = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
SQLITE_MIN: Final = (3, 42)
SQLITE_WAIT_S: Final = 30
SQLITE: Final = (
    f"busy_timeout = {SQLITE_WAIT_S * 1000}",
    "synchronous = normal",
    "foreign_keys = on",
)


def database_of(journal_url: str) -> Database:
    """Return the database for a journal: a file next to it for SQLite, else its own database.

    Raises AgentError(invalid) for any other journal, or if DBOS cannot use SQLite here.
    """
    if journal_url.startswith("sqlite:///"):
        # DBOS requires the first, and assumes the second without checking
        if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < SQLITE_MIN:
            needs = (
                f"SQLite {SQLITE_MIN[0]}.{SQLITE_MIN[1]} or newer, and this Python brings "
                f"{sqlite3.sqlite_version}"
            )
            raise AgentError(
                "invalid",
                (
                    f"the engine `dbos` on SQLite needs {needs}: use the engine `local`, or a "
                    "journal in PostgreSQL"
                ),
            )
        return create_engine(f"{journal_url}.dbos")
    if journal_url.startswith("postgresql:"):
        return create_engine(
            make_url(journal_url).set(drivername="postgresql+psycopg"),
            pool_size=5,
            max_overflow=10,
            pool_pre_ping=True,
            connect_args={"connect_timeout": CONNECT_S},
        )
    if journal_url.startswith("postgresql+shards:"):
        raise AgentError(
            "invalid",
            (
                "the engine `dbos` keeps its queues in one database, so it would stop the runs of "
                "all shards with it: use the engine `local`"
            ),
        )
    raise AgentError(
        "invalid",
        (
            "the engine `dbos` needs a journal that several processes share: postgresql://… or "
            "sqlite:///FILE"
        ),
    )


def workflow_id(ticket: Ticket) -> str:
    return f"{ticket.run_id}:{ticket.delivery}"


class Store:
    def __init__(self, database: Database) -> None:
        self.database = database
        event.listen(
            database, "connect", _sqlite if database.dialect.name == "sqlite" else _postgres
        )
        event.listen(database, "do_connect", self._connects)
        self._closed = False

    def open(self) -> None:
        self._closed = False
        # sets the file's journal mode before any other process opens it
        with self.database.connect():
            DBOS.migrate(self.database.url.render_as_string(hide_password=False), schema=SCHEMA)
        self._client = DBOSClient(
            system_database_engine=self.database,
            dbos_system_schema=SCHEMA,
            application_name=APPLICATION,
            retry_connection_errors=False,
        )

    def close(self) -> None:
        self._closed = True
        self.database.dispose()

    def _connects(self, *_: object) -> None:
        """Refuse new connections after `close`. DBOS would otherwise retry forever, in a thread
        that process exit waits for.
        """
        if self._closed:
            raise AgentError("invalid", "this engine is closed")

    def register(self, lanes: Mapping[str, QueueLimits], *, slots: int, poll_s: float) -> None:
        before = {queue.name: queue.worker_concurrency for queue in self._client.list_queues()}
        for name, lane in lanes.items():
            most = lane.concurrency
            each = slots if most is None else min(slots, most)
            if before.get(name, each) != each:
                logger.warning(
                    (
                        "queue %r: DBOS gives each of its workers up to %d concurrent runs from "
                        "now on, and %s before; this also applies to workers that are already "
                        "running"
                    ),
                    name,
                    each,
                    before[name],
                )
            self._client.register_queue(
                name,
                global_concurrency=most,
                worker_concurrency=each,
                partition_concurrency=lane.per_tenant
                if most is None or lane.per_tenant is None
                else min(lane.per_tenant, most),
                limiter=None
                if lane.rate is None
                else {"limit": lane.rate, "period": lane.period_s},
                polling_interval_sec=poll_s,
            )

    def shares(self, tickets: Sequence[Ticket]) -> list[Sequence[Ticket]]:
        """Divide tickets into shares that are added concurrently, each in its own transaction,
        because round trips dominate. SQLite has a single writer.
        """
        most = len(tickets) if self.database.dialect.name == "sqlite" else SHARE
        return [tickets[at : at + most] for at in range(0, len(tickets), most or 1)]

    def add(
        self, tickets: Sequence[Ticket], *, name: str = "", delay_s: float | None = None
    ) -> None:
        """Add tickets; existing ones stay unchanged."""
        with self.database.begin() as connection:
            for ticket in tickets:
                options = _options(ticket, name or workflow_id(ticket))
                if delay_s is not None:
                    options["delay_seconds"] = delay_s
                self._client.enqueue_in_transaction(connection, options, ticket.to_json().decode())

    def drop(self, run_id: str) -> None:
        if ids := [
            row.workflow_id
            for row in self._rows(ALIVE[:2], workflow_id_prefix=f"{run_id}:")
            if _is_of(row.workflow_id, run_id)
        ]:
            self._client.cancel_workflows(ids)

    def rescue(self, living: Collection[str]) -> None:
        """Requeue the runs of dead workers. A row that another worker requeues at the same moment
        may be delivered twice.
        """
        self._again(row for row in self._rows("PENDING") if row.executor_id not in living)

    def under_way(self, worker: str) -> set[str]:
        return {row.workflow_id for row in self._rows("PENDING", executor_id=worker)}

    def put_back(self, worker: str) -> None:
        self._again(self._rows("PENDING", executor_id=worker))

    def put_back_one(self, name: str, queue: str) -> None:
        self._client.resume_workflows([name], queue_name=queue)

    def put_back_lost(self, worker: str, names: Collection[str]) -> None:
        self._again(
            row for row in self._rows("PENDING", executor_id=worker) if row.workflow_id in names
        )

    def forgotten(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        found = (
            {
                row.workflow_id
                for row in self._rows(
                    ALIVE, workflow_ids=[workflow_id(ticket) for ticket in tickets]
                )
            }
            if tickets
            else set[str]()
        )
        missing = [ticket for ticket in tickets if workflow_id(ticket) not in found]
        later = (
            self._rows(ALIVE, workflow_id_prefix=[f"{workflow_id(ticket)}@" for ticket in missing])
            if missing
            else []
        )
        put_off = {row.workflow_id.rpartition("@")[0] for row in later}
        return [ticket for ticket in missing if workflow_id(ticket) not in put_off]

    def forget(self) -> None:
        """Delete some old finished tickets. Recent ones are needed for rate limits."""
        limits = [
            limit for queue in self._client.list_queues() if (limit := queue.limiter) is not None
        ]
        kept = (
            max(KEPT, *(timedelta(seconds=limit["period"]) for limit in limits)) if limits else KEPT
        )
        if old := self._rows(ENDED, completed_before=(now() - kept).isoformat(), limit=FORGET_MOST):
            self._client.delete_workflows([row.workflow_id for row in old])

    def _again(self, rows: Iterable[WorkflowStatus]) -> None:
        """Return rows to their own queues, because DBOS's internal queue has no limits."""
        by_queue: dict[str, list[str]] = {}
        for row in rows:
            if row.queue_name is not None:
                by_queue.setdefault(row.queue_name, []).append(row.workflow_id)
        for queue, ids in by_queue.items():
            self._client.resume_workflows(ids, queue_name=queue)

    def _rows(self, status: str | list[str], **which: Any) -> list[WorkflowStatus]:
        return self._client.list_workflows(
            status=status, name=WORKFLOW, load_input=False, load_output=False, **which
        )


def _options(ticket: Ticket, name: str) -> EnqueueOptions:
    return {
        "workflow_name": WORKFLOW,
        "workflow_id": name,
        "queue_name": ticket.queue,
        "app_version": VERSION,
        "priority": 1001 - ticket.priority,  # lower numbers first, from 1
        "queue_partition_key": "-" if ticket.tenant is None else f"={ticket.tenant}",
        "serialization_type": WorkflowSerializationFormat.PORTABLE,
    }


def _is_of(name: str, run_id: str) -> bool:
    return name.startswith(f"{run_id}:") and name[len(run_id) + 1 :].partition("@")[0].isdigit()


def _sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = "IMMEDIATE"  # as DBOS configures a database that it opens itself
    use_write_ahead_log(connection, wait_s=SQLITE_WAIT_S)
    for pragma in SQLITE:
        connection.execute(f"pragma {pragma}")


def _postgres(connection: Any, _: object) -> None:
    """Set a timeout for idle transactions, so that a stalled process does not block others."""
    connection.execute("set idle_in_transaction_session_timeout = '15s'")
    connection.commit()

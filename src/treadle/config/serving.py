"""Settings of `treadle serve` and `treadle worker`: the service, queues, workers and schedules.

values.py combines them with all others. Entry points: `Service`, `Queue`, `Workers`, `Schedule`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class ServiceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits per user."""

    requests_per_minute: int = 60
    runs: int = 3
    streams: int = 5
    tokens_per_day: int = 1_000_000
    cost_usd_per_day: float = 5
    body_bytes: int = 1 << 20


class ServiceTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of all users together, across all processes on one database."""

    accounts_per_hour: int = 100
    tokens_per_day: int = 50_000_000
    cost_usd_per_day: float = 100


class Service(msgspec.Struct, frozen=True, kw_only=True):
    limits: ServiceLimits = ServiceLimits()
    totals: ServiceTotals = ServiceTotals()
    hosts: tuple[str, ...] = ()
    """Host names that the service answers to in addition to loopback, without a port."""
    public_url: str | None = None
    """Public URL, if it differs from the bind address, for example behind a proxy."""
    agents: tuple[str, ...] = ()
    """Agents served in addition to the task assistant."""
    registration: Literal["open", "closed"] = "open"
    proxies: tuple[str, ...] = ()
    """Addresses whose X-Forwarded-For and X-Forwarded-Proto headers are trusted."""
    open_docs: bool | None = None
    """True if /openapi.json and /metrics need no token; None: only if the service listens on
    loopback only.
    """
    grace_s: float = 8
    """Seconds that runs may continue during shutdown. The rest resume at the next start."""
    queue: str | None = None
    """Queue to which runs of served agents are submitted, for workers; None: the service runs them
    itself.
    """


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a queue, as in `engine.Lane`. None: no limit."""

    concurrency: int | None = None
    per_tenant: int | None = None
    rate: int | None = None
    """Maximum deliveries in `period_s` seconds."""
    period_s: float = 60


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of `treadle worker`. The lease applies to every process on a journal with leases."""

    engine: str = "local"
    """`local`, `dbos`, or the name of a plug-in."""
    lease_s: float = 15
    """Seconds without a renewal after which a process loses its runs, with a PostgreSQL journal."""
    slots: int = 8
    """Maximum concurrent runs."""
    grace_s: float = 30
    """Seconds that runs may continue when a worker stops. The rest resume elsewhere."""
    poll_s: float = 1
    """Polling interval for runs when no notification arrives, in seconds."""
    metrics: str | None = None
    """HOST:PORT of the Prometheus endpoint; None: disabled."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that starts a run at each tick."""

    agent: str
    prompt: str
    cron: str
    """Cron expression: minute, hour, day of the month, month, day of the week."""
    queue: str | None = None
    inputs: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    timezone: str = "UTC"

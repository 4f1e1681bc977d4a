"""Prometheus metrics of queues and workers. Labels contain no personal data: only names of queues
and agents, and outcomes.

service/metrics.py has those of the service. prometheus_client belongs to the extras `metrics` and
`service`. Entry points: `QueueDepths`, `WorkerMetrics`, `served`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol, cast

from anyio import from_thread
from anyio.lowlevel import current_token
from prometheus_client import CollectorRegistry, Counter, Histogram, make_wsgi_app  # pyright: ignore[reportUnknownVariableType]  it says nothing of its types
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from treadle.errors import AgentError
from treadle.events.telemetry.metrics_server import MetricsServer, WsgiApp
from treadle.journal.queue import Backlog, RunQueue
from treadle.messages.events import RunEnd
from treadle.types import now

logger = logging.getLogger("treadle")

FRESH_S: Final = 5.0
"""Time for which a reading of the journal is cached, in seconds."""
SECONDS: Final = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 150, 300, 600, 1800, 3600, 14400)
STATES: Final = ("ready", "later", "sent", "running", "waiting", "parked")


class QueueDepths:
    """Collector of a journal's queues. Call `refresh` before `collect`."""

    def __init__(self, queue: RunQueue) -> None:
        self._queue = queue
        self._backlogs: list[Backlog] = []
        self._asked_at = -FRESH_S

    async def refresh(self) -> None:
        """Read the queues, at most every `FRESH_S`. Never raises: if the journal fails, there are
        no metrics of its queues.
        """
        if time.monotonic() - self._asked_at < FRESH_S:
            return
        self._asked_at = time.monotonic()
        try:
            self._backlogs = await self._queue.backlogs()
        except AgentError as e:
            self._backlogs = []
            logger.warning("the queues cannot be counted: %s", e.message)

    def describe(self) -> Iterable[Metric]:
        return self._families()

    def collect(self) -> Iterable[Metric]:
        runs, oldest = self._families()
        at = now()
        for backlog in self._backlogs:
            for state in STATES:
                runs.add_metric([backlog.queue, state], getattr(backlog, state))
            waited = (
                0.0
                if backlog.oldest_ready_at is None
                else max((at - backlog.oldest_ready_at).total_seconds(), 0)
            )
            oldest.add_metric([backlog.queue], waited)
        return runs, oldest

    @staticmethod
    def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily(
                "treadle_queue_runs",
                "Unfinished runs of a queue, by state.",
                labels=["queue", "state"],
            ),
            GaugeMetricFamily(
                "treadle_queue_oldest_ready_seconds",
                "How long the oldest ready run of a queue has been ready.",
                labels=["queue"],
            ),
        )


class Working(Protocol):
    """Figures of a worker, which can be read from any thread."""

    @property
    def slots(self) -> int: ...

    @property
    def running(self) -> int: ...

    @property
    def deliveries(self) -> int:
        """Number of deliveries since the worker began. `held_off` counts from the same moment."""
        ...

    @property
    def held_off(self) -> int: ...


class WorkerMetrics:
    """Metrics of one worker. Create it in the journal's event loop; collect it in any thread."""

    def __init__(
        self, worker: Working, depths: QueueDepths, renewals_missed: Callable[[], int]
    ) -> None:
        self._worker, self._depths, self._renewals_missed, self._token = (
            worker,
            depths,
            renewals_missed,
            current_token(),
        )
        self.registry = CollectorRegistry()
        self._runs = Counter(
            "treadle_runs",
            "Runs that ended here, by agent and outcome.",
            ["agent", "outcome"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "treadle_run_seconds",
            "How long runs took that ended here.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.registry.register(self)

    def ended(self, agent: str, event: RunEnd) -> None:
        """Count a run that has ended. Only durable ends count, so not a run that waits or was taken
        over.
        """
        if not isinstance(event.id, str):
            return
        self._runs.labels(agent, event.outcome.value).inc()
        self._seconds.observe(event.duration_s)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        with suppress(RuntimeError):  # the event loop is closed, since the worker ends
            from_thread.run(self._depths.refresh, token=self._token)
        yield from self._depths.collect()
        worker = self._worker
        yield GaugeMetricFamily(
            "treadle_worker_slots",
            "Maximum number of concurrent runs of this worker.",
            value=worker.slots,
        )
        yield GaugeMetricFamily(
            "treadle_worker_running", "Runs that this worker drives.", value=worker.running
        )
        yield CounterMetricFamily(
            "treadle_worker_deliveries", "Runs delivered to this worker.", value=worker.deliveries
        )
        yield CounterMetricFamily(
            "treadle_worker_held_off",
            "Deliveries whose run this worker could not drive.",
            value=worker.held_off,
        )
        yield CounterMetricFamily(
            "treadle_worker_renewals_missed",
            "Renewals of the lease that failed or were late.",
            value=self._renewals_missed(),
        )


@contextmanager
def served(metrics: WorkerMetrics, host: str, port: int) -> Generator[str]:
    """Serve `/metrics` at `host` and `port`, in a thread. Yields the URL.

    Raises AgentError(invalid) if the address cannot be used.
    """
    try:
        server = MetricsServer(host, port, cast("WsgiApp", make_wsgi_app(metrics.registry)))
    except OSError as e:
        raise AgentError(
            "invalid",
            f"metrics cannot be served at {host}:{port}: {e.strerror or e}. Name another HOST:PORT",
        ) from e
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    finally:
        server.close()

"""Prometheus metrics of the service.

Labels contain no personal data: routes are templates, outcomes are words. Entry point:
`ServiceMetrics`.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from treadle.events.telemetry.workers import QueueDepths

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServiceMetrics:
    """Metrics of one service and of its journal's queues."""

    def __init__(self, depths: QueueDepths) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "treadle_http_requests",
            "Requests by route and status.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "treadle_http_request_seconds",
            "Seconds to the last byte, by route.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.runs = Counter(
            "treadle_runs", "Runs by agent and outcome.", ["agent", "outcome"], registry=registry
        )
        self.running = Gauge("treadle_runs_under_way", "Runs in progress.", registry=registry)
        self.streams = Gauge("treadle_streams_open", "Open event streams.", registry=registry)
        self.tokens = Counter("treadle_tokens", "Tokens used by runs.", registry=registry)
        self.refusals = Counter(
            "treadle_refusals", "Refusals, by limit.", ["limit"], registry=registry
        )

        self.used_by_all = Gauge(
            "treadle_used_by_all",
            "Usage of all users together: today's tokens and USD, the last hour's accounts.",
            ["what"],
            registry=registry,
        )
        self.most_of_all = Gauge(
            "treadle_limit_of_all", "Limits on all users together.", ["what"], registry=registry
        )
        self._depths = depths
        registry.register(depths)

    def note_totals(self, used: Mapping[str, float], most: Mapping[str, float]) -> None:
        """Set the gauges of the usage of all users together, and of its limits, by name."""
        for gauge, values in ((self.used_by_all, used), (self.most_of_all, most)):
            for what, value in values.items():
                gauge.labels(what).set(value)

    async def text(self) -> bytes:
        await self._depths.refresh()
        return generate_latest(self._registry)

"""What tests of tracing share: a tracer whose spans and sums stay in memory, and how a trace is
read as a tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from treadle.events.telemetry import otel_tracer
from treadle.events.telemetry.spans import OtelTracer


@dataclass
class Watched:
    """A tracer, and what it has told."""

    content: bool | None = None
    processors: Sequence[SpanProcessor] = ()
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)
    tracer: OtelTracer = field(init=False)
    traces: TracerProvider = field(init=False)

    def __post_init__(self) -> None:
        self.traces = TracerProvider(shutdown_on_exit=False)
        for processor in (*self.processors, SimpleSpanProcessor(self.exporter)):
            self.traces.add_span_processor(processor)
        meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.tracer = otel_tracer(
            content=self.content, tracer_provider=self.traces, meter_provider=meters
        )

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def points(self, metric: str) -> list[HistogramDataPoint]:
        data: Any = self.reader.get_metrics_data()
        metrics = [
            one
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for one in scope.metrics
        ]
        return [point for one in metrics if one.name == metric for point in one.data.data_points]

    def tree(self) -> list[str]:
        """Each span under its parent, indented."""
        return tree(self.spans)


def tree(spans: Sequence[ReadableSpan]) -> list[str]:
    ids = {span.context.span_id for span in spans if span.context is not None}

    def under(parent: int | None, depth: int) -> list[str]:
        lines: list[str] = []
        for span in spans:
            above = (
                span.parent.span_id
                if span.parent is not None and span.parent.span_id in ids
                else None
            )
            if above == parent:
                assert span.context is not None
                lines += ["  " * depth + span.name, *under(span.context.span_id, depth + 1)]
        return lines

    return under(None, 0)


def told(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}

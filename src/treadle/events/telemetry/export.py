"""Export of spans and metrics, if configured: sets up OpenTelemetry's SDK by the environment's
OTEL_* variables.

Does nothing if the application has set up OpenTelemetry. Entry points: `set_up`, `flush`.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from treadle.errors import AgentError
from treadle.events.telemetry.tracer import missing

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider

FLUSH_MS = 2_000
_PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
_PACKAGES = {
    "otlp_proto_grpc": "opentelemetry-exporter-otlp-proto-grpc",
    "otlp_proto_http": "opentelemetry-exporter-otlp-proto-http",
}

_ours: list[TracerProvider | MeterProvider] = []
"""Providers that `set_up` created. OpenTelemetry allows one of each kind per process."""


def set_up() -> None:
    """Set up OpenTelemetry once per process, unless the application has done it.

    Raises AgentError(invalid) for a missing package or exporter.
    """
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415  an extra, and 60 ms
        from opentelemetry.sdk import resources  # noqa: PLC0415  as above
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415  as above
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415  as above
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  as above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  as above
    except ImportError as e:
        raise missing() from e
    if _ours or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    spans, sums = _exporters("traces"), _exporters("metrics")
    resource = (
        resources.Resource.create()
        if _is_named()
        else resources.Resource.create({resources.SERVICE_NAME: "treadle"})
    )
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    for exporter in spans:
        traces.add_span_processor(BatchSpanProcessor(exporter))
    readers = [PeriodicExportingMetricReader(exporter) for exporter in sums]
    meters = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
    trace.set_tracer_provider(traces)
    metrics.set_meter_provider(meters)
    _ours.extend((traces, meters))


def flush() -> None:
    """Send pending spans and metrics. Blocks for at most `FLUSH_MS` per provider."""
    for provider in _ours:
        provider.force_flush(FLUSH_MS)


def _is_named() -> bool:
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )


def _exporters(signal: str) -> list[Any]:
    """Return the exporters that OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER name; OTLP by
    default.
    """
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    named = [name.strip() for name in (os.environ.get(variable) or "otlp").split(",")]
    return [_exporter(signal, name, variable) for name in named if name not in ("", "none")]


def _exporter(signal: str, name: str, variable: str) -> Any:
    group = f"opentelemetry_{signal}_exporter"
    for known in _otlp(signal) if name == "otlp" else (name,):
        for found in entry_points(group=group, name=known):
            try:
                return found.load()()
            except Exception as e:
                raise AgentError(
                    "invalid",
                    (
                        f"telemetry.otel: the exporter {name!r} for {signal} cannot be used: "
                        f"{type(e).__name__}: {e}"
                    ),
                ) from e
    package = _PACKAGES.get(_otlp(signal)[0] if name == "otlp" else name)
    do = (
        f"pip install {package}"
        if package
        else f"set {variable} to one that is installed, or to none"
    )
    raise AgentError(
        "invalid", f"telemetry.otel: the exporter {name!r} for {signal} is not installed: {do}"
    )


def _otlp(signal: str) -> tuple[str, ...]:
    """Return the acceptable OTLP entry points, in order of preference."""
    protocol = (
        os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL")
        or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or ""
    )
    wanted = _PROTOCOLS.get(protocol.strip())
    return (wanted,) if wanted else ("otlp_proto_http", "otlp_proto_grpc")

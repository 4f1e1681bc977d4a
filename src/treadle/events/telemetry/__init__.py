"""Telemetry of runs: OpenTelemetry spans and metrics, and structured logs of all events. All are
off by default.

`tracer.py` creates the tracer, `spans.py` its spans, `content.py` prompts and responses in spans,
`metrics.py` the histograms; `names.py` has all exported names; `export.py` sets up exporters.
`lines.py` formats log lines, `logs.py` writes them, `files.py` opens log files. `configured.py`
applies the configuration. `workers.py` has Prometheus metrics of queues and workers, which
`metrics_server.py` serves.

No other package imports opentelemetry or structlog; they are loaded on use. Entry points:
`otel_tracer`, `log_events`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.events.telemetry.logs import EventLog as EventLog
    from treadle.events.telemetry.logs import log_events as log_events
    from treadle.events.telemetry.tracer import otel_tracer as otel_tracer

_HOME = {"EventLog": "logs", "log_events": "logs", "otel_tracer": "tracer"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'treadle.telemetry' has no attribute {name!r}")
    import importlib  # noqa: PLC0415  few programs use telemetry

    return getattr(importlib.import_module(f"treadle.events.telemetry.{_HOME[name]}"), name)

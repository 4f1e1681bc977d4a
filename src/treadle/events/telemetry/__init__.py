"""What follows runs from outside: OpenTelemetry spans and metrics, and structured logs of all
events. Both are off until somebody asks.

`tracer.py` is the way in to spans, `spans.py` makes them, `content.py` says what was said in them,
`metrics.py` counts, `names.py` has every name that leaves, `export.py` finds where they go;
`logs.py` writes lines, `lines.py` says what stands in them, `files.py` keeps them; `configured.py`
does what the configuration asks for; `workers.py` counts queues and workers for Prometheus.
opentelemetry and structlog are imported here alone, and only on use. Entry: `otel_tracer`,
`log_events`.
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
    import importlib  # noqa: PLC0415  most programs ask for nothing of this

    return getattr(importlib.import_module(f"treadle.events.telemetry.{_HOME[name]}"), name)

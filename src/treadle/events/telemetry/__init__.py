"""Telemetry of runs: OpenTelemetry spans and metrics, and structured logs of all events. Both are
off by default.

`tracer.py` is the way in to spans, `spans.py` makes them, `content.py` adds prompts and answers,
`metrics.py` counts, `names.py` has every name that is exported, `export.py` sets up exporters;
`logs.py` writes lines, `lines.py` makes them, `files.py` keeps them; `configured.py` applies the
configuration; `workers.py` counts queues and workers for Prometheus, which `metrics_server.py`
answers.

opentelemetry and structlog are imported here alone, and only on use. Entry points: `otel_tracer`,
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

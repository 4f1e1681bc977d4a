"""What follows runs from outside: OpenTelemetry spans and metrics, and structured logs of all events. Both are off until somebody asks.

`tracer.py` is the way in to spans, `spans.py` makes them, `content.py` says what was said in them, `metrics.py` counts, `names.py` has
every name that leaves, `export.py` finds where they go; `logs.py` writes lines; `configured.py` does what the configuration asks for.
opentelemetry and structlog are imported here alone, and only on use. Entry: `otel_tracer`, `log_events`, `Telemetry`.
"""

from __future__ import annotations

from treadle.telemetry.configured import Telemetry
from treadle.telemetry.logs import EventLog, log_events
from treadle.telemetry.tracer import otel_tracer

__all__ = ["EventLog", "Telemetry", "log_events", "otel_tracer"]

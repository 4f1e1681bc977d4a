"""The public import path of telemetry: OpenTelemetry spans and structured event logs.

The implementation is events/telemetry/.
"""

from __future__ import annotations

from treadle.events.telemetry.logs import EventLog as EventLog
from treadle.events.telemetry.logs import log_events as log_events
from treadle.events.telemetry.tracer import otel_tracer as otel_tracer

"""Creation of the OpenTelemetry tracer, on the application's providers or the configured ones.

spans.py has the spans, export.py the exporters. Entry point: `otel_tracer`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from treadle._internal.log_masking import without_secrets
from treadle.errors import AgentError
from treadle.events.telemetry import names

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from treadle.events.telemetry.spans import OtelTracer

INSTALL = "pip install 'treadle[otel]'"
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURES = frozenset({"true", "1", "span_only", "span_and_event"})


def otel_tracer(
    *,
    content: bool | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> OtelTracer:
    """Return a tracer for `Runtime.open(…, tracer=)`.

    `content`: include prompts, responses, arguments and results, with known secrets masked. None:
    as set by OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, by default False. The providers
    default to OpenTelemetry's global ones. Raises AgentError(invalid) if OpenTelemetry is not
    installed.
    """
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415  an extra, and 60 ms
    except ImportError as e:
        raise missing() from e
    from treadle.events.telemetry.metrics import RunInstruments  # noqa: PLC0415  as above
    from treadle.events.telemetry.spans import OtelTracer  # noqa: PLC0415  as above

    if content is None:
        content = os.environ.get(CAPTURE, "").strip().lower() in _CAPTURES
    tracer = trace.get_tracer(names.SCOPE, tracer_provider=tracer_provider)
    return OtelTracer(
        tracer,
        RunInstruments(metrics.get_meter(names.SCOPE, meter_provider=meter_provider)),
        without_secrets,
        content=content,
    )


def missing() -> AgentError:
    return AgentError("invalid", f"this needs OpenTelemetry: {INSTALL}")

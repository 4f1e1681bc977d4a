"""The three histograms of the GenAI conventions; spans.py records the values. Entry point:
`RunInstruments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from treadle.events.telemetry import names
from treadle.types import Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.util.types import AttributeValue


class RunInstruments:
    """Histograms of durations and tokens.

    Recording only updates sums in memory; the SDK exports them in a thread.
    """

    def __init__(self, meter: Meter) -> None:
        self._duration = meter.create_histogram(
            names.OPERATION_DURATION,
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=names.DURATION_BOUNDS_S,
        )
        self._first = meter.create_histogram(
            names.TIME_TO_FIRST_CHUNK,
            "s",
            "Time to receive the first chunk.",
            explicit_bucket_boundaries_advisory=names.DURATION_BOUNDS_S,
        )
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BOUNDS,
        )

    def took(self, seconds: float, attributes: Mapping[str, AttributeValue]) -> None:
        self._duration.record(seconds, attributes)

    def first_chunk(self, seconds: float, attributes: Mapping[str, AttributeValue]) -> None:
        self._first.record(seconds, attributes)

    def used(self, usage: Usage, attributes: Mapping[str, AttributeValue]) -> None:
        """Record the tokens of a response. Input includes cached input."""
        self._tokens.record(usage.total_input_tokens, {**attributes, names.TOKEN_TYPE: "input"})
        self._tokens.record(usage.output_tokens, {**attributes, names.TOKEN_TYPE: "output"})

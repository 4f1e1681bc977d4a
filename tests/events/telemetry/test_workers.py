"""What a worker counts."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.journal.memory.journal import MemoryJournal
from treadle.messages.events import RunEnd
from treadle.messages.metrics import RunTotals
from treadle.runtime.runtime import Runtime
from treadle.types import Outcome, Usage, now
from treadle.workers.worker import Worker

pytest.importorskip("prometheus_client", reason="needs metrics: pip install 'treadle[metrics]'")


async def test_an_end_that_is_in_no_journal_is_not_counted() -> None:
    from treadle.events.telemetry.workers import QueueDepths, WorkerMetrics

    metrics = WorkerMetrics(Worker(Runtime()), QueueDepths(MemoryJournal().queue), lambda: 0)
    nothing = {
        "output": None,
        "validated": False,
        "usage": Usage(),
        "turns": 1,
        "tool_calls": 0,
        "text": "",
        "duration_s": 1.0,
        "total": RunTotals(),
    }
    of: dict[str, Any] = {"run_id": "run_1", "session_id": None, "seq": 1, "at": now(), **nothing}
    for id_, outcome in (
        (None, Outcome.APPROVAL_NEEDED),
        (None, Outcome.ERROR),
        ("7.0", Outcome.COMPLETED),
    ):
        own: dict[str, Any] = {} if id_ is None else {"id": id_}
        metrics.ended("tidy", RunEnd(**of, **own, outcome=outcome))
    counted = [
        sample
        for metric in metrics._runs.collect()
        for sample in metric.samples
        if sample.name == "treadle_runs_total"
    ]  # pyright: ignore[reportPrivateUsage]
    assert [(sample.labels["outcome"], sample.value) for sample in counted] == [("completed", 1.0)]

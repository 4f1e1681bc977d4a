"""A process that drives queued runs: it claims ready runs in the journal, hands them to an engine,
and drives what the engine delivers.

Queues are in journal/queue.py, engines in journal/engine.py. Entry point: `Worker`.

    worker.py     one worker from its registration to its end
    sweep.py      ready runs go to the engine; lost runs, and those of dead workers, come back
    driving.py    one delivery: the run is driven, left to another driver, or held off
    ticking.py    schedules: each tick is submitted once
"""

from __future__ import annotations

from treadle.workers.worker.worker import Worker

__all__ = ["Worker"]

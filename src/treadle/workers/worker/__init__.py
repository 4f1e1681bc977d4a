"""The worker, a process that drives queued runs: it claims ready runs in the journal, passes them
to an engine, and drives those that the engine delivers.

Queues are in journal/queue.py, engines in journal/engine.py. Entry point: `Worker`.

    worker.py     one worker from its registration to its end
    sweep.py      passes ready runs to the engine, and recovers lost ones
    driving.py    handles a delivery: drives the run, or delays it
    ticking.py    submits the runs of schedules
"""

from __future__ import annotations

from treadle.workers.worker.driving import AgentOf, DepsOf
from treadle.workers.worker.worker import Worker, WorkerOptions

__all__ = ["AgentOf", "DepsOf", "Worker", "WorkerOptions"]

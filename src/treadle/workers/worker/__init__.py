"""A process that drives queued runs: it claims what is ready in the journal, hands it to an engine,
and drives what that delivers.

Where runs wait stands in queue.py, who delivers them in engine.py. Entry: `Worker`.

    worker.py     one worker from its registration to its end
    sweep.py      what is ready goes to the engine; what the engine lost, and what the dead had,
                  comes back
    driving.py    one delivery: the run is driven, left to somebody else, or held off
    ticking.py    schedules: each tick is submitted once
"""

from __future__ import annotations

from treadle.workers.worker.worker import Worker

__all__ = ["Worker"]

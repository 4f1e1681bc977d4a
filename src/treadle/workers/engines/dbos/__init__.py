"""Delivery of queued runs by DBOS, a library on the journal's database. Its limits apply across all
workers, and its tickets survive them.

DBOS stores only tickets; the journal has the runs. No other package imports it. Entry point:
`DbosEngine.open`.

    engine.py    the engine, in our event loop
    store.py     DBOS's tables, through its client
    process.py   the single DBOS instance of a process, and its workflow
    handover.py  passes tickets from DBOS's event loop to ours
"""

from __future__ import annotations

from treadle.errors import AgentError

try:
    from treadle.workers.engines.dbos.engine import DbosEngine
except ModuleNotFoundError as e:
    raise AgentError(
        "invalid",
        f"the engine `dbos` needs {e.name}, which is not installed: pip install 'treadle[dbos]'",
    ) from e

__all__ = ["DbosEngine"]

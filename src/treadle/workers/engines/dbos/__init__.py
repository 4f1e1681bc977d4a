"""Queued runs delivered by DBOS, a library over the same database: its limits hold over all
workers, and what it has survives them.

It keeps tickets only; what a run is stands in the journal. Only this folder imports it. Entry:
`DbosEngine.open`.

    engine.py    the engine: one life of it, in our event loop
    store.py     its tables, by the functions of its client
    process.py   the one DBOS of a process: launched, ended, its workflow
    handover.py  a ticket on its way from DBOS's event loop into ours
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

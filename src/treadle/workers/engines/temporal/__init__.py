"""Runs as activities of Temporal workflows: Temporal delivers the run, the journal has its steps.

Import names from this package, in workers and in workflows. Entry points: `TreadlePlugin`,
`run_agent`, `AgentRun`.

    plugin.py    the activities, and the plug-in that adds them to a worker of Temporal
    workflow.py  the values that workflows and activities exchange, and the workflow side
"""

from __future__ import annotations

from treadle.errors import AgentError

try:
    from treadle.workers.engines.temporal.plugin import DepsOfRequest, TreadlePlugin
    from treadle.workers.engines.temporal.workflow import (
        AgentRun,
        OpenCall,
        RunAnswer,
        RunReply,
        TemporalRun,
        answer_signal,
        priority_of,
        run_agent,
    )
except ModuleNotFoundError as e:
    raise AgentError(
        "invalid",
        f"runs in Temporal need {e.name}, which is not installed: pip install 'treadle[temporal]'",
    ) from e

__all__ = [
    "AgentRun",
    "DepsOfRequest",
    "OpenCall",
    "RunAnswer",
    "RunReply",
    "TemporalRun",
    "TreadlePlugin",
    "answer_signal",
    "priority_of",
    "run_agent",
]

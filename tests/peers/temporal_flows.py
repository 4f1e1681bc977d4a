"""Workflows of the tests, as an application writes them. Imported in Temporal's sandbox."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from treadle.workers.engines.temporal import RunReply, TemporalRun, run_agent

BRIEF = timedelta(seconds=1)


@workflow.defn
class Quick:
    """A run whose worker is missed after a second."""

    @workflow.run
    async def run(self, request: TemporalRun) -> RunReply:
        return await run_agent(request, heartbeat=BRIEF)


@workflow.defn
class Both:
    """Two runs at the same time."""

    @workflow.run
    async def run(self, requests: list[TemporalRun]) -> list[RunReply]:
        async with asyncio.TaskGroup() as group:
            runs = [group.create_task(run_agent(one)) for one in requests]
        return [run.result() for run in runs]


@workflow.defn
class Harmed:
    """A run whose workers and journal fail all the time."""

    @workflow.run
    async def run(self, request: TemporalRun) -> RunReply:
        again = RetryPolicy(maximum_interval=2 * BRIEF)
        return await run_agent(request, heartbeat=2 * BRIEF, retry_policy=again)

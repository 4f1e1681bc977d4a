"""Runs that Temporal delivers to a crew, instead of a queue of the journal. Entry: `submit`,
`work`.

Who harms the workers and the server is crew.py's business.
"""

from __future__ import annotations

import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio

from tests.crash.crew_worker import SLOTS, UNREACHED, Share, orphaned
from tests.peers.temporal import TemporalServer
from treadle import AgentError, Runtime

QUEUE = "crew"


async def submit(share: Share) -> int:
    """Until each run has its workflow. What was in doubt is submitted again under the same id."""
    from temporalio.common import WorkflowIDConflictPolicy
    from temporalio.service import RPCError

    from tests.peers.temporal_flows import Harmed
    from treadle.workers.engines.temporal import TemporalRun

    names = [f"{share.plan.names}{number}" for number in range(share.plan.runs)]
    client = await _server(share).client()
    while names:
        try:
            await client.start_workflow(
                Harmed.run,
                TemporalRun(agent="story", text=f"run {names[0]}", run_id=names[0]),
                id=names[0],
                task_queue=QUEUE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            )
            names.pop(0)
        except RPCError as e:
            print("submitting:", e, flush=True)
            await anyio.sleep(0.1)
    return 0


async def work(share: Share, number: int) -> int:
    """Until it is told to drain."""
    from temporalio.worker import Worker

    from tests.peers.temporal_flows import Harmed
    from treadle.workers.engines.temporal import TreadlePlugin

    client, ended = await _server(share).client(), 0
    try:
        async with Runtime(journal=share.opened()) as runtime, anyio.create_task_group() as group:
            runtime.agents.register(share.agent())
            worker = Worker(
                client,
                task_queue=QUEUE,
                build_id="tests",  # else a digest of all modules, which takes 300 ms
                workflows=[Harmed],
                plugins=[TreadlePlugin(runtime)],
                max_concurrent_activities=SLOTS,
                graceful_shutdown_timeout=timedelta(seconds=share.plan.grace_s),
                sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
            )
            group.start_soon(_drained, worker)
            group.start_soon(orphaned, share.parent)
            await worker.run()
            group.cancel_scope.cancel()
    except* AgentError as errors:  # nobody answered when it began
        print("not reached:", *(str(e) for e in errors.exceptions), flush=True)
        await anyio.sleep(share.plan.pause_s * 10)
        ended = UNREACHED
    return ended


def _server(share: Share) -> TemporalServer:
    server = TemporalServer(Path("/"))
    server.address = share.temporal
    return server


async def _drained(worker: Any) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            await worker.shutdown()
            return

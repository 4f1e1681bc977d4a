"""What users of Worker see of types: checked by pyright and mypy, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from typing_extensions import Unpack

from treadle import Agent, Runtime
from treadle.journal.run_info import RunInfo
from treadle.workers.worker import AgentOf, DepsOf, Worker, WorkerOptions


@dataclass
class Shop:
    customer: str | None


async def deps_of(run: RunInfo) -> Shop:
    return Shop(run.user_id)


async def agent_of(run: RunInfo) -> Agent[Shop] | None:
    return Agent[Shop](name=run.agent, model="anthropic:claude-opus-4-8")


def wrapped(runtime: Runtime, **options: Unpack[WorkerOptions]) -> Worker:
    return Worker(runtime, agent_of=agent_of, **options)


async def works(runtime: Runtime) -> None:
    given: DepsOf = deps_of
    found: AgentOf = agent_of
    async with Worker(runtime, slots=2, agent_of=found, deps_of=given, grace_s=2) as worker:
        assert_type(worker, Worker)
        assert_type(worker.running, int)
        assert_type(await worker.work(), None)
    assert_type(wrapped(runtime, poll_s=0.1), Worker)
    Worker(runtime, deps_of=Shop)  # type: ignore[arg-type]

"""Runs without a runtime. Entry points: `run`, `run_sync`."""

from __future__ import annotations

import asyncio
from functools import partial

import anyio
from typing_extensions import Unpack

from treadle.agents.agent import Agent, Deps
from treadle.errors import AgentError
from treadle.messages.message import Prompt
from treadle.messages.result import Out, RunResult
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import RunOptions


async def run(
    agent: Agent[Deps, Out],
    text: Prompt,
    *,
    deps: Deps = None,
    journal: str = "memory:",
    **options: Unpack[RunOptions],
) -> RunResult[Out]:
    """Run once, in a runtime that is opened for this run.

    `journal`: a URL as for `Runtime.open`; by default nothing is stored. Raises AgentError as
    `Runtime.run` does, and AgentError(invalid) for options that need a persistent journal:
    `session=`, and "wait" as `on_ask=` or `on_unknown=`. Cancellation: as in `Runtime.run`.
    """
    if journal == "memory:":
        _refuse_what_is_kept(options)
    async with Runtime.open(journal) as runtime:
        return await runtime.run(agent, text, deps=deps, **options)


def _refuse_what_is_kept(options: RunOptions) -> None:
    """Reject options whose data would be lost with the runtime. Raises AgentError(invalid)."""
    kept = {"session": options.get("session")} | {
        name: "wait" for name in ("on_ask", "on_unknown") if options.get(name) == "wait"
    }
    for name, value in kept.items():
        if value is not None:
            lost = (
                f"{name}={value!r} would be forgotten: this run is kept in memory, and gone when "
                "it returns"
            )
            raise AgentError(
                "invalid",
                (
                    f"{lost}. Keep it with journal='sqlite:///runs.db', or run it in your own "
                    "Runtime"
                ),
            )


def run_sync(
    agent: Agent[Deps, Out],
    text: Prompt,
    *,
    deps: Deps = None,
    journal: str = "memory:",
    **options: Unpack[RunOptions],
) -> RunResult[Out]:
    """Run once from code without an event loop: as `run`.

    Raises AgentError(invalid) inside a running event loop, which it would block.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise AgentError(
            "invalid",
            "run_sync cannot run inside a running event loop: use `await treadle.run(…)` there",
        )
    return anyio.run(partial(run, agent, text, deps=deps, journal=journal, **options))

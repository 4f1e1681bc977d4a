"""Continuing runs: resuming them where they stopped, or forking an earlier one.

Entry point: `ContinuedRuns`, a base class of `Runtime`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, overload

from typing_extensions import Unpack

from treadle.agents.agent import Agent, Deps
from treadle.journal.journal import Journal
from treadle.messages.message import Prompt
from treadle.messages.result import Out, RunResult
from treadle.runtime.closing_runs import until_idle
from treadle.runtime.continuing import ContinuingRuns
from treadle.runtime.options import ForkPoint
from treadle.runtime.run_stream import RunStream, collect
from treadle.runtime.session import ForkOptions, ResumeOptions, listeners_of


class ContinuedRuns:
    """Methods of a runtime that resume and fork runs."""

    journal: Journal
    _continuing: ContinuingRuns

    @overload
    async def resume(
        self, run_id: str, agent: None = None, *, deps: Any = None, **options: Unpack[ResumeOptions]
    ) -> RunResult[Any]: ...
    @overload
    async def resume(
        self,
        run_id: str,
        agent: Agent[Deps, Out],
        *,
        deps: Deps = None,
        **options: Unpack[ResumeOptions],
    ) -> RunResult[Out]: ...
    async def resume(
        self,
        run_id: str,
        agent: Agent[Deps, Out] | None = None,
        *,
        deps: Deps = None,
        **options: Unpack[ResumeOptions],
    ) -> RunResult[Out]:
        """Resume a run whose process died, or that waits for a user. For a finished run, return its
        result.

        Pure and idempotent calls that were running run again, with the same key; once-calls are
        probed, otherwise reported as `unknown` or handled as `on_unknown` specifies. `agent` may be
        omitted if one of this name has run here, or is in `agents`. Raises AgentError: invalid for
        an unknown run, agent, tool or call, busy if a living process drives the run and `wait` is
        false.
        """
        if options.get("wait"):
            await until_idle(self.journal, run_id)
        state = await self.journal.load(run_id)
        if state.finished is not None:
            return self._continuing.finished(state, agent)
        return await collect(
            partial(self._continuing.resume, run_id, agent, deps, options, read=state),
            listeners_of(options),
        )

    @overload
    def resume_stream(
        self, run_id: str, agent: None = None, *, deps: Any = None, **options: Unpack[ResumeOptions]
    ) -> RunStream[Any]: ...
    @overload
    def resume_stream(
        self,
        run_id: str,
        agent: Agent[Deps, Out],
        *,
        deps: Deps = None,
        **options: Unpack[ResumeOptions],
    ) -> RunStream[Out]: ...
    def resume_stream(
        self,
        run_id: str,
        agent: Agent[Deps, Out] | None = None,
        *,
        deps: Deps = None,
        **options: Unpack[ResumeOptions],
    ) -> RunStream[Out]:
        """Resume a run as a stream. Raises AgentError(invalid) for a finished run; use `replay` for
        that.
        """
        return RunStream(
            partial(self._continuing.resume, run_id, agent, deps, options), listeners_of(options)
        )

    @overload
    async def fork(
        self,
        run_id: str,
        *,
        turn: int,
        text: Prompt | None = None,
        agent: None = None,
        deps: Any = None,
        **options: Unpack[ForkOptions],
    ) -> RunResult[Any]: ...
    @overload
    async def fork(
        self,
        run_id: str,
        *,
        turn: int,
        text: Prompt | None = None,
        agent: Agent[Deps, Out],
        deps: Deps = None,
        **options: Unpack[ForkOptions],
    ) -> RunResult[Out]: ...
    async def fork(
        self,
        run_id: str,
        *,
        turn: int,
        text: Prompt | None = None,
        agent: Agent[Deps, Out] | None = None,
        deps: Deps = None,
        **options: Unpack[ForkOptions],
    ) -> RunResult[Out]:
        """Start a run that continues after `turn` turns of another one, whose entries it reads and
        never repeats.

        `text`: the next message of the user (at turn 0: a new prompt); `model=`: another model;
        `results=`: other results for calls of that turn, by call id. Raises AgentError(invalid) for
        a turn beyond the end, and if there is nothing to continue with.
        """
        return await collect(
            partial(self._continuing.fork, ForkPoint(run_id, turn, text), agent, deps, options),
            listeners_of(options),
        )

    @overload
    def fork_stream(
        self,
        run_id: str,
        *,
        turn: int,
        text: Prompt | None = None,
        agent: None = None,
        deps: Any = None,
        **options: Unpack[ForkOptions],
    ) -> RunStream[Any]: ...
    @overload
    def fork_stream(
        self,
        run_id: str,
        *,
        turn: int,
        text: Prompt | None = None,
        agent: Agent[Deps, Out],
        deps: Deps = None,
        **options: Unpack[ForkOptions],
    ) -> RunStream[Out]: ...
    def fork_stream(
        self,
        run_id: str,
        *,
        turn: int,
        text: Prompt | None = None,
        agent: Agent[Deps, Out] | None = None,
        deps: Deps = None,
        **options: Unpack[ForkOptions],
    ) -> RunStream[Out]:
        """Fork a run and stream its events."""
        return RunStream(
            partial(self._continuing.fork, ForkPoint(run_id, turn, text), agent, deps, options),
            listeners_of(options),
        )

"""Runs and steps that are executed once per id, however often and from wherever they are requested.

Entry point: `EnsuredRuns`, a base class of `Runtime`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeVar, cast, overload

import anyio
from typing_extensions import Unpack

from treadle.agents.agent import Agent, Deps
from treadle.errors import AgentError, ErrorKind
from treadle.journal.run_info import UnknownRun
from treadle.journal.run_state import RunState
from treadle.messages.message import Prompt
from treadle.messages.result import Out, RunResult
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    ModelRequest,
    PartEnd,
    ResponseEnd,
    ToolCallStart,
)
from treadle.runtime.closing_runs import LOOK_S
from treadle.runtime.continued_runs import ContinuedRuns
from treadle.runtime.options import session_id_of
from treadle.runtime.prompt import prompt_of
from treadle.runtime.run_stream import collect
from treadle.runtime.runs import StartedRuns
from treadle.runtime.session import ResumeOptions, RunOptions, listeners_of
from treadle.tools.failures import ToolDone, ToolFailed, words_of
from treadle.tools.function import FunctionTool
from treadle.types import Effect, StopReason, Usage

T = TypeVar("T")

_STEP = "step"
_OUTPUT: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"value": {}},
    "required": ["value"],
}


class OtherRun(AgentError):
    """The run of this id has another agent, prompt, session or user (kind `invalid`)."""


class EnsuredRuns(ContinuedRuns, StartedRuns):
    """Methods of a runtime that start a run, or return to an existing one."""

    async def ensure(
        self,
        agent: Agent[Deps, Out],
        text: Prompt,
        *,
        deps: Deps = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[Out]:
        """Return the result of the run `run_id=`, which is required: start the run if it does not
        exist, resume it if it was interrupted, and wait for it while another task or process drives
        it.

        Any number of callers may request it concurrently; one of them drives. A run that waits for
        a user is returned unfinished, with `waiting` set. Raises AgentError(invalid) without
        `run_id=`, and if the run of this id has another agent, prompt, session or user; else the
        errors of `run` and `resume`. Cancellation: as in `run`, if this caller drives.
        """
        run_id = options.get("run_id")
        if not run_id:
            raise AgentError(
                "invalid", "ensure() needs run_id=: the id under which the run is found again"
            )
        while True:
            state = await self._known(run_id)
            try:
                if state is None:
                    return await collect(
                        partial(self._runs.start, agent, text, deps, options), listeners_of(options)
                    )
                _check_same(state, agent, text, options)
                if state.finished is not None:
                    return self._continuing.finished(state, agent)
                return await self.resume(run_id, agent, deps=deps, **_again(options))
            except AgentError as e:
                if e.kind is not ErrorKind.BUSY:
                    raise
                if state is None and await self._known(run_id) is None:
                    raise  # another run of the session is in progress
            await anyio.sleep(LOOK_S)

    # overloads, because mypy infers nothing from a union of an awaitable and its value
    @overload
    async def step(
        self,
        step_id: str,
        function: Callable[[], Awaitable[T]],
        *,
        effect: Effect = "once",
        timeout_s: float | None = None,
    ) -> T: ...
    @overload
    async def step(
        self,
        step_id: str,
        function: Callable[[], T],
        *,
        effect: Effect = "once",
        timeout_s: float | None = None,
    ) -> T: ...
    async def step(
        self,
        step_id: str,
        function: Callable[[], Awaitable[T] | T],
        *,
        effect: Effect = "once",
        timeout_s: float | None = None,
    ) -> T:
        """Call a function once for an id, and return its result, also after a restart: a step of a
        workflow that is not an agent.

        The result comes back from the journal as JSON: numbers, texts, lists, mappings. `effect`
        says whether an interrupted step may be called again, as for tools. Raises AgentError(tool)
        if the function fails, or it is unknown whether an interrupted `once` step took effect. A
        step that has failed stays failed; use another id to try again.
        """

        async def execute() -> ToolDone:
            try:
                found = function()
                value = await cast("Awaitable[T]", found) if isawaitable(found) else found
                return ToolDone({"value": value})
            except ToolFailed as e:
                e.ends_run = True
                raise
            except Exception as e:
                raise ToolFailed(words_of(e), ends_run=True) from e

        # CPython 3.13.0 cannot specialize it by the first parameter alone.
        made = FunctionTool[Any, ..., Any](
            name=_STEP,
            description="",
            parameters={"type": "object", "properties": {}},
            execute=execute,
            effect=effect,
            timeout_s=timeout_s,
        )
        agent = Agent(name=_STEP, model=_Caller(), tools=[made], output=_OUTPUT)
        result = await self.ensure(agent, step_id, run_id=step_id, on_unknown="fail")
        return cast("T", result.unwrap()["value"])

    async def _known(self, run_id: str) -> RunState | None:
        try:
            return await self.journal.load(run_id)
        except UnknownRun:
            return None


class _Caller:
    """Model that calls the only tool of a step, and is called only once."""

    name = _STEP
    refuses: frozenset[str] = frozenset()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        if results := request.messages[-1].tool_results:
            raise AgentError("tool", f"the step did not complete: {results[-1].text}")
        yield ToolCallStart(_STEP, _STEP)
        yield ArgumentsDelta("{}")
        yield PartEnd()
        yield ResponseEnd(stop_reason=StopReason.TOOL_USE, usage=Usage(), model=_STEP)


def _check_same(state: RunState, agent: Agent[Any, Any], text: Prompt, options: RunOptions) -> None:
    """Raise AgentError(invalid) if the run of this id is another one."""
    started = state.started
    assert started is not None, "a run begins with run.started"
    asked = {
        "agent": (agent.name, started.agent),
        "prompt": (prompt_of(text).text, started.input.text),
        "session": (session_id_of(options.get("session")), started.session_id),
        "user": (options.get("user_id"), started.user_id),
    }
    for name, (wanted, found) in asked.items():
        if wanted != found:
            raise OtherRun(
                "invalid",
                f"run {started.run_id!r} exists with another {name} ({found!r:.80}, not "
                f"{wanted!r:.80}): use another run_id",
            )


def _again(options: RunOptions) -> ResumeOptions:
    """Return the run options that also apply to a resume."""
    known = ResumeOptions.__optional_keys__
    return cast("ResumeOptions", {k: v for k, v in options.items() if k in known} | {"wait": True})

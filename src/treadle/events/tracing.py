"""The tracing contract: spans of runs, model requests and tool calls; and a tracer that does
nothing.

The loop and the toolbox open the spans; telemetry/ exports them. Entry points: `Tracer`,
`NO_TRACER`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from treadle.messages.labels import Metadata
from treadle.messages.message import ToolCall, ToolResult
from treadle.messages.metrics import RunMetrics
from treadle.models.model import Delta, ModelRequest, ModelResponse
from treadle.models.retry import ModelAttempt
from treadle.types import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """Attributes of a traced run."""

    run_id: str
    session_id: str | None
    parent_run_id: str | None
    agent: str
    agent_hash: str
    """Hash of the agent's definition."""
    description: str
    model: str
    """Name of the requested model, like "anthropic:claude-opus-5-5"."""
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict[str, "str | int | float | bool"])


class RunSpan(Protocol):
    def ended(self, outcome: Outcome, metrics: RunMetrics, error: Exception | None) -> None:
        """Record the end of the run. Called once, before the span is closed."""
        ...


class ModelSpan(Protocol):
    def first_delta(self) -> None:
        """Record the first delta of an attempt. Called for each attempt."""
        ...

    def retried(self, kind: str, wait_s: float) -> None: ...

    def responded(self, response: ModelResponse, cost_usd: float | None) -> None:
        """Record a complete response. Called once."""
        ...


class ToolSpan(Protocol):
    def finished(self, result: ToolResult) -> None:
        """Record the result of the call. Called at most once."""
        ...


class Tracer(Protocol):
    """Source of the spans of a run, opened in the task that does the work, so that nested spans
    find their parent.

    Exceptions propagate through a span. A tracer must neither raise nor block.
    """

    def run(self, run: TracedRun) -> AbstractContextManager[RunSpan]: ...

    def model(self, run: TracedRun, request: ModelRequest) -> AbstractContextManager[ModelSpan]: ...

    def tool(
        self, run: TracedRun, call: ToolCall, kind: Mapping[str, str]
    ) -> AbstractContextManager[ToolSpan]:
        """Open the span of a tool call. `kind`: the tool's attributes, such as its MCP server."""
        ...


class _Nothing:
    """Span that records nothing."""

    def ended(self, outcome: Outcome, metrics: RunMetrics, error: Exception | None) -> None: ...

    def first_delta(self) -> None: ...

    def retried(self, kind: str, wait_s: float) -> None: ...

    def responded(self, response: ModelResponse, cost_usd: float | None) -> None: ...

    def finished(self, result: ToolResult) -> None: ...


NO_SPAN: ModelSpan = _Nothing()
_NOTHING = nullcontext(_Nothing())


class NoTracer:
    def run(self, run: TracedRun) -> AbstractContextManager[RunSpan]:
        return _NOTHING

    def model(self, run: TracedRun, request: ModelRequest) -> AbstractContextManager[ModelSpan]:
        return _NOTHING

    def tool(
        self, run: TracedRun, call: ToolCall, kind: Mapping[str, str]
    ) -> AbstractContextManager[ToolSpan]:
        return _NOTHING


NO_TRACER: Tracer = NoTracer()


class Traced:
    """Tracer bound to one run."""

    __slots__ = ("_run", "_tracer", "is_on")

    def __init__(self, tracer: Tracer, run: TracedRun) -> None:
        self._tracer, self._run = tracer, run
        self.is_on = tracer is not NO_TRACER

    def run(self) -> AbstractContextManager[RunSpan]:
        return self._tracer.run(self._run)

    def model(self, request: ModelRequest) -> AbstractContextManager[ModelSpan]:
        return self._tracer.model(self._run, request)

    def tool(self, call: ToolCall, kind: Mapping[str, str]) -> AbstractContextManager[ToolSpan]:
        return self._tracer.tool(self._run, call, kind)


UNTRACED = Traced(
    NO_TRACER,
    TracedRun(
        run_id="",
        session_id=None,
        parent_run_id=None,
        agent="",
        agent_hash="",
        description="",
        model="",
    ),
)


def at_first(
    attempt: ModelAttempt, told: Callable[[], None], listen: Callable[[Delta], None] | None
) -> Callable[[Delta], None]:
    """Wrap `listen` so that `told` is called before the first delta of each attempt."""
    heard = 0

    def hear(delta: Delta) -> None:
        nonlocal heard
        if heard != attempt.number:
            heard = attempt.number
            told()
        if listen is not None:
            listen(delta)

    return hear

"""A run before it starts, and how it ended: the values on either side of the loop. Entry:

`Plan`, `Resumption`, `Ending`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from treadle._internal.json_text import decode_json
from treadle._internal.redaction import Redactor
from treadle.budget.ledger import Ledger
from treadle.budget.prices import UNKNOWN, Dearest, Pricing, needed
from treadle.context.compaction import Summarisers, nobody
from treadle.context.native_compaction import CompactingModel
from treadle.errors import AgentError
from treadle.events.hooks import NO_HOOKS, HookedRun, Hooks
from treadle.journal.entries import Compaction, Fork, RunFinished, RunResumed, RunStarted
from treadle.journal.journal import RunWriter
from treadle.journal.run_state import RunState
from treadle.loop.recovery import Answers
from treadle.loop.session_past import SessionPast
from treadle.messages.events import ErrorInfo
from treadle.messages.message import JsonText, Message, encode_json
from treadle.messages.metrics import RunMetrics, RunTotals
from treadle.models.model import Model
from treadle.tools.approval import Approver
from treadle.tools.structured_output.contract import AnswerType
from treadle.tools.tool import LateTools, Tool
from treadle.types import (
    DEFAULT_MAX_TOKENS,
    Limits,
    Mode,
    OnAsk,
    OnUnknown,
    Outcome,
    Settings,
    Spending,
    SystemBlock,
    now,
)

logger = logging.getLogger("treadle")


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """Data with which a run continues instead of starting."""

    writer: RunWriter
    """Taken over, and nothing appended yet."""
    answers: Answers
    below: Answers = msgspec.field(default_factory=Answers)
    """Answers to calls of child runs."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run is, resolved before it starts."""

    run_id: str
    session_id: str | None
    family: str
    """Runs that may read each other's long outputs: those of one session, and children with their
    parents.
    """
    agent: str
    agent_hash: str
    model: Model
    model_name: str
    """Name by which another process finds the model."""
    models: tuple[str, ...]
    """The names of all that may be asked."""
    system: tuple[SystemBlock, ...]
    settings: Settings
    """Resolved: nothing stands in it that the model refuses."""
    limits: Limits
    mode: Mode
    cwd: Path
    state: RunState
    """State before the next turn; for a resumed run, everything up to its last entry."""
    prompt: Message
    messages: tuple[Message, ...] = ()
    """The agent's own messages before the prompt, used if there is no history."""
    changed: tuple[Message, ...] = ()
    """Messages about parts of the system prompt that have changed since the history was written."""
    redactor: Redactor
    inputs_json: JsonText = "{}"
    given_schema: JsonText | None = None
    """Output schema as given, if `settings` do not hold it in that form."""
    user_id: str | None = None
    parent_run_id: str | None = None
    parent_call_id: str | None = None
    depth: int = 0
    """Number of runs above this one."""
    above: Ledger | None = None
    """Ledger of the parent run."""
    answer: AnswerType[Any] | None = None
    """Type of the output; None: text."""
    more_tools: tuple[Tool[Any], ...] = ()
    """Tools in addition to the agent's."""
    late_tools: LateTools | None = None
    """More that may come while it runs."""
    prepared_s: float = 0.0
    """Seconds spent waiting for tools, which count as time of the run."""
    completion: bool = False
    """True if the run is complete only when the model calls `complete`."""
    mends: int = 2
    """Number of times that the errors of an answer go back to the model."""
    hooks: Hooks = NO_HOOKS
    approver: Approver | None = None
    """Approver of held calls; None if there is none."""
    past: SessionPast | None = None
    """Messages of its session, for a new run; None: it has no session, or goes on from elsewhere.
    """
    on_ask: OnAsk = "deny"
    on_unknown: OnUnknown = "tell"
    fork: Fork | None = None
    prices: Callable[[str], Pricing] = lambda name: UNKNOWN
    """Price of a model, by its name."""
    windows: Callable[[str], int | None] = lambda name: None
    """Context window of a model in tokens, by its name; None if unknown."""
    compacting: Callable[[str], CompactingModel | None] = lambda name: None
    """The model with a name, if its provider may compact conversations."""
    outputs: tuple[int, int] = (DEFAULT_MAX_TOKENS, DEFAULT_MAX_TOKENS)
    """Output tokens of one response where the settings leave them open: at first, and after one was
    cut.
    """
    summarisers: Summarisers = nobody
    """Models that may summarise a conversation that has become too long."""
    warnings: tuple[str, ...] = ()
    resumption: Resumption | None = None

    @property
    def hooked(self) -> HookedRun:
        """The run as hooks see it."""
        who = {"run_id": self.run_id, "agent": self.agent, "model": self.model_name}
        return HookedRun(
            **who,
            session_id=self.session_id,
            parent_run_id=self.parent_run_id,
            user_id=self.user_id,
        )

    def started(self) -> RunStarted:
        """The first entry of its journal."""
        return RunStarted(
            at=now(),
            run_id=self.run_id,
            agent=self.agent,
            agent_hash=self.agent_hash,
            model=self.model_name,
            mode=self.mode,
            cwd=str(self.cwd),
            input=self.prompt,
            messages=self.changed if self.state.context.past else self.messages,
            settings=self.settings,
            limits=self.limits,
            inputs=self.inputs_json,
            output=self.given_schema,
            session_id=self.session_id,
            parent_run_id=self.parent_run_id,
            parent_call_id=self.parent_call_id,
            user_id=self.user_id,
            late=None if self.past is None else dict(self.past.view.late),
            on_ask=self.on_ask,
            on_unknown=self.on_unknown,
            fork=self.fork,
            passing=()
            if self.session_id is None
            else tuple([block.text for block in self.system if block.passing]),
        )

    def resumed(self, fence: int) -> RunResumed:
        """The first entry of a further driver."""
        limits = None if self.limits == self.state.limits else self.limits
        asked = None if self.state.models.asked in self.models else self.model_name
        return RunResumed(
            at=now(),
            fence=fence,
            agent=self.agent,
            agent_hash=self.agent_hash,
            model=self.model_name,
            asked=asked,
            mode=self.mode,
            cwd=str(self.cwd),
            limits=limits,
        )

    @property
    def max_tokens(self) -> int:
        """Output tokens of a response, before any was cut."""
        return self.settings.max_tokens or self.outputs[0]

    @property
    def may_raise(self) -> bool:
        """True if a cut response may be followed by a longer one."""
        return self.settings.max_tokens is None and self.outputs[1] > self.outputs[0]

    @property
    def output_tokens(self) -> int:
        """Output tokens of the next response."""
        return self.outputs[1] if self.state.models.cuts and self.may_raise else self.max_tokens

    def dearest(self, input_tokens: int) -> Dearest:
        """Return the highest price of all models that may be asked.

        Raises AgentError(invalid) for an unknown price: a cost that cannot be measured is not
        incurred.
        """
        at = now()
        rates = [
            needed(self.prices(name), name)(at).asked(self.settings, at) for name in self.models
        ]
        return Dearest(*map(max, zip(*(one.dearest(input_tokens) for one in rates), strict=True)))

    def turn_settings(self, max_tokens: int, *, without_tools: bool) -> Settings:
        """Return the settings of the next request.

        `without_tools`: they stay in the request, and the model must not call them.
        """
        changes: dict[str, Any] = {}
        if max_tokens != self.settings.max_tokens:
            changes["max_tokens"] = max_tokens
        if without_tools and not self.completion:
            changes["tool_choice"] = "none"
        if self.state.models.carried:
            changes["extra"] = _joined(self.state.models.carried, self.settings.extra or {})
        return msgspec.structs.replace(self.settings, **changes) if changes else self.settings

    def compacted(self) -> list[Compaction]:
        window = None if self.past is None else self.past.window
        return (
            [] if window is None else [Compaction(at=now(), receipt=encode_json(window).decode())]
        )


def _joined(carried: Mapping[str, object], own: Mapping[str, object]) -> dict[str, object]:
    """`own` over what the provider wants back; where both have an object, such as a container and
    its skills, their fields are joined.
    """
    joined = {**carried, **own}
    for name, value in carried.items():
        if isinstance(value, dict) and isinstance(mine := own.get(name), dict):
            joined[name] = {**cast("dict[str, object]", value), **cast("dict[str, object]", mine)}
    return joined


class ParentCall(NamedTuple):
    """The call that starts a run, and the run that it belongs to."""

    plan: Plan
    call_id: str


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run, or its stop to wait for a person."""

    outcome: Outcome
    text: str
    error: AgentError | None
    metrics: RunMetrics
    spending: tuple[Spending, ...] = ()
    waiting: bool = False
    """True if the run is not over: `resume` continues it."""
    output: object = None
    output_json: JsonText = "null"
    validated: bool = False

    def finished(self, open_turn: int | None) -> RunFinished:
        """The last entry of its journal; `open_turn` is the turn that it closes."""
        metrics = self.metrics
        return RunFinished(
            at=now(),
            outcome=self.outcome,
            turns=metrics.turns,
            tool_calls=metrics.tool_calls,
            usage=metrics.usage,
            cost_usd=metrics.cost_usd,
            spending=self.spending,
            total=metrics.total if metrics.total.runs > 1 else None,
            duration_s=metrics.duration_s,
            text=self.text,
            output=self.output_json,
            validated=self.validated,
            open_turn=open_turn,
            error=None if self.error is None else error_info(self.error),
        )


def ending_of(state: RunState) -> Ending:
    """Return the ending of a finished run, from its journal."""
    finished = state.finished
    assert finished is not None, "the run is finished"
    error = finished.error
    return Ending(
        outcome=finished.outcome,
        text=finished.text,
        error=None
        if error is None
        else AgentError(
            error.kind, error.message, status=error.status, request_id=error.request_id
        ),
        metrics=metrics_of(state, duration_s=finished.duration_s, total=finished.total),
        output=decode_json(finished.output.encode(), object),
        output_json=finished.output,
        validated=finished.validated,
    )


def unfinished(
    state: RunState,
    outcome: Outcome | None = None,
    *,
    driven_s: float | None = None,
    total: RunTotals | None = None,
) -> Ending:
    """Ending of a run that has none in its journal.

    `driven_s`: pass it if entries were added to `state` by code that did not drive the run.
    `total`: as for `metrics_of`.
    """
    metrics = metrics_of(
        state, duration_s=state.driven_s if driven_s is None else driven_s, total=total
    )
    if outcome is None and state.approvals.asked:
        return Ending(
            outcome=Outcome.APPROVAL_NEEDED,
            text=state.text,
            error=None,
            metrics=metrics,
            waiting=True,
        )
    error = (
        AgentError("agent", "the run is not finished: resume it, or kill it")
        if outcome is None
        else None
    )
    return Ending(outcome=outcome or Outcome.ERROR, text=state.text, error=error, metrics=metrics)


def metrics_of(
    state: RunState,
    *,
    duration_s: float,
    invocations: int | None = None,
    total: RunTotals | None = None,
) -> RunMetrics:
    """Metrics of a run.

    `invocations`: as counted by its driver; without it, those that were answered. `total`: of the
    tree, from the journal; without it, what the ledger knows of children.
    """
    ledger = state.ledger
    return RunMetrics(
        turns=ledger.turns,
        invocations=state.spending.invocations if invocations is None else invocations,
        tool_calls=ledger.tool_calls,
        retries=state.spending.retries,
        usage=ledger.usage,
        cost_usd=ledger.cost_usd,
        duration_s=round(duration_s, 6),
        total=total or ledger.total,
    )


def as_error(error: Exception, plan: Plan) -> AgentError:
    """Convert to an error for the caller, with secrets removed."""
    if not isinstance(error, AgentError):
        logger.error("run %s failed inside", plan.run_id, exc_info=error)
        error = AgentError("agent", f"the run failed inside: {type(error).__name__}: {error}")
    error.message = plan.redactor.text(error.message)
    error.args = (error.kind, error.message)
    return error


def error_info(error: AgentError) -> ErrorInfo:
    return ErrorInfo(
        kind=error.kind.value,
        message=error.message,
        status=error.status,
        request_id=error.request_id,
    )

"""Plan of a run: everything that is resolved before the run starts.

Entry points: `Plan`, `Resumption`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from treadle._internal.redaction import Redactor
from treadle.budget.ledger import Ledger
from treadle.budget.prices import UNKNOWN, Dearest, Pricing, needed
from treadle.context.compaction import Summarisers, nobody
from treadle.context.native_compaction import CompactingModel
from treadle.events.hooks import NO_HOOKS, Hooks
from treadle.journal.entries import (
    AgentSwitched,
    Compaction,
    Evaluated,
    Fork,
    RunResumed,
    RunStarted,
)
from treadle.journal.journal import RunWriter
from treadle.journal.run_state import RunState
from treadle.loop.answers import Answers
from treadle.loop.session_past import SessionPast
from treadle.messages.labels import Metadata
from treadle.messages.message import JsonText, Message, encode_json
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
    Settings,
    SystemBlock,
    now,
)

if TYPE_CHECKING:
    from treadle.models.providers.batching.request_batch import BatchMember
    from treadle.models.providers.run_headers import RunHeaders


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """Data for resuming a run."""

    writer: RunWriter
    """Writer that has taken over the run and has not appended yet."""
    answers: Answers
    below: Answers = msgspec.field(default_factory=Answers)
    """Answers to calls of child runs."""


class Switching(msgspec.Struct, frozen=True, kw_only=True):
    """Data for continuing a run with another agent, in the process that drives it."""

    writer: RunWriter
    entry: AgentSwitched


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that defines a run, resolved before it starts."""

    run_id: str
    session_id: str | None
    family: str
    """Id of a group of runs that may read each other's spilled outputs: the runs of one session,
    and their children.
    """
    agent: str
    agent_hash: str
    model: Model
    model_name: str
    """Name by which other processes resolve the model."""
    models: tuple[str, ...]
    """Names of all models that the run may use."""
    system: tuple[SystemBlock, ...]
    settings: Settings
    """Resolved settings, without those that the model rejects."""
    limits: Limits
    mode: Mode
    cwd: Path
    state: RunState
    """State before the next turn. For a resumed run, it includes all entries."""
    prompt: Message
    messages: tuple[Message, ...] = ()
    """The agent's messages before the prompt, used if there is no history."""
    changed: tuple[Message, ...] = ()
    """Messages about parts of the system prompt that have changed since the history was written."""
    redactor: Redactor
    headers: RunHeaders | None = None
    """Headers of the requests to the model's provider. Not stored."""
    batch: BatchMember | None = None
    """Place of the run in a batch of runs, whose requests go out together."""
    inputs_json: JsonText = "{}"
    given_schema: JsonText | None = None
    """Output schema as passed by the caller, if `settings` have it in another form."""
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = msgspec.field(default_factory=dict[str, "str | int | float | bool"])
    parent_run_id: str | None = None
    parent_call_id: str | None = None
    depth: int = 0
    """Number of ancestors."""
    above: Ledger | None = None
    """Ledger of the parent run."""
    answer: AnswerType[Any] | None = None
    """Type of the output; None: text."""
    more_tools: tuple[Tool[Any], ...] = ()
    """Tools other than the agent's own."""
    late_tools: LateTools | None = None
    """Tools that may become available during the run."""
    prepared_s: float = 0.0
    """Seconds spent waiting for tools before the run began. They count as its active time."""
    completion: bool = False
    """True if the run completes only when the model calls `complete`."""
    mends: int = 2
    """Number of times that the model may correct an invalid output."""
    is_processed: bool = False
    """True if a processor of the agent decides which messages the model sees."""
    hooks: Hooks = NO_HOOKS
    approver: Approver | None = None
    past: SessionPast | None = None
    """The session's earlier messages, for a new run; None without a session, or if resumed."""
    on_ask: OnAsk = "deny"
    on_unknown: OnUnknown = "tell"
    fork: Fork | None = None
    prices: Callable[[str], Pricing] = lambda name: UNKNOWN
    """Function that returns the pricing of a model, by name."""
    windows: Callable[[str], int | None] = lambda name: None
    """Function that returns the context window of a model in tokens, by name; None if unknown."""
    compacting: Callable[[str], CompactingModel | None] = lambda name: None
    """Function that returns the named model if its provider can compact conversations."""
    outputs: tuple[int, int] = (DEFAULT_MAX_TOKENS, DEFAULT_MAX_TOKENS)
    """Default maximum output of a response in tokens: initially, and after a truncated one."""
    summarisers: Summarisers = nobody
    """Models that can summarize a conversation that is too long."""
    warnings: tuple[str, ...] = ()
    evaluated: Evaluated | None = None
    """Results of the functions of the agent's definition."""
    resumption: Resumption | None = None
    switching: Switching | None = None
    """Set if another agent has just handed the run over."""

    def started(self) -> RunStarted:
        """Return the run's first entry."""
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
            tags=self.tags,
            metadata=self.metadata,
            late=None if self.past is None else dict(self.past.view.late),
            on_ask=self.on_ask,
            on_unknown=self.on_unknown,
            fork=self.fork,
            evaluated=self.evaluated,
            batch="" if self.batch is None else self.batch.batch.name,
            passing=()
            if self.session_id is None
            else tuple([block.text for block in self.system if block.passing]),
        )

    def resumed(self, fence: int, *, failed_over: bool = False) -> RunResumed:
        """Return the first entry of a driver that resumes the run. Arguments as in `RunWriter`."""
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
            failed_over=failed_over,
            evaluated=None if self.evaluated == self.state.evaluated else self.evaluated,
        )

    @property
    def max_tokens(self) -> int:
        """Maximum output of a response in tokens, before one is truncated."""
        return self.settings.max_tokens or self.outputs[0]

    @property
    def may_raise(self) -> bool:
        """True if the maximum output is raised after a truncated response."""
        return self.settings.max_tokens is None and self.outputs[1] > self.outputs[0]

    @property
    def output_tokens(self) -> int:
        """Maximum output of the next response in tokens."""
        return self.outputs[1] if self.state.models.cuts and self.may_raise else self.max_tokens

    def dearest(self, input_tokens: int) -> Dearest:
        """Return the highest prices of all models that the run may use.

        Raises AgentError(invalid) if a price is unknown, because a cost limit could not be checked.
        """
        at = now()
        rates = [
            needed(self.prices(name), name)(at).asked(self.settings, at) for name in self.models
        ]
        return Dearest(*map(max, zip(*(one.dearest(input_tokens) for one in rates), strict=True)))

    def turn_settings(self, max_tokens: int, *, without_tools: bool) -> Settings:
        """Return the settings of the next request.

        `without_tools`: forbid tool calls. The request still contains the tools.
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
    """Merge `own` over the provider data carried from the last response. If both have an object of
    one name, such as a container, merge its fields.
    """
    joined = {**carried, **own}
    for name, value in carried.items():
        if isinstance(value, dict) and isinstance(mine := own.get(name), dict):
            joined[name] = {**cast("dict[str, object]", value), **cast("dict[str, object]", mine)}
    return joined


class ParentCall(NamedTuple):
    """The call that starts a child run, and the plan of its run."""

    plan: Plan
    call_id: str


def taken_over(state: RunState, writer: RunWriter) -> RunResumed:
    """Return the first entry of a driver that takes over a run but does not continue it."""
    started = state.started
    assert started is not None, "a run begins with run.started"
    return RunResumed(
        at=now(),
        fence=writer.fence,
        agent=state.agent.name,
        agent_hash=state.agent_hash,
        model=state.model,
        mode=state.mode,
        cwd=state.cwd,
        failed_over=writer.failed_over,
    )

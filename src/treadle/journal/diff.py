"""Comparison of two runs by their journals: where they diverge, and how they ended.

Entry points: `compare`, `RunDiff`.
"""

from __future__ import annotations

from treadle.journal.run_state import RunState
from treadle.messages.message import Message
from treadle.messages.metrics import RunTotals
from treadle.types import Outcome, Usage, Value


class Side(Value, frozen=True, kw_only=True):
    """One of the two compared runs."""

    run_id: str
    agent: str
    model: str
    outcome: Outcome | None
    """None if it is not finished."""
    turns: int
    tool_calls: int
    usage: Usage
    cost_usd: float | None = None
    total: RunTotals
    """Totals of the run and its children; for an unfinished run, its own figures only."""
    duration_s: float
    text: str
    messages: tuple[Message, ...]
    """Messages from the point of divergence."""


class RunDiff(Value, frozen=True, kw_only=True):
    same_messages: int
    """Number of equal messages at the beginning."""
    a: Side
    b: Side

    @property
    def is_same(self) -> bool:
        """True if the runs are equal to their end and have the same outcome."""
        return not self.a.messages and not self.b.messages and self.a.outcome == self.b.outcome


def compare(a: RunState, b: RunState) -> RunDiff:
    """Compare two runs by the content of their messages, ignoring ids, times and opaque provider
    data.
    """
    ours, theirs = list(a.context.history), list(b.context.history)
    pairs = zip(ours, theirs, strict=False)
    same = next(
        (i for i, (x, y) in enumerate(pairs) if _said(x) != _said(y)), min(len(ours), len(theirs))
    )
    return RunDiff(same_messages=same, a=_side(a, same), b=_side(b, same))


def _said(message: Message) -> tuple[object, ...]:
    calls = tuple((call.name, call.arguments_json) for call in message.tool_calls)
    results = tuple(
        (result.name, result.content, result.is_error, result.unknown)
        for result in message.tool_results
    )
    return (message.role, message.text, message.reasoning, calls, results)


def _side(state: RunState, same: int) -> Side:
    started, finished = state.started, state.finished
    assert started is not None, "a run begins with run.started"
    return Side(
        run_id=started.run_id,
        agent=started.agent,
        model=state.model,
        outcome=finished.outcome if finished else None,
        turns=state.ledger.turns,
        tool_calls=state.ledger.tool_calls,
        usage=state.ledger.usage,
        cost_usd=state.ledger.cost_usd,
        total=(finished and finished.total) or state.ledger.total,
        duration_s=round(state.driven_s, 3),
        text=state.text,
        messages=tuple(state.context.history[same:]),
    )

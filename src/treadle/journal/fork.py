"""Starting point of a fork in another run, and its errors.

Entry points: `fork_of`, `check_results`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.errors import AgentError
from treadle.journal.entries import Fork, ModelResponded, Record
from treadle.journal.run_state import RunState
from treadle.tools.approval import check_texts


def fork_of(
    run_id: str, state: RunState, turn: int, results: Mapping[str, str], *, asks: bool
) -> Fork:
    """Return the fork of a run after a turn. Raises AgentError(invalid) if there is no such turn or
    nothing to continue.
    """
    check_texts("results", results)
    turns = state.ledger.turns
    if not 0 <= turn <= turns:
        raise AgentError(
            "invalid",
            (
                f"run {run_id} has {turns} turn{'' if turns == 1 else 's'}: fork it after one of 0 "
                f"to {turns}, not after {turn}"
            ),
        )
    if (
        turn == turns
        and not asks
        and state.current.response is not None
        and not state.current.calls
    ):
        raise AgentError(
            "invalid",
            (
                f"turn {turn} of run {run_id} was its final answer: pass a prompt to continue from it, "
                "or fork it after an earlier turn"
            ),
        )
    seq = (
        state.closed[turn - 1]
        if 0 < turn <= len(state.closed)
        else state.ready_at
        if turn == 0
        else state.seq
    )
    return Fork(
        run_id=run_id,
        turn=turn,
        seq=seq,
        asks=asks,
        results=dict(results),
        delayed=seq == state.seq and bool(state.context.later),
    )


def check_results(fork: Fork, records: Sequence[Record]) -> None:
    """Raise AgentError(invalid) if a result is given for a call that the turn does not have."""
    whole = [
        e.message
        for e in (record.entry for record in records)
        if isinstance(e, ModelResponded) and e.stop_reason is not None
    ]
    calls = [call.id for call in whole[fork.turn - 1].tool_calls] if fork.turn else []
    if strange := sorted(fork.results.keys() - calls):
        there_are = f"its calls are: {', '.join(calls)}" if calls else "it has none"
        raise AgentError(
            "invalid",
            f"turn {fork.turn} of run {fork.run_id} has no call {strange[0]!r}; {there_are}",
        )

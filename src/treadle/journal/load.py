"""Loading of a run from its journal, including its past: its session's messages, or the run that it
was forked from.

run_state.py folds the entries; journals store them. Entry points: `load`, `forked`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from treadle.journal.entries import Fork, Record, RunStarted, ToolFinished
from treadle.journal.run_messages import tool_message
from treadle.journal.run_state import RunState
from treadle.journal.sessions import Sessions
from treadle.messages.message import ToolCall, ToolResult

NO_RESULT = (
    "This call had no result in the run that this one was forked from. It is not known whether "
    "it took effect."
)
"""Result of such a call. Forks show it in their histories, so it must not change."""


def load(run_id: str, read: Callable[[str], Sequence[Record]], sessions: Sessions) -> RunState:
    """Return the state of a run, including its past.

    Raises the errors of `read`.
    """
    return _fold(read(run_id), read, sessions)


def _fold(
    records: Iterable[Record], read: Callable[[str], Sequence[Record]], sessions: Sessions
) -> RunState:
    entries = [record.entry for record in records]
    started = entries[0]
    assert isinstance(started, RunStarted), "a run begins with run.started"
    if started.fork is not None:
        state = forked(started.fork, read, sessions)
    elif started.session_id is not None:
        state = RunState(
            sessions.get_messages(started.session_id, before=started.run_id)[: started.past]
        )
    else:
        state = RunState()
    for entry in entries:
        state.apply(entry)
    return state


def forked(fork: Fork, read: Callable[[str], Sequence[Record]], sessions: Sessions) -> RunState:
    """Return a fresh state that continues from inside another run. Every call of that run has a
    result there.
    """
    parent = _fold(_changed(read(fork.run_id)[: fork.seq], fork.results), read, sessions)
    messages = (
        parent.context.history[: parent.context.prompt_at]
        if fork.turn == 0
        else parent.context.history[:]
    )
    if parent.current.open_calls and parent.current.response is not None and fork.turn:
        by_id = {
            result.call_id: result
            for result in (
                *parent.current.ordered_results(),
                *(_instead(call, fork.results, parent) for call in parent.current.open_calls),
            )
        }
        messages.append(
            tool_message(
                parent.current.response.message,
                [by_id[call.id] for call in parent.current.calls],
                parent.current.response.at,
            )
        )
        if fork.delayed:
            messages += parent.context.later
    return RunState(messages, settled=min(parent.context.history.settled, len(messages)))


def _instead(call: ToolCall, results: Mapping[str, str], parent: RunState) -> ToolResult:
    """Return the substitute result for a call that has none."""
    if (text := results.get(call.id)) is not None:
        return ToolResult(call_id=call.id, name=call.name, content=text)
    if (late := parent.current.late.get(call.id)) is not None:
        return ToolResult(
            call_id=call.id, name=call.name, content=late.text, is_error=late.status == "error"
        )
    return ToolResult(
        call_id=call.id, name=call.name, content=NO_RESULT, is_error=True, unknown=True
    )


def _changed(records: Iterable[Record], results: Mapping[str, str]) -> Iterable[Record]:
    for record in records:
        entry = record.entry
        if (
            isinstance(entry, ToolFinished)
            and (text := results.get(entry.result.call_id)) is not None
        ):
            result = ToolResult(call_id=entry.result.call_id, name=entry.result.name, content=text)
            entry = ToolFinished(
                at=entry.at,
                status="ok",
                result=result,
                duration_ms=entry.duration_ms,
                message_id=entry.message_id,
            )
        yield Record(seq=record.seq, entry=entry)

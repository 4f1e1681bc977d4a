"""A user's answers to the open calls of a run; recovery.py applies them.

Entry point: `Answers`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from treadle.errors import AgentError
from treadle.journal.run_state import RunState
from treadle.messages.message import JsonText, ToolCall
from treadle.types import OnUnknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """A user's answers to open calls, by call id, passed to a resume."""

    on_unknown: OnUnknown | None = None
    """Overrides the run's setting. None keeps it, and pending approvals stay open."""
    approve: frozenset[str] = frozenset()
    """Calls to run, or to run again because the user knows that they had no effect."""
    deny: Mapping[str, str] = field(default_factory=dict[str, str])
    """Reasons of denials, for the model. A denied call that had started gets the result `unknown`.
    """
    results: Mapping[str, str] = field(default_factory=dict[str, str])
    """Results that the user supplies."""
    arguments: Mapping[str, JsonText] = field(default_factory=dict[str, JsonText])
    """Replacement arguments of approved calls."""
    seen: int | None = None
    """Number of the run's entries that the user had seen; None if unknown."""

    def __bool__(self) -> bool:
        return bool(self.calls)

    @property
    def calls(self) -> set[str]:
        """Ids of the calls that have an answer."""
        return {*self.approve, *self.deny, *self.results}

    def only(self, calls: Collection[str]) -> Answers:
        """Return only the answers to these calls."""
        deny, results = (
            {call_id: text for call_id, text in said.items() if call_id in calls}
            for said in (self.deny, self.results)
        )
        return replace(self, approve=self.approve.intersection(calls), deny=deny, results=results)

    def check(self, state: RunState, *, below: Sequence[str] = ()) -> None:
        """Raise AgentError(invalid) for an answer to a call that is not open.

        `below`: open calls of child runs.
        """
        still_open = [*(call.id for call in state.current.open_calls), *below]
        if strange := [
            call_id
            for call_id in (*self.approve, *self.deny, *self.results)
            if call_id not in still_open
        ]:
            there_are = f"open calls: {', '.join(still_open)}" if still_open else "none is open"
            raise AgentError(
                "invalid", f"no call {strange[0]!r} of this run waits for an answer; {there_are}"
            )
        self.check_late(state)

    def check_late(self, state: RunState) -> None:
        """Raise AgentError(invalid) for an answer to a call whose result has arrived late."""
        for call_id, late in state.current.late.items():
            if call_id in self.calls:
                raise AgentError(
                    "invalid",
                    (
                        f"the call {call_id!r} no longer needs an answer, because its result has "
                        f"arrived: {late.text:.200} Resume the run without an answer to it; the "
                        "call is not repeated"
                    ),
                )

    def to_open(self, state: RunState) -> Answers:
        """Return the answers except those to calls whose result has arrived late."""
        late = state.current.late
        return self.only(self.calls - late.keys()) if late else self


def replace_arguments(call: ToolCall, arguments_json: JsonText) -> ToolCall:
    """Return the call with these arguments. Its message in the history is unchanged."""
    return (
        call
        if call.arguments_json == arguments_json
        else structs.replace(call, arguments_json=arguments_json)
    )

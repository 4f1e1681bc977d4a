"""What the model reads between two turns beside results: people's words, what came late, and our own. Entry: `Inbox`."""

from __future__ import annotations

from treadle.budget import LIMIT_NAMES
from treadle.entries import Entry, InputAdded
from treadle.late import LateResults
from treadle.message import Message
from treadle.plan import Plan
from treadle.types import Outcome, now

LAST_TURN = "This is the last turn of this run ({}): answer now, without tools, with what you have."
LAST_CALL = "This is the last turn of this run ({}): call `complete` now, and no other tool, with what you have."
CUT_RESPONSE = "Your last response was cut, because the conversation had become too long. Room was made: go on."
EMPTY_RESPONSE = "Your last response was empty. Go on, or give your final answer."


class Inbox:
    """That of one run; true while somebody's words wait in it."""

    __slots__ = ("_plan", "_state", "late", "waiting")

    def __init__(self, plan: Plan) -> None:
        self._plan, self._state = plan, plan.state
        self.late = LateResults(plan.state)
        self.waiting: tuple[str, ...] = ()
        """Of people, in their order."""

    def __bool__(self) -> bool:
        return bool(self.waiting or self.late)

    def add(self, text: str) -> None:
        self.waiting = (*self.waiting, text)

    def take(self) -> list[Entry]:
        """All that waits; in the history from here on."""
        if not self:
            return []
        said, self.waiting = self.waiting, ()
        return [*self.late.take(), *(InputAdded(at=now(), message=Message.user(text), by="user") for text in said)]

    def ours(self, last: Outcome | None, *, mend: str, was_short: bool, after_words: bool) -> list[Entry]:
        """Our own word to the model. `mend`: what is wrong with its answer; `was_short`: its response was cut for want of room; `after_words`: somebody
        else has spoken already.
        """
        state, ours = self._state, ""
        if state.attempt:  # the driver before had said it
            return []
        if last is not None:
            ours = (LAST_CALL if self._plan.completion else LAST_TURN).format(f"limit of {LIMIT_NAMES[last]}")
        elif mend or after_words:
            pass
        elif state.empty_responses:
            ours = EMPTY_RESPONSE
        elif was_short and not state.calls:
            ours = CUT_RESPONSE
        if not mend and not ours:
            return []
        text = "\n\n".join(filter(None, (mend, ours)))
        return [InputAdded(at=now(), message=Message.user(text), by="runtime", mends=bool(mend))]

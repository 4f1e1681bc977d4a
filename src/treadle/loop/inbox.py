"""Messages for the model between two turns, besides results: from people, late results, and our
own.

Entry point: `Inbox`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from treadle._internal.redaction import Redactor
from treadle.budget.ledger import LIMIT_NAMES
from treadle.journal.entries import Entry, InputAdded, ToolLate
from treadle.journal.journal import RunWriter
from treadle.journal.run_messages import late_message
from treadle.journal.run_state import RunState
from treadle.loop.plan import Plan
from treadle.messages.message import Message
from treadle.types import Outcome, now

logger = logging.getLogger("treadle")


class LateResults:
    """Late results of one run. Used from its event loop; false while there are none."""

    __slots__ = ("_entries", "_next", "_state")

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._entries: tuple[ToolLate, ...] = ()
        self._next: LateResults | None = None

    def __bool__(self) -> bool:
        return bool(self._entries)

    def hear(self, call_id: str, text: str) -> None:
        """Add a late result, unless the call's result is known otherwise."""
        state = self._state
        if self._next is not None:
            self._next.hear(call_id, text)
        elif call_id in state.unknown_calls or (
            call_id in state.current.starts and call_id not in state.current.results
        ):
            self._entries = (*self._entries, ToolLate(at=now(), call_id=call_id, text=text))

    def go_on_in(self, run: LateResults) -> None:
        """The run was taken up again here: threads of its driver before tell it from now on."""
        self._next = run

    def take(self) -> tuple[ToolLate, ...]:
        """Return the late results not taken yet, in the order of arrival."""
        taken, self._entries = self._entries, ()
        return taken

    async def store(self, writer: RunWriter, redactor: Redactor) -> list[Message]:
        """After the run's end: for the next one of its session.

        Nothing where the journal would not take it.
        """
        at = now()
        # no run that began before has seen it
        late = [msgspec.structs.replace(entry, at=at) for entry in self.take()]
        try:
            await writer.append(late)
        except Exception as e:  # noqa: BLE001  it must not keep another run from beginning
            logger.warning(
                "what calls of run %s gave after its end is not stored: %s",
                writer.run_id,
                redactor.text(str(e)),
            )
            return []
        return [late_message(entry) for entry in late]


LAST_TURN = "This is the last turn of this run ({}): answer now, without tools, with what you have."
LAST_CALL = (
    "This is the last turn of this run ({}): call `complete` now, and no other tool, with what "
    "you have."
)
CUT_RESPONSE = (
    "Your last response was cut, because the conversation had become too long. Room was made: go "
    "on."
)
REPEATED = (
    "The call of {name} gave the same result {count} times, and nothing was changed in between. "
    "Do something else; if you are waiting for something, "
    "wait at least five seconds within each call. If this goes on, the run ends."
)
CUT_THINKING = (
    "Your last response was cut by its limit on output tokens while you were thinking. The limit "
    "is higher now: go on."
)
NO_ANSWER = "the model gave no answer: its last two responses were empty"
EMPTY_RESPONSE = "Your last response was empty. Go on, or give your final answer."


class Inbox:
    """Inbox of one run; true while a person's message waits in it."""

    __slots__ = ("_plan", "_state", "late", "news", "waiting")

    def __init__(self, plan: Plan) -> None:
        self._plan, self._state = plan, plan.state
        self.late = LateResults(plan.state)
        self.news: Callable[[], Sequence[str]] = tuple
        """Returns notes of tools for the model's next request."""
        self.waiting: tuple[str, ...] = ()
        """Messages of people, in their order."""

    def __bool__(self) -> bool:
        return bool(self.waiting or self.late)

    def add(self, text: str) -> None:
        self.waiting = (*self.waiting, text)

    def take(self) -> list[Entry]:
        """All that waits; in the history from here on."""
        news = self.news()
        if not self and not news:
            return []
        said, self.waiting = self.waiting, ()
        told = (
            [InputAdded(at=now(), message=Message.user("\n".join(news)), by="runtime")]
            if news
            else []
        )
        return [
            *self.late.take(),
            *told,
            *(InputAdded(at=now(), message=Message.user(text), by="user") for text in said),
        ]

    def ours(
        self, last: Outcome | None, *, mend: str, was_short: bool, after_words: bool
    ) -> list[Entry]:
        """Return our own message to the model, if any. `mend`: errors of its answer; `was_short`:
        its response was cut for lack of space; `after_words`: another message has been added
        already.
        """
        state, ours = self._state, ""
        # the driver before had said it; or nothing may be said
        if state.current.attempt or state.current.results_only:
            return []
        if last is not None:
            ours = (LAST_CALL if self._plan.completion else LAST_TURN).format(
                f"limit of {LIMIT_NAMES[last]}"
            )
        elif state.current.repeated is not None:
            ours = REPEATED.format(
                count=state.current.repeated.times, name=state.current.repeated.name
            )
        elif mend or after_words:
            pass
        elif state.models.empty_responses:
            ours = EMPTY_RESPONSE
        elif state.current.cut_short and not state.current.calls:
            ours = CUT_THINKING
        elif was_short and not state.current.calls:
            ours = CUT_RESPONSE
        if not mend and not ours:
            return []
        text = "\n\n".join(filter(None, (mend, ours)))
        return [InputAdded(at=now(), message=Message.user(text), by="runtime", mends=bool(mend))]

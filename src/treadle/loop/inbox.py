"""Messages for the model between turns, in addition to results: from people, from late results, and
from the runtime.

Entry point: `Inbox`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from treadle._internal.redaction import Redactor
from treadle.budget.limits import LIMIT_NAMES
from treadle.errors import AgentError
from treadle.journal.entries import Entry, InputAdded, ToolLate
from treadle.journal.journal import RunWriter
from treadle.journal.run_messages import late_message
from treadle.journal.run_state import RunState
from treadle.loop.plan import Plan
from treadle.messages.message import Message
from treadle.tools.failures import LateStatus
from treadle.types import Outcome, now

logger = logging.getLogger("treadle")


class LateResults:
    """Late results of one run. Use it in the run's event loop; false if empty."""

    __slots__ = ("_next", "_state", "entries")

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.entries: tuple[ToolLate, ...] = ()
        """Late results that have not been taken yet, in the order of arrival."""
        self._next: LateResults | None = None

    def __bool__(self) -> bool:
        return bool(self.entries)

    def hear(self, call_id: str, attempt: int, text: str, status: LateStatus) -> None:
        """Add a late result, unless the call already has a result."""
        state, current = self._state, self._state.current
        if self._next is not None:
            self._next.hear(call_id, attempt, text, status)
        elif call_id in state.unknown_calls or (
            call_id in current.starts
            and call_id not in current.results
            and call_id not in current.late
        ):
            if (started := current.starts.get(call_id)) is not None and attempt < started.attempt:
                status = None  # it is not about the attempt that has started since
            late = ToolLate(at=now(), call_id=call_id, text=text, status=status)
            self.entries = (*self.entries, late)

    def go_on_in(self, run: LateResults) -> None:
        """Forward late results to `run`, which has resumed this run in this process."""
        self._next = run

    def take(self) -> tuple[ToolLate, ...]:
        """Return the late results not taken yet, in the order of arrival."""
        taken, self.entries = self.entries, ()
        return taken

    def take_results(self) -> tuple[ToolLate, ...]:
        """Take the late results that close open calls; the others stay."""
        if not self.entries:
            return ()
        closing = self._state.current.is_closed_by
        taken = tuple(filter(closing, self.entries))
        self.entries = tuple(entry for entry in self.entries if not closing(entry))
        return taken

    async def store(
        self, writer: RunWriter, redactor: Redactor, *, wakes: bool = False
    ) -> list[Message]:
        """Store late results after the run's end, for the next run of its session. `wakes`: the run
        waited for nothing else.

        Returns no messages if the journal fails.
        """
        at = now()
        # No run that began earlier has seen them.
        late = [msgspec.structs.replace(entry, at=at) for entry in self.take()]
        try:
            await writer.append(late, wakes=wakes)
        except Exception as e:  # noqa: BLE001  a failure must not keep another run from beginning
            logger.warning(
                "what calls of run %s gave after its end is not stored: %s",
                writer.run_id,
                redactor.text(str(e)),
            )
            return []
        for entry in late:
            self._state.apply(entry)
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
    """Inbox of one run; true if it holds a person's message or a late result."""

    __slots__ = ("_plan", "_state", "is_closed", "late", "news", "waiting")

    def __init__(self, plan: Plan) -> None:
        self._plan, self._state = plan, plan.state
        self.late = LateResults(plan.state)
        self.news: Callable[[], Sequence[str]] = tuple
        """Returns notes of tools for the model's next request."""
        self.waiting: tuple[str, ...] = ()
        """Messages from people, in order."""
        self.is_closed = False
        """True once the run is being closed and accepts no more messages from people."""

    def __bool__(self) -> bool:
        return bool(self.waiting or self.late)

    def add(self, text: str) -> None:
        """Add a person's message. Raises AgentError(invalid) once the inbox is closed."""
        if self.is_closed:
            raise AgentError("invalid", "this run is over: nobody would read the text")
        self.waiting = (*self.waiting, text)

    def take(self) -> list[Entry]:
        """Take all messages as entries; from here on they are part of the history."""
        news = self.news()
        if not (news or self.waiting or self.late.entries):
            return []
        told = (
            [InputAdded(at=now(), message=Message.user("\n".join(news)), by="runtime")]
            if news
            else []
        )
        return [
            *self.late.take(),
            *told,
            *self._words(),
        ]

    def close(self) -> list[Entry]:
        """Accept no more messages from people. Returns the entries of the pending ones."""
        self.is_closed = True
        return self._words()

    def _words(self) -> list[Entry]:
        said, self.waiting = self.waiting, ()
        return [InputAdded(at=now(), message=Message.user(text), by="user") for text in said]

    def ours(
        self, last: Outcome | None, *, mend: str, was_short: bool, after_words: bool
    ) -> list[Entry]:
        """Return the runtime's own message to the model, if any. `mend`: errors of its answer;
        `was_short`: its response overflowed the context; `after_words`: another message has already
        been added.
        """
        state, ours = self._state, ""
        # The previous driver sent it, or only results may follow.
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

"""Messages for the model between turns: from users, from late results and from the runtime.

Entry point: `Inbox`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from treadle._internal.redaction import Redactor
from treadle.budget.limits import LIMIT_NAMES
from treadle.errors import AgentError, ErrorKind
from treadle.journal.entries import Entry, InputAdded, ToolLate
from treadle.journal.journal import RunWriter
from treadle.journal.run_messages import late_message
from treadle.journal.run_state import RunState
from treadle.loop.output import RunOutput
from treadle.loop.plan import Plan
from treadle.messages.message import Message
from treadle.tools.failures import LateStatus
from treadle.types import Outcome, now

logger = logging.getLogger("treadle")


# Structs, because creating one does not enter this file: most runs receive no message.
class LateResults(msgspec.Struct, eq=False):
    """Late results of one run. Use it only in the run's event loop."""

    _state: RunState
    entries: tuple[ToolLate, ...] = ()
    """Late results not yet taken, in the order of arrival."""
    _next: LateResults | None = None

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
                status = None  # the result of an earlier attempt does not close the call
            late = ToolLate(at=now(), call_id=call_id, text=text, status=status)
            self.entries = (*self.entries, late)

    def go_on_in(self, run: LateResults) -> None:
        """Forward later results to `run`, which has resumed this run in the same process."""
        self._next = run

    def take(self) -> tuple[ToolLate, ...]:
        """Take all late results, in the order of arrival."""
        taken, self.entries = self.entries, ()
        return taken

    def take_results(self) -> tuple[ToolLate, ...]:
        """Take the late results that close open calls, and keep the others."""
        if not self.entries:
            return ()
        closing = self._state.current.is_closed_by
        taken = tuple(filter(closing, self.entries))
        self.entries = tuple(entry for entry in self.entries if not closing(entry))
        return taken

    async def store(
        self, writer: RunWriter, redactor: Redactor, *, wakes: bool = False
    ) -> list[Message]:
        """Store late results after the run's end, and return them as messages for the session's
        next run.

        `wakes`: the run waits for nothing else. Logs a journal error, keeps the results for the
        next call unless another driver has the run, and returns no messages.
        """
        at, taken = now(), self.take()
        # dated now, because runs that began earlier have not seen them
        late = [msgspec.structs.replace(entry, at=at) for entry in taken]
        try:
            await writer.append(late, wakes=wakes)
        except Exception as e:  # noqa: BLE001  a failure must not prevent the next run
            if not isinstance(e, AgentError) or e.kind is not ErrorKind.BUSY:
                self.entries = (*taken, *self.entries)
            logger.warning(
                "late results of run %s could not be stored: %s",
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
    "Your last response was cut off because the conversation had become too long. The conversation "
    "has been shortened: go on."
)
REPEATED = (
    "The call of {name} gave the same result {count} times, and nothing was changed in between. "
    "Do something else; if you are waiting for something, "
    "wait at least five seconds within each call. If this continues, the run ends."
)
CUT_THINKING = (
    "Your last response was cut by its limit on output tokens while you were thinking. The limit "
    "is higher now: go on."
)
NO_ANSWER = "the model gave no answer: its last two responses were empty"
EMPTY_RESPONSE = "Your last response was empty. Go on, or give your final answer."


class Inbox(msgspec.Struct, eq=False):
    """Inbox of one run."""

    _plan: Plan
    late: LateResults
    waiting: tuple[str, ...] = ()
    """Messages from users, in order."""
    wants_compaction: bool = False
    """True while a requested compaction is pending."""
    is_closed: bool = False
    """True once the run is ending and accepts no more messages from users."""

    def add(self, text: str) -> None:
        """Add a user's message. Raises AgentError(invalid) once the inbox is closed."""
        if self.is_closed:
            raise AgentError("invalid", "this run has ended: its model cannot read the text")
        self.waiting = (*self.waiting, text)

    async def take(self, news: Sequence[str]) -> list[Entry]:
        """Take all messages, as entries to append. `news`: notes of tools for the next request.

        Raises AgentError(agent) if a hook fails that rewrites the messages.
        """
        told = (
            [InputAdded(at=now(), message=Message.user("\n".join(news)), by="runtime")]
            if news
            else []
        )
        words = await self._words() if self.waiting else ()  # first, because hooks may be cancelled
        return [*self.late.take(), *told, *words]

    async def close(self) -> list[Entry]:
        """Accept no more messages from users, and take the pending ones as entries. Logs the error
        of a hook that rewrites them, and leaves them out.
        """
        self.is_closed = True
        if not self.waiting:
            return []
        try:
            return await self._words()
        except AgentError as e:
            logger.warning("messages of run %s were not stored: %s", self._plan.run_id, e.message)
            return []

    async def _words(self) -> list[Entry]:
        said = [Message.user(text) for text in self.waiting]
        if "before_input" in (hooks := self._plan.hooks).points:
            said = [await hooks.before_input(message) for message in said]
        self.waiting = self.waiting[len(said) :]  # others may have come meanwhile
        return [InputAdded(at=now(), message=message, by="user") for message in said]

    def follow(self, before: Inbox) -> None:
        """Take over what has arrived in the inbox of the agent that handed over."""
        self.waiting, before.waiting = before.waiting, ()
        self.late.entries = before.late.take()
        before.late.go_on_in(self.late)
        self.wants_compaction = before.wants_compaction

    def ours(
        self, last: Outcome | None, output: RunOutput, *, was_short: bool, after_words: bool
    ) -> list[Entry]:
        """Return the runtime's message to the model as an entry, if there is one.

        Takes the errors of the model's `output`. `was_short`: the last response overflowed the
        context. `after_words`: other messages have just been added.
        """
        state, ours = self._plan.state, ""
        if state.current.results_only:
            return []
        mend, output.mend = output.mend, ""
        if state.current.attempt:  # a previous driver already added it
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

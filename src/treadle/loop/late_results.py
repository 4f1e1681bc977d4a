"""What calls of a run gave after their result was `unknown`: kept until the model can be told.

Entry: `LateResults`.
"""

from __future__ import annotations

import logging

import msgspec

from treadle._internal.redaction import Redactor
from treadle.journal.entries import ToolLate
from treadle.journal.journal import RunWriter
from treadle.journal.run_messages import late_message
from treadle.journal.run_state import RunState
from treadle.messages.message import Message
from treadle.types import now

logger = logging.getLogger("treadle")


class LateResults:
    """Of one run. Used from its event loop; false while there are none."""

    __slots__ = ("_entries", "_next", "_state")

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._entries: tuple[ToolLate, ...] = ()
        self._next: LateResults | None = None

    def __bool__(self) -> bool:
        return bool(self._entries)

    def hear(self, call_id: str, text: str) -> None:
        """Of a call whose result is known otherwise there is nothing to tell."""
        state = self._state
        if self._next is not None:
            self._next.hear(call_id, text)
        elif call_id in state.unknown_calls or (
            call_id in state.starts and call_id not in state.results
        ):
            self._entries = (*self._entries, ToolLate(at=now(), call_id=call_id, text=text))

    def go_on_in(self, run: LateResults) -> None:
        """The run was taken up again here: threads of its driver before tell it from now on."""
        self._next = run

    def take(self) -> tuple[ToolLate, ...]:
        """Those that nobody has taken yet, in the order in which they came."""
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

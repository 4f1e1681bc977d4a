"""Value of a `RunState`: the messages that the model sees, and what the run adds to its session.

The fold in run_state.py changes it. Entry point: `ContextState`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treadle._internal.json_text import encode_json
from treadle.journal.receipts import Receipt, Said, Withdrawn, folded
from treadle.journal.view import View
from treadle.messages.history import History
from treadle.messages.message import Message


class ContextState(msgspec.Struct):
    """Messages that the model sees, and those that the run adds to its session."""

    history: History
    past: int
    """Number of messages at the beginning of the history that precede the run."""
    prompt_at: int
    """Index in the history of the run's prompt."""
    call_ids: set[str]
    """Ids of all calls in the history."""
    said: list[Said] = []
    """Messages and compaction receipts that the run adds to its session."""
    base: Sequence[Message] = ()
    """Messages before the run, as it found them."""
    measured: tuple[int, int] = (0, 0)
    """Number of messages at the beginning of the history that a response or a compaction has
    measured, and their tokens.
    """
    made_room: bool = False
    """True if a compaction has removed something since the last response."""
    seen: History | None = None
    """Messages that the requests have in the place of the history, as a processor gave them, or
    None.
    """
    seen_to: int = 0
    """Number of messages of the history that `seen` covers."""
    seen_bytes: int = 0
    """Size of the messages in `seen` that no response has counted yet."""
    is_processed: bool = False
    """True if the last request's messages are known: no processor needs to be asked again for it.
    """
    unanswered: tuple[Message, ...] = ()
    """The prompt and messages of users that no response of this run has answered."""
    later: list[Message] = []
    """Messages that cannot follow the last response or its results yet."""

    @classmethod
    def after(cls, past: Sequence[Message], *, settled: int | None = None) -> ContextState:
        """Return the context of a run that follows `past`, of which `settled` messages (default:
        all) belong to ended runs.
        """
        return cls(
            history=History(past, settled=len(past) if settled is None else settled),
            base=past,
            past=len(past),
            prompt_at=len(past),
            call_ids={call.id for message in past for call in message.tool_calls},
        )

    def add(self, message: Message) -> None:
        self.history.append(message)
        self.said.append(message)

    def added(self, *, is_fork: bool) -> Sequence[Said]:
        """Return what the run adds to its session; a fork also adds what it continued from."""
        return [*self.base, *self.said] if is_fork else self.said

    def own_messages(self, given: int) -> list[Message]:
        """Return the messages of the run in full, without the first `given` ones, which it was
        given: also those that a compaction removed, or that a handoff did not show.
        """
        left = (one for one in self.said[given:] if isinstance(one, Message | Withdrawn))
        return folded((), left)

    def ask(self, message: Message) -> None:
        """Add the prompt of the run."""
        self.add(message)
        self.unanswered = (message,)

    def compact(self, receipt: Receipt) -> None:
        """Replace the messages as a compaction did."""
        seen, settled = self.history[:], self.history.settled
        if (kept := receipt.kept(seen)) is not None:
            settled, self.past, self.prompt_at = (
                kept.moved(boundary) for boundary in (settled, self.past, self.prompt_at)
            )
        self.history = History(receipt.of(seen), settled=settled)
        self.said.append(receipt)
        self.seen, self.seen_to, self.seen_bytes, self.is_processed = None, 0, 0, False

    def show(self, view: View | None) -> None:
        """Replace the messages that the model sees, for the rest of the run. The session keeps what
        was said. They count as not measured, since another agent has another system prompt.
        """
        self.measured = (0, 0)
        self.seen, self.seen_to, self.seen_bytes, self.is_processed = None, 0, 0, False
        if view is None:
            return
        prompt, messages = self.history[self.prompt_at :][:1], view.over(self.history[:])
        self.history = History(messages)
        self.prompt_at = messages.index(prompt[0]) if prompt and prompt[0] in messages else 0
        self.past = self.prompt_at

    @property
    def next_seen(self) -> list[Message]:
        """Messages of the next request, unless a processor changes them."""
        return [*(self.seen or ()), *self.history[self.seen_to :]]

    def see(self, view: View | None) -> None:
        """Note the messages of a request, given as a view of `next_seen`; None: all of it."""
        new_bytes = self.new_bytes(view)
        if view is not None:
            self.seen = History(view.over(self.next_seen))
        elif self.seen is not None:
            for message in self.history[self.seen_to :]:
                self.seen.append(message)
        if self.seen is not None:
            self.seen_to, self.seen_bytes = len(self.history), new_bytes

    def measure(self, tokens: int) -> None:
        """Note the size of the conversation up to now, as a response told it."""
        self.measured, self.seen_bytes = (len(self.history), tokens), 0

    def new_bytes(self, view: View | None = None) -> int:
        """Return the size of the messages that no response has counted yet, in the next request.

        `view`: what a processor made of `next_seen`.
        """
        new = self.history[max(self.measured[0], self.seen_to) :]
        if view is not None:
            messages = self.next_seen
            first = len(messages) - len(new)
            new = [
                message
                for part in view.parts
                for message in (
                    [part] if isinstance(part, Message) else messages[max(part[0], first) : part[1]]
                )
            ]
        return self.seen_bytes + sum(len(encode_json(message)) for message in new)

"""State of one compaction: the shrinking conversation, and the receipts of the changes.

compaction.py chooses the summarizer. Entry points: `CompactionWork`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treadle._internal.json_text import encode_json
from treadle.context.shortening import last_turn, long_results, newest, old_results
from treadle.context.summary import message_of
from treadle.journal.entries import Compaction
from treadle.journal.receipts import Cleared, Cut, Receipt, Summary, SummaryCost
from treadle.journal.run_state import RunState
from treadle.journal.window import first_words
from treadle.messages.message import Message
from treadle.messages.size import size_of
from treadle.messages.todos import Todo, standing
from treadle.types import now

MARGIN = 50
"""Divisor of the window. The result stays free in addition to the response, because estimates are
inexact.
"""
SUMMARY_TOKENS = 2000
"""Maximum size of a summary, in tokens."""


class TokenRoom(msgspec.Struct, frozen=True):
    """Token budget of the next request, in estimated tokens."""

    limit: int
    """Size above which the conversation must be compacted."""
    target: int
    """Size to compact to. It is low, so that compactions are rare and prompt caches stay valid."""

    @classmethod
    def of(cls, window: int, max_tokens: int, at: int | None = None) -> TokenRoom:
        """Return the budget for a window. `max_tokens`: space for the response, at most half of the
        window. `at`: a lower limit, if set.
        """
        limit = max(window - min(max_tokens, window // 2) - window // MARGIN, 1)
        if at is None or at >= limit:
            return cls(limit, min(window // 2, limit * 3 // 4))
        return cls(at, max(at // 2, 1))


class CompactionWork:
    """A compaction in progress: the shrinking conversation, and the receipts of the changes."""

    def __init__(
        self, state: RunState, fixed: int, load: int, window: int, room: TokenRoom
    ) -> None:
        self._state, self._fixed = state, fixed
        self.window = window
        self._before = self._messages = state.context.history[:]
        estimated = max(fixed + size_of(self._before).tokens, 1)
        self._per_token = max(load, 1) / estimated
        """Ratio of actual tokens to estimated ones."""
        self._room = room
        self._load_before = self.load = load
        self.summary_tokens = max(min(SUMMARY_TOKENS, self._room.target // 4), 100)
        self._receipts: list[Receipt] = []
        self._spent: SummaryCost | None = None
        """Cost of a failed summary."""
        self._failed = ""

    def entries(self) -> tuple[Compaction, ...]:
        """Return the entries to append, including the cost of a failed attempt."""
        if self._spent is not None:
            self._take(Cleared())
        return tuple(
            Compaction(at=now(), receipt=encode_json(receipt).decode())
            for receipt in self._receipts
        )

    @property
    def is_small(self) -> bool:
        return self.load <= self._room.target

    @property
    def is_native(self) -> bool:
        """True if the provider wrote the summary."""
        return any(isinstance(one, Summary) and one.native for one in self._receipts)

    @property
    def fits(self) -> bool:
        return self.load <= self._room.limit

    def clear_old(self) -> None:
        """Clear results of all turns except the newest, which take up about half of the target."""
        start = newest(self._messages, self._estimated(self._room.target // 2))
        self._clear(old_results(self._messages[:start], self._state.repeatable.__contains__))

    def clear_more(self) -> None:
        """Clear the results of the newest turns except the last one. If that is not enough, shorten
        long results of the last turn, which the model has not read yet.
        """
        last = last_turn(self._messages)
        self._clear(old_results(self._messages[:last], self._state.repeatable.__contains__))
        if not self.fits:
            others = [
                *self._messages[:last],
                *(message for message in self._messages[last:] if message.role != "tool"),
            ]
            room = self._estimated(self._room.target) - self._fixed - size_of(others).tokens
            self._clear(long_results(self._messages[last:], room))

    def to_sum_up(self) -> Sequence[Message] | None:
        """Return the messages that should be summarized; None if a summary would free too
        little.
        """
        pinned, start = self._pinned_and_start()
        stay = {message.id for message in pinned}
        gone = [message for message in self._before[:start] if message.id not in stay]
        if len(gone) < 2 or size_of(gone).tokens <= 2 * self.summary_tokens:
            return None
        return gone

    def take_summary(self, text: str, spent: SummaryCost) -> None:
        pinned, start = self._pinned_and_start()
        self._messages, self.load, self._receipts = self._before, self._load_before, []
        self._take(
            Summary(
                pinned=tuple(message.id for message in pinned),
                kept_from=self._messages[start].id,
                dropped=start - len(pinned),
                message=message_of(
                    text, standing(self._messages[:start]), chars_max=self.summary_tokens * 4
                ),
                spent=spent,
            )
        )

    def to_compact(self) -> int | None:
        """Return the number of messages that the provider should summarize; None if that would free
        too little.

        One side of the cut is an assistant message, the other is not. Otherwise the API would merge
        adjacent messages of the same role, and reject the thinking in those that stay
        (platform.claude.com, "Compaction and preserved thinking", read 2026-11-26).
        """
        taken = self._fixed + self.summary_tokens * 3 // 2
        start = newest(self._before, max(self._estimated(self._room.target) - taken, 0))
        last = last_turn(self._before)
        tried = [*range(start, last + 1), *range(start - 1, 1, -1)]
        cut = next((i for i in tried if _is_between_sides(self._before, i)), 0)
        worth = cut > 1 and size_of(self._before[:cut]).tokens > 2 * self.summary_tokens
        return cut if worth else None

    def todos(self, cut: int) -> Sequence[Todo]:
        """Return the to-do list from before the cut."""
        return standing(self._before[:cut])

    def covered(self, cut: int) -> Sequence[Message]:
        return self._before[:cut]

    def take_native(self, cut: int, message: Message, spent: SummaryCost) -> bool:
        """Replace the messages before the cut with the provider's summary. If that frees too
        little, change nothing and return False.
        """
        receipt = Summary(
            pinned=(),
            kept_from=self._before[cut].id,
            dropped=cut,
            message=message,
            spent=spent,
            native=True,
        )
        self._take(receipt)
        if self.fits and self.load <= self._load_before - self._load_before // 4:
            return True
        self._messages, self.load, self._receipts = self._before, self._load_before, []
        return False

    def note_failure(self, why: str, spent: SummaryCost | None = None) -> None:
        """Record a failed attempt in the last receipt if it can hold it, else in the next one."""
        if self._receipts and isinstance(cleared := self._receipts[-1], Cleared):
            self._receipts[-1] = msgspec.structs.replace(cleared, failed=why, spent=spent)
        else:
            self._failed, self._spent = why, spent

    def _pinned_and_start(self) -> tuple[list[Message], int]:
        """Return the messages to keep before the summary, and the index of the newest turns.

        Kept are the first message of the conversation and the prompt of the run.
        """
        first, prompt = (
            first_words(self._before),
            _prompt(self._before, self._state.context.prompt_at),
        )
        pinned = [
            message for message in (first, prompt) if message is not None and not message.is_summary
        ]
        taken = self._fixed + size_of(pinned).tokens + self.summary_tokens * 3 // 2
        start = newest(self._before, max(self._estimated(self._room.target) - taken, 0))
        before = {message.id for message in self._before[:start]}
        stay = {message.id: message for message in pinned if message.id in before}
        return [*stay.values()], start

    def _clear(self, cuts: tuple[Cut, ...]) -> None:
        if cuts:
            self._take(Cleared(cuts=cuts))

    def _take(self, receipt: Cleared | Summary) -> None:
        self._messages = receipt.of(self._messages)
        before, self.load = (
            self.load,
            round((self._fixed + size_of(self._messages).tokens) * self._per_token),
        )
        receipt = msgspec.structs.replace(receipt, tokens_before=before, tokens_after=self.load)
        if isinstance(receipt, Cleared):
            receipt = msgspec.structs.replace(receipt, failed=self._failed, spent=self._spent)
            self._failed, self._spent = "", None
        self._receipts.append(receipt)

    def _estimated(self, tokens: int) -> int:
        return int(tokens / self._per_token)


def _is_between_sides(messages: Sequence[Message], at: int) -> bool:
    """Return True if a cut at `at` has the assistant's message on exactly one side, and does not
    separate calls from their results.
    """
    if not 0 < at < len(messages):
        return False
    before, after = messages[at - 1].role, messages[at].role
    if "system" in (before, after) or after == "tool":
        return False
    return (before == "assistant") != (after == "assistant")


def _prompt(messages: Sequence[Message], at: int) -> Message | None:
    """Return the prompt of the run, or the last user message before it."""
    if at < len(messages) and messages[at].role == "user":
        return messages[at]
    return next(
        (
            message
            for message in reversed(messages[:at])
            if message.role == "user" and not message.is_summary
        ),
        None,
    )

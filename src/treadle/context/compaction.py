"""Makes room in a run before its conversation outgrows its model: first old results go, then a
small model sums up what is old.

What goes and how it is folded is receipts.py's, the words are summary.py's, when a run asks for it
the loop's. Entry: `Compactor`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import NamedTuple, TypeAlias

import msgspec

from treadle._internal.clock import Clock
from treadle._internal.json_text import encode_json
from treadle.budget.prices import Pricing
from treadle.context.summary import CUT_HERE, message_of, request_for
from treadle.context.summary_budget import SummaryBudget
from treadle.errors import AgentError
from treadle.events.tracing import UNTRACED, Traced
from treadle.journal.entries import Compaction
from treadle.journal.journal import Append
from treadle.journal.receipts import (
    Cleared,
    Cut,
    Receipt,
    Summary,
    SummaryCost,
    last_turn,
    long_results,
    newest,
    old_results,
)
from treadle.journal.run_state import RunState
from treadle.journal.window import first_words
from treadle.messages.message import Message, ToolResult
from treadle.messages.size import size_of
from treadle.messages.todos import standing
from treadle.models.model import Model, ModelResponse, Switch
from treadle.models.retry import ModelAttempt, RetryPolicy, ask
from treadle.types import DEFAULT_MAX_TOKENS, StopReason, now

MARGIN = 50
"""One part in so many of the window stays free besides the response: estimates are not exact."""
LARGE_WINDOW = 800_000
COMPACT_AT = 200_000
"""Above so many tokens room is made in a large window if the settings name no other number: every
turn reads them all.
"""
SUMMARY_TOKENS = 2000
"""At most, of a summary."""
INPUT_TOKENS = 100_000
"""At most, of what is shown to who sums up, where its window is not known."""


class Summariser(NamedTuple):
    """Who is asked for a summary."""

    model: Model
    name: str
    prices: Callable[[str], Pricing]
    """By the name of who answers."""
    context_tokens: int | None = None
    missed: str = ""
    """Why another one is not asked, where people are to know."""


Summarisers: TypeAlias = Callable[[], AsyncGenerator[Summariser, None]]


async def nobody() -> AsyncGenerator[Summariser, None]:
    """None can be had."""
    for none in ():
        yield none


class TokenRoom(NamedTuple):
    """How much there is for the next request, in estimated tokens."""

    limit: int
    """Above this something has to go."""
    target: int
    """To this the conversation shrinks, so that it then stays the same for long, and caches hit."""

    @classmethod
    def of(cls, window: int, max_tokens: int, at: int | None = None) -> TokenRoom:
        """`max_tokens`: what the response may have; at most half of a small window is kept for it.

        `at`: tokens above which room is made in any case.
        """
        limit = max(window - min(max_tokens, window // 2) - window // MARGIN, 1)
        if at is None or at >= limit:
            return cls(limit, min(window // 2, limit * 3 // 4))
        return cls(at, max(at // 2, 1))


class Load:
    """How many tokens the next request has: what responses told, and an estimate of what came
    since. It looks at each message once.
    """

    def __init__(self, state: RunState, fixed: Callable[[], int]) -> None:
        """`fixed`: tokens of what stands in every request besides the history; asked where no
        response has counted it yet.
        """
        self._state, self._fixed = state, fixed
        self._base: tuple[int, int] | None = None
        self._seen = self._tokens = 0

    def tokens(self) -> int:
        state = self._state
        if self._base != state.measured:
            self._base = (self._seen, self._tokens) = state.measured
            self._tokens += 0 if self._seen else self._fixed()
        if self._seen < len(state.history):
            self._tokens += size_of(state.history[self._seen :]).tokens
            self._seen = len(state.history)
        return self._tokens


class Made(NamedTuple):
    """What one compaction came to."""

    entries: Sequence[Compaction] = ()
    """To be appended as they are: the state has not changed yet."""
    less: bool = False
    """Whether the next request is smaller than it would have been."""
    overflow: AgentError | None = None
    """Of kind context_overflow, where what is left is known to be larger than the window: to be
    raised once the entries are kept, which may have cost.
    """


class Compactor:
    """Makes room in one run."""

    def __init__(
        self,
        state: RunState,
        *,
        context: Callable[[str], int | None],
        fixed: Callable[[], int],
        append: Append,
        retries: RetryPolicy,
        clock: Clock,
        traced: Traced = UNTRACED,
        at: int | None = None,
    ) -> None:
        """`context`: the window of a model, by its name. `at`: `Settings.compact_at_tokens`."""
        self._state, self._context, self._at = state, context, at
        self._put_off = 0
        """Below so many tokens `at` does not count: making room brought too little."""
        self._fixed, self._retries, self._clock, self._traced = fixed, retries, clock, traced
        self._load = Load(state, fixed)
        self._gave_up = False
        """No summary was had: in this run it is tried again only where there is no other way."""
        self._budget = SummaryBudget(state, append)

    def is_needed(self, max_tokens: int, *, forced: bool = False) -> bool:
        """Whether the next request would be too large. `max_tokens`: of its response.

        `forced`: whether it seems so or not.
        """
        window = self._context(self._state.asked_model)
        if forced or not window:
            return forced
        limit = TokenRoom.of(window, max_tokens, self._threshold(window)).limit
        return not self._is_far_from(limit) and self._load.tokens() > limit

    def _threshold(self, window: int | None) -> int | None:
        at = COMPACT_AT if self._at is None and (window or 0) >= LARGE_WINDOW else self._at
        return at if at is None else max(at, self._put_off)

    def _is_far_from(self, limit: int) -> bool:
        """At a glance: less than half of it is told, and what is new are short results.

        So most turns need no more.
        """
        seen, tokens = self._state.measured
        if not seen or 2 * tokens > limit:
            return False
        new = self._state.history[seen:]
        texts = [
            part.content for message in new for part in message.parts if type(part) is ToolResult
        ]
        if len(texts) != sum(len(message.parts) for message in new):
            return False
        # no character is more than two tokens
        return 4 * sum(len(text) if type(text) is str else limit for text in texts) < limit

    def give_back(self) -> None:
        """What was reserved for a summary; what it took is in the state by now."""
        self._budget.give_back()

    async def make_room(
        self, max_tokens: int, summarisers: Summarisers, *, forced: bool = False
    ) -> Made:
        """Only where every call has its result. Nothing where there is room, or nothing that could
        go. `give_back` comes after it, however it ends.

        `forced`: also where there seems to be room. `max_tokens`: of the response that is to come.
        `summarisers`: who may be asked, one after the other where one cannot be had. Cancellation
        leaves nothing behind.
        """
        if not self.is_needed(max_tokens, forced=forced):
            return Made()
        window, load = self._context(self._state.asked_model), self._load.tokens()
        at = None if forced else self._threshold(window)
        taken = min(window or load, load) if forced else window or load
        work = _Work(self._state, self._fixed(), load, taken, TokenRoom.of(taken, max_tokens, at))
        is_early = (
            at is not None and window is not None and load <= TokenRoom.of(window, max_tokens).limit
        )
        await self._work(work, summarisers, forced=forced, is_early=is_early)
        if is_early and not work.is_small:
            self._put_off = work.load + work.load // 4
        made = Made(work.entries(), work.load < load)
        if not window or work.load <= window or not self._state.measured[0]:
            return made
        text = (
            f"the conversation has about {work.load:,} tokens, the model's window {window:,}, "
            "and nothing more can go"
        )
        return made._replace(overflow=AgentError("context_overflow", text))

    async def _work(
        self, work: _Work, summarisers: Summarisers, *, forced: bool, is_early: bool
    ) -> None:
        """`is_early`: the window has room yet, so what the model has not read stays whole."""
        work.clear_old()
        if work.is_small or (self._gave_up and work.fits and not forced):
            return
        if (asked := work.to_sum_up()) is not None:
            await self._sum_up(work, asked, summarisers)
        if not work.is_small and not is_early:
            work.clear_more()

    async def _sum_up(
        self, work: _Work, asked: Sequence[Message], summarisers: Summarisers
    ) -> None:
        why, spent = "nobody could be asked", None
        async with aclosing(summarisers()) as each:
            async for summariser in each:
                try:
                    text, spent = await self._summary(summariser, work, asked)
                except AgentError as e:
                    why = f"{summariser.name}: {e.message}"
                    self.give_back()
                    continue
                if text:
                    work.take_summary(text, spent)
                    return
                why = f"{summariser.name} gave no summary"
                break
        work.note_failure(why, spent)
        self._gave_up = True

    async def _summary(
        self, summariser: Summariser, work: _Work, asked: Sequence[Message]
    ) -> tuple[str, SummaryCost]:
        at, size = now(), work.summary_tokens
        window = summariser.context_tokens or min(max(work.window, 4 * size), INPUT_TOKENS)
        max_tokens = min(DEFAULT_MAX_TOKENS, max(window // 4, size))
        shown = max(window - max_tokens - 2 * size, size)
        await self._budget.begin(
            summariser.name,
            summariser.prices,
            input_tokens=min(shown, work.load) + size,
            output_tokens=max_tokens,
        )
        request = request_for(asked, input_tokens=shown, words=size // 2, max_tokens=max_tokens)
        attempt = ModelAttempt(set())
        with self._traced.model(msgspec.structs.replace(request, model=summariser.name)) as span:

            async def failed(error: AgentError, wait_s: float, switch: Switch | None) -> None:
                span.retried(error.kind.value, wait_s)
                used = None if switch is None else switch.usage
                cost_usd = (
                    None
                    if used is None
                    else await summariser.prices(attempt.model or summariser.name).cost_usd(
                        used, at, ""
                    )
                )
                await self._budget.again(attempt, error, switch, cost_usd)

            try:
                response = await ask(
                    summariser.model,
                    request,
                    attempt,
                    listen=None,
                    failed=failed,
                    policy=self._retries,
                    clock=self._clock,
                )
            except AgentError as e:
                await self._budget.broke_off(attempt, e)
                raise
            name = attempt.model or summariser.name
            cost_usd = await summariser.prices(name).cost_usd(
                response.usage, at, response.model, response.details
            )
            span.responded(response, cost_usd)
        return _text(response), SummaryCost(model=name, usage=response.usage, cost_usd=cost_usd)


class _Work:
    """One compaction: the conversation as it becomes, and the receipts that make it so."""

    def __init__(
        self, state: RunState, fixed: int, load: int, window: int, room: TokenRoom
    ) -> None:
        self._state, self._fixed = state, fixed
        self.window = window
        self._before = self._messages = state.history[:]
        estimated = max(fixed + size_of(self._before).tokens, 1)
        self._per_token = max(load, 1) / estimated
        """True tokens in an estimated one."""
        self._room = room
        self._load_before = self.load = load
        self.summary_tokens = max(min(SUMMARY_TOKENS, self._room.target // 4), 100)
        self._receipts: list[Receipt] = []
        self._spent: SummaryCost | None = None
        """In vain."""
        self._failed = ""

    def entries(self) -> tuple[Compaction, ...]:
        """What was spent in vain is in one of them."""
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
    def fits(self) -> bool:
        return self.load <= self._room.limit

    def clear_old(self) -> None:
        """The results of all but the newest turns."""
        start = newest(self._messages, self._estimated(self._room.target // 2))
        self._clear(old_results(self._messages[:start], self._state.repeatable.__contains__))

    def clear_more(self) -> None:
        """Also those of the newest turns; where that is not enough, what is too long in the last
        one, which the model has not read yet.
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
        """None where it would bring nothing."""
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

    def note_failure(self, why: str, spent: SummaryCost | None = None) -> None:
        """It stands in a receipt: in the one that there is already, else in the next one."""
        if self._receipts and isinstance(cleared := self._receipts[-1], Cleared):
            self._receipts[-1] = msgspec.structs.replace(cleared, failed=why, spent=spent)
        else:
            self._failed, self._spent = why, spent

    def _pinned_and_start(self) -> tuple[list[Message], int]:
        """What stays before the summary: the first words of the conversation, and the prompt of the
        run; and where the newest turns begin.
        """
        first, prompt = first_words(self._before), _prompt(self._before, self._state.prompt_at)
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


def _prompt(messages: Sequence[Message], at: int) -> Message | None:
    """Where a run has none of its own, the last words of a person before it."""
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


def _text(response: ModelResponse) -> str:
    """Empty where it is of no use."""
    if response.stop_reason in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW):
        return ""
    text = response.text.strip()
    return f"{text}\n{CUT_HERE}" if text and response.stop_reason is StopReason.MAX_TOKENS else text

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
from treadle.budget.prices import Pricing
from treadle.context.compaction_work import CompactionWork, TokenRoom
from treadle.context.native_compaction import NativeCompaction, message_over, provider_parts
from treadle.context.summary import CUT_HERE, request_for
from treadle.context.summary_budget import SummaryBudget
from treadle.errors import AgentError
from treadle.events.tracing import UNTRACED, Traced
from treadle.journal.entries import Compaction
from treadle.journal.journal import Append
from treadle.journal.receipts import SummaryCost
from treadle.journal.run_state import RunState
from treadle.messages.message import Message, ToolResult
from treadle.messages.size import size_of
from treadle.models.model import Model, ModelRequest, ModelResponse, Switch
from treadle.models.retry import ModelAttempt, RetryPolicy, ask
from treadle.types import DEFAULT_MAX_TOKENS, StopReason, now

LARGE_WINDOW = 800_000
COMPACT_AT = 200_000
"""Above so many tokens room is made in a large window if the settings name no other number: every
turn reads them all.
"""
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
        if self._base != state.context.measured:
            self._base = (self._seen, self._tokens) = state.context.measured
            self._tokens += 0 if self._seen else self._fixed()
        if self._seen < len(state.context.history):
            self._tokens += size_of(state.context.history[self._seen :]).tokens
            self._seen = len(state.context.history)
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
    warning: str = ""
    """For people; "" where there is none."""


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
        self._native_failed = False
        """The provider did not compact when it was asked: in this run it is not asked again."""
        self._budget = SummaryBudget(state, append)

    def is_needed(self, max_tokens: int, *, forced: bool = False) -> bool:
        """Whether the next request would be too large. `max_tokens`: of its response.

        `forced`: whether it seems so or not.
        """
        window = self._context(self._state.models.asked)
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
        seen, tokens = self._state.context.measured
        if not seen or 2 * tokens > limit:
            return False
        new = self._state.context.history[seen:]
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
        self,
        max_tokens: int,
        summarisers: Summarisers,
        *,
        native: NativeCompaction | None = None,
        forced: bool = False,
    ) -> Made:
        """Only where every call has its result. Nothing where there is room, or nothing that could
        go. `give_back` comes after it, however it ends.

        `forced`: also where there seems to be room. `max_tokens`: of the response that is to come.
        `summarisers`: who may be asked, one after the other where one cannot be had. `native`: the
        provider's own compaction, which is tried first. Cancellation leaves nothing behind.
        """
        if not self.is_needed(max_tokens, forced=forced):
            return Made()
        window, load = self._context(self._state.models.asked), self._load.tokens()
        at = None if forced else self._threshold(window)
        taken = min(window or load, load) if forced else window or load
        work = CompactionWork(
            self._state, self._fixed(), load, taken, TokenRoom.of(taken, max_tokens, at)
        )
        is_early = (
            at is not None and window is not None and load <= TokenRoom.of(window, max_tokens).limit
        )
        warning = ""
        if native is not None and not self._native_failed:
            warning = await self._compact(work, native)
        if not work.is_native:
            await self._work(work, summarisers, forced=forced, is_early=is_early)
        if is_early and not work.is_small:
            self._put_off = work.load + work.load // 4
        made = Made(work.entries(), work.load < load, warning=warning)
        if not window or work.load <= window or not self._state.context.measured[0]:
            return made
        text = (
            f"the conversation has about {work.load:,} tokens, the model's window {window:,}, "
            "and nothing more can go"
        )
        return made._replace(overflow=AgentError("context_overflow", text))

    async def _work(
        self, work: CompactionWork, summarisers: Summarisers, *, forced: bool, is_early: bool
    ) -> None:
        """`is_early`: the window has room yet, so what the model has not read stays whole."""
        work.clear_old()
        if work.is_small or (self._gave_up and work.fits and not forced):
            return
        if (asked := work.to_sum_up()) is not None:
            await self._sum_up(work, asked, summarisers)
        if not work.is_small and not is_early:
            work.clear_more()

    async def _compact(self, work: CompactionWork, native: NativeCompaction) -> str:
        """Let the provider compact. Returns why it did not; "" if it did, or was not asked.

        Its own form goes first: the thinking of the messages that stay remains valid, and what the
        cache holds is read once more.
        """
        if (cut := work.to_compact()) is None:
            return ""
        todos, spent = work.todos(cut), None
        asker = Summariser(native.asking(todos), native.name, native.prices)
        request = native.request(work.covered(cut))
        try:
            response, spent = await self._response(asker, request, input_tokens=work.load)
            if not provider_parts(response):
                why = f"it gave no summary ({response.raw_stop_reason or response.stop_reason})"
            else:
                chars_max = work.summary_tokens * 4
                message = message_over(response, work.covered(cut), todos, chars_max)
                if work.take_native(cut, message, spent):
                    return ""
                why = "its summary makes too little room"
        except AgentError as e:
            why = e.message
        self.give_back()
        self._native_failed = True
        await self._budget.note_failure(why, spent)
        return f"{native.name} did not compact the conversation, so it is summed up here: {why}"

    async def _sum_up(
        self, work: CompactionWork, asked: Sequence[Message], summarisers: Summarisers
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
        self, summariser: Summariser, work: CompactionWork, asked: Sequence[Message]
    ) -> tuple[str, SummaryCost]:
        size = work.summary_tokens
        window = summariser.context_tokens or min(max(work.window, 4 * size), INPUT_TOKENS)
        max_tokens = min(DEFAULT_MAX_TOKENS, max(window // 4, size))
        shown = max(window - max_tokens - 2 * size, size)
        request = request_for(asked, input_tokens=shown, words=size // 2, max_tokens=max_tokens)
        response, spent = await self._response(
            summariser, request, input_tokens=min(shown, work.load) + size
        )
        return _text(response), spent

    async def _response(
        self, summariser: Summariser, request: ModelRequest, *, input_tokens: int
    ) -> tuple[ModelResponse, SummaryCost]:
        """The whole response to a request for a summary, and what it took. Raises AgentError."""
        at = now()
        await self._budget.begin(
            summariser.name,
            summariser.prices,
            input_tokens=input_tokens,
            output_tokens=request.settings.max_tokens or DEFAULT_MAX_TOKENS,
        )
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
        return response, SummaryCost(model=name, usage=response.usage, cost_usd=cost_usd)


def _text(response: ModelResponse) -> str:
    """Empty where it is of no use."""
    if response.stop_reason in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW):
        return ""
    text = response.text.strip()
    return f"{text}\n{CUT_HERE}" if text and response.stop_reason is StopReason.MAX_TOKENS else text

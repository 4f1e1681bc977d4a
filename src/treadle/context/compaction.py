"""Compaction of a run's conversation before it exceeds the context window: clears old tool results,
then has a small model summarize the older messages.

journal/receipts.py applies the changes, summary.py has the prompts, and the loop decides when to
compact. Entry points: `Compactor`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import NamedTuple, TypeAlias

import msgspec

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
from treadle.models.retry import ModelAttempt, Retries, ask
from treadle.types import DEFAULT_MAX_TOKENS, StopReason, now

LARGE_WINDOW = 800_000
COMPACT_AT = 200_000
"""Default threshold for large windows, in tokens. It is below the window because every turn pays
for the whole conversation.
"""
INPUT_TOKENS = 100_000
"""Maximum input of a summarizer whose window is unknown, in tokens."""


class Summariser(NamedTuple):
    """A model that can write the summary."""

    model: Model
    name: str
    prices: Callable[[str], Pricing]
    """Function that returns the pricing of a responding model, by its name."""
    context_tokens: int | None = None
    missed: str = ""
    """Why a preferred model was not used, for the user; empty if there is nothing to report."""
    names: tuple[str, ...] = ()
    """Names of all models that may respond, if they are several."""


Summarisers: TypeAlias = Callable[[], AsyncGenerator[Summariser, None]]


async def nobody() -> AsyncGenerator[Summariser, None]:
    """Yield no summarizer, for a run without one."""
    for none in ():
        yield none


class Load:
    """Estimated size of the next request: the size that the last response reported, and an estimate
    of the messages since. Measures each message once.
    """

    def __init__(self, state: RunState, fixed: Callable[[], int]) -> None:
        """Create an estimate. `fixed`: function that returns the tokens outside the history, used
        until a response reports a size.
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
    """Result of one compaction."""

    entries: Sequence[Compaction] = ()
    """Entries to append. Appending them applies the compaction to the state."""
    less: bool = False
    """True if the next request becomes smaller."""
    overflow: AgentError | None = None
    """AgentError(context_overflow) if the conversation still exceeds the window. Raise it after
    appending the entries, which may record a cost.
    """
    warning: str = ""
    """Warning for the user; empty if there is none."""


class ContextLimits(NamedTuple):
    """Token counts that decide when to compact."""

    window: Callable[[str], int | None]
    """Function that returns the window of a model, by name."""
    fixed: Callable[[], int]
    """Function that returns the size of the request outside the history, as for `Load`."""
    at: int | None = None
    """`Settings.compact_at_tokens`."""


class Compactor:
    """Compactor of one run's conversation."""

    def __init__(
        self,
        state: RunState,
        limits: ContextLimits,
        *,
        append: Append,
        retries: Retries,
        traced: Traced = UNTRACED,
    ) -> None:
        self._state, (self._context, self._fixed, self._at) = state, limits
        self._put_off = 0
        """Threshold in tokens that replaces a lower `at`, after a compaction that freed too little.
        """
        self._retries, self._traced = retries, traced
        self._load = Load(state, limits.fixed)
        self._gave_up = False
        """True after a failed summary. The run then summarizes only when nothing else helps."""
        self._native_failed = False
        """True after a failed compaction by the provider, which is then not tried again."""
        self._budget = SummaryBudget(state, append)

    def is_needed(self, max_tokens: int, *, forced: bool = False) -> bool:
        """Return True if the next request would be too large, or if `forced`.

        `max_tokens`: maximum output of its response.
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
        """Return True if a cheap check, enough for most turns, shows that the limit is not reached.

        It passes if the last response reported at most half of the limit, and the only new messages
        are short results.
        """
        seen, tokens = self._state.context.measured
        if not seen or 2 * tokens > limit:
            return False
        chars = 0
        for message in self._state.context.history[seen:]:
            for part in message.parts:
                if type(part) is not ToolResult or type(part.content) is not str:
                    return False
                chars += len(part.content)
        return 4 * chars < limit  # a character is at most two tokens

    def give_back(self) -> None:
        """Release the reservation for a summary. Call it once the actual cost is in the state."""
        self._budget.give_back()

    async def make_room(
        self,
        max_tokens: int,
        summarisers: Summarisers,
        *,
        native: NativeCompaction | None = None,
        forced: bool = False,
    ) -> Made:
        """Compact the conversation if necessary and possible. Every tool call must have its result.

        `max_tokens`: maximum output of the coming response. `summarisers`: candidate models, tried
        in order. `native`: the provider's compaction, tried first. `forced`: compact even if the
        request seems to fit. Cancellation leaves the conversation unchanged. Always call
        `give_back` afterwards.
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
            "and nothing more can be removed"
        )
        return made._replace(overflow=AgentError("context_overflow", text))

    async def _work(
        self, work: CompactionWork, summarisers: Summarisers, *, forced: bool, is_early: bool
    ) -> None:
        """Clear old results, then summarize if that is not enough. `is_early`: the window is not
        full yet, so results that the model has not read are kept.
        """
        work.clear_old()
        if work.is_small or (self._gave_up and work.fits and not forced):
            return
        if (asked := work.to_sum_up()) is not None:
            await self._sum_up(work, asked, summarisers)
        if not work.is_small and not is_early:
            work.clear_more()

    async def _compact(self, work: CompactionWork, native: NativeCompaction) -> str:
        """Let the provider compact. Return the reason of a failure, or an empty string.

        It is tried first, because the thinking in the remaining messages stays valid, and the
        request still reads from the prompt cache.
        """
        if (cut := work.to_compact()) is None:
            return ""
        todos, spent = work.todos(cut), None
        asker = Summariser(native.asking(todos), native.name, native.prices)
        request = native.request(work.covered(cut))
        try:
            response, spent = await self._response(asker, request, input_tokens=work.load)
            if not provider_parts(response):
                why = f"it returned no summary ({response.raw_stop_reason or response.stop_reason})"
            else:
                chars_max = work.summary_tokens * 4
                message = message_over(response, work.covered(cut), todos, chars_max)
                if work.take_native(cut, message, spent):
                    return ""
                why = "its summary frees too little"
        except AgentError as e:
            why = e.message
        self.give_back()
        self._native_failed = True
        await self._budget.note_failure(why, spent)
        return f"{native.name} did not compact the conversation, so it is summarised here: {why}"

    async def _sum_up(
        self, work: CompactionWork, asked: Sequence[Message], summarisers: Summarisers
    ) -> None:
        why, spent = "no model is available", None
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
                why = f"{summariser.name} returned no summary"
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
        """Return the response to a summary request and its cost. Raises AgentError."""
        at = now()
        await self._budget.begin(
            summariser.names or (summariser.name,),
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
                    retries=self._retries,
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
    """Return the summary in a response; an empty string if it is unusable."""
    if response.stop_reason in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW):
        return ""
    text = response.text.strip()
    return f"{text}\n{CUT_HERE}" if text and response.stop_reason is StopReason.MAX_TOKENS else text

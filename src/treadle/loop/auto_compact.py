"""Automatic compaction of a run: before each turn, and after a context overflow.

context/ shortens the messages. Entry point: `RunRoom`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from treadle._internal.json_text import decode_json, encode_json
from treadle.context.compaction import Compactor, ContextLimits, Summariser
from treadle.context.native_compaction import NATIVE_TOKENS, NativeCompaction
from treadle.context.shortening import withdrawn
from treadle.events.tracing import Traced
from treadle.journal.entries import Compaction
from treadle.journal.journal import Append
from treadle.loop.plan import Plan
from treadle.messages.message import Message
from treadle.messages.size import text_bytes, tokens_in
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.refused_settings import without
from treadle.models.retry import Retries
from treadle.types import StopReason, now


class RunRoom:
    """Compaction of one run's conversation, when necessary."""

    def __init__(
        self,
        plan: Plan,
        tools: tuple[ToolDefinition, ...],
        append: Append,
        *,
        retries: Retries,
        traced: Traced,
    ) -> None:
        self._plan, self._state, self._append = plan, plan.state, append
        self.tools = tools
        """Tools of the next request."""
        limits = ContextLimits(plan.windows, self._fixed, plan.settings.compact_at_tokens)
        self._compactor = Compactor(
            plan.state, limits, append=append, retries=retries, traced=traced
        )
        self._warned = False
        self.warn: Callable[[str], None]
        """Callback that publishes a warning."""
        self.wanted = False
        """True while a requested compaction is pending."""
        self.was_short = False
        """True if the last response overflowed the context, which was then compacted."""

    def count_fixed(self) -> None:
        """Note the size of the next request without its messages, if the budget needs it."""
        if (ledger := self._state.ledger).estimates:
            fixed = (*self._plan.system, *self.tools)
            ledger.fixed_bytes = sum(len(encode_json(value)) for value in fixed)

    async def make(self, *, forced: bool = False, hold: bool = False) -> bool:
        """Compact if needed, and return True if the next request is shorter.

        Every call must have its result. `forced`: compact even if the request seems to fit. `hold`:
        leave the entries to the next append. Leaves the length to the agent's own processor until a
        request overflows. Does nothing while a program at the provider waits for
        results, because the messages that started it must stay. Raises AgentError(context_overflow)
        if the request cannot fit.
        """
        if self._state.current.results_only:
            return False
        if self._plan.is_processed and not (forced or self.wanted):
            return False
        plan, forced, self.wanted = self._plan, forced or self.wanted, False
        if not self._compactor.is_needed(plan.max_tokens, forced=forced):
            return False
        # hooks and summaries may be slow, so store pending entries first
        await self._append()
        if "before_compaction" in plan.hooks.points and not await plan.hooks.before_compaction():
            return False
        try:
            made = await self._compactor.make_room(
                plan.max_tokens, self._summarisers, native=self._native(), forced=forced
            )
            if made.warning:
                self.warn(made.warning)
            if made.entries:
                await self._append(*made.entries, hold=hold)
        finally:
            self._compactor.give_back()
        for entry in made.entries if "after_compaction" in plan.hooks.points else ():
            await plan.hooks.after_compaction(
                decode_json(entry.receipt.encode(), dict[str, object])
            )
        if made.overflow is not None:
            raise made.overflow
        return made.less

    async def overcome(self) -> bool:
        """Compact after a response that overflowed the context. Returns True if the run can
        continue; never twice in a row.
        """
        state = self._state
        if self.was_short or state.current.last is not None or state.ledger.turns_spent:
            return False
        self.was_short = state.context.made_room or await self.make(forced=True)
        return self.was_short

    def withdraw(self) -> list[Compaction]:
        """Remove the newest exchange from the session's view if the provider would refuse all later
        requests that contain it.
        """
        state = self._state
        if (
            self._plan.session_id is None
            or state.current.response is None
            or not state.current.response.withdraws
        ):
            return []
        if (receipt := withdrawn(state.context.history, state.current.response.message.id)) is None:
            return []
        self.warn(
            f"the provider would refuse all requests after its refusal, so {receipt.dropped} "
            "messages were removed from the conversation; the journal keeps them"
        )
        return [Compaction(at=now(), receipt=encode_json(receipt).decode())]

    def answered(self, stop: StopReason) -> None:
        """Record the stop reason of a response."""
        self.was_short &= stop is StopReason.CONTEXT_OVERFLOW

    def _native(self) -> NativeCompaction | None:
        """Return the compaction of the model's provider; None if it has none or it is disabled."""
        plan, state = self._plan, self._state
        model = plan.compacting(state.models.asked)
        tokens = max(plan.max_tokens, NATIVE_TOKENS)
        settings = without(plan.turn_settings(tokens, without_tools=False), state.models.without)
        if (
            model is None
            or plan.settings.native_compaction is False
            or not model.can_compact(settings)
        ):
            return None

        def request(messages: Sequence[Message]) -> ModelRequest:
            return ModelRequest(
                messages=messages, tools=self.tools, system=plan.system, settings=settings
            )

        return NativeCompaction(model, state.models.asked, plan.prices, request)

    def _fixed(self) -> int:
        """Return the estimated tokens of a request without its history."""
        system = sum(text_bytes(block.text) for block in self._plan.system)
        return tokens_in(system + sum(len(encode_json(tool)) for tool in self.tools))

    async def _summarisers(self) -> AsyncGenerator[Summariser, None]:
        """Yield the plan's summarizers. Warns of an unavailable one once per run."""
        async with aclosing(self._plan.summarisers()) as summarisers:
            async for summariser in summarisers:
                if summariser.missed and not self._warned:
                    self._warned = True
                    self.warn(summariser.missed)
                yield summariser

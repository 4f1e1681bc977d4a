"""Keeps room for the next request of one run: asked before each turn, and where a provider says
that there is none.

What is done for it is compaction.py's. Entry: `RunRoom`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from treadle._internal.clock import Clock
from treadle._internal.json_text import decode_json, encode_json
from treadle.context.compaction import Compactor, Summariser
from treadle.context.native_compaction import NATIVE_TOKENS, NativeCompaction
from treadle.events.tracing import Traced
from treadle.journal.entries import Compaction
from treadle.journal.journal import Append
from treadle.journal.receipts import withdrawn
from treadle.loop.plan import Plan
from treadle.messages.message import Message
from treadle.messages.size import text_bytes, tokens_in
from treadle.models.model import ModelRequest, ToolDefinition
from treadle.models.retry import RetryPolicy, without
from treadle.types import StopReason, now


class RunRoom:
    """Compaction of one run's context."""

    def __init__(
        self,
        plan: Plan,
        tools: tuple[ToolDefinition, ...],
        append: Append,
        *,
        clock: Clock,
        retries: RetryPolicy,
        traced: Traced,
    ) -> None:
        self._plan, self._state, self._append = plan, plan.state, append
        self.tools = tools
        """Offered with the next request."""
        at = plan.settings.compact_at_tokens
        self._compactor = Compactor(
            plan.state,
            context=plan.windows,
            fixed=self._fixed,
            append=append,
            retries=retries,
            clock=clock,
            traced=traced,
            at=at,
        )
        self._warned = False
        self.warn: Callable[[str], None]
        """Tells people."""
        self.wanted = False
        """True if a compaction was requested and no request has been sent since."""
        self.was_short = False
        """Room was made because the last response said that there was none."""

    async def make(self, *, forced: bool = False, hold: bool = False) -> bool:
        """True where there is more of it now. `forced`: also where there seems to be some. `hold`:
        the entries ride with the next append.

        False while a program at the provider waits for results: the messages that it began in must
        stay. Only where every call has its result. Raises AgentError(context_overflow) where there
        is known to be none.
        """
        if self._state.current.results_only:
            return False
        plan, forced, self.wanted = self._plan, forced or self.wanted, False
        if not self._compactor.is_needed(plan.max_tokens, forced=forced):
            return False
        # hooks and summaries may take their time, and pending entries must not be lost in that time
        await self._append()
        if plan.hooks.has("before_compaction") and not await plan.hooks.before_compaction(
            plan.hooked
        ):
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
        for entry in made.entries if plan.hooks.has("after_compaction") else ():
            await plan.hooks.after_compaction(
                plan.hooked, decode_json(entry.receipt.encode(), dict[str, object])
            )
        if made.overflow is not None:
            raise made.overflow
        return made.less

    async def overcome(self) -> bool:
        """Return True if a run whose last response hit the context limit continues, once, with less
        history.
        """
        state = self._state
        if self.was_short or state.current.last is not None or state.ledger.turns_spent:
            return False
        self.was_short = state.context.made_room or await self.make(forced=True)
        return self.was_short

    def withdraw(self) -> list[Compaction]:
        """Take the newest exchange out of the session's view, where the provider refuses all that
        follows it.
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
            f"the provider would refuse whatever follows its refusal, so {receipt.dropped} "
            "messages left the conversation; the journal keeps them"
        )
        return [Compaction(at=now(), receipt=encode_json(receipt).decode())]

    def answered(self, stop: StopReason) -> None:
        """A response came."""
        self.was_short &= stop is StopReason.CONTEXT_OVERFLOW

    def _native(self) -> NativeCompaction | None:
        """Return the compaction of the current model's provider; None if there is none, or it is
        switched off.
        """
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
        """Tokens of every request besides the history."""
        system = sum(text_bytes(block.text) for block in self._plan.system)
        return tokens_in(system + sum(len(encode_json(tool)) for tool in self.tools))

    async def _summarisers(self) -> AsyncGenerator[Summariser, None]:
        """Yield the plan's summarisers. A missing one is reported once per run."""
        async with aclosing(self._plan.summarisers()) as summarisers:
            async for summariser in summarisers:
                if summariser.missed and not self._warned:
                    self._warned = True
                    self.warn(summariser.missed)
                yield summariser

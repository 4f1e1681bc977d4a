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
from treadle.types import now


class RunRoom:
    """Compaction of one run's conversation, when necessary."""

    def __init__(
        self,
        plan: Plan,
        tools: Callable[[], tuple[ToolDefinition, ...]],
        append: Append,
        *,
        warn: Callable[[str], None],
        retries: Retries,
        traced: Traced,
    ) -> None:
        """`tools`: function that returns the tools of the next request. `warn`: function that
        publishes a warning.
        """
        self._plan, self._state, self._append = plan, plan.state, append
        self._tools, self._warn = tools, warn
        limits = ContextLimits(plan.windows, self._fixed, plan.settings.compact_at_tokens)
        self._compactor = Compactor(
            plan.state, limits, append=append, retries=retries, traced=traced
        )
        self._warned = False

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
        if self._plan.is_processed and not forced:
            return False
        plan = self._plan
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
                self._warn(made.warning)
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
        continue.
        """
        state = self._state
        if state.current.last is not None or state.ledger.turns_spent:
            return False
        return state.context.made_room or await self.make(forced=True)

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
        self._warn(
            f"the provider would refuse all requests after its refusal, so {receipt.dropped} "
            "messages were removed from the conversation; the journal keeps them"
        )
        return [Compaction(at=now(), receipt=encode_json(receipt).decode())]

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
                messages=messages, tools=self._tools(), system=plan.system, settings=settings
            )

        return NativeCompaction(model, state.models.asked, plan.prices, request)

    def _fixed(self) -> int:
        """Return the estimated tokens of a request without its history."""
        system = sum(text_bytes(block.text) for block in self._plan.system)
        return tokens_in(system + sum(len(encode_json(tool)) for tool in self._tools()))

    async def _summarisers(self) -> AsyncGenerator[Summariser, None]:
        """Yield the plan's summarizers. Warns of an unavailable one once per run."""
        async with aclosing(self._plan.summarisers()) as summarisers:
            async for summariser in summarisers:
                if summariser.missed and not self._warned:
                    self._warned = True
                    self._warn(summariser.missed)
                yield summariser

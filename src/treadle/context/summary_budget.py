"""Cost of summary attempts: reserved and journaled before each request, charged if it fails.

compaction.py sends the requests. Entry points: `SummaryBudget`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from treadle._internal.json_text import encode_json
from treadle.budget.limits import BudgetSpent
from treadle.budget.prices import Dearest, Pricing, needed
from treadle.budget.spending import Reserved
from treadle.errors import AgentError
from treadle.journal.entries import Compaction
from treadle.journal.journal import Append
from treadle.journal.receipts import Cleared, SummaryCost
from treadle.journal.run_state import RunState
from treadle.models.model import Switch
from treadle.models.retry import ModelAttempt
from treadle.types import now


class SummaryBudget:
    """Budget for the summary attempts of one run. Does nothing for a run without a token or cost
    limit.
    """

    def __init__(self, state: RunState, append: Append) -> None:
        self._state, self._append = state, append
        self._aside: Reserved | None = None

    async def begin(
        self,
        names: Sequence[str],
        prices: Callable[[str], Pricing],
        *,
        input_tokens: int,
        output_tokens: int,
    ) -> None:
        """Reserve the cost of an attempt and journal its start. `names`: models that may respond.

        Raises AgentError: `limit` if it exceeds the budget, `invalid` if the price is unknown.
        """
        ledger, reserved = (
            self._state.ledger,
            Reserved(input_tokens=input_tokens, output_tokens=output_tokens),
        )
        if ledger.counts_money:
            for name in names:
                await prices(name).load()
            each = [needed(prices(name), name)(now()).dearest(input_tokens) for name in names]
            price = Dearest(*map(max, zip(*each, strict=True)))
            money = (
                float(price.request + price.token_in * input_tokens),
                float(price.token_out * output_tokens),
            )
            reserved = msgspec.structs.replace(reserved, input_usd=money[0], output_usd=money[1])
        if ledger.estimates:
            if not ledger.set_aside(reserved):
                raise AgentError("limit", "the run's budget has no room for a summary")
            self._aside = reserved
            await self._note(reserved=reserved)

    async def again(
        self,
        attempt: ModelAttempt,
        error: AgentError,
        switch: Switch | None,
        cost_usd: float | None,
    ) -> None:
        """Journal that an attempt failed and another one begins.

        `switch`: set if another model takes over. `cost_usd`: cost of the failed attempt. Raises
        AgentError(limit) if the new attempt exceeds the budget.
        """
        if self._aside is None:
            return
        ended = _ended(attempt, error)
        reserved = self._aside
        if switch is not None and switch.usage is not None:
            reserved = Reserved.of(switch.usage, cost_usd)
        elif ended == "free":
            reserved = None
        fits = self._fits_twice(reserved)
        if switch is not None and switch.usage is not None:
            used = SummaryCost(
                model=switch.before or attempt.model or "", usage=switch.usage, cost_usd=cost_usd
            )
            await self._note(ended="free", spent=used)
        else:
            await self._note(ended=ended)
        if not fits:
            raise AgentError(
                "limit", "the run's budget has no room for another attempt at a summary"
            )
        await self._note(reserved=self._aside)

    def _fits_twice(self, reserved: Reserved | None) -> bool:
        try:
            self._state.ledger.check_again(reserved)
        except BudgetSpent:
            return False
        return True

    async def broke_off(self, attempt: ModelAttempt, error: AgentError) -> None:
        """Journal that the last attempt failed."""
        if self._state.spending.summary is not None:
            await self._note(ended=_ended(attempt, error))

    async def note_failure(self, why: str, spent: SummaryCost | None) -> None:
        """Journal an attempt that returned no summary, and its cost."""
        await self._note(ended="free", failed=why, spent=spent)

    def give_back(self) -> None:
        """Release the reservation. The caller records the actual cost."""
        if self._aside is not None:
            self._state.ledger.give_back(self._aside)
            self._aside = None

    async def _note(
        self,
        *,
        reserved: Reserved | None = None,
        ended: Literal["", "lost", "free"] = "",
        failed: str = "",
        spent: SummaryCost | None = None,
    ) -> None:
        # older versions read both numbers as the size of the conversation
        tokens = self._state.ledger.context_tokens
        receipt = Cleared(
            tokens_before=tokens,
            tokens_after=tokens,
            reserved=reserved,
            ended=ended,
            failed=failed,
            spent=spent,
        )
        await self._append(Compaction(at=now(), receipt=encode_json(receipt).decode()))


def _ended(attempt: ModelAttempt, error: AgentError) -> Literal["lost", "free"]:
    return (
        "free"
        if not attempt.fold.begun and (error.status is not None or not error.sent)
        else "lost"
    )

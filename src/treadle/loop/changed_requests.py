"""Requests to the model that differ from the plan's: compacted, changed by hooks or a processor, or
because the provider rejected a part of them; and the record of failed attempts.

Entry point: `ChangedRequests`, a base class of `ModelTurn`.
"""

from __future__ import annotations

from functools import cached_property, partial

import msgspec

from treadle._internal.json_text import encode_json
from treadle.budget.ledger import Ledger
from treadle.budget.limits import BudgetSpent
from treadle.budget.spending import Reserved
from treadle.context.shortening import with_images
from treadle.errors import AgentError
from treadle.events.feed import Feed
from treadle.events.hooks import Hooks
from treadle.events.hooks.chain import BeforeModelSaid
from treadle.events.tracing import ModelSpan, Traced
from treadle.journal.entries import (
    Compaction,
    InputAdded,
    ModelRequested,
    ModelResponded,
    ModelSwitched,
)
from treadle.journal.journal import Append
from treadle.journal.receipts import Cleared
from treadle.journal.run_state import RunState
from treadle.journal.view import View, view_of
from treadle.loop.auto_compact import RunRoom
from treadle.loop.ending import as_error, error_info, request_named
from treadle.loop.guarding import beside
from treadle.loop.inbox import Inbox
from treadle.loop.plan import Plan
from treadle.loop.processing import Processor
from treadle.messages.events import ErrorInfo
from treadle.messages.history import History
from treadle.messages.message import Message
from treadle.models.model import ModelRequest, ModelResponse, Switch, ToolDefinition
from treadle.models.refused_settings import names_image, offending, without
from treadle.models.retry import ModelAttempt, Retries
from treadle.types import Outcome, now


class ChangedRequests:
    """Changes to the requests of one run."""

    _plan: Plan
    _state: RunState
    _ledger: Ledger
    _hooks: Hooks
    _feed: Feed
    _append: Append
    _processor: Processor | None
    _asked: ModelRequested
    _attempt: ModelAttempt | None
    _span: ModelSpan
    _tools: tuple[ToolDefinition, ...]
    _retries: Retries
    _traced: Traced
    was_short: bool
    """True if the last response overflowed the context, which was then compacted."""

    async def respond(
        self, last: Outcome | None, *, is_checked: bool = False
    ) -> tuple[ModelResponse, ModelResponded] | Outcome:
        raise NotImplementedError

    def withhold(self) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------ size

    @cached_property
    def room(self) -> RunRoom:
        """Compaction of the conversation, created for the first request that may not fit."""
        return RunRoom(
            self._plan,
            lambda: self._tools,
            self._append,
            warn=self._feed.warn,
            retries=self._retries,
            traced=self._traced,
        )

    async def compact(self, inbox: Inbox) -> None:
        """Compact if needed, or if the inbox asks for it."""
        if not self._state.current.results_only:
            wanted, inbox.wants_compaction = inbox.wants_compaction, False
            await self.room.make(forced=wanted)

    async def overcome(self) -> bool:
        """Compact after a response that overflowed the context. Returns True if the run can
        continue; never twice in a row.
        """
        self.was_short = not self.was_short and await self.room.overcome()
        return self.was_short

    def count_fixed(self) -> None:
        """Note the size of the next request without its messages, for the budget."""
        fixed = (*self._plan.system, *(tool for tool in self._tools if not tool.deferred))
        self._ledger.fixed_bytes = sum(len(encode_json(value)) for value in fixed)

    # ------------------------------------------------------------ hooks and processors

    async def _respond_checked(
        self, last: Outcome | None
    ) -> tuple[ModelResponse, ModelResponded] | Outcome:
        """Return the response, once hooks have checked the messages that it answers. Both happen in
        parallel.
        """
        passed = False

        async def check() -> None:
            nonlocal passed
            await self._hooks.check_input(self._state.context.unanswered)
            passed = True

        try:
            return await beside(check, partial(self.respond, last, is_checked=True))
        except Exception:
            if not passed:
                self.withhold()  # an unchecked response
            raise

    async def _hooked(self, request: ModelRequest) -> BeforeModelSaid:
        """Run the hooks before the request, and add their message to the history."""
        state = self._state
        # hooks may be slow, so store pending entries first
        await self._append()
        said = await self._hooks.before_model(request)
        # unless the previous driver already added it
        if said.add and not (state.current.attempt and state.context.history[-1].text == said.add):
            await self._append(
                InputAdded(at=now(), message=Message.user(said.add), by="hook"), hold=True
            )
        return said

    async def _view(self, processor: Processor) -> View | None:
        """Return what the processor changes. A request that has already begun is sent unchanged."""
        context = self._state.context
        if self._state.current.attempt and context.is_processed:
            return None
        await self._append()  # the processor may be slow
        return view_of(context.next_seen, await processor(context.history[:]))

    # ------------------------------------------------------------ failed attempts

    async def _failed(self, error: AgentError, wait_s: float, switch: Switch | None) -> None:
        """Record a failed attempt. `switch`: set if another model takes over.

        Raises BudgetSpent if the budget does not allow another attempt.
        """
        assert self._attempt is not None, "only an attempt can fail"
        self._span.retried(error.kind.value if switch is None else switch.kind, wait_s)
        failed, number = error_info(as_error(error, self._plan)), self._attempt.number + 1
        free = costs_nothing(self._attempt, error)
        if not free and (switch is None or switch.usage is None):
            self._ledger.check_again(self._asked.reserved)
        if switch is None:
            await self._append(
                msgspec.structs.replace(
                    self._asked, at=now(), attempt=number, failed=failed, wait_s=wait_s, free=free
                )
            )
        else:
            asked, prices = self._asked, self._plan.prices(self._state.models.asked)
            spent_usd = (
                None if switch.usage is None else await prices.cost_usd(switch.usage, asked.at, "")
            )
            spent: BudgetSpent | None = None
            if switch.usage is not None and asked.reserved is not None:
                try:
                    self._ledger.check_again(Reserved.of(switch.usage, spent_usd))
                except BudgetSpent as e:  # record what it has cost, and reserve nothing more
                    spent, asked = e, msgspec.structs.replace(asked, reserved=None)
            await self._append(
                *switched(asked, switch, failed, attempt=number, spent_usd=spent_usd, free=free)
            )
            if spent is not None:
                raise spent

    async def _retry_changed(self, error: AgentError) -> History:
        """Record the failed attempt, and return the messages of the next, which have changed."""
        asked, context = self._asked, self._state.context
        if self._processor is not None:
            view = await self._view(self._processor)
            self._asked = msgspec.structs.replace(asked, view=view)
        await self._failed(error, 0.0, None)
        self._asked = asked
        return context.history if context.seen is None else context.seen

    async def _mended(self, error: AgentError, request: ModelRequest) -> ModelRequest | None:
        """Return the request without the setting or images that the provider rejected; None if its
        error names neither.
        """
        error = as_error(error, self._plan)
        if name := offending(error, request.settings):
            return await self._without(name, error, request)
        unseen = with_images(self._state.context.history) if names_image(error) else ()
        if not unseen:
            return None
        self._feed.warn(
            "the provider refused an image or a document, so new ones are left out of the "
            f"conversation from here on: {error.message}{request_named(error)}"
        )
        await self._append(
            Compaction(at=now(), receipt=encode_json(Cleared(unseen=unseen)).decode()), hold=True
        )
        return msgspec.structs.replace(
            request, messages=await self._retry_changed(error), model=self._state.models.asked
        )

    async def _without(self, name: str, error: AgentError, request: ModelRequest) -> ModelRequest:
        """Return the request without a rejected setting, which later requests omit too."""
        asked = request.model or self._plan.model_name
        self._feed.warn(
            f"{asked} does not accept {name}: it is left out from here on "
            f"({error.message}{request_named(error)})"
        )
        self._asked = msgspec.structs.replace(self._asked, without=name)
        await self._failed(error, 0.0, None)
        self._asked = msgspec.structs.replace(self._asked, without=None)
        return msgspec.structs.replace(
            request, settings=without(request.settings, {name}), model=self._state.models.asked
        )


def costs_nothing(attempt: ModelAttempt, error: AgentError) -> bool:
    """Return True if the provider refused a failed attempt, or never received it."""
    return not attempt.fold.begun and (error.status is not None or not error.sent)


def switched(
    asked: ModelRequested,
    switch: Switch,
    failed: ErrorInfo,
    *,
    attempt: int,
    spent_usd: float | None,
    free: bool,
) -> tuple[ModelSwitched, ModelRequested]:
    """Return the entries that replace `asked`, which failed, with a request to another model."""
    at, failed = now(), msgspec.structs.replace(failed, kind=switch.kind)
    again = msgspec.structs.replace(
        asked,
        at=at,
        attempt=attempt,
        failed=failed,
        wait_s=0.0,
        spent=switch.usage,
        spent_usd=spent_usd,
        free=free,
    )
    return ModelSwitched(
        at=at, model=switch.model, before=switch.before, why=f"{switch.kind}: {failed.message}"
    ), again

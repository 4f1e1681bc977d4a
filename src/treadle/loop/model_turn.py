"""The model's part of a turn: reserves the cost, requests a response and makes its entry.

models/retry.py sends the attempts; changed_requests.py handles failed ones; the loop does the rest
of the turn. Entry point: `ModelTurn`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treadle.budget.limits import LIMIT_NAMES, ReservedResponse
from treadle.budget.prices import Listen, Pricing
from treadle.errors import AgentError, ErrorKind
from treadle.events.feed import Feed
from treadle.events.tracing import NO_SPAN, at_first
from treadle.journal.entries import ModelBatched, ModelRequested, ModelResponded
from treadle.journal.journal import Append
from treadle.journal.view import View
from treadle.loop.changed_requests import ChangedRequests, costs_nothing
from treadle.loop.hook_responses import given, replacing
from treadle.loop.plan import Plan
from treadle.loop.toolbox import Toolbox
from treadle.messages.events import LimitWarning
from treadle.messages.message import Message, Part
from treadle.models.model import Fold, ModelRequest, ModelResponse, ToolDefinition
from treadle.models.refused_settings import without
from treadle.models.retry import ModelAttempt, Retries, ask
from treadle.types import Outcome, StopReason, Usage, new_id, now


class ModelTurn(ChangedRequests):
    """Source of a run's responses, requested one after another."""

    def __init__(
        self,
        plan: Plan,
        toolbox: Toolbox,
        feed: Feed,
        append: Append,
        retries: Retries,
    ) -> None:
        self._plan, self._hooks = plan, plan.hooks
        self._state, self._ledger = plan.state, plan.state.ledger
        self._tools, self._feed, self._append = toolbox.definitions, feed, append
        self._processor = toolbox.processor
        self._retries = retries
        self.reached = self._state.spending.invocations
        """Number of attempts that reached the provider."""
        self._message_id = ""
        self._asked: ModelRequested
        self._attempt: ModelAttempt | None = None
        """The current attempt; None between `done` and the next request."""
        self._received: tuple[ModelResponse, float | None] | None = None
        """Complete response to the current attempt, as the model sent it, and its cost."""
        self._traced, self._span = toolbox.traced, NO_SPAN
        self.was_short = False
        self.is_free = False
        """True if the last attempt failed without a cost: the provider refused it, or never
        received it.
        """
        if plan.batch is not None:
            plan.batch.begin(self._batched, self._state.current.batched)

    async def respond(
        self, last: Outcome | None, *, is_checked: bool = False
    ) -> tuple[ModelResponse, ModelResponded] | Outcome:
        """Return a complete response and its entry, which the caller appends; or the limit that
        does not allow a request.

        `last`: the limit that makes this turn the last one, or None. `is_checked`: hooks check the
        input already. Raises RunBlocked, which cancels the request.
        """
        if "check_input" in self._hooks.points and not is_checked:
            return await self._respond_checked(last)
        batched = self._state.current.batched
        if (
            "before_model" in self._hooks.points
            and batched is None
            and (said := await self._hooked(self._request(self._plan.output_tokens, last))).answered
            is not None
        ):
            attempt = await self._begin(ReservedResponse(self._plan.output_tokens, None), last)
            self._feed.begin_message(self._message_id, attempt)
            response = given(said.answered, attempt, self._feed)
            return response, self._entry(response.parts, response, hook=said.hook)
        view = None
        if self._processor is not None and batched is None:
            view = await self._view(self._processor)
        left = ReservedResponse(self._plan.output_tokens, None)
        if self._ledger.estimates and batched is None:  # no wait from here to the reservation
            left = self._ledger.output_left(
                left.tokens, self._state.context.new_bytes(view), self._plan.dearest
            )
        if left.tokens <= 0:
            assert left.limit is not None, "only a limit leaves nothing"
            return left.limit
        attempt = await self._begin(left, last, view)
        request = self._request(left.tokens, last)
        if self._state.context.seen is not None:
            request = msgspec.structs.replace(request, messages=self._state.context.seen)
        response = await self._ask(request, attempt)
        cost_usd = await self._pricing.cost_usd(
            response.usage, self._asked.at, response.model, response.details
        )
        self._received = response, cost_usd
        if "after_model" in self._hooks.points:
            replaced = await self._hooks.after_model(request, response)
            if replaced is not response:
                attempt.fold = Fold(self._state.context.call_ids)
                response = replacing(replaced, attempt, self._feed)
        return response, self._entry(response.parts, response, cost_usd)

    def use_tools(self, tools: tuple[ToolDefinition, ...]) -> None:
        """Use these tools from the next request on."""
        self._tools = tools
        if self._ledger.estimates:
            self.count_fixed()

    def done(self) -> None:
        """Close the attempt. Call it before the response's entry is appended."""
        self._attempt = self._received = None

    def withhold(self) -> None:
        """Drop the content of the current attempt, but not what it cost."""
        if self._attempt is not None:
            self._attempt.fold = Fold(self._state.context.call_ids)

    @property
    def is_open(self) -> bool:
        return self._attempt is not None

    @property
    def text(self) -> str:
        """Text of the current response so far."""
        return "" if self._attempt is None else self._attempt.fold.text

    def partial(self) -> ModelResponded | None:
        """Return the entry of a response that was interrupted, or that hooks blocked; None if it
        has neither usable content nor a known usage. It has no text that hooks have not passed.
        """
        is_kept = self._attempt is not None and self._hooks.keeps_cut
        parts = self._attempt.partial() if self._attempt is not None and is_kept else ()
        # without a usage, the whole reservation counts as spent
        if self._received is not None and self._received[0].usage.total_tokens:
            response, cost_usd = self._received
            response = msgspec.structs.replace(response, id="", provider_data=None)
            return self._entry(parts, response, cost_usd)
        return self._entry(parts) if parts else None

    # ------------------------------------------------------------ requests

    def _request(self, max_tokens: int, last: Outcome | None) -> ModelRequest:
        plan, state = self._plan, self._state
        without_tools = last is not None and bool(self._tools) and not state.current.results_only
        settings = plan.turn_settings(max_tokens, without_tools=without_tools)
        if state.models.without:
            settings = without(settings, state.models.without)
        return ModelRequest(
            messages=state.context.history,
            tools=self._tools,
            system=plan.system,
            settings=settings,
            model=state.models.asked,
        )

    async def _begin(
        self, left: ReservedResponse, last: Outcome | None, view: View | None = None
    ) -> ModelAttempt:
        batched = self._state.current.batched
        if batched is not None:  # the attempt of an earlier driver, which is still under way
            left = msgspec.structs.replace(left, reserved=self._state.spending.reserved)
        # read before this turn's reservation reduces it
        told = 0.0 if last is None else self._ledger.left(last)
        self._ledger.ask(left)
        self.is_free = False
        self._message_id = new_id("msg")
        self._attempt = attempt = ModelAttempt(
            self._state.context.call_ids, number=self._state.current.attempt + (batched is None)
        )
        asked = ModelRequested(
            at=now(),
            turn=self._ledger.turns + 1,
            attempt=attempt.number,
            reserved=left.reserved,
            last=last,
            view=view,
        )
        self._asked = (
            asked
            if left.limit is None
            else msgspec.structs.replace(asked, max_tokens=left.tokens, clamped_by=left.limit)
        )
        if batched is None:
            await self._append(self._asked)
        if view is not None:  # of this attempt; the next ones follow it
            self._asked = msgspec.structs.replace(self._asked, view=None)
        if last is not None:
            self._feed.say(LimitWarning, {"limit": LIMIT_NAMES[last], "left": told})
        return attempt

    async def _batched(self, custom_id: str, batch_id: str) -> None:
        """Store the place of the request in a batch of the provider."""
        await self._append(ModelBatched(at=now(), custom_id=custom_id, batch_id=batch_id))

    async def _ask(self, request: ModelRequest, attempt: ModelAttempt) -> ModelResponse:
        self._feed.begin_message(self._message_id, attempt)
        listen = self._pricing.listening(self._feed.listener)
        try:
            if not self._traced.is_on:
                response = await self._whole(request, attempt, listen)
            else:
                with self._traced.model(request) as self._span:
                    response = await self._whole(
                        request, attempt, at_first(attempt, self._span.first_delta, listen)
                    )
                    self._span.responded(
                        response,
                        await self._pricing.cost_usd(
                            response.usage, self._asked.at, response.model, response.details
                        ),
                    )
        except AgentError as error:
            self.is_free = costs_nothing(attempt, error)
            raise
        finally:
            self.reached += attempt.reached
        return response

    async def _whole(
        self, request: ModelRequest, attempt: ModelAttempt, listen: Listen | None
    ) -> ModelResponse:
        """Request a response. If the request exceeds the context window, compact and retry once."""
        shortened = False
        while True:
            try:
                return await ask(
                    self._plan.model,
                    request,
                    attempt,
                    listen=listen,
                    failed=self._failed,
                    retries=self._retries,
                )
            except AgentError as error:
                if (
                    not attempt.fold.begun
                    and (mended := await self._mended(error, request)) is not None
                ):
                    request = mended
                    attempt.next()
                    continue
                if (
                    shortened
                    or error.kind is not ErrorKind.CONTEXT_OVERFLOW
                    or not await self.room.make(forced=True, hold=True)
                ):
                    raise
                messages = await self._retry_changed(error)
            attempt.next()
            shortened, request = (
                True,
                msgspec.structs.replace(request, messages=messages, model=self._state.models.asked),
            )

    @property
    def _pricing(self) -> Pricing:
        return self._plan.prices(self._state.models.asked)

    def _entry(
        self,
        parts: Sequence[Part],
        response: ModelResponse | None = None,
        cost_usd: float | None = None,
        hook: str | None = None,
    ) -> ModelResponded:
        """Return the entry of a response. `response`: None if the end of the run cut it off."""
        assert self._attempt is not None, "a response is an attempt's"
        message = Message(
            id=self._message_id,
            role="assistant",
            parts=tuple(parts),
            created_at=now(),
            response_id="" if response is None else response.id,
        )
        if response is None:
            return ModelResponded(
                at=message.created_at,
                turn=self._ledger.turns + 1,
                attempt=self._attempt.number,
                message=message,
                usage=Usage(),
                stop_reason=None,
            )
        self.was_short &= response.stop_reason is StopReason.CONTEXT_OVERFLOW
        return ModelResponded(
            at=message.created_at,
            turn=self._ledger.turns + 1,
            attempt=self._attempt.number,
            message=message,
            usage=response.usage,
            cost_usd=cost_usd,
            stop_reason=response.stop_reason,
            raw_stop_reason=response.raw_stop_reason,
            response_id=response.id,
            model=response.model,
            provider_data=response.provider_data,
            context_tokens=response.context_tokens,
            results_only=response.results_only,
            withdraws=response.withdraws,
            hook=hook,
            details=response.details,
        )

"""The model's part of a turn: reserves the cost, requests a response and makes its entry.

models/retry.py sends the attempts; the loop does the rest of the turn. Entry point: `ModelTurn`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treadle._internal.json_text import encode_json
from treadle.budget.limits import LIMIT_NAMES, ReservedResponse
from treadle.budget.prices import Listen, Pricing
from treadle.context.shortening import with_images
from treadle.errors import AgentError, ErrorKind
from treadle.events.feed import Feed
from treadle.events.hooks.chain import BeforeModelSaid
from treadle.events.tracing import NO_SPAN
from treadle.journal.entries import Compaction, InputAdded, ModelRequested, ModelResponded
from treadle.journal.journal import Append
from treadle.journal.receipts import Cleared
from treadle.journal.view import View, view_of
from treadle.loop.auto_compact import RunRoom
from treadle.loop.ending import as_error, error_info, request_named
from treadle.loop.hook_responses import given, replacing
from treadle.loop.model_entries import responded, switched
from treadle.loop.plan import Plan
from treadle.loop.processing import Processor
from treadle.loop.toolbox import Toolbox
from treadle.messages.events import LimitWarning
from treadle.messages.history import History
from treadle.messages.message import Message, Part
from treadle.models.model import Fold, ModelRequest, ModelResponse, Switch, ToolDefinition
from treadle.models.refused_settings import names_image, offending, without
from treadle.models.retry import ModelAttempt, Retries, ask, at_first
from treadle.types import Outcome, new_id, now


class ModelTurn:
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
        self._traced, self._span = toolbox.traced, NO_SPAN
        self.room = RunRoom(plan, self._tools, append, retries=retries, traced=self._traced)

    async def respond(self, last: Outcome | None) -> tuple[ModelResponse, ModelResponded] | Outcome:
        """Return a complete response and its entry, which the caller appends; or the limit that
        does not allow a request.

        `last`: the limit that makes this turn the last one, or None.
        """
        if (
            "before_model" in self._hooks.points
            and (said := await self._hooked(last)).answered is not None
        ):
            attempt = await self._begin(ReservedResponse(self._plan.output_tokens, None), last)
            self._feed.begin_message(self._message_id, attempt)
            response = given(said.answered, attempt, self._feed)
            return response, self._entry(response.parts, response, hook=said.hook)
        left = ReservedResponse(self._plan.output_tokens, None)
        if self._ledger.estimates:
            left = self._ledger.output_left(
                left.tokens, self._state.context.new_bytes(), self._plan.dearest
            )
        if left.tokens <= 0:
            assert left.limit is not None, "only a limit leaves nothing"
            return left.limit
        view = None if self._processor is None else await self._view(self._processor)
        attempt = await self._begin(left, last, view)
        request = self._request(left.tokens, last)
        if self._state.context.seen is not None:
            request = msgspec.structs.replace(request, messages=self._state.context.seen)
        response = await self._ask(request, attempt)
        cost_usd = await self._pricing.cost_usd(
            response.usage, self._asked.at, response.model, response.details
        )
        return response, self._entry(response.parts, response, cost_usd)

    def use_tools(self, tools: tuple[ToolDefinition, ...]) -> None:
        """Use these tools from the next request on."""
        self._tools = self.room.tools = tools

    def done(self) -> None:
        """Close the attempt. Call it before the response's entry is appended."""
        self._attempt = None

    @property
    def is_open(self) -> bool:
        return self._attempt is not None

    @property
    def text(self) -> str:
        """Text of the current response so far."""
        return "" if self._attempt is None else self._attempt.fold.text

    def partial(self) -> ModelResponded | None:
        """Return the entry of an interrupted response; None if it has no usable content."""
        parts = self._attempt.partial() if self._attempt is not None else ()
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

    async def _view(self, processor: Processor) -> View | None:
        """Return what the processor changes. A request that was begun already is sent as it was."""
        context = self._state.context
        if self._state.current.attempt and context.is_processed:
            return None
        await self._append()  # the processor may be slow
        return view_of(context.next_seen, await processor(context.history[:]))

    async def _retry_changed(self, error: AgentError) -> History:
        """Record the failed attempt, and return the messages of the next, which have changed."""
        asked, context = self._asked, self._state.context
        if self._processor is not None:
            view = await self._view(self._processor)
            self._asked = msgspec.structs.replace(asked, view=view)
        await self._failed(error, 0.0, None)
        self._asked = asked
        return context.history if context.seen is None else context.seen

    async def _hooked(self, last: Outcome | None) -> BeforeModelSaid:
        """Run the hooks before the request, and add their message to the history."""
        state = self._state
        # hooks may be slow, so store pending entries first
        await self._append()
        said = await self._hooks.before_model(
            self._plan.hooked, self._request(self._plan.output_tokens, last)
        )
        # unless the previous driver already added it
        if said.add and not (state.current.attempt and state.context.history[-1].text == said.add):
            await self._append(
                InputAdded(at=now(), message=Message.user(said.add), by="hook"), hold=True
            )
        return said

    async def _begin(
        self, left: ReservedResponse, last: Outcome | None, view: View | None = None
    ) -> ModelAttempt:
        # read before this turn's reservation reduces it
        told = 0.0 if last is None else self._ledger.left(last)
        self._ledger.ask(left)
        self._message_id = new_id("msg")
        self._attempt = attempt = ModelAttempt(
            self._state.context.call_ids, number=self._state.current.attempt + 1
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
        await self._append(self._asked)
        if view is not None:  # of this attempt; the next ones follow it
            self._asked = msgspec.structs.replace(self._asked, view=None)
        if last is not None:
            self._feed.say(LimitWarning, {"limit": LIMIT_NAMES[last], "left": told})
        return attempt

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
        finally:
            self.reached += attempt.reached
        if "after_model" in self._hooks.points:
            replaced = await self._hooks.after_model(self._plan.hooked, request, response)
            if replaced is not response:
                attempt.fold = Fold(self._state.context.call_ids)
                response = replacing(replaced, attempt, self._feed)
        return response

    async def _mended(self, error: AgentError, request: ModelRequest) -> ModelRequest | None:
        """Return the request without the setting or images that the provider rejected; None if its
        error names neither.
        """
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
            f"{asked} does not take {name}: it is left out from here on "
            f"({error.message}{request_named(error)})"
        )
        self._asked = msgspec.structs.replace(self._asked, without=name)
        await self._failed(error, 0.0, None)
        self._asked = msgspec.structs.replace(self._asked, without=None)
        return msgspec.structs.replace(
            request, settings=without(request.settings, {name}), model=self._state.models.asked
        )

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

    async def _failed(self, error: AgentError, wait_s: float, switch: Switch | None) -> None:
        """Record a failed attempt. `switch`: set if another model takes over.

        Raises BudgetSpent if the budget does not allow another attempt.
        """
        assert self._attempt is not None, "only an attempt can fail"
        self._span.retried(error.kind.value if switch is None else switch.kind, wait_s)
        failed, number = error_info(as_error(error, self._plan)), self._attempt.number + 1
        free = not self._attempt.fold.begun and (error.status is not None or not error.sent)
        if not free:
            self._ledger.check_again(self._asked.reserved)
        if switch is None:
            await self._append(
                msgspec.structs.replace(
                    self._asked, at=now(), attempt=number, failed=failed, wait_s=wait_s, free=free
                )
            )
        else:
            spent_usd = (
                None
                if switch.usage is None
                else await self._pricing.cost_usd(switch.usage, self._asked.at, "")
            )
            await self._append(
                *switched(
                    self._asked, switch, failed, attempt=number, spent_usd=spent_usd, free=free
                )
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
        assert self._attempt is not None, "a response is an attempt's"
        message = Message(
            id=self._message_id,
            role="assistant",
            parts=tuple(parts),
            created_at=now(),
            response_id="" if response is None else response.id,
        )
        return responded(
            message,
            response,
            turn=self._ledger.turns + 1,
            attempt=self._attempt.number,
            cost_usd=cost_usd,
            hook=hook,
        )

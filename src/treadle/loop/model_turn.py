"""The model's half of a turn: what it may cost is kept for it, it is asked until it answers whole,
and what it said becomes an entry.

What comes before and after is the loop's, each single attempt retry.py's. Entry: `ModelTurn`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treadle._internal.clock import Clock
from treadle._internal.json_text import encode_json
from treadle.budget.ledger import LIMIT_NAMES, ReservedResponse
from treadle.budget.prices import Listen, Pricing
from treadle.errors import AgentError, ErrorKind
from treadle.events.feed import Feed
from treadle.events.hooks.chain import BeforeModelSaid
from treadle.events.tracing import NO_SPAN, Traced
from treadle.journal.entries import (
    Compaction,
    InputAdded,
    ModelRequested,
    ModelResponded,
    responded,
    switched,
)
from treadle.journal.journal import Append
from treadle.journal.receipts import Cleared, with_images
from treadle.loop.auto_compact import RunRoom
from treadle.loop.plan import Plan, as_error, error_info
from treadle.messages.events import LimitWarning, Retry
from treadle.messages.message import Message, Part, ProviderPart, ReasoningPart, TextPart, ToolCall
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    Fold,
    ModelRequest,
    ModelResponse,
    PartEnd,
    ReasoningDelta,
    ReasoningStart,
    ResponseEnd,
    Switch,
    TextDelta,
    TextStart,
    ToolCallStart,
    ToolDefinition,
    WholePart,
)
from treadle.models.retry import (
    ModelAttempt,
    RetryPolicy,
    ask,
    at_first,
    names_image,
    offending,
    without,
)
from treadle.types import Outcome, Usage, new_id, now


class ModelTurn:
    """Requests of one run, one after the other."""

    def __init__(
        self,
        plan: Plan,
        tools: tuple[ToolDefinition, ...],
        feed: Feed,
        append: Append,
        traced: Traced,
        *,
        clock: Clock,
        retries: RetryPolicy,
    ) -> None:
        self._plan, self._state, self._ledger, self._hooks = (
            plan,
            plan.state,
            plan.state.ledger,
            plan.hooks,
        )
        self._tools, self._feed, self._append, self._clock, self._retries = (
            tools,
            feed,
            append,
            clock,
            retries,
        )
        self.reached = self._state.spending.invocations
        """Attempts of the run that reached the provider."""
        self._message_id = ""
        self._asked: ModelRequested
        self._attempt: ModelAttempt | None = None
        """Set while a response is being asked for, and until it is an entry."""
        self.room = RunRoom(plan, tools, append, clock=clock, retries=retries, traced=traced)
        self._traced, self._span = traced, NO_SPAN

    async def respond(self, last: Outcome | None) -> tuple[ModelResponse, ModelResponded] | Outcome:
        """Return a complete response after any number of attempts, and its entry, which the caller
        appends; or the limit that forbids a request.
        """
        if (
            self._hooks.has("before_model")
            and (said := await self._hooked(last)).answered is not None
        ):
            response = self._given(
                said.answered,
                await self._begin(ReservedResponse(self._plan.output_tokens, None), last),
            )
            return response, self._entry(response.parts, response, hook=said.hook)
        left = ReservedResponse(self._plan.output_tokens, None)
        if self._ledger.estimates:
            left = self._ledger.output_left(
                left.tokens, self._state.context.new_bytes(), self._plan.dearest
            )
        if left.tokens <= 0:
            assert left.limit is not None, "only a limit leaves nothing"
            return left.limit
        attempt = await self._begin(left, last)
        response = await self._ask(self._request(left.tokens, last), attempt)
        cost_usd = await self._pricing.cost_usd(
            response.usage, self._asked.at, response.model, response.details
        )
        return response, self._entry(response.parts, response, cost_usd)

    def use_tools(self, tools: tuple[ToolDefinition, ...]) -> None:
        """Use these tools from the next request on."""
        self._tools = self.room.tools = tools

    def done(self) -> None:
        """The response's entry is about to be appended."""
        self._attempt = None

    @property
    def is_open(self) -> bool:
        return self._attempt is not None

    @property
    def text(self) -> str:
        """Text of the current response so far."""
        return "" if self._attempt is None else self._attempt.fold.text

    def partial(self) -> ModelResponded | None:
        """Return the entry of a cut response, or None if it has nothing worth keeping."""
        parts = self._attempt.partial() if self._attempt is not None else ()
        return self._entry(parts) if parts else None

    # ------------------------------------------------------------ asking

    def _request(self, max_tokens: int, last: Outcome | None) -> ModelRequest:
        plan, state = self._plan, self._state
        without_tools = last is not None and bool(self._tools) and not state.current.results_only
        settings = without(
            plan.turn_settings(max_tokens, without_tools=without_tools), state.models.without
        )
        return ModelRequest(
            messages=state.context.history,
            tools=self._tools,
            system=plan.system,
            settings=settings,
            model=state.models.asked,
        )

    async def _hooked(self, last: Outcome | None) -> BeforeModelSaid:
        """Run the hooks before the request. Their additions are in the history afterwards."""
        state = self._state
        # a hook may be slow, and pending entries must not be lost in that time
        await self._append()
        said = await self._hooks.before_model(
            self._plan.hooked, self._request(self._plan.output_tokens, last)
        )
        # the driver before had added it
        if said.add and not (state.current.attempt and state.context.history[-1].text == said.add):
            await self._append(
                InputAdded(at=now(), message=Message.user(said.add), by="hook"), hold=True
            )
        return said

    def _given(self, response: ModelResponse, attempt: ModelAttempt) -> ModelResponse:
        """Use a hook's response in place of the model's. It has no usage."""
        self._feed.begin_message(self._message_id, attempt)
        return self._heard(msgspec.structs.replace(response, usage=Usage()), attempt)

    def _replaced(self, response: ModelResponse, attempt: ModelAttempt) -> ModelResponse:
        """Replace the model's response with a hook's. Subscribers see it from its beginning."""
        self._feed.cut()
        self._feed.say(Retry, {"attempt": attempt.number, "wait_s": 0.0, "kind": "hook"})
        attempt.number += 1
        attempt.fold = Fold(self._state.context.call_ids)
        return self._heard(response, attempt)

    def _heard(self, response: ModelResponse, attempt: ModelAttempt) -> ModelResponse:
        listener = self._feed.listener
        for delta in _deltas(response):
            attempt.fold.add(delta)
            if listener is not None:
                listener(delta)
        return attempt.fold.response()

    async def _begin(self, left: ReservedResponse, last: Outcome | None) -> ModelAttempt:
        # what this turn may take is among it
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
        )
        self._asked = (
            asked
            if left.limit is None
            else msgspec.structs.replace(asked, max_tokens=left.tokens, clamped_by=left.limit)
        )
        await self._append(self._asked)
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
        if self._hooks.has("after_model"):
            replaced = await self._hooks.after_model(self._plan.hooked, request, response)
            response = response if replaced is response else self._replaced(replaced, attempt)
        return response

    async def _mended(self, error: AgentError, request: ModelRequest) -> ModelRequest | None:
        """Return the request without what the provider refused by name, or None."""
        if name := offending(error, request.settings):
            return await self._without(name, error, request)
        unseen = with_images(self._state.context.history) if names_image(error) else ()
        if not unseen:
            return None
        self._feed.warn(
            "the provider refused an image or a document, so new ones are left out of the "
            f"conversation from here on: {error.message}{_named(error)}"
        )
        await self._append(
            Compaction(at=now(), receipt=encode_json(Cleared(unseen=unseen)).decode()), hold=True
        )
        await self._failed(error, 0.0, None)
        return msgspec.structs.replace(
            request, messages=self._state.context.history, model=self._state.models.asked
        )

    async def _without(self, name: str, error: AgentError, request: ModelRequest) -> ModelRequest:
        """The request without a setting that the provider named as it refused; the run does without
        it from here on, also after a resume.
        """
        asked = request.model or self._plan.model_name
        self._feed.warn(
            f"{asked} does not take {name}: it is left out from here on "
            f"({error.message}{_named(error)})"
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
        """Ask once more, after compaction, if the request is too long for the provider."""
        shortened = False
        while True:
            try:
                return await ask(
                    self._plan.model,
                    request,
                    attempt,
                    listen=listen,
                    failed=self._failed,
                    policy=self._retries,
                    clock=self._clock,
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
                await self._failed(error, 0.0, None)
            attempt.next()
            shortened, request = (
                True,
                msgspec.structs.replace(
                    request, messages=self._state.context.history, model=self._state.models.asked
                ),
            )

    async def _failed(self, error: AgentError, wait_s: float, switch: Switch | None) -> None:
        """An attempt did. `switch`: another model is asked instead of the same one once more.

        Raises BudgetSpent where there is nothing left for that.
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
        response_id = "" if response is None else response.id
        message = Message(
            id=self._message_id,
            role="assistant",
            parts=tuple(parts),
            created_at=now(),
            response_id=response_id,
        )
        return responded(
            message,
            response,
            turn=self._ledger.turns + 1,
            attempt=self._attempt.number,
            cost_usd=cost_usd,
            hook=hook,
        )


def _named(error: AgentError) -> str:
    return f"; request {error.request_id}" if error.request_id else ""


def _deltas(response: ModelResponse) -> list[Delta]:
    """Return deltas that fold to the response."""
    deltas: list[Delta] = []
    for part in response.parts:
        match part:
            case TextPart():
                deltas += [
                    TextStart(),
                    TextDelta(part.text),
                    PartEnd(part.provider, part.provider_data),
                ]
            case ReasoningPart():
                deltas += [
                    ReasoningStart(),
                    ReasoningDelta(part.text),
                    PartEnd(part.provider, part.provider_data),
                ]
            case ToolCall():
                deltas += [
                    ToolCallStart(part.id, part.name),
                    ArgumentsDelta(part.arguments_json),
                    PartEnd(part.provider, part.provider_data),
                ]
            case ProviderPart():
                deltas.append(WholePart(part))
            case _:
                pass
    told = {
        name: getattr(response, name)
        for name in (
            "usage",
            "stop_reason",
            "raw_stop_reason",
            "id",
            "model",
            "provider_data",
            "details",
        )
    }
    return [*deltas, ResponseEnd(**told)]

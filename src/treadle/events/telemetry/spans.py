"""OpenTelemetry spans of runs. The loop opens and closes them; names.py has their names.

Entry point: `OtelTracer`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextvars import Token
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from opentelemetry import context, trace
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode
from typing_extensions import override

from treadle.errors import AgentError
from treadle.events.telemetry import names
from treadle.events.telemetry.content import SpanContent, sendable
from treadle.events.telemetry.metrics import RunInstruments
from treadle.events.tracing import TracedRun
from treadle.messages.message import ToolCall, ToolResult
from treadle.messages.metrics import RunMetrics, RunTotals
from treadle.messages.response_details import ResponseDetails
from treadle.models.model import ModelRequest, ModelResponse
from treadle.tools.tool import ToolDeferred
from treadle.types import Outcome, Usage

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

logger = logging.getLogger("treadle")

Attributes: TypeAlias = "dict[str, AttributeValue]"

FAILED = frozenset({Outcome.ERROR, Outcome.CONTEXT_OVERFLOW, Outcome.INVALID_OUTPUT})
"""Outcomes that count as errors. Reaching a limit does not."""


class Harmless:
    """Context manager that suppresses exceptions of exporters and processors, so that they cannot
    affect a run. Logs the first one.
    """

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told = False

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        if not self._told:
            self._told = True
            logger.warning(
                "tracing failed; runs continue, and further failures are not logged: %s: %s",
                type(error).__name__,
                error,
            )
        return True


class OtelTracer:
    """A `Tracer` on OpenTelemetry's API, for any number of concurrent runs."""

    def __init__(
        self,
        tracer: trace.Tracer,
        metrics: RunInstruments,
        clean: Callable[[str], str],
        *,
        content: bool,
    ) -> None:
        """Create a tracer. `clean`: function that masks secrets in a text. `content`: include
        prompts, responses and results.
        """
        self.tracer, self.metrics, self.clean = tracer, metrics, clean
        self.harmless = Harmless()
        self._content = content
        self._said: dict[str, SpanContent] = {}
        """Content encoders of active runs, by run id."""

    def run(self, run: TracedRun) -> AgentSpan:
        return AgentSpan(self, run)

    def model(self, run: TracedRun, request: ModelRequest) -> ChatSpan:
        return ChatSpan(self, run, request)

    def tool(self, run: TracedRun, call: ToolCall, kind: Mapping[str, str]) -> ToolCallSpan:
        return ToolCallSpan(self, run, call, kind)

    def content(self, run_id: str) -> SpanContent | None:
        """Return the content encoder of a run; None if spans have no content."""
        if not self._content:
            return None
        return self._said.setdefault(run_id, SpanContent(self.clean))

    def forget(self, run_id: str) -> None:
        self._said.pop(run_id, None)


class _Open:
    """Context manager that makes a span the current one. Tracing errors do not propagate."""

    def __init__(self, owner: OtelTracer, run: TracedRun, operation: str) -> None:
        self._owner, self._run, self._operation = owner, run, operation
        self._span: Span = INVALID_SPAN
        self._token: Token[context.Context] | None = None
        self._begun = 0.0
        self._measured: Attributes = {}
        """Attributes that the metrics share with the span."""

    def __enter__(self) -> Self:
        self._begun = perf_counter()
        with self._owner.harmless:
            self._measured[names.OPERATION] = self._operation
            self._span = self._begin()
            self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        with self._owner.harmless:
            if error is not None:
                self._broke(error)
            self._owner.metrics.took(perf_counter() - self._begun, self._measured)
        with self._owner.harmless:
            self._over()
        with self._owner.harmless:
            self._span.end()
        if self._token is not None:
            context.detach(self._token)

    def _begin(self) -> Span:
        raise NotImplementedError

    def _over(self) -> None:
        """Record the last attributes, while the span is still open."""

    def _start(self, name: str, kind: SpanKind, attributes: Attributes) -> Span:
        run = self._run
        everywhere: Attributes = {
            names.OPERATION: self._operation,
            names.RUN_ID: run.run_id,
            names.AGENT_NAME: run.agent,
        }
        if run.session_id is not None:
            everywhere[names.CONVERSATION] = run.session_id
        if run.user_id is not None:
            everywhere[names.USER_ID] = sendable(self._owner.clean(run.user_id))
        return self._owner.tracer.start_span(
            sendable(name), kind=kind, attributes={**everywhere, **attributes}
        )

    def _broke(self, error: BaseException) -> None:
        if isinstance(error, AgentError):
            self._failed(error.kind.value, error.message)
            if error.request_id:
                self._span.set_attribute(names.REQUEST_ID, sendable(error.request_id))
        elif isinstance(error, Exception):
            self._failed(type(error).__qualname__, str(error))
        else:
            self._typed(names.CANCELLED)

    def _typed(self, error_type: str) -> None:
        """Set the error type without the error status, for example after a cancellation."""
        self._measured[names.ERROR_TYPE] = error_type
        self._span.set_attribute(names.ERROR_TYPE, error_type)

    def _failed(self, error_type: str, text: str) -> None:
        self._typed(error_type)
        self._span.set_status(Status(StatusCode.ERROR, sendable(self._owner.clean(text))))


class AgentSpan(_Open):
    def __init__(self, owner: OtelTracer, run: TracedRun) -> None:
        super().__init__(owner, run, names.INVOKE_AGENT)

    def _begin(self) -> Span:
        run = self._run
        provider, model = names.provider_and_model(run.model)
        self._measured |= {
            names.AGENT_NAME: run.agent,
            names.PROVIDER: provider,
            names.REQUEST_MODEL: model,
        }
        attributes: Attributes = {
            names.PROVIDER: provider,
            names.REQUEST_MODEL: model,
            names.AGENT_ID: run.agent,
        }
        if run.agent_hash:
            attributes[names.AGENT_VERSION] = run.agent_hash
        if run.description:
            attributes[names.AGENT_DESCRIPTION] = sendable(run.description)
        if run.parent_run_id is not None:
            attributes[names.PARENT_RUN_ID] = run.parent_run_id
        clean = self._owner.clean
        if run.tags:
            attributes[names.TAGS] = [sendable(clean(tag)) for tag in run.tags]
        for name, value in run.metadata.items():
            attributes[f"{names.METADATA}.{name}"] = (
                sendable(clean(value)) if isinstance(value, str) else value
            )
        return self._start(f"{names.INVOKE_AGENT} {run.agent}", SpanKind.INTERNAL, attributes)

    def ended(self, outcome: Outcome, metrics: RunMetrics, error: Exception | None) -> None:
        with self._owner.harmless:
            self._measured[names.OUTCOME] = outcome.value
            self._span.set_attributes(
                {
                    names.OUTCOME: outcome.value,
                    names.TURNS: metrics.turns,
                    names.TOOL_CALLS: metrics.tool_calls,
                    names.RETRIES: metrics.retries,
                    **_used(metrics.usage, metrics.cost_usd),
                    **_total(metrics.total),
                }
            )
            if outcome in FAILED:
                kind = error.kind.value if isinstance(error, AgentError) else outcome.value
                self._failed(kind, error.message if isinstance(error, AgentError) else "")
            elif outcome is Outcome.CANCELLED:
                self._typed(names.CANCELLED)

    def _over(self) -> None:
        self._owner.forget(self._run.run_id)


class ChatSpan(_Open):
    """Span of one response, over all its attempts."""

    def __init__(self, owner: OtelTracer, run: TracedRun, request: ModelRequest) -> None:
        super().__init__(owner, run, names.CHAT)
        self._request = request
        self._asked_at = 0.0
        self._first_s: float | None = None

    def _begin(self) -> Span:
        request, settings = self._request, self._request.settings
        provider, model = names.provider_and_model(request.model or self._run.model)
        self._measured |= {names.PROVIDER: provider, names.REQUEST_MODEL: model}
        attributes: Attributes = {
            names.PROVIDER: provider,
            names.REQUEST_MODEL: model,
            names.REQUEST_STREAM: True,
        }
        if settings.max_tokens is not None:
            attributes[names.REQUEST_MAX_TOKENS] = settings.max_tokens
        if settings.temperature is not None:
            attributes[names.REQUEST_TEMPERATURE] = settings.temperature
        if settings.stop is not None:
            attributes[names.REQUEST_STOP] = settings.stop
        attributes[names.OUTPUT_TYPE] = "text" if settings.output_schema is None else "json"
        span = self._start(f"{names.CHAT} {model}", SpanKind.CLIENT, attributes)
        if span.is_recording() and (content := self._owner.content(self._run.run_id)) is not None:
            said, left_out = content.messages(request.messages)
            span.set_attribute(names.INPUT_MESSAGES, said)
            span.set_attributes({names.MESSAGES_LEFT_OUT: left_out} if left_out else {})
            span.set_attribute(names.SYSTEM_INSTRUCTIONS, content.instructions(request.system))
            span.set_attribute(names.TOOL_DEFINITIONS, content.definitions(request.tools))
        self._asked_at = perf_counter()
        return span

    def first_delta(self) -> None:
        # not the runtime's clock, which tests replace
        self._first_s = max(0.0, perf_counter() - self._asked_at)

    def retried(self, kind: str, wait_s: float) -> None:
        self._asked_at, self._first_s = perf_counter() + wait_s, None
        with self._owner.harmless:
            self._span.add_event(names.RETRY, {names.ERROR_TYPE: kind, names.RETRY_WAIT_S: wait_s})

    def responded(self, response: ModelResponse, cost_usd: float | None) -> None:
        with self._owner.harmless:
            reason = response.raw_stop_reason or response.stop_reason.value
            told: Attributes = {
                names.FINISH_REASONS: (sendable(reason),),
                names.STOP_REASON: response.stop_reason.value,
                **_used(response.usage, cost_usd),
            }
            if response.id:
                told[names.RESPONSE_ID] = sendable(response.id)
            if response.model:
                told[names.RESPONSE_MODEL] = self._measured[names.RESPONSE_MODEL] = sendable(
                    response.model
                )
            if response.details is not None:
                told |= _detailed(response.details)
            if self._first_s is not None:
                told[names.FIRST_CHUNK_S] = self._first_s
                self._owner.metrics.first_chunk(self._first_s, self._measured)
            self._owner.metrics.used(response.usage, self._measured)
            if (
                self._span.is_recording()
                and (content := self._owner.content(self._run.run_id)) is not None
            ):
                told[names.OUTPUT_MESSAGES] = content.answer(response)
            self._span.set_attributes(told)


class ToolCallSpan(_Open):
    def __init__(
        self, owner: OtelTracer, run: TracedRun, call: ToolCall, kind: Mapping[str, str]
    ) -> None:
        super().__init__(owner, run, names.EXECUTE_TOOL)
        self._call, self._kind = call, kind

    def _begin(self) -> Span:
        name = sendable(self._call.name)
        self._measured[names.TOOL_NAME] = name
        told = {
            names.TOOL_KIND[word]: value
            for word, value in self._kind.items()
            if word in names.TOOL_KIND
        }
        kind = names.EXTENSION if names.MCP_SERVER in told else names.FUNCTION
        attributes: Attributes = {
            names.TOOL_TYPE: kind,
            names.TOOL_NAME: name,
            names.TOOL_CALL_ID: sendable(self._call.id),
            **told,
        }
        span = self._start(f"{names.EXECUTE_TOOL} {name}", SpanKind.INTERNAL, attributes)
        if span.is_recording() and (content := self._owner.content(self._run.run_id)) is not None:
            span.set_attribute(names.TOOL_ARGUMENTS, content.text(self._call.arguments_json))
        return span

    @override
    def _broke(self, error: BaseException) -> None:
        if isinstance(error, ToolDeferred):
            self._span.set_attribute(names.TOOL_DEFERRED, True)
        else:
            super()._broke(error)

    def finished(self, result: ToolResult) -> None:
        with self._owner.harmless:
            if result.unknown or result.is_error:
                self._failed(names.TOOL_UNKNOWN if result.unknown else names.TOOL_ERROR, "")
            if (
                self._span.is_recording()
                and (content := self._owner.content(self._run.run_id)) is not None
            ):
                self._span.set_attribute(names.TOOL_RESULT, content.text(result.text))


def _total(total: RunTotals) -> Attributes:
    counted: Attributes = {
        names.TOTAL_RUNS: total.runs,
        names.TOTAL_TURNS: total.turns,
        names.TOTAL_TOOL_CALLS: total.tool_calls,
        names.TOTAL_INPUT_TOKENS: total.usage.total_input_tokens,
        names.TOTAL_OUTPUT_TOKENS: total.usage.output_tokens,
    }
    return counted if total.cost_usd is None else {**counted, names.TOTAL_COST_USD: total.cost_usd}


def _used(usage: Usage, cost_usd: float | None) -> Attributes:
    used: Attributes = {
        names.INPUT_TOKENS: usage.total_input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHE_READ_TOKENS: usage.cache_read_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
    }
    return used if cost_usd is None else {**used, names.COST_USD: cost_usd}


def _detailed(details: ResponseDetails) -> Attributes:
    told: Attributes = {
        names.RATE_LIMITS[limit.name]: limit.remaining
        for limit in details.rate_limits
        if limit.name in names.RATE_LIMITS
    }
    if details.request_id is not None:
        told[names.REQUEST_ID] = sendable(details.request_id)
    if details.service_tier is not None:
        told[names.SERVICE_TIER] = details.service_tier
    if details.cache_miss is not None:
        told[names.CACHE_MISS] = sendable(details.cache_miss.reason)
    return told

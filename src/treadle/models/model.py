"""The model contract: a model turns a request into deltas, and a fold turns deltas into a response.

Models are stateless: the caller owns the history. Entry points: `Model`, `Fold`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Container, Sequence
from typing import Protocol

import msgspec
from typing_extensions import override

from treadle._internal.json_text import encode_json
from treadle.errors import AgentError
from treadle.messages.message import (
    JsonText,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
)
from treadle.messages.response_details import ResponseDetails
from treadle.models.deltas import ArgumentsDelta as ArgumentsDelta
from treadle.models.deltas import Delta as Delta
from treadle.models.deltas import ModelNotice as ModelNotice
from treadle.models.deltas import PartEnd as PartEnd
from treadle.models.deltas import ReasoningDelta as ReasoningDelta
from treadle.models.deltas import ReasoningStart as ReasoningStart
from treadle.models.deltas import ResponseEnd as ResponseEnd
from treadle.models.deltas import Restart as Restart
from treadle.models.deltas import Switch as Switch
from treadle.models.deltas import TextDelta as TextDelta
from treadle.models.deltas import TextStart as TextStart
from treadle.models.deltas import ToolCallStart as ToolCallStart
from treadle.models.deltas import WholePart as WholePart
from treadle.types import Settings, StopReason, SystemBlock, Usage, Value, new_id


class ToolDefinition(Value, frozen=True, kw_only=True):
    """A tool as the model sees it.

    Attributes:
        name: Name by which the model calls it.
        description: What it does, for the model.
        parameters: JSON Schema of an object.
        native: Name of the provider's equivalent tool, on which its models are trained; None if
            there is none.
        deferred: True if the model sees it only after a search, which its provider does.
    """

    name: str
    description: str
    parameters: dict[str, object]
    native: str | None = None
    deferred: bool = False


class ModelRequest(Value, frozen=True, kw_only=True):
    """Complete input of a model. Equal requests produce identical bytes on the wire.

    Attributes:
        messages: Messages of the conversation. A `History` caches their encoding; any other
            sequence is encoded for each request.
        tools: Definitions of the tools that the model may call.
        system: Blocks of the system prompt, in order.
        settings: Resolved settings, with `max_tokens` set.
        model: Name of the model in a fallback chain that responded last; None for the first.
    """

    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...] = ()
    system: tuple[SystemBlock, ...] = ()
    settings: Settings = Settings()
    model: str | None = None

    @override
    def to_json(self) -> bytes:
        """Encode the request as JSON."""
        return encode_json(msgspec.structs.replace(self, messages=list(self.messages)))


# ---------------------------------------------------------------- deltas


class ModelResponse(Value, frozen=True, kw_only=True):
    """A complete response: content, usage and stop reason.

    Attributes:
        parts: Content of the response, in order.
        usage: Tokens of this response.
        stop_reason: Why the response ended.
        raw_stop_reason: Stop reason in the provider's terms.
        id: The provider's id of the response.
        model: The provider's name of the model that responded.
        provider_data: JSON object that the provider needs with the run's next request, or None.
        context_tokens: Size of the conversation after the response, in tokens, if `usage` sums
            several passes of hosted tools. None: the total of `usage`; 0: unknown.
        results_only: True if the next request may add only tool results, because a program that
            the provider runs waits for them.
        withdraws: True for a refusal after which the provider rejects later requests, until the
            exchange is removed from the conversation.
        details: Response metadata from the provider, such as rate limits and the service tier.
    """

    parts: tuple[Part, ...]
    usage: Usage
    stop_reason: StopReason
    raw_stop_reason: str = ""
    id: str = ""
    model: str = ""
    provider_data: JsonText | None = None
    context_tokens: int | None = None
    results_only: bool = False
    withdraws: bool = False
    details: ResponseDetails | None = None

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(p.text for p in self.parts if isinstance(p, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Tool calls, in order."""
        return tuple([p for p in self.parts if isinstance(p, ToolCall)])


class Model(Protocol):
    """Language model: an object that turns a request into a response."""

    @property
    def name(self) -> str:
        """Name in the form `provider:id`."""
        ...

    @property
    def refuses(self) -> frozenset[str]:
        """Names of the `Settings` fields that this model rejects; `images` if it rejects images."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield deltas in order, then exactly one ResponseEnd.

        Raises AgentError and never retries. Closing the generator, or cancellation at any await,
        closes the connection.
        """
        ...


# ---------------------------------------------------------------- the fold


class Fold:
    """Fold of deltas into a response. The result does not depend on how the text is split."""

    __slots__ = ("_kind", "_own", "_parts", "_pieces", "_taken", "call", "end")

    def __init__(self, taken: Container[str] = ()) -> None:
        """Create a fold. `taken`: ids of earlier calls, not copied. A call without an id, or with
        an earlier one, gets a new id.
        """
        self._parts: list[Part] = []
        self._kind: type[TextPart | ReasoningPart | ToolCall] | None = None
        self._pieces: list[str] = []
        self._taken = taken
        self._own: set[str] = set()
        self.call: ToolCallStart | None = None
        """The open tool call."""
        self.end: ResponseEnd | None = None

    @property
    def begun(self) -> bool:
        """True after the first content of the response."""
        return bool(self._parts or self._pieces or self._kind or self.end)

    def add(self, delta: Delta) -> None:
        """Add a delta. Raises AgentError(invalid) for any other object."""
        if type(delta) is TextDelta and self._kind is TextPart:
            self._pieces.append(delta.text)
            return
        match delta:
            case TextDelta() | ReasoningDelta():
                kind = TextPart if type(delta) is TextDelta else ReasoningPart
                if self._kind is not kind:
                    self._open(kind)
                self._pieces.append(delta.text)
            case ArgumentsDelta():
                if self._kind is ToolCall:
                    self._pieces.append(delta.text)
            case PartEnd():
                self._close(delta)
            case ToolCallStart():
                self._open(ToolCall)
                self.call = self._with_own_id(delta)
            case ResponseEnd():
                self._close()
                self.end = delta
            case TextStart():
                self._open(TextPart)
            case ReasoningStart():
                self._open(ReasoningPart)
            case WholePart():
                self._close()
                self._parts.append(delta.part)
            case Restart() | Switch():
                self._close()
                self._own.clear()
                self._parts.clear()
                self.end = None
            case ModelNotice():
                pass  # not part of the response
            case _:
                raise AgentError(
                    "invalid",
                    (
                        f"the model yielded {type(delta).__name__}, which is not a delta: yield "
                        "TextDelta(text), and a ResponseEnd last"
                    ),
                )

    def _with_own_id(self, start: ToolCallStart) -> ToolCallStart:
        own = asked = start.id or new_id("call")
        again = 1
        while own in self._taken or own in self._own:
            again += 1
            own = f"{asked}_{again}"
        self._own.add(own)
        return start if own == start.id else ToolCallStart(id=own, name=start.name)

    def _open(self, kind: type[TextPart | ReasoningPart | ToolCall]) -> None:
        if self._kind is not None:
            self._close()
        self._kind = kind

    def _close(self, end: PartEnd = PartEnd()) -> None:  # noqa: B008  a frozen value
        if (kind := self._kind) is None:
            return
        text = "".join(self._pieces)
        if kind is ToolCall and self.call is not None:
            part = ToolCall(
                id=self.call.id,
                name=self.call.name,
                arguments_json=text or "{}",
                provider=end.provider,
                provider_data=end.provider_data,
            )
            self._parts.append(part)
        elif kind is TextPart and text:
            self._parts.append(
                TextPart(text=text, provider=end.provider, provider_data=end.provider_data)
            )
        elif kind is ReasoningPart and (text or end.provider_data):
            self._parts.append(
                ReasoningPart(text=text, provider=end.provider, provider_data=end.provider_data)
            )
        self._kind, self.call = None, None
        self._pieces.clear()

    @property
    def text(self) -> str:
        """Text of the response so far."""
        said = "".join(part.text for part in self._parts if isinstance(part, TextPart))
        return said + "".join(self._pieces) if self._kind is TextPart else said

    def partial(self) -> tuple[Part, ...]:
        """Return the text and reasoning of an interrupted response.

        Drops tool calls, which may be incomplete, and provider data, which may refer to parts that
        did not arrive.
        """
        if self._kind is ToolCall:
            self._pieces.clear()
        self._close()
        kept = (p for p in self._parts if isinstance(p, (TextPart, ReasoningPart)))
        return tuple(
            TextPart(text=p.text) if isinstance(p, TextPart) else ReasoningPart(text=p.text)
            for p in kept
            if p.text
        )

    def response(self) -> ModelResponse:
        """Return the response. Raises AgentError(network) if no ResponseEnd was added."""
        if (end := self.end) is None:
            raise AgentError("network", "the model's stream ended before the response was complete")
        return ModelResponse(
            parts=tuple(self._parts),
            usage=end.usage,
            stop_reason=end.stop_reason,
            raw_stop_reason=end.raw_stop_reason,
            id=end.id,
            model=end.model,
            provider_data=end.provider_data,
            context_tokens=end.context_tokens,
            results_only=end.results_only,
            withdraws=end.withdraws,
            details=end.details,
        )


async def complete(model: Model, request: ModelRequest) -> ModelResponse:
    """Send one request and return the response, without retries or tool execution."""
    return await fold_stream(model.stream(request))


async def fold_stream(deltas: AsyncIterable[Delta]) -> ModelResponse:
    fold = Fold()
    async for delta in deltas:
        fold.add(delta)
    return fold.response()

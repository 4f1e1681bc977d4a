"""What a model is: a request becomes typed deltas, and a fold of the deltas is the response.

A model keeps nothing between calls: the caller owns the history and the loop. Wires live in
providers/, retries in retry.py. Entry: `Model`, `Fold`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Container, Sequence
from typing import Protocol, TypeAlias

import msgspec
from typing_extensions import override

from treadle._internal.json_text import encode_json
from treadle.errors import AgentError
from treadle.messages.message import (
    JsonText,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
)
from treadle.messages.response_details import ResponseDetails
from treadle.types import Settings, StopReason, SystemBlock, Usage, Value, new_id


class ToolDefinition(Value, frozen=True, kw_only=True):
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: dict[str, object]
    """A JSON Schema of an object."""
    native: str | None = None
    """Name of the built-in tool of a provider that is the same tool: models are trained on that
    form. None: there is none.
    """


class ModelRequest(Value, frozen=True, kw_only=True):
    """All that a model is asked with.

    Two requests over the same values are the same bytes on the wire.
    """

    messages: Sequence[Message]
    """A `History` where the caller wants its encoding kept; any sequence will do."""
    tools: tuple[ToolDefinition, ...] = ()
    system: tuple[SystemBlock, ...] = ()
    settings: Settings = Settings()
    """Resolved: `max_tokens` is set."""
    model: str | None = None
    """Where the model that is asked is several, the name of the one that answered last; None: the
    first.
    """

    @override
    def to_json(self) -> bytes:
        return encode_json(msgspec.structs.replace(self, messages=list(self.messages)))


# ---------------------------------------------------------------- deltas


class TextStart(msgspec.Struct, frozen=True, tag_field="delta", tag="text_start"):
    """Begins a text part; a TextDelta outside one begins it too."""


class TextDelta(msgspec.Struct, frozen=True, tag_field="delta", tag="text", gc=False):
    text: str


class ReasoningStart(msgspec.Struct, frozen=True, tag_field="delta", tag="reasoning_start"):
    """Begins a reasoning part; a ReasoningDelta outside one begins it too."""


class ReasoningDelta(msgspec.Struct, frozen=True, tag_field="delta", tag="reasoning", gc=False):
    text: str


class ToolCallStart(msgspec.Struct, frozen=True, tag_field="delta", tag="tool_call", gc=False):
    id: str
    name: str


class ArgumentsDelta(msgspec.Struct, frozen=True, tag_field="delta", tag="arguments", gc=False):
    """A piece of the JSON text of the open tool call's arguments; no pieces at all mean `{}`."""

    text: str


class PartEnd(msgspec.Struct, frozen=True, tag_field="delta", tag="part_end", gc=False):
    """Closes the open part.

    The next start closes it too; only here can it be given its opaque data.
    """

    provider: str | None = None
    provider_data: JsonText | None = None


class WholePart(msgspec.Struct, frozen=True, tag_field="delta", tag="part"):
    """A part that comes in one piece."""

    part: ProviderPart


class Restart(msgspec.Struct, frozen=True, tag_field="delta", tag="restart", gc=False):
    """All deltas before it are void: the provider began the response anew inside the same stream."""  # noqa: E501


class Switch(msgspec.Struct, frozen=True, kw_only=True, tag_field="delta", tag="switch"):
    """All deltas before it are void: another model answers from here on, since the one before
    failed or refused.
    """

    model: str
    """Its name."""
    before: str
    """The name of the one before."""
    kind: str
    """An ErrorKind, or `refusal`."""
    why: str
    status: int | None = None
    request_id: str | None = None
    usage: Usage | None = None
    """What the one before said it had used."""


class ModelNotice(msgspec.Struct, frozen=True, tag_field="delta", tag="notice", gc=False):
    """A word for the person, not part of the response: becomes a `warning` event."""

    text: str


class ResponseEnd(msgspec.Struct, frozen=True, tag_field="delta", tag="end"):
    """The last delta of every whole response."""

    stop_reason: StopReason
    usage: Usage
    raw_stop_reason: str = ""
    """In the provider's own words."""
    id: str = ""
    model: str = ""
    provider_data: JsonText | None = None
    """An object that the provider wants back with the next request of this run (a container's id).
    """
    context_tokens: int | None = None
    """Tokens of the conversation after it, where `usage` sums several passes of a server's own
    tools; None: as `usage` says; 0: not known.
    """
    results_only: bool = False
    """True if nothing but the results of its calls may follow: a program that the provider runs
    waits for them.
    """
    withdraws: bool = False
    """True for a refusal after which the provider refuses all that follows: the exchange has to
    leave the conversation.
    """
    details: ResponseDetails | None = None


Delta: TypeAlias = (
    TextStart
    | TextDelta
    | ReasoningStart
    | ReasoningDelta
    | ToolCallStart
    | ArgumentsDelta
    | PartEnd
    | WholePart
    | Restart
    | Switch
    | ModelNotice
    | ResponseEnd
)


class ModelResponse(Value, frozen=True, kw_only=True):
    """One whole answer of a model: what it said, what it used, why it ended."""

    parts: tuple[Part, ...]
    usage: Usage
    stop_reason: StopReason
    raw_stop_reason: str = ""
    id: str = ""
    model: str = ""
    provider_data: JsonText | None = None
    context_tokens: int | None = None
    """Tokens of the conversation after it, where `usage` sums several passes of a server's own
    tools; None: as `usage` says; 0: not known.
    """
    results_only: bool = False
    """True if nothing but the results of its calls may follow: a program that the provider runs
    waits for them.
    """
    withdraws: bool = False
    """True for a refusal after which the provider refuses all that follows: the exchange has to
    leave the conversation.
    """
    details: ResponseDetails | None = None

    @property
    def text(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple([p for p in self.parts if isinstance(p, ToolCall)])


class Model(Protocol):
    """Turns a request into a response."""

    @property
    def name(self) -> str:
        """`provider:id`."""
        ...

    @property
    def refuses(self) -> frozenset[str]:
        """Names of `Settings` fields that this model does not take; and `images`, where it takes
        none.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Deltas in order, then exactly one ResponseEnd.

        Raises AgentError; never retries. Closing the generator, or cancelling at any await, closes
        its connection.
        """
        ...


# ---------------------------------------------------------------- the fold


class Fold:
    """Deltas -> response. However the text is cut into deltas, the response is the same."""

    __slots__ = ("_kind", "_own", "_parts", "_pieces", "_taken", "call", "end")

    def __init__(self, taken: Container[str] = ()) -> None:
        """`taken`: ids of earlier calls, not copied; a call that repeats one, or has none, is given
        an id of its own.
        """
        self._parts: list[Part] = []
        self._kind: type[TextPart | ReasoningPart | ToolCall] | None = None
        self._pieces: list[str] = []
        self._taken = taken
        self._own: set[str] = set()
        self.call: ToolCallStart | None = None
        """The tool call that is open."""
        self.end: ResponseEnd | None = None

    @property
    def begun(self) -> bool:
        """True once anything of the response has come."""
        return bool(self._parts or self._pieces or self._kind or self.end)

    def add(self, delta: Delta) -> None:
        """Raises AgentError(invalid) for what is no delta."""
        if type(delta) is TextDelta:
            if self._kind is not TextPart:
                self._open(TextPart)
            self._pieces.append(delta.text)
        elif type(delta) is ArgumentsDelta:
            if self._kind is ToolCall:
                self._pieces.append(delta.text)
        elif type(delta) is ReasoningDelta:
            if self._kind is not ReasoningPart:
                self._open(ReasoningPart)
            self._pieces.append(delta.text)
        else:
            self._add_rare(delta)

    def _add_rare(self, delta: Delta) -> None:
        match delta:
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
                        f"the model yielded {type(delta).__name__}, which is no delta: yield "
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
        """What was said so far."""
        said = "".join(part.text for part in self._parts if isinstance(part, TextPart))
        return said + "".join(self._pieces) if self._kind is TextPart else said

    def partial(self) -> tuple[Part, ...]:
        """What can be kept of a response that was cut: its text and its reasoning, without the
        provider's own data.

        A call was not whole, and a block of the provider (or a citation of one) may want another
        that never came.
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
        """Raises AgentError(network) where the stream ended before its ResponseEnd: a cut that
        nobody reported.
        """
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
    """One request, collected. No retries, no tools: for those, run an agent."""
    return await fold_stream(model.stream(request))


async def fold_stream(deltas: AsyncIterable[Delta]) -> ModelResponse:
    fold = Fold()
    async for delta in deltas:
        fold.add(delta)
    return fold.response()

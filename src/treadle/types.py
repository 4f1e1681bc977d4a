"""The plain values everything speaks in: usage, ends, settings, limits.

Immutable. Messages and their parts stand in message.py. Entry: `Value`.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, cast, get_args

import msgspec

from treadle._internal.json_text import decode_json, encode_json
from treadle.errors import AgentError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


Time: TypeAlias = Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
"""Aware, in UTC."""


def new_id(prefix: str) -> str:
    """`prefix_` and 26 hex digits that sort by time: 48 bits of milliseconds, then 56 random bits."""  # noqa: E501
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{os.urandom(7).hex()}"


def now() -> Time:
    return datetime.now(UTC)


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of every value: frozen, keyword-only, usable as a field of a pydantic model.

    Values are trees that were whole when they were made, so they hold no cycles, and the cyclic
    collector need not look at them.
    """

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Raises AgentError(invalid) where the text is no such value."""
        try:
            return decode_json(data.encode() if isinstance(data, str) else data, cls)
        except ValueError as e:
            raise AgentError("invalid", f"this is no {cls.__name__}: {e}") from e

    def to_json(self) -> bytes:
        return encode_json(self)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        import json  # noqa: PLC0415  only where pydantic asks

        from pydantic_core import core_schema  # noqa: PLC0415  it is imported already when it asks

        def validate(value: object) -> Self:
            if isinstance(value, cls):
                return value
            try:
                return cls.from_json(encode_json(value))
            except AgentError as e:
                raise ValueError(e.message) from e
            except TypeError as e:  # something that JSON has no word for
                raise ValueError(f"this is no {cls.__name__}: {e}") from e

        serialize = core_schema.plain_serializer_function_ser_schema(
            lambda v: json.loads(v.to_json())
        )
        return core_schema.no_info_plain_validator_function(validate, serialization=serialize)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """In one piece: where pydantic puts it, names of other schemas would lead nowhere."""
        (own,), named = msgspec.json.schema_components(
            [cls], schema_hook=any_json, ref_template="{name}"
        )
        return _in_one_piece(own, named)


def any_json(kind: type[Any]) -> dict[str, Any]:
    """The JSON Schema of `object`."""
    return {"description": "Any JSON value."}


def _in_one_piece(schema: Any, named: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_in_one_piece(inner, named) for inner in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Any]", schema)
    if "$ref" in fields:
        return _in_one_piece(named[fields["$ref"]], named)
    return {
        name: _in_one_piece(inner, named)
        for name, inner in fields.items()
        if name != "discriminator"
    }


class Usage(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Tokens of one response, or a sum of them."""

    input_tokens: int = 0
    """Uncached input only."""
    output_tokens: int = 0
    """Reasoning included."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """Part of `cache_write_tokens`: kept for an hour or longer, and not for five minutes."""
    web_searches: int = 0
    """Searches that the provider ran, and bills by the piece."""

    @property
    def total_input_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        """What `Limits.tokens` counts: all input plus output."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
            + self.output_tokens
        )

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cache_write_1h_tokens=self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            web_searches=self.web_searches + other.web_searches,
        )


class Spending(Value, frozen=True, kw_only=True):
    """What one model's responses took on one day, within one run."""

    model: str
    """As it was asked for, like "anthropic:claude-opus-5-5"."""
    day: str
    """In UTC, like "2026-11-20"."""
    responses: int = 0
    """Whole ones; those that a run's end cut are not counted, since what they took is not known."""
    unpriced: int = 0
    """Uses whose price was not known; `cost_usd` leaves them out."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """None: no price was known."""


class Reserved(Value, frozen=True, kw_only=True):
    """What one attempt may take at most, kept for it on its run and on all above."""

    input_tokens: int
    """Input tokens reported by responses; the rest is estimated."""
    output_tokens: int
    input_usd: float | None = None
    """None where no limit asks for money."""
    output_usd: float | None = None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def usd(*amounts: float | None) -> float | None:
    """Their sum, without those that are not known; None where none is.

    To a millionth of a millionth of a dollar, so that sums stay readable.
    """
    known = [amount for amount in amounts if amount is not None]
    return round(sum(known), 12) if known else None


class StopReason(StrEnum):
    """Why one response ended; why a run ended is its `Outcome`."""

    COMPLETE = "complete"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    PAUSE = "pause"
    CONTEXT_OVERFLOW = "context_overflow"


class Outcome(StrEnum):
    """Why a run ended."""

    COMPLETED = "completed"
    TURN_LIMIT = "turn_limit"
    CALL_LIMIT = "call_limit"
    TOKEN_LIMIT = "token_limit"
    COST_LIMIT = "cost_limit"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"
    """The model's own answer was cut by its max_tokens (`token_limit`: the run's budget is spent).
    """
    LOOPING = "looping"
    REFUSED = "refused"
    INVALID_OUTPUT = "invalid_output"
    CONTEXT_OVERFLOW = "context_overflow"
    APPROVAL_NEEDED = "approval_needed"
    CANCELLED = "cancelled"
    ERROR = "error"


Effect: TypeAlias = Literal["pure", "idempotent", "once"]
"""pure: may be repeated freely; idempotent: safe to repeat with the same key; once: must never
silently happen twice.
"""

Mode: TypeAlias = Literal["ask", "accept-edits", "plan", "full"]


OnAsk: TypeAlias = Literal["deny", "wait"]
"""What a call meets that needs a person where none is: a no, or the run waits."""

OnUnknown: TypeAlias = Literal["tell", "wait", "fail"]
"""Handling of a once-call with an unknown outcome: report it to the model, wait for a person, or
fail the run.
"""


# ---------------------------------------------------------------- settings and limits

Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
HostedTool: TypeAlias = Literal["web_search", "web_fetch", "code_execution"]
"""A tool that the provider runs on its own servers."""
Thinking: TypeAlias = bool | int | Literal["adaptive", "between_tools"]
"""False: off; True or "adaptive": the model decides; an int: a budget in tokens; "between_tools":
only there.
"""
CacheLife: TypeAlias = Literal["5m", "1h"]
ServiceTier: TypeAlias = Literal["standard", "flex", "fast"]
"""flex: slower and cheaper; fast: faster and dearer; which models have it is the provider's."""
SLOTS_MAX = 10_000
"""Runs that one worker drives at once."""
DEFAULT_MAX_TOKENS = 8192
"""Of one response, for models whose limit is not known."""


class Settings(Value, frozen=True, kw_only=True):
    """How a model is asked.

    None means: what the next layer says (call, agent, configuration, then the default).
    """

    max_tokens: int | None = None
    """Of one response.

    If unset: 32,000 where the model gives as many, 8,192 if its limit is not known; raised once
    when a response is cut.
    """
    temperature: float | None = None
    """From 0 to 2."""
    stop: tuple[str, ...] | None = None
    thinking: Thinking | None = None
    effort: Effort | None = None
    show_thinking: bool | None = None
    """Ask for a readable summary of the thinking. Default: on."""
    compact_at_tokens: int | None = None
    """Tokens of the conversation above which room is made, also where the model takes more.

    If unset: 200,000 in windows of 800,000 and more.
    """
    native_compaction: bool | None = None
    """Let the provider compact conversations where its API can; on if unset."""
    tool_choice: str | None = None
    """"auto", "any", "none", or a tool's name."""
    strict_tools: bool | None = None
    """Hold calls to their tools' schemas where the provider can.

    None: only where that costs nothing (OpenAI's Responses API).
    """
    hosted_tools: tuple[HostedTool, ...] | None = None
    """Tools that the provider may run on its own servers, without asking anyone here."""
    output_schema: dict[str, object] | None = None
    """A JSON Schema."""
    cache: bool | CacheLife | None = None
    """Mark prompt-cache breakpoints: for five minutes if unset, "1h" for an hour."""
    service_tier: ServiceTier | None = None
    """If unset: as the provider's account is set up."""
    extra: dict[str, object] | None = None
    """Merged into the provider's request body, over what we would send."""

    def __post_init__(self) -> None:
        for name, (is_right, expected) in _SETTINGS.items():
            value: object = getattr(self, name)
            if value is not None and not is_right(value):
                raise AgentError("invalid", f"Settings({name}={value!r}): give {expected}")

    def over(self, lower: Settings) -> Settings:
        """These, with what they leave open taken from `lower`."""
        if lower == NOTHING_SET:
            return self
        mine = {f: v for f in self.__struct_fields__ if (v := getattr(self, f)) is not None}
        return msgspec.structs.replace(lower, **mine) if mine else lower

    @property
    def given(self) -> frozenset[str]:
        return frozenset(f for f in self.__struct_fields__ if getattr(self, f) is not None)


class Limits(Value, frozen=True, kw_only=True):
    """Where a run must stop. None is no limit. Each is a whole number of at least 1, or a positive
    number.

    All but `seconds` and `repeats` count what the runs that it starts take too: each spends from
    the limits of all above it.
    """

    turns: int | None = None
    """At most this many model responses; the last one is asked for without tools (not where
    turns=1).
    """
    tool_calls: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    """Input (cache reads and writes included) plus output."""
    cost_usd: float | None = None
    """US dollars; needs a model whose price is known."""
    repeats: int | None = None
    """Equal calls with equal results, nothing changed between them, after which a run ends as
    `looping`; 10 if unset. The model is warned at half.
    """

    def __post_init__(self) -> None:
        for name in ("turns", "tool_calls", "tokens", "repeats"):
            value: object = getattr(self, name)
            if value is not None and not _is_count(value):
                raise AgentError(
                    "invalid",
                    (
                        f"Limits({name}={value!r}): give a whole number of at least 1, or None for "
                        "no limit"
                    ),
                )
        for name in ("seconds", "cost_usd"):
            value = getattr(self, name)
            if value is not None and not (
                _is_count(value) or (isinstance(value, float) and 0 < value < math.inf)
            ):
                raise AgentError(
                    "invalid",
                    f"Limits({name}={value!r}): give a number greater than 0, or None for no limit",
                )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_temperature(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 2


def _is_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(text, str) for text in cast("tuple[object, ...]", value)
    )


def _are_hosted(value: object) -> bool:
    return isinstance(value, tuple) and all(
        name in _HOSTED for name in cast("tuple[object, ...]", value)
    )


_EFFORTS = get_args(Effort)
_HOSTED = get_args(HostedTool)
_SETTINGS: dict[str, tuple[Callable[[object], bool], str]] = {
    "max_tokens": (_is_count, "a whole number of at least 1"),
    "temperature": (
        is_temperature,
        "a number from 0 to 2, like 0.7, or leave it out for the model's own default",
    ),
    "stop": (_is_texts, "a tuple of texts, like stop=('END',)"),
    "thinking": (
        lambda value: isinstance(value, int) or value in ("adaptive", "between_tools"),
        "True, False, 'adaptive', 'between_tools', or a number of tokens",
    ),
    "effort": (lambda value: value in _EFFORTS, f"one of {', '.join(map(repr, _EFFORTS))}"),
    "show_thinking": (lambda value: isinstance(value, bool), "True or False"),
    "compact_at_tokens": (_is_count, "a whole number of at least 1"),
    "native_compaction": (lambda value: isinstance(value, bool), "True or False"),
    "tool_choice": (
        lambda value: isinstance(value, str),
        "'auto', 'any', 'none', or a tool's name",
    ),
    "strict_tools": (lambda value: isinstance(value, bool), "True or False"),
    "hosted_tools": (_are_hosted, f"a tuple of {', '.join(map(repr, _HOSTED))}"),
    "output_schema": (
        lambda value: isinstance(value, dict),
        "a JSON Schema as a dict, like {'type': 'object', 'properties': {…}}",
    ),
    "cache": (
        lambda value: isinstance(value, bool) or value in get_args(CacheLife),
        "True, False, '5m' or '1h'",
    ),
    "service_tier": (lambda value: value in get_args(ServiceTier), "'standard', 'flex' or 'fast'"),
    "extra": (
        lambda value: isinstance(value, dict),
        "a dict of what is added to the request's body",
    ),
}
"""The values that each field accepts besides None, and how a message states them."""

NOTHING_SET = Settings()
"""What leaves everything open."""
NO_LIMITS = Limits()


class SystemBlock(Value, frozen=True, kw_only=True):
    text: str
    cache: bool = False
    """End a cached prefix here."""
    passing: bool = False
    """It tells of this day and this place.

    A tape does not compare it; a session keeps it as it began, and tells the model what has changed
    since.
    """

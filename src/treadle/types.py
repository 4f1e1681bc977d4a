"""Plain values that every package uses: usage, outcomes, settings, limits. Immutable.

Entry points: `Value`, `Usage`, `Outcome`, `Settings`, `Limits`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, cast, get_args

import msgspec

from treadle._internal.hosted_tools import LIKE, are_hosted
from treadle._internal.hosted_tools import CodeExecution as CodeExecution
from treadle._internal.hosted_tools import FileSearch as FileSearch
from treadle._internal.hosted_tools import HostedTool as HostedTool
from treadle._internal.hosted_tools import WebSearch as WebSearch
from treadle._internal.ids import new_id as new_id
from treadle._internal.json_text import decode_json, encode_json
from treadle._internal.other_names import FieldHints
from treadle._internal.value_schema import core_schema_of, json_schema_of
from treadle.errors import AgentError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

Time: TypeAlias = Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
"""Aware time in UTC."""


now: Callable[[], Time] = partial(datetime.now, UTC)


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of every value: frozen, keyword-only, usable as a field of a pydantic model.

    Values are trees that are complete when created, so they contain no cycles, and the cyclic
    garbage collector skips them.
    """

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Decode a value. Raises AgentError(invalid) if the text is not one."""
        try:
            return decode_json(data.encode() if isinstance(data, str) else data, cls)
        except ValueError as e:
            raise AgentError("invalid", f"this is not a valid {cls.__name__}: {e}") from e

    def to_json(self) -> bytes:
        return encode_json(self)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def validate(value: object) -> Self:
            if isinstance(value, cls):
                return value
            try:
                return cls.from_json(encode_json(value))
            except AgentError as e:
                raise ValueError(e.message) from e
            except TypeError as e:  # a value that JSON cannot represent
                raise ValueError(f"this is not a valid {cls.__name__}: {e}") from e

        return core_schema_of(validate)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return json_schema_of(cls)


class Usage(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Tokens of one response, or a sum of them.

    Attributes:
        input_tokens: Input that is neither read from nor written to the cache.
        output_tokens: Output, reasoning included.
        cache_read_tokens: Input read from the provider's prompt cache.
        cache_write_tokens: Input written to the provider's prompt cache.
        reasoning_tokens: Part of `output_tokens` that went into reasoning.
        cache_write_1h_tokens: Part of `cache_write_tokens` that is kept for an hour or longer
            instead of five minutes.
        web_searches: Searches that the provider ran; each has a price.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_1h_tokens: int = 0
    web_searches: int = 0

    @property
    def total_input_tokens(self) -> int:
        """All input: uncached, read from and written to the cache."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        """Tokens that `Limits.tokens` counts: all input plus output."""
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


class StopReason(StrEnum):
    """Reason why one response ended. `Outcome` is the reason why a run ended.

    Attributes:
        COMPLETE: The answer is complete.
        TOOL_USE: The model waits for results of tool calls.
        MAX_TOKENS: The limit of output tokens was reached.
        STOP_SEQUENCE: One of `Settings.stop` was reached.
        REFUSAL: The provider or the model declined to continue.
        PAUSE: The provider paused a long turn, which the next request continues.
        CONTEXT_OVERFLOW: The conversation filled the model's context window.
    """

    COMPLETE = "complete"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    PAUSE = "pause"
    CONTEXT_OVERFLOW = "context_overflow"


class Outcome(StrEnum):
    """Reason why a run ended.

    Attributes:
        COMPLETED: The model gave its final answer.
        TURN_LIMIT: `Limits.turns` was reached.
        CALL_LIMIT: `Limits.tool_calls` was reached, and the model did not answer without further
            calls.
        TOKEN_LIMIT: `Limits.tokens` does not allow another request.
        COST_LIMIT: `Limits.cost_usd` does not allow another request.
        TIMEOUT: `Limits.seconds` passed.
        TRUNCATED: The model's own answer was cut by its max_tokens (`token_limit`: the run's budget
            is spent).
        LOOPING: The model repeated the same call without any change in between.
        REFUSED: The provider or the model declined to answer, or a hook stopped the run. Then
            `RunResult.error` holds its reason.
        INVALID_OUTPUT: The answer did not have the requested type, even after retries.
        CONTEXT_OVERFLOW: The conversation is too long for the model, even after compaction.
        APPROVAL_NEEDED: Calls were denied because there was no one to approve them; or the run
            waits for a person or a deferred result, and `resume` continues it.
        CANCELLED: The run was cancelled.
        ERROR: An error ended the run; `RunResult.error` holds it.
    """

    COMPLETED = "completed"
    TURN_LIMIT = "turn_limit"
    CALL_LIMIT = "call_limit"
    TOKEN_LIMIT = "token_limit"
    COST_LIMIT = "cost_limit"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"
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
"""Response to a call that needs approval when no one can approve it: deny it, or let the run
wait.
"""

OnUnknown: TypeAlias = Literal["tell", "wait", "fail"]
"""Handling of a once-call with an unknown outcome: report it to the model, wait for a person, or
fail the run.
"""

Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]

Thinking: TypeAlias = bool | int | Literal["adaptive", "between_tools"]
"""False: off; True or "adaptive": the model decides; an int: a budget in tokens; "between_tools":
only between tool calls.
"""

CacheLife: TypeAlias = Literal["5m", "1h"]

ServiceTier: TypeAlias = Literal["standard", "flex", "fast"]
"""flex: slower and cheaper; fast: faster and more expensive. The provider decides which models
support it.
"""

UnsupportedMedia: TypeAlias = Literal["error", "warn"]

SLOTS_MAX = 10_000
"""Maximum number of runs that one worker drives concurrently."""

DEFAULT_MAX_TOKENS = 8192
"""Output limit of one response, for models whose limit is not known."""


class Settings(Value, frozen=True, kw_only=True, metaclass=FieldHints):
    """Settings of a request to a model.

    None leaves a setting to the next layer: call, agent, configuration, then the default.

    Attributes:
        max_tokens: Maximum output of one response. If unset: 32,000 if the model allows it, 8,192
            if its limit is not known; raised once when a response is cut.
        temperature: Sampling temperature, from 0 to 2.
        stop: Texts at which the model stops.
        thinking: Reasoning before the answer: off, on, or a budget in tokens.
        effort: Effort that the model spends on the answer.
        show_thinking: Request a readable summary of the reasoning; on if unset.
        compact_at_tokens: Length of the conversation in tokens above which it is compacted, even if
            the model accepts more. If unset: 200,000 for windows of at least 800,000.
        native_compaction: Let the provider compact conversations where its API can; on if unset.
        tool_choice: "auto", "any", "none", or the name of a tool.
        strict_tools: Make the provider enforce the schemas of tools. If unset: only where that
            costs nothing (OpenAI's Responses API).
        hosted_tools: Tools that the provider may run on its own servers, without approval: names,
            or values with details, such as `WebSearch(max_uses=3)`.
        output_schema: JSON Schema of the answer.
        cache: Use the provider's prompt cache: "5m" if unset, "1h" for an hour, False for none.
        service_tier: Service tier; if unset, that of the provider's account.
        unsupported_media: Media in a prompt that the model does not accept: "error" if unset;
            "warn" sends a line of text instead, with a warning.
        extra: Fields for the provider's request body. They replace Treadle's own.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] | None = None
    thinking: Thinking | None = None
    effort: Effort | None = None
    show_thinking: bool | None = None
    compact_at_tokens: int | None = None
    native_compaction: bool | None = None
    tool_choice: str | None = None
    strict_tools: bool | None = None
    hosted_tools: tuple[HostedTool | WebSearch | CodeExecution | FileSearch, ...] | None = None
    output_schema: dict[str, object] | None = None
    cache: bool | CacheLife | None = None
    service_tier: ServiceTier | None = None
    unsupported_media: UnsupportedMedia | None = None
    extra: dict[str, object] | None = None

    def __post_init__(self) -> None:
        for name, (is_right, expected) in _SETTINGS.items():
            value: object = getattr(self, name)
            if value is not None and not is_right(value):
                raise AgentError("invalid", f"Settings({name}={value!r}): pass {expected}")

    def over(self, lower: Settings) -> Settings:
        """Merge with `lower`, which fills in the unset fields."""
        if lower == NOTHING_SET:
            return self
        mine = {f: v for f in self.__struct_fields__ if (v := getattr(self, f)) is not None}
        return msgspec.structs.replace(lower, **mine) if mine else lower

    @property
    def given(self) -> frozenset[str]:
        """Names of the fields that are set."""
        return frozenset(f for f in self.__struct_fields__ if getattr(self, f) is not None)


class Limits(Value, frozen=True, kw_only=True, metaclass=FieldHints):
    """Limits of a run. None is no limit.

    Except for `seconds` and `repeats`, a limit includes the runs that the run starts: the usage of
    each counts against the limits of all its ancestors.

    Attributes:
        turns: Maximum number of responses. The last one is requested without tools, unless `turns`
            is 1.
        tool_calls: Maximum number of tool calls. Further calls get an error result.
        seconds: Maximum duration in seconds. The run ends immediately, even in a tool or a
            stream.
        tokens: Maximum of input, cached input included, plus output.
        cost_usd: Maximum cost in US dollars. The price of the model must be known.
        repeats: Number of equal calls with equal results, without a change in between, after which
            a run ends as `looping`; 10 if unset. The model is warned at half of it.
    """

    turns: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    repeats: int | None = None

    def __post_init__(self) -> None:
        for name in ("turns", "tool_calls", "tokens", "repeats"):
            value: object = getattr(self, name)
            if value is not None and not _is_count(value):
                raise AgentError(
                    "invalid",
                    f"Limits({name}={value!r}): pass a whole number of at least 1, or None for "
                    "no limit",
                )
        for name in ("seconds", "cost_usd"):
            value = getattr(self, name)
            is_amount = isinstance(value, float) and 0 < value < math.inf
            if not (value is None or is_amount or _is_count(value)):
                raise AgentError(
                    "invalid",
                    f"Limits({name}={value!r}): pass a number greater than 0, or None for no limit",
                )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_temperature(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 2


def _is_texts(value: object) -> bool:
    texts = cast("tuple[object, ...]", value)
    return isinstance(value, tuple) and all(isinstance(text, str) for text in texts)


_EFFORTS = get_args(Effort)
_SETTINGS: dict[str, tuple[Callable[[object], bool], str]] = {
    "max_tokens": (_is_count, "a whole number of at least 1"),
    "temperature": (
        is_temperature,
        "a number from 0 to 2, like 0.7, or leave it out for the model's own default",
    ),
    "stop": (_is_texts, "a tuple of strings, like stop=('END',)"),
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
    "hosted_tools": (are_hosted, LIKE),
    "output_schema": (
        lambda value: isinstance(value, dict),
        "a JSON Schema as a dict, like {'type': 'object', 'properties': {…}}",
    ),
    "cache": (
        lambda value: isinstance(value, bool) or value in get_args(CacheLife),
        "True, False, '5m' or '1h'",
    ),
    "service_tier": (lambda value: value in get_args(ServiceTier), "'standard', 'flex' or 'fast'"),
    "unsupported_media": (lambda value: value in ("error", "warn"), "'error' or 'warn'"),
    "extra": (lambda value: isinstance(value, dict), "a dict of fields for the request body"),
}
"""Valid values of each field besides None, and how messages describe them."""
NOTHING_SET = Settings()
"""Settings without any value."""
NO_LIMITS = Limits()


class SystemBlock(Value, frozen=True, kw_only=True):
    text: str
    cache: bool = False
    """True to end a cached prefix after this block."""
    passing: bool = False
    """True for facts about the current day and place. Tapes do not compare them; a session keeps
    those of its start, and informs the model of later changes.
    """

"""Known limits and abilities of a model, in the vocabulary of providers, data files and users.

models/providers/known_models.py looks them up; each wire adapter applies them to requests. Entry
points: `Abilities`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from treadle.types import DEFAULT_MAX_TOKENS, Effort, Value

StructuredOutput: TypeAlias = Literal["native", "tool", "prompt"]
"""Method that makes an answer fit a schema: native support of the provider, arguments of a tool
call, or a prompt.
"""

ThinkingType: TypeAlias = Literal["adaptive", "enabled", "disabled", "between_tools"]
"""Forms of thinking: decided by the model, with a token budget, disabled, or only between tool
calls.
"""
USUAL_MAX_TOKENS = 32_000
"""Default output limit for models that allow as much. Thinking counts as output, and a large
`write` needs space.
"""
EFFORTS: tuple[Effort, ...] = get_args(Effort)
"""Effort levels, lowest first."""


class Abilities(Value, frozen=True, kw_only=True):
    """Limits and abilities of a model. None: not known."""

    context_tokens: int | None = None
    """Context window: input and output of one request together."""
    output_tokens: int | None = None
    """Maximum output of one response."""
    images: bool | None = None
    documents: bool | None = None
    """True if the model reads PDF documents, including the images on their pages."""
    tools: bool | None = None
    chat_tools: Literal["without_thinking", "never"] | None = None
    """Restriction on tool calls over Chat Completions; None if there is none."""
    apply_patch: bool | None = None
    """True if the model was trained on patches for the `apply_patch` tool."""
    tool_search: bool | None = None
    """True if the provider searches deferred tools for this model."""
    forced_tools: bool | None = None
    """True if a request can force a tool call."""
    temperature: bool | None = None
    reasoning: bool | None = None
    """True if a request can ask for thinking."""
    thinking_types: tuple[ThinkingType, ...] | None = None
    """Forms of thinking that a request can select."""
    thinks_unasked: bool | None = None
    """True if the model thinks when a request does not mention thinking."""
    minimal_thinking: bool | None = None
    """True if the model accepts a thinking level below `low`."""
    off_up_to: Effort | None = None
    """Highest effort at which thinking can be disabled; None for any, or if unknown."""
    preserved_thinking: bool | None = None
    """True if thinking is rejected after a change to the system prompt, the tools or an earlier
    message.
    """
    earlier_thinking: bool | None = None
    """True if the model reads the thinking of earlier runs."""
    efforts: tuple[Effort, ...] | None = None
    """Supported effort levels; empty if the model accepts none."""
    compaction: bool | None = None
    """True if the provider can compact a conversation with this model on request."""
    hosted_tools: tuple[str, ...] | None = None
    """Claude only: supported versions of hosted tools, by the provider's names, such as
    "web_search_20260209".
    """
    system_messages: bool | None = None
    """True if the model follows system messages within a conversation. A Claude without it gets
    them as user messages.
    """
    structured_output: StructuredOutput | None = None
    structured_with_tools: bool | None = None
    """False: native structured output works only in requests without tools."""

    def over(self, lower: Abilities) -> Abilities:
        """Merge with `lower`, which fills the unknown values."""
        mine = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None
        }
        return msgspec.structs.replace(lower, **mine) if mine else lower

    def refused(self) -> frozenset[str]:
        """Return the names that `Model.refuses` reports: only settings known to be rejected."""
        refused = {
            "temperature": self.temperature,
            "thinking": self.reasoning,
            "images": self.images,
        }
        return frozenset(
            [
                *(name for name, taken in refused.items() if taken is False),
                *(["effort"] if self.efforts == () else []),
            ]
        )

    @property
    def always_thinks(self) -> bool:
        """True if no request can disable thinking, as far as is known."""
        return self.thinking_types is not None and "disabled" not in self.thinking_types

    def output(self, wanted: int | None = None) -> int:
        """Return the output tokens to request: `wanted`, or 32,000 in a large window, capped at the
        model's maximum.
        """
        if wanted is None:
            wanted = DEFAULT_MAX_TOKENS
            if self.output_tokens is not None:
                wanted = (
                    USUAL_MAX_TOKENS
                    if self.context_tokens is None
                    else max(min(USUAL_MAX_TOKENS, self.context_tokens // 4), DEFAULT_MAX_TOKENS)
                )
        return wanted if self.output_tokens is None else min(wanted, self.output_tokens)

    def most_output(self) -> int:
        """Return the output tokens to request after a truncated response."""
        return self.output_tokens or 2 * DEFAULT_MAX_TOKENS

    def effort(self, wanted: Effort) -> Effort:
        """Return the nearest supported effort, preferring less over more."""
        if not self.efforts or wanted in self.efforts:
            return wanted
        place = EFFORTS.index(wanted)
        nearest_first = (*reversed(EFFORTS[:place]), *EFFORTS[place:])
        return next(effort for effort in nearest_first if effort in self.efforts)


UNKNOWN = Abilities()

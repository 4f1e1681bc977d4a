"""What one model takes and can do, as far as anybody knows: the words in which a provider, a data
file or a person says it.

Where that is found out is models/providers/known_models.py's; what follows from it for a request is
each wire's. Entry: `Abilities`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from treadle.types import DEFAULT_MAX_TOKENS, Effort, Value

StructuredOutput: TypeAlias = Literal["native", "tool", "prompt"]
"""How an answer is made to fit a schema: by the provider, as the arguments of a call, or because
the prompt asks for it.
"""

ThinkingType: TypeAlias = Literal["adaptive", "enabled", "disabled", "between_tools"]
"""The model decides; a budget in tokens; none; only between calls."""
USUAL_MAX_TOKENS = 32_000
"""Default for models that give as many: thinking counts as output, and a large `write` needs room.
"""
EFFORTS: tuple[Effort, ...] = get_args(Effort)
"""From the least to the most."""


class Abilities(Value, frozen=True, kw_only=True):
    """None: not known."""

    context_tokens: int | None = None
    """Input and output of one request together."""
    output_tokens: int | None = None
    """The most that one response can have."""
    images: bool | None = None
    tools: bool | None = None
    chat_tools: Literal["without_thinking", "never"] | None = None
    """When it calls tools over Chat Completions, if not always."""
    apply_patch: bool | None = None
    """Whether it is trained on patches of the tool `apply_patch`."""
    forced_tools: bool | None = None
    """Whether a request can say that a tool must be called."""
    temperature: bool | None = None
    reasoning: bool | None = None
    """Whether thinking can be asked for."""
    thinking_types: tuple[ThinkingType, ...] | None = None
    """Forms of thinking that a request can ask for."""
    thinks_unasked: bool | None = None
    """Whether it thinks where a request says nothing of thinking."""
    minimal_thinking: bool | None = None
    """Whether it takes a level of thinking below `low`."""
    off_up_to: Effort | None = None
    """The highest effort at which thinking can be disabled; None: any, or not known."""
    preserved_thinking: bool | None = None
    """Whether thinking is refused once the system prompt, the tools or a message before it has
    changed.
    """
    earlier_thinking: bool | None = None
    """Whether the model reads the thinking of earlier runs."""
    efforts: tuple[Effort, ...] | None = None
    """Empty: it takes none."""
    compaction: bool | None = None
    """Whether the provider compacts a conversation with it on request."""
    hosted_tools: tuple[str, ...] | None = None
    """Claude: the versions of hosted tools that it takes, by the provider's names, like
    "web_search_20260209".
    """
    system_messages: bool | None = None
    """Whether it follows system messages within a conversation; the user says them to a Claude that
    is not known to.
    """
    structured_output: StructuredOutput | None = None
    structured_with_tools: bool | None = None
    """False: natively only where the request has no tools."""

    def over(self, lower: Abilities) -> Abilities:
        """These, with what they leave open taken from `lower`."""
        mine = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None
        }
        return msgspec.structs.replace(lower, **mine) if mine else lower

    def refused(self) -> frozenset[str]:
        """The names that `Model.refuses` gives for it: only what is known not to be taken."""
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
        """Whether thinking is known not to be disabled by any request."""
        return self.thinking_types is not None and "disabled" not in self.thinking_types

    def output(self, wanted: int | None = None) -> int:
        """Output tokens to ask for: what is wanted, else 32,000 in a large window, but no more than
        the model gives.
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
        """Output tokens to ask for once a response was cut."""
        return self.output_tokens or 2 * DEFAULT_MAX_TOKENS

    def effort(self, wanted: Effort) -> Effort:
        """The nearest that it takes: less rather than more."""
        if not self.efforts or wanted in self.efforts:
            return wanted
        place = EFFORTS.index(wanted)
        nearest_first = (*reversed(EFFORTS[:place]), *EFFORTS[place:])
        return next(effort for effort in nearest_first if effort in self.efforts)


UNKNOWN = Abilities()

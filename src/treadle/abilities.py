"""What one model takes and can do, as far as anybody knows: the words in which a provider, a data file or a person says it.

Where that is found out is providers/known_models.py's; what follows from it for a request is each wire's. Entry: `Abilities`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from treadle.types import Effort, Value

StructuredOutput: TypeAlias = Literal["native", "tool", "prompt"]
"""How an answer is made to fit a schema: by the provider, as the arguments of a call, or because the prompt asks for it."""

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
    forced_tools: bool | None = None
    """Whether a request can say that a tool must be called."""
    temperature: bool | None = None
    reasoning: bool | None = None
    """Whether thinking can be asked for."""
    efforts: tuple[Effort, ...] | None = None
    """Empty: it takes none."""
    structured_output: StructuredOutput | None = None
    structured_with_tools: bool | None = None
    """False: natively only where the request has no tools."""

    def over(self, lower: Abilities) -> Abilities:
        """These, with what they leave open taken from `lower`."""
        mine = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(lower, **mine) if mine else lower

    def refused(self) -> frozenset[str]:
        """The names that `Model.refuses` gives for it: only what is known not to be taken."""
        refused = {"temperature": self.temperature, "thinking": self.reasoning, "images": self.images}
        return frozenset([*(name for name, taken in refused.items() if taken is False), *(["effort"] if self.efforts == () else [])])

    def effort(self, wanted: Effort) -> Effort:
        """The nearest that it takes: less rather than more."""
        if not self.efforts or wanted in self.efforts:
            return wanted
        place = EFFORTS.index(wanted)
        nearest_first = (*reversed(EFFORTS[:place]), *EFFORTS[place:])
        return next(effort for effort in nearest_first if effort in self.efforts)


UNKNOWN = Abilities()

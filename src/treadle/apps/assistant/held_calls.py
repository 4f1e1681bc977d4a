"""Model that issues the calls that a person has confirmed. The loop runs them like any others:
journaled and resumable. Entry point: `HeldCalls`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Final

from treadle._internal.json_text import encode_json
from treadle.apps.assistant.confirmation_records import HeldCall
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    Model,
    ModelRequest,
    PartEnd,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
)
from treadle.types import StopReason, Usage, new_id

_SAID: Final = "Done."
"""Text that ends the run. The reply is composed from the calls' results."""


class HeldCalls:
    """Model that issues the calls and ends the run after their results, without a provider."""

    def __init__(self, calls: Sequence[HeldCall]) -> None:
        self._calls = tuple(calls)

    @property
    def name(self) -> str:
        return "tasks:confirmed"

    @property
    def refuses(self) -> frozenset[str]:
        return frozenset()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        done = request.messages[-1].role != "user" or any(
            m.role == "tool" for m in request.messages
        )
        if done:
            yield TextDelta(_SAID)
        else:
            for call in self._calls:
                yield ToolCallStart(new_id("call"), call.tool)
                yield ArgumentsDelta(encode_json(call.arguments).decode())
                yield PartEnd()
        yield ResponseEnd(StopReason.COMPLETE if done else StopReason.TOOL_USE, Usage())


if TYPE_CHECKING:
    _: type[Model] = HeldCalls

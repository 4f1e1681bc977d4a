"""Use a model of your own: an async generator of deltas.

python examples/own_model.py
"""

from collections.abc import AsyncGenerator

import treadle
from treadle import Agent, ModelRequest, StopReason, Usage
from treadle.models.deltas import Delta, ResponseEnd, TextDelta


class Echo:
    """Repeats the prompt in capitals."""

    name = "echo:1"
    refuses = frozenset[str]()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        for word in request.messages[-1].text.split():
            yield TextDelta(f"{word.upper()} ")
        yield ResponseEnd(stop_reason=StopReason.COMPLETE, usage=Usage(output_tokens=1))


print(treadle.run_sync(Agent(name="echo", model=Echo()), "over and under").unwrap())

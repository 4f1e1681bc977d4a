"""A model object that cannot work is refused before the run, by the name of its class."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from treadle import Agent, AgentError, ModelRequest, Runtime
from treadle.models.model import Delta, ModelResponse, ResponseEnd
from treadle.models.providers.fallback import FallbackModel
from treadle.testing import ScriptedModel
from treadle.types import StopReason, Usage


class Whole:
    name = "own:whole"
    refuses = frozenset[str]()

    async def stream(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(parts=(), usage=Usage(), stop_reason=StopReason.COMPLETE)


class NoRefuses:
    name = "own:bare"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        yield ResponseEnd(stop_reason=StopReason.COMPLETE, usage=Usage())


class NoName:
    refuses = frozenset[str]()
    stream = NoRefuses.stream


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Whole(), "Whole.stream is a coroutine function, not an async generator: use `yield`"),
        (NoRefuses(), "NoRefuses has no `refuses`: add `refuses = frozenset()`"),
        (NoName(), "NoName has no `name`: add a property"),
    ],
)
async def test_a_model_object_that_lacks_something_is_refused_by_its_class(
    model: Any, said: str
) -> None:
    async with Runtime.open() as rt:
        with pytest.raises(AgentError) as raised:
            await rt.run(Agent(name="a", model=model), "hello")
    assert (raised.value.kind, raised.value.message.startswith(said)) == ("invalid", True)


async def test_one_that_stands_in_for_another_is_refused_too() -> None:
    model: Any = FallbackModel(ScriptedModel([{"text": "hi"}]), NoRefuses())  # pyright: ignore[reportArgumentType]  that is the mistake
    async with Runtime.open() as rt:
        with pytest.raises(AgentError, match="NoRefuses has no `refuses`"):
            await rt.run(Agent(name="a", model=model), "hello")

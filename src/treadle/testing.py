"""Doubles for tests of code that uses Treadle: real ones, small and in memory. Entry:

`ScriptedModel`, `FakeClock`, `collect`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from typing import TypeVar

import anyio
import msgspec
from typing_extensions import override

from treadle._internal.clock import Clock
from treadle.journal.memory.journal import MemoryJournal as MemoryJournal
from treadle.models import model
from treadle.models.providers import scripted

T = TypeVar("T")


class ScriptedModel(scripted.ScriptedModel):
    """Answers with a script, entry by entry, and remembers what it was asked.

    Entries are dictionaries as in a script file: `{"text": …}`, `{"tool_calls": [{"name": …,
    "arguments": …}]}`, `{"error": …}`.
    """

    @override
    async def stream(self, request: model.ModelRequest) -> AsyncGenerator[model.Delta, None]:
        self.requests.append(msgspec.structs.replace(request, messages=tuple(request.messages)))
        async with aclosing(super().stream(request)) as deltas:
            async for delta in deltas:
                yield delta

    @property
    def requests(self) -> list[model.ModelRequest]:
        """What it was asked so far, the messages as they were at that moment."""
        return self.__dict__.setdefault("_requests", [])


class FakeClock(Clock):
    """Time that passes only when somebody waits: no test sleeps for real."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self.waits: list[float] = []
        """Seconds of every wait, in order."""

    @override
    def monotonic(self) -> float:
        return self.time_s

    @override
    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time_s += seconds
        await anyio.lowlevel.checkpoint()

    @override
    def jitter(self) -> float:
        return 0.5


async def collect(items: AsyncIterable[T]) -> list[T]:
    """Everything that an async iterable gives."""
    return [item async for item in items]

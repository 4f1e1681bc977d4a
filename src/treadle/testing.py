"""Test doubles for code that uses Treadle: real implementations, small and in memory. Entry:

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
    """A model that gives prepared responses, entry by entry, and records the requests.

    Entries are dictionaries as in a script file: `{"text": …}`, `{"tool_calls": [{"name": …,
    "arguments": …}]}`, `{"error": …}`.
    """

    @override
    async def stream(self, request: model.ModelRequest) -> AsyncGenerator[model.Delta, None]:
        """Yield the deltas of the next entry, and record the request."""
        self.requests.append(msgspec.structs.replace(request, messages=tuple(request.messages)))
        async with aclosing(super().stream(request)) as deltas:
            async for delta in deltas:
                yield delta

    @property
    def requests(self) -> list[model.ModelRequest]:
        """Requests so far, with the messages as they were at that moment."""
        return self.__dict__.setdefault("_requests", [])


class FakeClock(Clock):
    """A clock on which waits take no real time."""

    def __init__(self) -> None:
        self.time_s = 0.0
        """Time in seconds since the epoch."""
        self.waits: list[float] = []
        """Seconds of every wait, in order."""

    @override
    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return self.time_s

    @override
    async def sleep(self, seconds: float) -> None:
        """Advance the clock instead of waiting."""
        self.waits.append(seconds)
        self.time_s += seconds
        await anyio.lowlevel.checkpoint()

    @override
    def jitter(self) -> float:
        """Return the middle of the interval, so that waits are predictable."""
        return 0.5


async def collect(items: AsyncIterable[T]) -> list[T]:
    """Return all items of an async iterable as a list."""
    return [item async for item in items]

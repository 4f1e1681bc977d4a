"""What a run does, told to a client that wants to know while its request is open. Entry:

`reporting`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio

from treadle.apps.mcp_server.server import Context
from treadle.messages import events

BURST: Final = 8
INTERVAL_S: Final = 0.1
"""At most one note in this time on average; what comes faster than it can be told is left out, the
oldest first.
"""
LAST_S: Final = 5.0
"""How long the result waits for the last notes."""
MAX_CHARS: Final = 200


@asynccontextmanager
async def reporting(
    context: Context, redact: Callable[[str], str]
) -> AsyncGenerator[Callable[[events.Event], None]]:
    """Gives what is to be told of every event; the SDK tells nobody who did not ask.

    The block must not raise but when it is cancelled.
    """
    notes = Notes(redact)
    async with anyio.create_task_group() as group:
        group.start_soon(_tell, context, notes)
        yield notes.hear
        notes.end()
        # the steps of a run that is over quickly are told before its result
        with anyio.move_on_after(LAST_S):
            await notes.told.wait()
        group.cancel_scope.cancel()


class Notes:
    """Steps of a run, numbered as they come, that were not told yet."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._steps = 0
        self._untold: deque[tuple[int, str]] = deque(maxlen=BURST)
        self._news = anyio.Event()
        self.over = False
        """Nothing more comes."""
        self.told = anyio.Event()
        """And all was told."""

    def end(self) -> None:
        self.over = True
        self._news.set()

    def hear(self, event: events.Event) -> None:
        """Never blocks."""
        if (text := said_of(event)) is None:
            return
        self._steps += 1
        self._untold.append((self._steps, _one_line(self._redact(text))))
        self._news.set()

    async def next(self) -> tuple[int, str] | None:
        """The number of the oldest step that was not told, and what it says; None where nothing
        more comes.
        """
        while not self._untold:
            if self.over:
                return None
            self._news = anyio.Event()
            await self._news.wait()
        return self._untold.popleft()


def said_of(event: events.Event) -> str | None:
    match event:
        case events.TurnStart():
            return f"turn {event.turn}"
        case events.ToolCallStart():
            return f"{event.name} runs"
        case events.ToolProgress():
            return event.text
        case events.ChildStart():
            return f"agent {event.agent} begins"
        case events.Retry():
            return f"{event.kind}: asks again in {event.wait_s:.1f} s"
        case _:
            return None


async def _tell(context: Context, notes: Notes) -> None:
    """Quick at first; then no faster than the interval."""
    at_once, since = BURST, anyio.current_time()
    while (note := await notes.next()) is not None:
        await context.session.report_progress(note[0], None, note[1])
        earned, since = (anyio.current_time() - since) / INTERVAL_S, anyio.current_time()
        at_once = min(BURST, at_once + earned) - 1
        if at_once < 0 and not notes.over:
            await anyio.sleep(INTERVAL_S)
    notes.told.set()


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARS else line[: MAX_CHARS - 1] + "…"

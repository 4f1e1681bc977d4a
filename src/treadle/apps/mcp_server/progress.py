"""Progress notifications of a run while its request is open. Entry point: `reporting`."""

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
"""Average minimum interval between notifications, in seconds. Excess ones are dropped, oldest
first.
"""
LAST_S: Final = 5.0
"""Seconds that the result waits for the last notifications."""
MAX_CHARS: Final = 200


@asynccontextmanager
async def reporting(
    context: Context, redact: Callable[[str], str]
) -> AsyncGenerator[Callable[[events.Event], None]]:
    """Yield a callback for the run's events. The SDK sends notifications only to clients that
    request them.

    The block must not raise except when cancelled.
    """
    notes = Notes(redact)
    async with anyio.create_task_group() as group:
        group.start_soon(_tell, context, notes)
        yield notes.hear
        notes.end()
        # The steps of a short run are sent before its result.
        with anyio.move_on_after(LAST_S):
            await notes.told.wait()
        group.cancel_scope.cancel()


class Notes:
    """Queue of a run's unsent steps, numbered."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._steps = 0
        self._untold: deque[tuple[int, str]] = deque(maxlen=BURST)
        self._news = anyio.Event()
        self.over = False
        """Set when no more steps follow."""
        self.told = anyio.Event()
        """Set when, in addition, all steps are sent."""

    def end(self) -> None:
        self.over = True
        self._news.set()

    def hear(self, event: events.Event) -> None:
        """Queue the progress step of an event for sending. Never blocks."""
        if (text := said_of(event)) is None:
            return
        self._steps += 1
        self._untold.append((self._steps, _one_line(self._redact(text))))
        self._news.set()

    async def next(self) -> tuple[int, str] | None:
        """Return the number and text of the oldest unsent step, or None at the end."""
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
            return f"running {event.name}"
        case events.ToolProgress():
            return event.text
        case events.ChildStart():
            return f"agent {event.agent} started"
        case events.Retry():
            return f"{event.kind}: retrying in {event.wait_s:.1f} s"
        case _:
            return None


async def _tell(context: Context, notes: Notes) -> None:
    """Send steps with an initial burst, then at the interval."""
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

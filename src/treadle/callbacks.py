"""Functions that are told of a run's events as they come; the run itself never waits for them. Entry: `Callbacks`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from treadle.errors import AgentError
from treadle.events import Event, TextDelta, ToolCallAsked, ToolCallEnd
from treadle.result import RunResult

logger = logging.getLogger("treadle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Called in the order of the events, awaited where they are async. One that raises is logged, and the run goes on."""

    on_text_delta: Callable[[str], object] | None = None
    on_tool_call: Callable[[ToolCallAsked], object] | None = None
    on_tool_result: Callable[[ToolCallEnd], object] | None = None
    on_complete: Callable[[RunResult[Any]], object] | None = None
    """After every run, whatever its outcome."""
    on_error: Callable[[AgentError], object] | None = None

    async def hear(self, event: Event) -> None:
        match event:
            case TextDelta() if self.on_text_delta:
                await call(self.on_text_delta, event.text)
            case ToolCallAsked() if self.on_tool_call:
                await call(self.on_tool_call, event)
            case ToolCallEnd() if self.on_tool_result:
                await call(self.on_tool_result, event)
            case _:
                return

    async def end(self, result: RunResult[Any]) -> None:
        if result.error is not None and self.on_error:
            await call(self.on_error, result.error)
        if self.on_complete:
            await call(self.on_complete, result)


async def call(callback: Callable[[Any], object], value: object) -> None:
    try:
        answer = callback(value)
        if isinstance(answer, Awaitable):
            await answer
    except Exception:
        logger.exception("a callback failed; the run goes on")

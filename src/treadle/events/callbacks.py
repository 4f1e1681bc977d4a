"""Callbacks for a run's events, called as the events are read. The run does not wait for them.

Entry point: `Callbacks`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from treadle.errors import AgentError
from treadle.messages.events import Event, TextDelta, ToolCallAsked, ToolCallEnd
from treadle.messages.result import RunResult

logger = logging.getLogger("treadle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Functions called in the order of the events, and awaited if async. If one raises, the error
    is logged and the run continues.

    They receive events of the run itself; for child runs, use `on_event`.

    Attributes:
        on_text_delta: Called with each fragment of the response's text.
        on_tool_call: Called with each call that the model requests.
        on_tool_result: Called with each call that ran. A call that was rejected before it started
            causes a `warning` with its `call_id` instead, which `on_event` receives.
        on_complete: Called with the result of every run, whatever its outcome.
        on_error: Called with the error of a run that has one.
    """

    on_text_delta: Callable[[str], object] | None = None
    on_tool_call: Callable[[ToolCallAsked], object] | None = None
    on_tool_result: Callable[[ToolCallEnd], object] | None = None
    on_complete: Callable[[RunResult[Any]], object] | None = None
    on_error: Callable[[AgentError], object] | None = None

    def __post_init__(self) -> None:
        """Raise AgentError(invalid) for a callback that is not callable."""
        for one in fields(self):
            if (given := getattr(self, one.name)) is not None and not callable(given):
                raise AgentError(
                    "invalid",
                    (
                        f"{one.name}= is a {type(given).__name__}: pass a function that takes one "
                        "argument"
                    ),
                )

    async def hear(self, event: Event) -> None:
        """Call the callback for this event, if set."""
        if event.parent_run_id is not msgspec.UNSET:
            return
        match event:
            case TextDelta() if self.on_text_delta:
                await call(self.on_text_delta, event.text)
            case ToolCallAsked() if self.on_tool_call:
                await call(self.on_tool_call, event)
            case ToolCallEnd(refused=False) if self.on_tool_result:
                await call(self.on_tool_result, event)
            case _:
                return

    async def end(self, result: RunResult[Any]) -> None:
        """Call `on_error` if the result has an error, then `on_complete`."""
        if result.error is not None and self.on_error:
            await call(self.on_error, result.error)
        if self.on_complete:
            await call(self.on_complete, result)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks and `on_event` of one run, at least one of them."""

    callbacks: Callbacks | None = None
    on_event: Callable[[Event], object] | None = None

    async def hear(self, event: Event) -> None:
        if self.on_event is not None:
            await call(self.on_event, event)
        if self.callbacks is not None:
            await self.callbacks.hear(event)

    async def end(self, result: RunResult[Any]) -> None:
        if self.callbacks is not None:
            await self.callbacks.end(result)


async def call(callback: Callable[[Any], object], value: object) -> None:
    try:
        answer = callback(value)
        if isinstance(answer, Awaitable):
            await answer
    except Exception:
        logger.exception("a callback failed; the run continues")

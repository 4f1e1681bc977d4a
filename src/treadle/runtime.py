"""The only assembler: puts a definition, a model, tools and a journal together, and lets the loop run.

Entry: `Runtime`. `run` and `run_sync` are it, opened in memory for one run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypedDict, cast

import anyio
import msgspec
from typing_extensions import Unpack

from treadle.agent import Agent, Deps, expand, expand_message
from treadle.calls import Ready, idempotency_key
from treadle.clock import Clock
from treadle.config import Config, load
from treadle.errors import AgentError
from treadle.events import Event, ToolProgress
from treadle.execution import Toolbox
from treadle.feed import EventStream, Feed
from treadle.hub import Hub
from treadle.journal import Journal
from treadle.journals.memory import MemoryJournal
from treadle.loop import Run
from treadle.message import Message, Part, encode_json
from treadle.model import History, Model
from treadle.plan import Ending, Plan
from treadle.redaction import Redactor
from treadle.registry import Models
from treadle.result import Out, RunResult
from treadle.retry import RetryPolicy
from treadle.session import SessionStore
from treadle.spill import Spill
from treadle.tool import ToolContext, ToolRegistry
from treadle.types import DEFAULT_MAX_TOKENS, Limits, Mode, Outcome, Settings, SystemBlock, new_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from treadle.tool import Tool

DEFAULT_TURNS = 100
"""Where nobody gives limits, a run from Python ends after this many turns."""
CLOSE_GRACE_S = 5.0
"""How long closing waits for the threads of abandoned sync tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Called in order with the run's events, awaited where they are async; the run itself never waits for them.

    One that raises is logged, and the run goes on.
    """

    on_text_delta: Callable[[str], object] | None = None
    on_tool_call: Callable[[ToolCallAsked], object] | None = None
    on_tool_result: Callable[[ToolCallEnd], object] | None = None
    on_complete: Callable[[RunResult[Any]], object] | None = None
    """After every run, whatever its outcome."""
    on_error: Callable[[AgentError], object] | None = None

    async def hear(self, event: Event) -> None:
        match event:
            case TextDelta() if self.on_text_delta:
                await _call(self.on_text_delta, event.text)
            case ToolCallAsked() if self.on_tool_call:
                await _call(self.on_tool_call, event)
            case ToolCallEnd() if self.on_tool_result:
                await _call(self.on_tool_result, event)
            case _:
                return

    async def end(self, result: RunResult[Any]) -> None:
        if result.error is not None and self.on_error:
            await _call(self.on_error, result.error)
        if self.on_complete:
            await _call(self.on_complete, result)


async def _call(callback: Callable[[Any], object], value: object) -> None:
    try:
        answer = callback(value)
        if isinstance(answer, Awaitable):
            await answer
    except Exception:
        logger.exception("a callback failed; the run goes on")


class RunOptions(TypedDict, total=False):
    """What every way of running takes."""

    inputs: Mapping[str, Any]
    session: Session[Any, Any] | str | None
    settings: Settings
    limits: Limits
    """Over the agent's, field by field. Without any, a run ends after 100 turns and is not limited otherwise."""
    mode: Mode
    """`full` where nobody says otherwise."""
    cwd: str | Path
    user_id: str | None
    callbacks: Callbacks
    on_event: Callable[[Event], object]

"""The conversation of a chat: one run at a time, queued messages, and the point from which the next
run continues. Entry points: `ChatConversation`.

Draws nothing: events go to a callback.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from treadle.agents.agent import Agent
from treadle.errors import AgentError
from treadle.journal.run_info import RunInfo
from treadle.journal.sessions import SessionInfo
from treadle.messages.events import Event, TextDelta
from treadle.messages.message import Message, Part
from treadle.messages.result import RunResult
from treadle.runtime.run_stream import RunStream
from treadle.runtime.runtime import Runtime
from treadle.tools.approval import Approver
from treadle.types import Limits, Mode, Settings, new_id

DELTA_CHARS: Final = 500
"""Maximum characters of a delta that are drawn in one step; keys are handled in between."""


@dataclass(slots=True, kw_only=True)
class RunSetting:
    """Settings with which the next run starts."""

    agent: Agent[Any, Any]
    cwd: Path
    mode: Mode
    limits: Limits = field(default_factory=Limits)
    settings: Settings = field(default_factory=Settings)
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    others: Sequence[Agent[Any, Any]] = ()
    """Agents that it can start by name."""


class ChatConversation:
    """One session of a runtime, which can be replaced by another. Bound to one event loop."""

    def __init__(
        self,
        runtime: Runtime,
        setting: RunSetting,
        *,
        session_id: str | None,
        approver: Approver,
        show: Callable[[Event], None],
    ) -> None:
        """Create a conversation. `approver`: asks the user. `show`: receives each event in order.
        `session_id`: None starts a new session with the first run.
        """
        self.runtime, self.setting = runtime, setting
        self.session_id = session_id
        self.queued: list[str] = []
        """Messages to send after the current run, oldest first."""
        self.goes_back_to: str | None = None
        """Run that the next one replaces. Its prompt and everything after it stay in the old
        session.
        """
        self._approver, self._show = approver, show
        self._stream: RunStream[Any] | None = None
        self._is_beginning = self._stops = False

    # ------------------------------------------------------------ running

    @property
    def is_running(self) -> bool:
        """True if a run is active or about to start."""
        return self._is_beginning or self._stream is not None

    @contextmanager
    def beginning(self) -> Generator[None]:
        """Mark a run as starting until the context exits. An interruption meanwhile takes effect as
        soon as the run has started.
        """
        self._is_beginning, self._stops = True, False
        try:
            yield
        finally:
            self._is_beginning = self._stops = False

    @property
    def window_tokens(self) -> int | None:
        """Context window of the running model; None without a run, or if it is unknown."""
        return None if self._stream is None else self._stream.window_tokens

    async def say(self, text: str | Sequence[Part]) -> RunResult[Any]:
        """Run a message to its end. Raises AgentError for errors before the run starts."""
        setting = self.setting
        options: dict[str, Any] = {
            "inputs": setting.inputs,
            "settings": setting.settings,
            "limits": setting.limits,
            "mode": setting.mode,
            "cwd": setting.cwd,
            "on_approval": self._approver,
            "on_unknown": "wait",
        }
        if (origin := self.goes_back_to) is not None:
            model = {} if setting.agent.model is None else {"model": setting.agent.model}
            stream = self.runtime.fork_stream(
                origin, turn=0, text=text, agent=setting.agent, **model, **options
            )
        else:
            self.session_id = self.session_id or new_id("session")
            stream = self.runtime.stream(setting.agent, text, session=self.session_id, **options)
        return await self._follow(stream)

    async def go_on(self, run_id: str) -> RunResult[Any]:
        """Resume an interrupted or waiting run.

        Raises AgentError if it cannot be resumed.
        """
        setting = self.setting
        return await self._follow(
            self.runtime.resume_stream(
                run_id,
                setting.agent,
                mode=setting.mode,
                cwd=setting.cwd,
                limits=setting.limits,
                on_approval=self._approver,
                on_unknown="wait",
            )
        )

    async def _follow(self, stream: RunStream[Any]) -> RunResult[Any]:
        async with stream:
            self._stream, self.goes_back_to, self.session_id = stream, None, stream.session_id
            if self._stops:
                stream.cancel()
            try:
                async for event in stream:
                    for n, part in enumerate(_parts(event)):
                        if n:
                            await anyio.lowlevel.checkpoint()
                        self._show(part)
            finally:
                self._stream = None
        return stream.result

    def steer(self, text: str) -> bool:
        """Add a message to the model's next turn. Return False if no run is active."""
        if self._stream is None:
            return False
        try:
            self._stream.steer(text)
        except AgentError:  # it has just ended
            return False
        return True

    def interrupt(self) -> bool:
        """Cancel the current run. Return False if there is none."""
        self._stops = self._is_beginning
        if self._stream is not None:
            self._stream.cancel()
        return self.is_running

    # ------------------------------------------------------------ settings

    def use_model(self, model: str) -> None:
        """Use a model from the next run on."""
        self.setting.agent = replace(self.setting.agent, model=model)

    def use_mode(self, mode: Mode) -> None:
        """Use a mode from now on, also for the current run."""
        self.setting.mode = mode
        if self.session_id is not None:
            self.runtime.use_mode(self.session_id, mode)

    def open(self, session_id: str | None) -> None:
        """Open another session, or a new one if None. Raises AgentError(busy) while a run is
        active.
        """
        if self.is_running:
            raise AgentError("busy", "a run is in progress: interrupt it first (Escape)")
        self.session_id, self.goes_back_to = session_id, None

    # ------------------------------------------------------------ queries

    def info(self) -> SessionInfo | None:
        """Return the session, or None before its first message."""
        return None if self.session_id is None else self.runtime.sessions.get(self.session_id)

    async def messages(self) -> list[Message]:
        """Return the messages of finished runs that the model sees, oldest first."""
        return [] if self.session_id is None else await self.runtime.messages(self.session_id)

    async def runs(self) -> list[RunInfo]:
        """Return the runs that the user started here, oldest first."""
        if self.session_id is None:
            return []
        found = await self.runtime.journal.runs(session_id=self.session_id)
        return [info for info in reversed(found) if info.parent_run_id is None]

    async def unfinished(self) -> RunInfo | None:
        """Return the last run if it has not finished: it was interrupted, waits for an answer, or
        runs elsewhere.
        """
        runs = await self.runs()
        return runs[-1] if runs and runs[-1].status != "finished" else None


def _parts(event: Event) -> Iterator[Event]:
    """Split a long delta. The model decides its length, and drawing 100,000 lines takes seconds."""
    if not isinstance(event, TextDelta) or len(event.text) <= DELTA_CHARS:
        yield event
        return
    for at in range(0, len(event.text), DELTA_CHARS):
        yield msgspec.structs.replace(event, text=event.text[at : at + DELTA_CHARS])

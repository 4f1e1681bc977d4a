"""What the person and the agent say to each other: one run at a time, what is queued behind it, and
from where it goes on.

It draws nothing: what happens is handed to whoever draws. Entry: `ChatConversation`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from treadle.agents.agent import Agent
from treadle.errors import AgentError
from treadle.journal.journal import RunInfo
from treadle.journal.sessions import SessionInfo
from treadle.messages.events import Event
from treadle.messages.message import Message, Part
from treadle.messages.result import RunResult
from treadle.runtime.run_stream import RunStream
from treadle.runtime.runtime import Runtime
from treadle.tools.approval import Approver
from treadle.types import Limits, Mode, Settings, new_id


@dataclass(slots=True, kw_only=True)
class RunSetting:
    """With what the next run is begun."""

    agent: Agent[Any, Any]
    cwd: Path
    mode: Mode
    limits: Limits = field(default_factory=Limits)
    settings: Settings = field(default_factory=Settings)
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    others: Sequence[Agent[Any, Any]] = ()
    """Found by name while it runs."""


class ChatConversation:
    """One session of a runtime, until another is opened in its place. For one event loop."""

    def __init__(
        self,
        runtime: Runtime,
        setting: RunSetting,
        *,
        session_id: str | None,
        approver: Approver,
        show: Callable[[Event], None],
    ) -> None:
        """`approver`: asks the person; `show`: is told of each event, in order. `session_id`:

        None begins a new one with the first run.
        """
        self.runtime, self.setting = runtime, setting
        self.session_id = session_id
        self.queued: list[str] = []
        """What is said after the run that is under way, oldest first."""
        self.goes_back_to: str | None = None
        """The run in the place of which the next one begins: what came after its prompt is left
        behind, in the session that it was said in.
        """
        self._approver, self._show = approver, show
        self._stream: RunStream[Any] | None = None
        self._is_beginning = self._stops = False

    # ------------------------------------------------------------ running

    @property
    def is_running(self) -> bool:
        """Also while one is about to begin."""
        return self._is_beginning or self._stream is not None

    @contextmanager
    def beginning(self) -> Generator[None]:
        """Within, a run begins, is under way, and ends: an interruption of what has not begun holds
        as soon as it has.
        """
        self._is_beginning, self._stops = True, False
        try:
            yield
        finally:
            self._is_beginning = self._stops = False

    @property
    def window_tokens(self) -> int | None:
        """That the model of the run takes; None where none runs, or nobody knows."""
        return None if self._stream is None else self._stream.window_tokens

    async def say(self, text: str | Sequence[Part]) -> RunResult[Any]:
        """One run to its end. Raises AgentError for what is wrong before it starts."""
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
        """With a run that was cut, or that waits for an answer.

        Raises AgentError where it cannot be taken up.
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
                    self._show(event)
            finally:
                self._stream = None
        return stream.result

    def steer(self, text: str) -> bool:
        """For the model's next turn; False where nothing runs any more."""
        if self._stream is None:
            return False
        try:
            self._stream.steer(text)
        except AgentError:  # it has just ended
            return False
        return True

    def interrupt(self) -> bool:
        """Ends the run that is under way; False where there is none."""
        self._stops = self._is_beginning
        if self._stream is not None:
            self._stream.cancel()
        return self.is_running

    # ------------------------------------------------------------ changing

    def use_model(self, model: str) -> None:
        """From the next run on."""
        self.setting.agent = replace(self.setting.agent, model=model)

    def use_mode(self, mode: Mode) -> None:
        """From now on, in a run that is under way too."""
        self.setting.mode = mode
        if self.session_id is not None:
            self.runtime.use_mode(self.session_id, mode)

    def open(self, session_id: str | None) -> None:
        """Another session; None: a new one. Raises AgentError(busy) while a run is under way."""
        if self.is_running:
            raise AgentError("busy", "a run is under way: interrupt it first (Escape)")
        self.session_id, self.goes_back_to = session_id, None

    # ------------------------------------------------------------ what there is

    def info(self) -> SessionInfo | None:
        """None as long as nothing was said."""
        return None if self.session_id is None else self.runtime.sessions.get(self.session_id)

    async def messages(self) -> list[Message]:
        """Of ended runs, oldest first, as far as they are in view."""
        return [] if self.session_id is None else await self.runtime.messages(self.session_id)

    async def runs(self) -> list[RunInfo]:
        """That the person began here, oldest first."""
        if self.session_id is None:
            return []
        found = await self.runtime.journal.runs(session_id=self.session_id)
        return [info for info in reversed(found) if info.parent_run_id is None]

    async def unfinished(self) -> RunInfo | None:
        """The last run, where it has no end: it was cut, waits for an answer, or is driven
        elsewhere.
        """
        runs = await self.runs()
        return runs[-1] if runs and runs[-1].status != "finished" else None

"""The open chat: what keys and commands set going, and what runs show. It holds the pieces together and draws nothing itself.

Runs are conversation.py's, events become blocks in transcript.py, the terminal is screen.py's. Entry: `Chat`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from rich.console import RenderableType

from treadle import events
from treadle.config import Config
from treadle.errors import AgentError
from treadle.message import Part
from treadle.model_choice import from_anywhere
from treadle.runtime import Runtime
from treadle.tui.acting import Acting
from treadle.tui.approving import Approving
from treadle.tui.blocks import Block, Drawn, Notice, Said
from treadle.tui.commands.registry import Commands, Unknown, is_command
from treadle.tui.conversation import Conversation, Setting
from treadle.tui.input import Input
from treadle.tui.mentions import parts_of
from treadle.tui.notices import told
from treadle.tui.reopening import Reopening
from treadle.tui.screen import Screen
from treadle.tui.status import Status
from treadle.tui.theme import Theme
from treadle.tui.transcript import Transcript
from treadle.types import Mode

KEPT_BLOCKS: Final = 1_000
"""That the viewer shows."""
TICK_S: Final = 0.1
"""Between two pictures of a spinner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """What a chat is made of."""

    config: Config
    theme: Theme
    screen: Screen
    line: Input
    status: Status
    transcript: Transcript
    commands: Commands


class Chat:
    """Made when the first frame stands on the screen; `run` goes on until the person leaves."""

    def __init__(self, opened: Open, runtime: Runtime, setting: Setting, session_id: str | None) -> None:
        self._opened, self.runtime = opened, runtime
        self.theme, self.screen, self.line, self.status, self.transcript = opened.theme, opened.screen, opened.line, opened.status, opened.transcript
        self._approving = Approving(self)
        self.conversation = Conversation(runtime, setting, session_id=session_id, approver=self._approving, show=self._happened)
        self.acting = Acting(self)
        self.transcript.live.queued = self.conversation.queued
        self.commands = opened.commands
        self.reopening = Reopening(self)
        self.blocks: deque[Block] = deque(maxlen=KEPT_BLOCKS)
        self.read_only = ""
        """Why nothing can be said just now; empty: it can."""
        self._group: TaskGroup | None = None
        self._more = anyio.Event()
        self._shown: dict[str, str] = {}
        """What is queued -> what stands on the screen for it."""

    @property
    def config(self) -> Config:
        return self._opened.config

    @property
    def cwd(self) -> Path:
        return self.conversation.setting.cwd

    # ------------------------------------------------------------ life

    async def run(self, said_before: list[str], warnings: Sequence[str] = (), *, then: Callable[[], None] = lambda: None) -> None:
        """`said_before`: what was typed and sent before this was there; `warnings`: for the person, once; `then`: called when keys may do their work."""
        async with anyio.create_task_group() as self._group:
            with told(self._warned):
                self._group.start_soon(self._tick)
                self._refresh_status()
                for warning in warnings:
                    self.tell(warning, "warning")
                await self.reopening.show()
                for text in said_before:
                    self.said(text)
                then()
                self._group.start_soon(self._work)
                await self.screen.closed()
            self._group.cancel_scope.cancel()

    async def _work(self) -> None:
        """Says what is queued, one after the other."""
        while True:
            while self.conversation.queued and not self.read_only:
                await self._say(self.conversation.queued.pop(0))
            self._more = anyio.Event()
            await self._more.wait()

    async def _say(self, text: str) -> None:
        whole = self.line.whole(text)
        self.print(Said(self._shown.pop(text, text)))
        parts, notices = await to_thread.run_sync(parts_of, whole, self.cwd)
        for notice in notices:
            self.tell(notice)
        await self._running(partial(self._begin, parts))

    async def _begin(self, parts: list[Part]) -> None:
        await self.reopening.end_what_is_open()
        await self.conversation.say(parts)

    async def go_on(self, run_id: str) -> None:
        await self._running(partial(self.conversation.go_on, run_id))

    async def _running(self, run: Callable[[], Awaitable[object]]) -> None:
        """What goes wrong is told, and what was to follow comes back to be edited."""
        self.transcript.begin()
        self.screen.title(f"treadle: working in {self.cwd.name}")
        try:
            await run()
        except AgentError as e:
            self.tell(e.message, "error")
            self.give_back()
        finally:
            self.transcript.live.calm()
            self._refresh_status()
            self.screen.title(f"treadle: {self.cwd.name}")
            self.screen.refresh()

    async def _tick(self) -> None:
        """Spinners turn while something runs."""
        while True:
            await anyio.sleep(TICK_S)
            if self.transcript.live.running_since is not None:
                self.screen.refresh()

    def _happened(self, event: events.Event) -> None:
        if blocks := self.transcript.apply(event):
            self.print(*blocks)
        if isinstance(event, events.TurnStart | events.UsageReported | events.RunStart):
            self._refresh_status()
        self.screen.refresh()

    def _refresh_status(self) -> None:
        conversation, status = self.conversation, self.status
        status.model = cast("str", conversation.setting.agent.model or self.config.models.large)
        status.mode = conversation.setting.mode
        status.window_tokens = conversation.window_tokens or status.window_tokens
        info = conversation.info()
        status.session = "" if info is None else info.title
        self.screen.refresh()

    # ------------------------------------------------------------ drawing

    def print(self, *blocks: Block) -> None:
        self.blocks.extend(blocks)
        self.screen.print(*blocks)

    def tell(self, text: str, style: str = "dim") -> None:
        self.print(Notice(self.runtime.redact(text), style))

    def show(self, renderable: RenderableType) -> None:
        self.print(Drawn(renderable))

    def _warned(self, text: str) -> None:
        self.tell(text, "warning")

    # ------------------------------------------------------------ what the person says

    def said(self, text: str) -> None:
        """What was typed: a command at once, anything else after the run that is under way."""
        if is_command(text):
            self.soon(self._command, text)
        elif text.strip():
            self.send(text)

    def send(self, text: str, *, shown: str | None = None) -> None:
        if self.read_only:
            self.line.give_back(text)
            self.tell(self.read_only, "warning")
            return
        self._shown[text] = shown or text
        self.conversation.queued.append(text)
        self.wake()
        self.screen.refresh()

    async def _command(self, said: str) -> None:
        found = self.commands.find(said)
        if isinstance(found, Unknown):
            self.line.give_back(said)
            self.tell(found.message, "warning")
            return
        command, rest = found
        if self.conversation.is_running and not command.while_running:
            self.line.give_back(said)
            self.tell(f"/{command.name} has to wait for the end of the run: press Escape to interrupt it.", "warning")
            return
        try:
            await command.run(self, rest)
        except AgentError as e:
            self.tell(e.message, "error")

    def leave(self) -> None:
        """As Ctrl-D does."""
        self.acting.leave()

    def wake(self) -> None:
        """What is queued may be said now."""
        self._more.set()

    def give_back(self) -> None:
        """What was queued comes back to be edited: after an interruption it may not be meant any more."""
        if self.conversation.queued:
            self.line.give_back("\n".join(self.conversation.queued))
            self.conversation.queued.clear()

    async def view(self, title: str, blocks: Sequence[Block], *, at_end: bool = True) -> None:
        """Full screen, all of each block."""
        from treadle.tui.viewer import view  # noqa: PLC0415  only where somebody looks

        await view(self.screen, title, blocks, at_end=at_end)

    def soon(self, work: Callable[..., Awaitable[object]], *arguments: Any, **named: Any) -> None:
        """In a task of its own."""
        assert self._group is not None, "keys come while it runs"
        self._group.start_soon(_awaited, partial(work, *arguments, **named))

    # ------------------------------------------------------------ what commands change

    def use_mode(self, mode: Mode) -> None:
        self.conversation.use_mode(mode)
        self._refresh_status()

    def use_model(self, model: str) -> None:
        name = from_anywhere(model)
        self.runtime.models.get(name, scope="chat")
        self.conversation.use_model(name)
        self.status.window_tokens = None
        self._refresh_status()

    async def open(self, session_id: str | None) -> None:
        self.conversation.open(session_id)
        self._approving.forget()
        self.transcript.forget()
        await self.reopening.show()
        self._refresh_status()


async def _awaited(work: Callable[[], Awaitable[object]]) -> None:
    await work()

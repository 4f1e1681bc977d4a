"""The open chat, which connects keys, commands, runs and the screen and draws nothing itself.

Runs are in conversation.py, events become blocks in transcript.py, and screen.py owns the terminal.
Entry points: `Chat`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from rich.console import RenderableType
from typing_extensions import override

from treadle._internal.terminal_text import one_line
from treadle.config import Config
from treadle.errors import AgentError
from treadle.messages import events
from treadle.runtime.model_choice import from_anywhere
from treadle.runtime.runtime import Runtime
from treadle.tui.acting import Acting
from treadle.tui.approving import Approving
from treadle.tui.blocks import Block, Drawn, NoticeBlock, PromptBlock
from treadle.tui.commands.registry import SlashCommands, UnknownCommand, is_command
from treadle.tui.conversation import ChatConversation, RunSetting
from treadle.tui.input import InputLine
from treadle.tui.mention_approval import approved_mentions
from treadle.tui.mentions import parts_of
from treadle.tui.reopening import Reopening
from treadle.tui.screen import Screen
from treadle.tui.status import Status
from treadle.tui.theme import Theme
from treadle.tui.transcript import Transcript
from treadle.types import Mode, Outcome


class _Teller(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell, self._loop = tell, asyncio.get_running_loop()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._tell, one_line(record.getMessage(), 400))


@contextmanager
def told(tell: Callable[[str], None]) -> Generator[None]:
    """Pass warnings that any library logs, in any thread, to `tell`: one line each, without
    tracebacks.
    """
    handler, root = _Teller(tell), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


KEPT_BLOCKS: Final = 1_000
"""Maximum number of blocks that the viewer shows."""
TICK_S: Final = 0.1
"""Interval between frames of a spinner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Components of a chat that is open."""

    config: Config
    theme: Theme
    screen: Screen
    line: InputLine
    status: Status
    transcript: Transcript
    commands: SlashCommands


class Chat:
    """Chat that is created once the first frame is on the screen and runs until the user quits."""

    def __init__(
        self, opened: Open, runtime: Runtime, setting: RunSetting, session_id: str | None
    ) -> None:
        self._opened, self.runtime = opened, runtime
        self.theme, self.screen, self.line, self.status, self.transcript = (
            opened.theme,
            opened.screen,
            opened.line,
            opened.status,
            opened.transcript,
        )
        self._approving = Approving(self)
        self.conversation = ChatConversation(
            runtime, setting, session_id=session_id, approver=self._approving, show=self._happened
        )
        self.acting = Acting(self)
        self.transcript.live.queued = self.conversation.queued
        self.commands = opened.commands
        self.reopening = Reopening(self)
        self.blocks: deque[Block] = deque(maxlen=KEPT_BLOCKS)
        self.read_only = ""
        """Reason that no message can be sent now; "" if one can."""
        self._group: TaskGroup | None = None
        self._more = anyio.Event()
        self._left = ""
        """Id of the run to resume; empty if there is none."""
        self._shown: dict[str, str] = {}
        """Display text of queued messages, by their text."""

    @property
    def config(self) -> Config:
        return self._opened.config

    @property
    def cwd(self) -> Path:
        return self.conversation.setting.cwd

    # ------------------------------------------------------------ life

    async def run(
        self,
        said_before: list[str],
        warnings: Sequence[str] = (),
        *,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Run the chat until the user quits. `said_before`: messages sent before the chat was
        ready. `warnings`: shown once. `then`: called when keys may act.
        """
        async with anyio.create_task_group() as self._group:
            with told(self._warned):
                self._group.start_soon(self._open, said_before, warnings, then)
                await self.screen.closed()
            self._group.cancel_scope.cancel()

    async def _open(
        self, said_before: list[str], warnings: Sequence[str], then: Callable[[], None]
    ) -> None:
        self._refresh_status()
        for warning in warnings:
            self.tell(warning, "warning")
        self.soon(self._look_at_sandbox)
        await self._safely(self.reopening.show)
        for text in said_before:
            self.said(text)
        then()
        await self._work()

    async def _look_at_sandbox(self) -> None:
        """Show in the status line whether the actions that the mode allows without approval are
        confined.
        """
        self.status.confined = await self.runtime.is_confined(self.conversation.setting.agent)
        self.screen.refresh()

    async def _work(self) -> None:
        """Drive the runs one after the other: first the one to resume, then the queued messages."""
        conversation = self.conversation
        while True:
            if self._left:
                run_id, self._left = self._left, ""
                await self._running(partial(conversation.go_on, run_id))
            elif conversation.queued and not self.read_only:
                await self._running(partial(self._say, conversation.queued.pop(0)))
            else:
                self._more = anyio.Event()
                await self._more.wait()

    async def _say(self, text: str) -> None:
        whole = self.line.whole(text)
        self.print(PromptBlock(self.runtime.redact(self._shown.pop(text, text))))
        mentions = await approved_mentions(self, whole)
        prompt = await to_thread.run_sync(parts_of, whole, mentions)
        for notice in prompt.notices:
            self.tell(notice)
        if prompt.attached:
            self.tell(f"Attached: {', '.join(prompt.attached)}")
        await self.reopening.end_what_is_open()
        result = await self.conversation.say(prompt.parts)
        if result.outcome is Outcome.ERROR:
            self.give_back()

    def go_on(self, run_id: str) -> None:
        """Resume an unfinished run before any queued message."""
        self._left = run_id
        self.wake()

    async def _running(self, run: Callable[[], Awaitable[object]]) -> None:
        """Drive a run and show its errors. Messages that did not reach it return to the input."""
        self.transcript.begin()
        self.screen.title(f"treadle: working in {self.cwd.name}")
        is_over = False
        async with anyio.create_task_group() as ticking:
            ticking.start_soon(self._tick)
            with self.conversation.beginning():
                is_over = await self._safely(run)
            ticking.cancel_scope.cancel()
        self.transcript.live.calm()
        if not is_over or self.transcript.steered:
            self.give_back()
        self._refresh_status()
        self.screen.title(f"treadle: {self.cwd.name}")

    async def _safely(self, work: Callable[[], Awaitable[object]]) -> bool:
        """Run `work` and show its errors. Return True if it succeeded."""
        try:
            await work()
        except AgentError as e:
            self.tell(e.message, "error")
        except Exception as e:  # noqa: BLE001  the edge of a task: the chat survives our bugs
            self._mistaken(e)
        else:
            return True
        return False

    def _mistaken(self, error: Exception) -> None:
        self.tell(
            (
                f"This is a bug in Treadle: {type(error).__name__}: "
                f"{one_line(str(error), 400)}. The conversation is kept: you can continue."
            ),
            "error",
        )

    async def _tick(self) -> None:
        """Redraw while a spinner moves. An idle chat draws nothing."""
        while True:
            await anyio.sleep(TICK_S)
            if self.transcript.live.moves:
                self.screen.refresh()

    def _happened(self, event: events.Event) -> None:
        try:
            self.print(*self.transcript.apply(event))
        except Exception as e:  # noqa: BLE001  a drawing error must not end a run
            self._mistaken(e)
        if isinstance(event, events.TurnStart | events.UsageReported | events.RunStart):
            self._refresh_status()
        self.screen.refresh()

    def _refresh_status(self) -> None:
        """Update the status line. A title that cannot be read stays unchanged."""
        conversation, status = self.conversation, self.status
        model = conversation.setting.agent.model or self.config.models.large
        status.model = model if isinstance(model, str) else model.name
        status.mode = conversation.setting.mode
        status.window_tokens = conversation.window_tokens or status.window_tokens
        with suppress(AgentError):
            info = conversation.info()
            status.session = "" if info is None else self.runtime.redact(info.title)
        self.screen.refresh()

    # ------------------------------------------------------------ drawing

    def print(self, *blocks: Block) -> None:
        self.blocks.extend(blocks)
        self.screen.print(*blocks)

    def tell(self, text: str, style: str = "dim") -> None:
        self.print(NoticeBlock(self.runtime.redact(text), style))

    def show(self, renderable: RenderableType) -> None:
        self.print(Drawn(renderable))

    def _warned(self, text: str) -> None:
        self.tell(text, "warning")

    # ------------------------------------------------------------ input

    def said(self, text: str) -> None:
        """Handle typed text: run a command immediately, or queue a message behind the current
        run.
        """
        if lost := self.line.lost(text):
            self.line.give_back(text)
            self.tell(
                f"{lost} was pasted in another chat and is not available here: paste it again.",
                "warning",
            )
        elif is_command(text):
            self.soon(self._command, text)
        elif text.strip():
            self.send(text)

    def send(self, text: str, *, shown: str | None = None) -> None:
        if self.read_only:
            self.line.give_back(shown or text)
            self.tell(self.read_only, "warning")
            return
        self._shown[text] = shown or text
        self.conversation.queued.append(text)
        self.wake()
        self.screen.refresh()

    async def _command(self, said: str) -> None:
        found = self.commands.find(said)
        if isinstance(found, UnknownCommand):
            self.line.give_back(said)
            self.tell(found.message, "warning")
            return
        command, rest = found
        if self.conversation.is_running and not command.while_running:
            self.line.give_back(said)
            self.tell(
                (f"/{command.name} is not available during a run: press Escape to interrupt it."),
                "warning",
            )
            return
        await command.run(self, rest)

    def steer(self, text: str) -> None:
        """Steer the current run; without one, send the text."""
        whole = self.line.whole(text)
        if is_command(text) or not self.conversation.steer(whole):
            self.said(text)
        else:
            self.transcript.steered[self.runtime.redact(whole)] = text

    def leave(self) -> None:
        """End the chat, as Ctrl-D does."""
        self.acting.leave()

    def wake(self) -> None:
        """Start the queued work."""
        self._more.set()

    def give_back(self) -> None:
        """Return messages that reached no run to the input, because they may no longer apply after
        an interruption.
        """
        steered, queued = self.transcript.steered, self.conversation.queued
        if steered or queued:
            self.line.give_back(
                "\n".join((*steered.values(), *(self._shown.pop(text, text) for text in queued)))
            )
            steered.clear()
            queued.clear()

    async def view(self, title: str, blocks: Sequence[Block], *, at_end: bool = True) -> None:
        """Show the complete blocks in full screen."""
        from treadle.tui.viewer import view  # noqa: PLC0415  only for this view

        await view(self.screen, title, blocks, at_end=at_end)

    def soon(self, work: Callable[..., Awaitable[object]], *arguments: Any, **named: Any) -> None:
        """Run `work` in its own task and show its errors."""
        assert self._group is not None, "keys come while it runs"
        self._group.start_soon(self._safely, partial(work, *arguments, **named))

    # ------------------------------------------------------------ changes by commands

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
        self._left = ""
        self.reopening.leave()
        self._approving.forget()
        self.transcript.forget()
        await self.reopening.show()
        self._refresh_status()

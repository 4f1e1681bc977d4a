"""Start of a chat: draws the first frame, then loads everything else behind it. Entry points:
`StartRequest`, `chat`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import anyio
from anyio import to_thread

from treadle._internal.terminal_text import one_line
from treadle.config import Config
from treadle.errors import AgentError
from treadle.tui.input import InputLine
from treadle.tui.keys import Actions, bindings
from treadle.tui.live import Live
from treadle.tui.region import Region
from treadle.tui.screen import Screen
from treadle.tui.start_request import StartRequest
from treadle.tui.status import Status
from treadle.tui.suggestions import Suggestions
from treadle.tui.theme import Theme, encoding_of, theme_of

if TYPE_CHECKING:
    from treadle.tui.chat import Chat
    from treadle.tui.conversation import RunSetting

PLACEHOLDER: Final = "Ask a question or describe a task · / commands · @ files"
ENDING: Final = [
    signal.SIGTERM,
    signal.SIGINT,
    *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []),
]
LOAD_AFTER_S: Final = 0.4
"""Seconds to wait for a key after the first frame before loading, which competes with drawing for
the CPU.
"""


def chat(wanted: StartRequest) -> bool:
    """Run a chat until the user quits. Return True if they chose the demo at the first start.

    Raises AgentError for errors at the start and for fatal errors, after restoring the terminal.
    """
    theme = theme_of(
        wanted.config.ui.theme, os.environ, encoding_of(os.environ, sys.stdout.encoding)
    )
    beginning = _Beginning(wanted, theme) if theme.attributes else None
    try:
        anyio.run(partial(_in_lines, wanted, theme) if beginning is None else beginning.run)
        return beginning is not None and beginning.wants_demo
    except Exception as e:
        error: BaseException = e
        while isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        if isinstance(error, AgentError):
            raise error from None
        text = (
            f"the chat ended with a bug in Treadle: {type(error).__name__}: "
            f"{one_line(str(error), 400)}. The conversation is kept: `treadle chat --resume`"
        )
        raise AgentError("agent", text) from e


async def _in_lines(wanted: StartRequest, theme: Theme) -> None:
    """Run the chat on a terminal without drawing."""
    from treadle.tui.lines import converse  # noqa: PLC0415  rarely needed

    await converse(wanted, theme)


class Hands:
    """Actions of the keys, queued until the chat is open."""

    def __init__(self) -> None:
        self.chat: Actions | None = None
        self.said: list[str] = []
        self.waiting: list[Callable[[Actions], None]] = []
        self.line: InputLine | None = None
        self.close: Callable[[], None] = lambda: None

    def send(self) -> None:
        if self.chat is not None:
            self.chat.send()
        elif self.line is not None and (text := self.line.take()).strip():
            self.said.append(text)

    def interrupt(self) -> None:
        if self.chat is not None:
            self.chat.interrupt()
        elif self.line is not None and not self.line.is_empty:
            self.line.clear()
        else:
            self.close()

    def leave(self) -> None:
        self.chat.leave() if self.chat is not None else self.close()

    def steer(self) -> None:
        self._then(lambda chat: chat.steer())

    def escape(self) -> None:
        self._then(lambda chat: chat.escape())

    def cycle_mode(self) -> None:
        self._then(lambda chat: chat.cycle_mode())

    def view(self) -> None:
        self._then(lambda chat: chat.view())

    def show_todos(self) -> None:
        self._then(lambda chat: chat.show_todos())

    def edit(self) -> None:
        self._then(lambda chat: chat.edit())

    def redraw(self) -> None:
        self._then(lambda chat: chat.redraw())

    def _then(self, act: Callable[[Actions], None]) -> None:
        if self.chat is not None:
            act(self.chat)
        else:
            self.waiting.append(act)

    def catch_up(self) -> None:
        """Run the actions requested before the chat was open."""
        for act in self.waiting:
            self._then(act)


class _Beginning:
    """First frame of a chat and the loading behind it."""

    def __init__(self, wanted: StartRequest, theme: Theme) -> None:
        self._wanted, self._theme = wanted, theme
        config = wanted.config
        self._hands, self._touched = Hands(), anyio.Event()
        self._live = [Live()]
        self._status = Status(
            theme=self._theme,
            live=self._living,
            model=config.models.large,
            mode=config.defaults.mode,
        )
        suggestions = Suggestions(wanted.cwd, config)
        self._line = InputLine(
            self._theme, suggestions, history=wanted.history, placeholder=PLACEHOLDER
        )
        region = Region(self._theme, self._living, self._status)
        self._screen = Screen(self._theme, region, self._line, bindings(self._hands, self._line))
        region.suggestions = lambda rows: suggestions.drawn(
            self._line.buffer, rows, self._screen.columns, self._theme
        )
        self._hands.line, self._hands.close = self._line, self._screen.close
        self._suggestions = suggestions
        self.wants_demo = False

    def _typed(self, buffer: object) -> None:
        self._touched.set()

    def _living(self) -> Live:
        return self._live[0]

    async def run(self) -> None:
        failed: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._end_on_signals)
            group.start_soon(self._hold)
            try:
                await self._screen.started()
                self._line.buffer.on_text_changed += self._typed
                with anyio.CancelScope() as loading:
                    group.start_soon(self._end_before, loading)
                    with anyio.move_on_after(LOAD_AFTER_S):
                        await self._touched.wait()
                    await self._chatting()
            except Exception as e:  # noqa: BLE001  raised below, where no task group wraps it and the terminal is as it was
                failed = e
            finally:
                with anyio.CancelScope(shield=True):
                    await self._screen.end()
                group.cancel_scope.cancel()
        if failed is not None:
            raise failed

    async def _hold(self) -> None:
        """Hold the terminal until the chat ends. If the terminal is gone, the chat ends as if the
        user had quit.
        """
        with suppress(EOFError, OSError):
            await self._screen.run()

    async def _end_before(self, loading: anyio.CancelScope) -> None:
        """Cancel loading, and the questions of the first start, if the user quits."""
        await self._screen.closed()
        if self._hands.chat is None:
            loading.cancel()

    async def _chatting(self) -> None:
        """Load the chat and run it. Raises AgentError for errors at the start."""
        wanted, config = self._wanted, await self._first_start()
        if config is None:
            return
        opened, setting, warnings = await to_thread.run_sync(self._loaded, config)
        async with wanted.runtime(config) as runtime:
            self._suggestions.sessions = runtime.sessions
            chat = opened(runtime, setting, wanted.session(runtime))
            self._live[0] = chat.transcript.live
            self._hands.chat = chat.acting
            await chat.run(self._hands.said, warnings, then=self._hands.catch_up)

    async def _first_start(self) -> Config | None:
        """Run the wizard if nothing is configured and there is no key. Returns None if the user
        quit.
        """
        config = self._wanted.config
        if not await to_thread.run_sync(_is_first, config):
            return config
        from treadle.tui.wizard import first_start  # noqa: PLC0415  only at the first start

        written = await first_start(self._screen, config, reload=self._wanted.reload)
        if written is None or written == "demo":
            self.wants_demo = written is not None
            return None
        self._status.model, self._status.mode = written.models.large, written.defaults.mode
        return written

    def _loaded(self, config: Config) -> tuple[Callable[..., Chat], RunSetting, tuple[str, ...]]:
        """Load the chat in a thread, so that keys are still handled."""
        from treadle.tui.chat import Chat, Open  # noqa: PLC0415  not needed for the first frame
        from treadle.tui.commands.own import own_commands  # noqa: PLC0415  not needed for the first frame
        from treadle.tui.transcript import Transcript  # noqa: PLC0415  not needed for the first frame

        setting, warnings = self._wanted.setting(config)
        own, remarks = own_commands(config, self._wanted.cwd)
        commands = self._suggestions.commands
        commands.use_own(own)
        parts = Open(
            config=config,
            theme=self._theme,
            screen=self._screen,
            line=self._line,
            status=self._status,
            transcript=Transcript(),
            commands=commands,
        )
        return partial(Chat, parts), setting, (*warnings, *remarks)

    async def _end_on_signals(self) -> None:
        """End the chat, and its run, on a signal."""
        with anyio.open_signal_receiver(*ENDING) as signals:
            async for number in signals:
                # Ctrl-C in an editor belongs to the editor.
                if number != signal.SIGINT or not self._screen.is_lent:
                    self._screen.close()
                    return


def _is_first(config: Config) -> bool:
    if config.origin("models", "large").source != "default":
        return False
    from treadle.tui.wizard import is_first  # noqa: PLC0415  only if no model is configured

    return is_first(config)

"""The chat for plain terminals and screen readers: whole lines in and out, and questions as text.
Entry points: `converse`.

Nothing is redrawn. Runs and blocks are the same as in chat.py and transcript.py.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

import anyio
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.input import DummyInput
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import DummyOutput
from typing_extensions import override

from treadle._internal.terminal_text import encodable, plain
from treadle.errors import AgentError
from treadle.tui.blocks import Block, PromptBlock
from treadle.tui.chat import Chat, Open
from treadle.tui.commands.own import own_commands
from treadle.tui.commands.registry import SlashCommands
from treadle.tui.input import InputLine
from treadle.tui.pasted import PastedMentions
from treadle.tui.region import Region
from treadle.tui.screen import FRAME_S, Screen
from treadle.tui.status import Status
from treadle.tui.transcript import Transcript

if TYPE_CHECKING:
    from treadle.tui.slot import Slot
    from treadle.tui.start_request import StartRequest
    from treadle.tui.theme import Theme

T = TypeVar("T")

DEAF_S: Final = 0.5
"""Seconds after a question in which a line does not count as its answer."""
ENDS: Final = 2
HELLO: Final = "Type a task and press Enter. /help lists commands, Ctrl-C interrupts.\nCtrl-D ends."
NEEDS_DRAWING: Final = (
    "that needs a terminal that supports drawing, and TERM says that this one does not: add the "
    "argument to the command, or set TERM"
)


@runtime_checkable
class Spoken(Protocol):
    """Slot whose question can be asked as text."""

    def spoken(self) -> list[str]:
        """Return the question and the possible answers."""
        ...

    def hears(self, line: str) -> bool:
        """Handle a typed answer. Return True if the line was one."""
        ...


async def converse(wanted: StartRequest, theme: Theme) -> None:
    """Run the chat until the user quits. Raises AgentError for errors at the start."""
    setting, warnings = wanted.setting(wanted.config)
    own, remarks = own_commands(wanted.config, wanted.cwd)
    transcript = Transcript()
    status = Status(theme=theme, live=lambda: transcript.live)
    line = _Typed(theme)
    screen = PlainScreen(theme, line, Region(theme, lambda: transcript.live, status))
    line.tell = screen.say
    async with wanted.runtime(wanted.config) as runtime:
        opened = Open(
            config=wanted.config,
            theme=theme,
            screen=screen,
            line=line,
            status=status,
            transcript=transcript,
            commands=SlashCommands(own),
        )
        chat = Chat(opened, runtime, setting, wanted.session(runtime))
        screen.is_free = lambda: not chat.conversation.is_running and not chat.conversation.queued
        screen.say(HELLO)
        async with anyio.create_task_group() as group:
            group.start_soon(_interrupt, chat, status)
            group.start_soon(_hear, chat, screen)
            await chat.run([], (*warnings, *remarks))
            group.cancel_scope.cancel()
    screen.finish()


async def _hear(chat: Chat, screen: PlainScreen) -> None:
    """Handle input line by line."""
    send, said = anyio.create_memory_object_stream[str | None](float("inf"))
    loop = asyncio.get_running_loop()

    def give(line: str | None) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the chat has ended
            send.send_nowait(line)

    def heard(line: str | None) -> bool:
        try:
            loop.call_soon_threadsafe(give, line)
        except RuntimeError:  # the chat has ended, and its loop is closed
            return False
        return True

    # A daemon, because the thread still waits for a line when the chat has ended.
    threading.Thread(target=_read, args=(heard,), daemon=True).start()
    with send, said:
        async for line in said:
            _take(chat, screen, line)


def _read(heard: Callable[[str | None], bool]) -> None:
    """Read lines in a thread until `heard` returns False or the input has ended twice, because the
    first end may answer a question. None means the end of the input.
    """
    ends = 0
    while ends < ENDS:
        try:
            line = input()
        except (EOFError, OSError, ValueError):  # Ctrl-D, or the terminal is gone
            line, ends = None, ends + 1
        if not heard(line):
            return


def _take(chat: Chat, screen: PlainScreen, said: str | None) -> None:
    if said is None:
        if screen.is_asking or screen.is_free():
            screen.close()
        else:
            chat.leave()
    elif not screen.hears(said) and said.strip():
        screen.echoes = said if screen.is_free() else ""
        chat.said(plain(said))


async def _interrupt(chat: Chat, status: Status) -> None:
    """On Ctrl-C, interrupt the run, or show the note about quitting."""
    with anyio.open_signal_receiver(signal.SIGINT) as signals:
        async for _ in signals:
            chat.acting.interrupt()
            if status.note:
                chat.tell(status.note)


class _Typed(InputLine):
    """Input that cannot be edited, so returned text is printed."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme, DummyCompleter(), history=None, placeholder="")
        self.pasted = PastedMentions(knows=False)
        self.tell: Callable[[str], None] = lambda text: None

    @override
    def give_back(self, text: str) -> None:
        self.tell(f"Not sent: {text}")


class PlainScreen(Screen):
    """Screen that prints everything and asks questions as text."""

    def __init__(self, theme: Theme, line: InputLine, region: Region) -> None:
        super().__init__(
            theme, region, line, KeyBindings(), keyboard=DummyInput(), output=DummyOutput()
        )
        self.is_free: Callable[[], bool] = lambda: False
        """True if no run is active or queued."""
        self.echoes = ""
        """Text that is already on the screen because it was just typed."""
        self._question: Spoken | None = None
        self._asked_at = 0.0
        self._one_question = anyio.Semaphore(1)
        self._at_prompt = self._prompt_due = False

    # ------------------------------------------------------------ output

    @property
    @override
    def columns(self) -> int:
        return shutil.get_terminal_size().columns

    @property
    @override
    def rows(self) -> int:
        return shutil.get_terminal_size().lines

    @override
    def print(self, *blocks: Block) -> None:
        shown = [
            block
            for block in blocks
            if not (isinstance(block, PromptBlock) and block.text == self.echoes)
        ]
        if len(shown) < len(blocks):
            self.echoes = ""
        super().print(*shown)

    @override
    def put(self, text: str) -> None:
        self._write(("\n" if self._at_prompt else "") + text)
        self._at_prompt = False
        self.refresh()

    def say(self, text: str) -> None:
        """Print lines of the chat itself, as opposed to the model's."""
        self.put(encodable(plain(text), self.theme.encoding) + "\n")

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:  # the terminal is gone
            self.close()

    @override
    def refresh(self) -> None:
        """Show the prompt soon if input is expected."""
        if not self._prompt_due:
            self._prompt_due = True
            asyncio.get_running_loop().call_later(FRAME_S, self._prompt)

    def _prompt(self) -> None:
        self._prompt_due = False
        if (
            not self._at_prompt
            and (self._question is not None or self.is_free())
            and not self._closed.is_set()
        ):
            self._at_prompt = True
            self._write("> ")

    def finish(self) -> None:
        """End the line of the prompt."""
        if self._at_prompt:
            self._write("\n")

    @override
    def redraw(self) -> None:
        """Do nothing, because this screen draws nothing."""

    @override
    def title(self, text: str) -> None:
        """Do nothing, because this screen has no title."""

    @override
    def copy(self, text: str) -> None:
        raise AgentError(
            "invalid", "this terminal has no clipboard: /export writes the conversation into a file"
        )

    @override
    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[None]:
        raise AgentError("invalid", NEEDS_DRAWING)
        yield

    # ------------------------------------------------------------ questions

    @override
    async def ask(self, slot: Slot[T]) -> T:
        if not isinstance(slot, Spoken):
            raise AgentError("invalid", NEEDS_DRAWING)
        async with self._one_question:
            self.say("\n".join(["", *slot.spoken()]))
            self._question, self._asked_at = slot, time.monotonic()
            try:
                return await _answer(slot)
            finally:
                self._question = None
                self.refresh()

    @property
    @override
    def is_asking(self) -> bool:
        return self._question is not None

    def hears(self, said: str) -> bool:
        """Take a line as the answer to a question, even if it is invalid. Return True if a question
        was open.
        """
        self._at_prompt = False
        self.refresh()
        if self._question is None:
            return False
        if time.monotonic() - self._asked_at < DEAF_S:
            self.say(f"Not sent, because a question came up at the same time: {said}")
        elif not self._question.hears(said):
            self.say("That is not an answer. " + self._question.spoken()[-1])
        return True


async def _answer(slot: Any) -> Any:
    return await slot.answer()
